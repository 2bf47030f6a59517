from __future__ import annotations

from typing import Any

import pytest
from export_builders import HT, LL, PlanBuilder, env_of, plain, pod_of, script_of
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.deployment import Parallelism, Role, RolePlan, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError
from planner.export.engine_args import find_command
from planner.export.layout import Balancing, RoleLayout, lay_out


def plan(role: Role = Role.DECODE, *, groups: int = 1, tp: int = 1, dp: int = 1) -> RolePlan:
    return RolePlan(
        role=role,
        groups=groups,
        parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=dp > 1),
        gpu="g",
        node="n",
        max_num_seqs=8,
        max_num_batched_tokens=8,
        kv_dtype=KvDtype.BF16,
    )


def layout(tp: int, dp: int, gpus_per_node: int = 8, role: Role = Role.DECODE) -> RoleLayout:
    return lay_out(
        plan(role, tp=tp, dp=dp), strategy=Strategy.DISAGGREGATED, gpus_per_node=gpus_per_node, moe=True
    )


@pytest.mark.parametrize(
    ("tp", "dp", "node", "pods", "gpus", "ranks", "balancing"),
    [
        (1, 16, 8, 2, 8, 8, Balancing.MULTI_PORT),
        (2, 8, 8, 2, 8, 4, Balancing.MULTI_PORT),
        (4, 4, 8, 2, 8, 2, Balancing.MULTI_PORT),
        (8, 2, 8, 2, 8, 1, Balancing.EXTERNAL),
        (4, 1, 8, 1, 4, 1, Balancing.SINGLE),
        (1, 4, 8, 1, 4, 4, Balancing.MULTI_PORT),
        (2, 2, 8, 1, 4, 2, Balancing.MULTI_PORT),
        (1, 16, 4, 4, 4, 4, Balancing.MULTI_PORT),
        (4, 8, 4, 8, 4, 1, Balancing.EXTERNAL),
        (1, 72, 4, 18, 4, 4, Balancing.MULTI_PORT),
        (16, 1, 8, 2, 8, 1, Balancing.SPANNING),
        (8, 1, 4, 2, 4, 1, Balancing.SPANNING),
        (1, 12, 8, 2, 6, 6, Balancing.MULTI_PORT),
        (1, 16, 16, 2, 8, 8, Balancing.MULTI_PORT),
        (2, 16, 16, 2, 16, 8, Balancing.MULTI_PORT),
        (1, 1, 8, 1, 1, 1, Balancing.SINGLE),
    ],
)
def test_pods_of_a_group(
    tp: int, dp: int, node: int, pods: int, gpus: int, ranks: int, balancing: Balancing
) -> None:
    got = layout(tp, dp, node)
    assert (got.pods_per_group, got.gpus_per_pod, got.ranks_per_pod, got.balancing) == (
        pods,
        gpus,
        ranks,
        balancing,
    )


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 96), st.sampled_from([1, 4, 8, 16]))
def test_sizes_always_agree(tp: int, dp: int, node: int) -> None:
    if tp > node and dp > 1:
        with pytest.raises(InputError, match="tp_across_pods"):
            layout(tp, dp, node)
        return
    got = layout(tp, dp, node)
    assert got.pods_per_group * got.gpus_per_pod == tp * dp
    assert got.gpus_per_pod <= node
    assert 1 <= got.ranks_per_pod <= 8
    if got.balancing is not Balancing.SPANNING:
        assert got.gpus_per_pod == got.ranks_per_pod * tp
        assert got.start_rank(got.pods_per_group - 1) + got.ranks_per_pod == dp
    if got.supervisor_port is not None:
        assert got.ranks_per_pod >= 2
        assert got.supervisor_port not in got.engine_ports
        assert got.supervisor_port not in got.router_ports


def test_side_channels_follow_the_global_rank() -> None:
    got = layout(1, 16)
    assert got.nixl_ports(0) == tuple(range(5600, 5608))
    assert got.nixl_ports(1) == tuple(range(5608, 5616))
    assert got.endpoints == 16


def test_dense_models_have_no_dp_ranks() -> None:
    with pytest.raises(InputError, match=r"export\.dense_dp"):
        lay_out(plan(dp=2), strategy=Strategy.AGGREGATED, gpus_per_node=8, moe=False)


def role_spec(made: Any, name: str) -> dict[str, Any]:
    roles = plain(made, "DisaggregatedSet")["spec"]["roles"]
    return next(dict(r["spec"]) for r in roles if r["name"] == name)


def test_tensor_parallel_inside_dp_ranks() -> None:
    made = PlanBuilder().prefill(1, tp=2, dp=4, all2all=HT).decode(1, tp=2, dp=8, all2all=LL).render()
    spec = role_spec(made, "decode")
    assert spec["leaderWorkerTemplate"]["size"] == 2
    pod = pod_of(spec)
    got = find_command([script_of(pod)], {**env_of(pod), "LWS_WORKER_INDEX": "1"})
    assert got is not None
    assert got.text("tensor-parallel-size") == "2"
    assert got.text("data-parallel-size-local") == "4"
    assert got.text("data-parallel-start-rank") == "4"
    assert [p["number"] for p in plain(made, "InferencePool")["spec"]["targetPorts"]] == [
        8000,
        8001,
        8002,
        8003,
    ]


def test_pods_with_fewer_ranks_say_which_ports_they_serve() -> None:
    made = PlanBuilder().prefill(4, tp=4, all2all=HT).decode(1, tp=4, dp=4, all2all=LL).render()
    assert len(plain(made, "InferencePool")["spec"]["targetPorts"]) == 2
    key = "llm-d.ai/active-ports"
    prefill = role_spec(made, "prefill")["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
    decode = role_spec(made, "decode")["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
    assert prefill["annotations"] == {key: "8000"}
    assert key not in decode.get("annotations", {})


def test_one_rank_per_pod_is_external_balancing() -> None:
    made = PlanBuilder(node="generic-gb200").prefill(2, tp=4, dp=2).decode(1, tp=4, dp=4).render()
    pod = pod_of(role_spec(made, "decode"))
    got = find_command([script_of(pod)], {**env_of(pod), "LWS_WORKER_INDEX": "3"})
    assert got is not None
    assert got.has("data-parallel-external-lb")
    assert got.text("data-parallel-rank") == "3"
    assert got.text("data-parallel-size") == "4"
    assert not got.has("data-parallel-start-rank")
    assert pod["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/health", "port": "rank0"}


def test_a_rank_over_several_pods_serves_on_its_leader_only() -> None:
    made = PlanBuilder().prefill(1, tp=8, ep=False).decode(1, tp=16, ep=False).render()
    spec = role_spec(made, "decode")["leaderWorkerTemplate"]
    assert spec["size"] == 2
    leader, worker = spec["leaderTemplate"], spec["workerTemplate"]
    selector = plain(made, "InferencePool")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= leader["metadata"]["labels"].items()
    assert not selector.items() <= worker["metadata"]["labels"].items()
    assert "initContainers" in leader["spec"]
    assert "initContainers" not in worker["spec"]
    commands = [find_command(t["spec"]["containers"][0]["args"], {}) for t in (leader, worker)]
    assert [c is not None and c.text("nnodes") for c in commands] == ["2", "2"]
    assert [c is not None and c.has("headless") for c in commands] == [False, True]


def test_several_groups_share_a_node() -> None:
    made = (
        PlanBuilder("Qwen/Qwen3-235B-A22B-FP8", "generic-h100-sxm", "q").aggregated(2, tp=4, ep=True).render()
    )
    spec = plain(made, "Deployment", "q")["spec"]
    assert spec["replicas"] == 2
    resources = pod_of(spec)["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == "4"
    assert int(resources["requests"]["cpu"]) * 2 <= 96
    assert int(resources["limits"]["memory"].removesuffix("Gi")) * 2 <= 1024


def test_several_aggregated_multi_pod_groups_are_one_leader_worker_set() -> None:
    made = PlanBuilder().aggregated(2, dp=16, all2all=LL, dbo=True).render()
    lws = plain(made, "LeaderWorkerSet")
    assert lws["spec"]["replicas"] == 2
    assert lws["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert lws["spec"]["startupPolicy"] == "LeaderCreated"
    pod = pod_of(lws["spec"])
    assert "initContainers" not in pod
    assert (
        lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"]["llm-d.ai/role"]
        == "prefill-decode"
    )


def test_nvl72_groups_stay_in_one_nvlink_domain() -> None:
    made = (
        PlanBuilder("deepseek-ai/DeepSeek-V3", "generic-gb200", "v3")
        .prefill(2, dp=8, all2all=HT)
        .decode(1, dp=16, all2all=LL)
        .render()
    )
    spec = role_spec(made, "decode")
    assert spec["leaderWorkerTemplate"]["size"] == 4
    pod = pod_of(spec)
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert pod["hostIPC"] is True
    env = env_of(pod)
    assert env["VLLM_DEEPEP_LOW_LATENCY_USE_MNNVL"] == "1"
    assert env["UCX_CUDA_IPC_ENABLE_MNNVL"] == "y"
    assert "NVSHMEM_REMOTE_TRANSPORT" not in env
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "nvidia.com/gpu.clique"
    assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-key"]
    domain = plain(made, "ComputeDomain")
    channel = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert pod["resourceClaims"] == [{"name": "compute-domain-channel", "resourceClaimTemplateName": channel}]
    assert pod["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    got = find_command([script_of(pod)], env)
    assert got is not None
    assert got.has("enable-cumem-allocator")
