"""Reading manifests back: export followed by import gives the same plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from export_builders import AG, HT, LL, QWEN, R1, PlanBuilder, example_a, example_b, hardware, model
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.deployment import Eplb, Role, RouterKind, RouterPolicy, Scorer, Speculation
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError
from planner.domain.hardware import NodeShape
from planner.domain.model import ModelSpec
from planner.domain.workload import Workload
from planner.export.intent import decode, encode
from planner.export.parse import Imported, ImportHints, import_plan
from planner.export.targets.base import stream_of
from planner.export.yaml import load_stream


class Facts:
    def model(self, name: str) -> ModelSpec | None:
        return model(name) if name in (R1, QWEN, "openai/gpt-oss-120b") else None

    def node(self, labels: Any) -> NodeShape | None:
        if labels.get("nvidia.com/gpu.product") == "NVIDIA-H200":
            return hardware("generic-h200-sxm").node
        return None


def read(text: str, hints: ImportHints | None = None) -> Imported:
    return import_plan(load_stream(text, source="m.yaml"), facts=Facts(), hints=hints)


def back(builder: PlanBuilder, **options: Any) -> Imported:
    return read(stream_of(builder.render(**options), ("header",)))


SCORERS = (
    Scorer(type="prefix-cache-affinity-filter", parameters={"affinityThreshold": 0.8}),
    Scorer(type="token-load-scorer", weight=2.5),
)
BUILDERS = {
    "example A": example_a(),
    "example B": example_b(),
    "two lws": example_a(),
    "aggregated over pods": PlanBuilder().aggregated(
        2, dp=16, all2all=LL, eplb=Eplb(redundant_experts=16, window_size=500, use_async=False)
    ),
    "spanning": PlanBuilder().prefill(3, tp=8, ep=False).decode(1, tp=16, ep=False),
    "external": PlanBuilder(node="generic-gb200").prefill(2, tp=4, dp=2).decode(1, tp=4, dp=4),
    "speculation": PlanBuilder()
    .prefill(1, dp=8, all2all=HT, speculation=Speculation(draft_tokens=2, acceptance=0.7))
    .decode(1, dp=8, all2all=AG, tokens=1024, speculation=Speculation(draft_tokens=2, acceptance=0.7)),
    "fp8 and dcp": PlanBuilder()
    .prefill(1, tp=2, dp=4, kv=KvDtype.FP8, block_size=128)
    .decode(
        1, tp=2, dp=4, kv=KvDtype.FP8, dcp=2, block_size=128, gpu_memory_utilization=0.876543, concurrency=3.5
    ),
    "router": example_a().routed(
        RouterPolicy(prefill_scorers=SCORERS, decode_scorers=SCORERS[1:]), peak=12345.6
    ),
    "decider": example_a().routed(
        RouterPolicy(decider="prefix-based-pd-decider", decider_parameters={"nonCachedTokens": 128})
    ),
    "random": example_b().routed(RouterPolicy(kind=RouterKind.RANDOM)),
    "least queue": example_b().routed(RouterPolicy(kind=RouterKind.LEAST_QUEUE)),
    "more owned": example_b().owning(16),
    "backend without dp": PlanBuilder(QWEN, "generic-h200-sxm", "q").aggregated(1, tp=8, ep=True, all2all=HT),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_import_is_the_inverse_of_export(name: str) -> None:
    builder = BUILDERS[name]
    got = back(builder, disaggregated_set=name != "two lws")
    assert got.plan == builder.build()
    assert got.extra_flags == {}
    assert got.notes == ()


@pytest.mark.parametrize("shared", [False, True])
def test_import_knows_what_a_prefix_is_shared_by(shared: bool) -> None:
    plan = replace(
        example_a().build(), workload=Workload(isl=4000, osl=1000, prefix_hit=0.5, prefix_shared=shared)
    )
    text = encode(plan)
    assert decode(text, where="here").workload == plan.workload
    earlier = text.replace(f',"prefix_shared":{str(shared).lower()}', "")
    assert earlier != text
    assert decode(earlier, where="here").workload == replace(plan.workload, prefix_shared=False)


@given(
    groups=st.integers(1, 12),
    tp=st.sampled_from([1, 2, 4, 8]),
    dp=st.sampled_from([1, 2, 3, 4, 8, 16, 32]),
    seqs=st.integers(1, 2048),
    tokens=st.integers(1, 65536),
    kv=st.sampled_from(list(KvDtype)),
    backend=st.sampled_from([AG, HT]),
    block=st.sampled_from([16, 32, 64, 128]),
    share=st.floats(0.1, 0.99),
)
@settings(max_examples=40, deadline=None)
def test_import_recovers_any_legal_widths(**v: Any) -> None:
    builder = PlanBuilder().aggregated(
        v["groups"],
        tp=v["tp"],
        dp=v["dp"],
        seqs=v["seqs"],
        tokens=v["tokens"],
        kv=v["kv"],
        all2all=v["backend"],
        block_size=v["block"],
        gpu_memory_utilization=v["share"],
    )
    assert back(builder).plan == builder.build()


def test_router_is_read_when_it_was_edited() -> None:
    text = stream_of(example_a().render(), ())
    edited = text.replace(
        "- pluginRef: queue-scorer\n            weight: 2", "- pluginRef: queue-scorer\n            weight: 5"
    )
    assert edited != text
    got = read(edited).plan.router.prefill_scorers
    assert Scorer(type="queue-scorer", weight=5.0) in got


def test_what_runs_wins_over_the_annotation() -> None:
    text = stream_of(example_a().render(), ()).replace("--max-num-seqs 256", "--max-num-seqs 128")
    assert {r.max_num_seqs for r in read(text).plan.roles} == {128}


HAND_WRITTEN = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: wide}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      metadata: {labels: {llm-d.ai/role: decode}}
      spec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          command: [/bin/bash, -c]
          args:
          - |-
            START_RANK=$(( ${LWS_WORKER_INDEX:-0} * DP_SIZE_LOCAL ))
            exec vllm serve \\
              deepseek-ai/DeepSeek-R1 \\
              -tp $TP_SIZE --enable-expert-parallel \\
              --data-parallel-size $((LWS_GROUP_SIZE * DP_SIZE_LOCAL)) \\
              --data-parallel-size-local=$DP_SIZE_LOCAL \\
              --data-parallel-multi-port-external-lb \\
              --all2all-backend=pplx --max_num_seqs 300 --no-enable-prefix-caching \\
              --kv_transfer_config '{"kv_connector":"NixlConnector",
                                     "kv_role":"kv_consumer"}' \\
              --hf-overrides '{"a": 1}'
          env:
          - {name: DP_SIZE_LOCAL, value: "8"}
          - {name: TP_SIZE, value: "1"}
"""


def test_hand_written_manifests_keep_their_unknown_flags() -> None:
    aggregated = HAND_WRITTEN.replace("role: decode", "role: prefill-decode")
    got = read(aggregated, ImportHints(workload=Workload(isl=100, osl=10)))
    (role,) = got.plan.roles
    assert (role.parallelism.tp, role.parallelism.dp, role.parallelism.ep) == (1, 16, 16)
    assert role.role is Role.AGGREGATED
    assert role.all2all is AG
    assert role.max_num_seqs == 300
    assert (role.gpu, role.node) == ("h200-sxm", "generic-h200-sxm")
    assert got.extra_flags == {Role.AGGREGATED: ("--no-enable-prefix-caching", '--hf-overrides {"a": 1}')}
    assert any("max-num-batched-tokens" in n for n in got.notes)


def test_a_lone_decode_role_without_connector_is_aggregated() -> None:
    start, end = HAND_WRITTEN.index("--kv_transfer_config"), HAND_WRITTEN.index("--hf-overrides")
    got = read(HAND_WRITTEN[:start] + HAND_WRITTEN[end:], ImportHints(workload=Workload(isl=1, osl=1)))
    assert [r.role for r in got.plan.roles] == [Role.AGGREGATED]


@pytest.mark.parametrize(
    ("text", "hints", "code"),
    [
        ("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", None, "import.no_engine"),
        (HAND_WRITTEN, None, "import.roles"),
        (HAND_WRITTEN.replace("role: decode", "role: both"), None, "import.workload_missing"),
        (
            HAND_WRITTEN.replace("role: decode", "role: both").replace("DeepSeek-R1", "DeepSeek-R9"),
            ImportHints(workload=Workload(isl=1, osl=1)),
            "import.model_unknown",
        ),
        (
            HAND_WRITTEN.replace("role: decode", "role: both").replace("NVIDIA-H200", "NVIDIA-H900"),
            ImportHints(workload=Workload(isl=1, osl=1)),
            "import.hardware_unknown",
        ),
        (
            HAND_WRITTEN.replace("role: decode", "role: both").replace(
                "--max_num_seqs 300", '--speculative-config \'{"method":"mtp","num_speculative_tokens":1}\''
            ),
            ImportHints(workload=Workload(isl=1, osl=1)),
            "import.acceptance_missing",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_missing_value(
    text: str, hints: ImportHints | None, code: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(text, hints)
    assert code in {i.code for i in caught.value.issues}
    assert all(i.fix for i in caught.value.issues)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("plan-intent/v1", "plan-intent/v9"), "import.intent_schema"),
        (('"isl":4000', '"isl":"x"'), "import.intent_malformed"),
    ],
)
def test_a_spoilt_annotation_is_refused(change: tuple[str, str], code: str) -> None:
    text = stream_of(example_a().render(), ())
    with pytest.raises(InputError) as caught:
        read(text.replace(*change))
    assert caught.value.issues[0].code == code
