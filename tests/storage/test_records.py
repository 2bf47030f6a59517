"""Problems, plans, evaluations, exports and audit: domain values in, equal domain values out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.deployment import (
    DeploymentPlan,
    Eplb,
    Parallelism,
    Role,
    RolePlan,
    RouterPolicy,
    Scorer,
    Speculation,
    Strategy,
)
from planner.domain.dtypes import ComputeDtype, KvDtype
from planner.domain.errors import InputError, MissingDataError, PlannerError
from planner.domain.evaluation import Binding, Evaluation, StepBreakdown, StepTerm, TermTime
from planner.domain.hardware import (
    Availability,
    FabricKind,
    FabricProfile,
    GpuKubernetes,
    GpuProfile,
    NodeShape,
    Pool,
    Provider,
    ScaleUp,
    ScaleUpKind,
    Vendor,
)
from planner.domain.model import (
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    Indexer,
    LayerGroup,
    LinearAttention,
    LinearKind,
    MlaAttention,
    ModelSpec,
    MoeMlp,
    Quantization,
)
from planner.domain.problem import PlanningProblem
from planner.domain.provenance import Estimate, Method, Provenance, Source
from planner.domain.study import AuditEntry, ExportRecord, StudyLevel
from planner.domain.workload import SloTargets, Workload
from planner.storage.canonical import canonical_json, content_hash
from planner.storage.codec import decode, domain_hash, encode
from planner.storage.errors import StoreError
from planner.storage.plans import evaluation_spec_hash
from planner.storage.store import Store

SOURCE = Source(source="test bench", date="2026-09", method=Method.MEASURED)
GPU = GpuProfile(
    id="G1", name="Test GPU", vendor=Vendor.NVIDIA, architecture="x", availability=Availability.AVAILABLE,
    memory_gib=140.0, memory_marketing_gb=141, hbm_gbps=4800, peak_tflops={ComputeDtype.BF16: 990.0},
    scale_up=ScaleUp(
        name="nv", kind=ScaleUpKind.SWITCHED, aggregate_gbps=450, pairwise_gbps=450, domain_gpus=8
    ),
    pcie_gbps=64, kubernetes=GpuKubernetes(resource="nvidia.com/gpu", label_key="k"),
    sources={"hbm_gbps": SOURCE},
)  # fmt: skip
FABRIC = FabricProfile(
    id="ib", name="IB", kind=FabricKind.INFINIBAND, gbps_per_gpu=50, achievable_fraction=0.9, latency_us=2,
    rdma=True, gpu_initiated=True, nics_per_gpu=1, gbit_per_nic=400, sources={},
)  # fmt: skip
NODE = NodeShape(
    id="n", name="N", provider=Provider.GENERIC, gpu="G1", gpus_per_node=8, fabric="ib",
    gpu_resource="nvidia.com/gpu", node_labels={"a": "b"}, sources={},
)  # fmt: skip


def moe(**changes: Any) -> MoeMlp:
    shape: dict[str, Any] = {"hidden": 7168, "experts": 256, "top_k": 8, "intermediate": 2048}
    return MoeMlp(**{**shape, **changes})


MODEL = ModelSpec(
    id="m", family="f", architecture="A", hidden=7168, vocab=129280, max_position=163840,
    layers=(
        LayerGroup(count=3, attention=GqaAttention(heads=8, kv_heads=2, head_dim=128), mlp=DenseMlp(intermediate=9)),
        LayerGroup(
            count=2,
            attention=MlaAttention(
                heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
                v_head_dim=128, indexer=Indexer(heads=64, head_dim=128, top_k=2048), sparse=True,
            ),
            mlp=moe(),
        ),
        LayerGroup(
            count=1,
            attention=CompressedAttention(
                heads=8, head_dim=512, rope_dim=64, ratio=4, window=128, q_lora_rank=1, o_lora_rank=1, o_groups=1
            ),
            mlp=None,
        ),
        LayerGroup(
            count=1,
            attention=LinearAttention(
                kind=LinearKind.GDN, heads=32, key_heads=16, key_dim=128, value_dim=128, conv_kernel=4,
                state_bytes_per_seq=1e6,
            ),
            mlp=moe(),
        ),
        LayerGroup(count=1, attention=None, mlp=DenseMlp(intermediate=5, matrices=2)),
    ),
    quantization=Quantization(),
)  # fmt: skip


def problem(*, shared: bool = True) -> PlanningProblem:
    pool = Pool(gpu=GPU, fabric=FABRIC, node=NODE, gpus=32)
    other = pool if shared else Pool(gpu=GPU, fabric=FABRIC, node=NODE, gpus=32)
    return PlanningProblem(
        name="p", model=MODEL, prefill_pool=other, decode_pool=pool, workload=Workload(isl=8192, osl=1024),
        slo=SloTargets(ttft_ms=2000.0), engine="vllm", engine_version="0.33", usd_per_gpu_hour=None,
    )  # fmt: skip


def plan(name: str = "r1", *, dp: int = 16) -> DeploymentPlan:
    role = RolePlan(
        role=Role.DECODE, groups=1, parallelism=Parallelism(dp=dp, expert_parallel=True), gpu="G1", node="n",
        max_num_seqs=256, max_num_batched_tokens=8192, kv_dtype=KvDtype.FP8, dbo=True, eplb=Eplb(),
        speculation=Speculation(draft_tokens=1, acceptance=0.8),
    )  # fmt: skip
    return DeploymentPlan(
        name=name, model="m", strategy=Strategy.DISAGGREGATED, roles=(role,),
        router=RouterPolicy(decode_scorers=(Scorer(type="queue-scorer", parameters={"x": 1, "y": "z"}),)),
        engine="vllm", engine_version="0.33", fabric="ib", workload=Workload(isl=8192, osl=1024),
        slo=SloTargets(), concurrency=1024, gpus_owned=32, max_model_len=16384,
    )  # fmt: skip


def evaluation() -> Evaluation:
    return Evaluation(
        ttft_ms=Estimate(900.0, 700.0, 1200.0), tpot_ms=Estimate(30, 25, 40),
        output_tok_s_per_gpu=Estimate(500.5, 400, 600), tok_s_user=33.3, total_tok_s_per_gpu=4500,
        requests_per_s=3.25, concurrency=1024, usd_per_m_output_tokens=None,
        steps=(
            StepBreakdown(
                role=Role.DECODE, tokens=64, total_ms=28.0,
                terms=(TermTime(term=StepTerm.EXPERTS, ms=9.5, provenance=Provenance.FITTED),),
            ),
        ),
        memory=(), kv_transfer_ms=4.0, binding=Binding.TPOT, provenance=Provenance.OPERATOR_TABLE,
        extrapolates=("context",), engine="vllm", model_version="m1",
    )  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_problem_comes_back_equal(store: Store, shared: bool) -> None:
    given_problem = problem(shared=shared)
    digest = store.problems.save(given_problem)
    assert store.problems.save(given_problem) == digest
    found = store.problems.get(digest)
    assert found == given_problem
    assert found.gpus == given_problem.gpus == (32 if shared else 64)
    assert [type(g.attention) for g in found.model.layers] == [type(g.attention) for g in MODEL.layers]


def test_unknown_problem(store: Store) -> None:
    with pytest.raises(MissingDataError) as caught:
        store.problems.get("0" * 64)
    assert caught.value.issues[0].code == "problem.unknown"


def test_plan_by_name_and_by_hash(store: Store) -> None:
    digest = store.plans.save(plan(), problem_hash=store.problems.save(problem()))
    assert store.plans.save(plan()) == digest
    assert store.plans.get("r1") == plan()
    assert store.plans.get(digest[:10]) == plan()
    newer = plan(dp=32)
    store.plans.save(newer)
    assert store.plans.get("r1") == newer
    assert [p.label() for _, p in store.plans.list(model="m")] == [newer.label(), plan().label()]
    assert store.plans.list(model="other") == ()
    with pytest.raises(MissingDataError) as caught:
        store.plans.get("r2")
    assert "r1" in caught.value.issues[0].fix


@pytest.mark.parametrize("odd", ["", "%", "________", "\udce2\udce2", "'; DROP TABLE plans; --"])
def test_odd_references_are_unknown_plans(store: Store, odd: str) -> None:
    store.plans.save(plan())
    with pytest.raises(PlannerError) as caught:
        store.plans.get(odd)
    assert caught.value.issues[0].code in {"plan.unknown", "store.text"}


def test_evaluations_are_a_cache(store: Store) -> None:
    key = evaluation_spec_hash(plan(), level=StudyLevel.SIMULATED, model_version="m1", settings={"seed": 1})
    assert store.evaluations.find(key) is None
    store.evaluations.save(key, plan(), evaluation(), level=StudyLevel.SIMULATED)
    store.evaluations.save(
        key, plan(), replace(evaluation(), tok_s_user=1.0), level=StudyLevel.SIMULATED
    )  # ignored
    assert store.evaluations.find(key) == evaluation()
    assert store.plans.get("r1") == plan()


def test_specification_hash_depends_on_everything_but_the_name() -> None:
    def spec(p: DeploymentPlan, version: str = "m1", seed: int = 1) -> str:
        return evaluation_spec_hash(
            p, level=StudyLevel.SIMULATED, model_version=version, settings={"seed": seed}
        )

    base = spec(plan())
    assert spec(plan("another name")) == base
    assert len({base, spec(plan(dp=32)), spec(plan(), version="m2"), spec(plan(), seed=2)}) == 4
    assert evaluation_spec_hash(plan(), level=StudyLevel.ANALYTIC, model_version="m1") != base


def test_exports_and_audit(store: Store) -> None:
    store.exports.add(
        ExportRecord(plan_hash="a" * 64, target="llm-d", directory="out", files={"x.yaml": "b" * 64})
    )
    (record,) = store.exports.list(plan_hash="a" * 64)
    assert record.files == {"x.yaml": "b" * 64}
    assert record.created_at is not None
    assert store.exports.list(plan_hash="c" * 64) == ()
    for i in range(3):
        store.audit.add(AuditEntry(actor="me", action="scale", subject=f"decode/{i}", detail={"to": i}))
    newest = store.audit.list(limit=2)
    assert [e.subject for e in newest] == ["decode/2", "decode/1"]
    assert newest[0].detail == {"to": 2}


def test_unreadable_document_is_an_error_not_a_traceback() -> None:
    with pytest.raises(StoreError) as caught:
        decode(encode(plan()).replace('"tp":1', '"tp":"many"'), DeploymentPlan)
    assert caught.value.issues[0].code == "store.document"
    assert "tp" in caught.value.issues[0].why


def test_fields_added_by_a_newer_version_are_ignored() -> None:
    document = encode(plan()).replace('{"concurrency"', '{"a_new_field":1,"concurrency"', 1)
    assert "a_new_field" in document
    assert decode(document, DeploymentPlan) == plan()


def test_ambiguous_hash_prefix(store: Store) -> None:
    from planner.storage.tables import PlanRow

    with store.database.write() as session:
        for tail in ("1", "2"):
            session.add(
                PlanRow(
                    hash="abcdef12" + tail * 56, name=f"n{tail}", model="m", document=encode(plan()),
                    created_at=store.database.clock(),
                )
            )  # fmt: skip
    with pytest.raises(InputError) as caught:
        store.plans.get("abcdef12")
    assert caught.value.issues[0].code == "plan.ambiguous"


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
flat = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=3), scalars, max_size=3)
json_values = flat | st.lists(flat, max_size=3) | st.dictionaries(st.text(max_size=3), flat, max_size=3)


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=5))
def test_hash_ignores_key_order_and_survives_json(value: dict[str, Any]) -> None:
    import json

    shuffled = dict(reversed(list(value.items())))
    assert content_hash(shuffled) == content_hash(value)
    assert content_hash(json.loads(canonical_json(value))) == content_hash(value)


def test_whole_floats_and_integers_are_one_value_and_nan_is_refused() -> None:
    assert content_hash({"tp": 8}) == content_hash({"tp": 8.0}) != content_hash({"tp": 8.5})
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": float("nan")})
    assert domain_hash(plan()) == content_hash(__import__("json").loads(encode(plan())))
