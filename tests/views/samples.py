"""Made-up points with round numbers: snapshots and laws of the views must not move when the performance model does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from console.tui.services import Solved
from console.views.points import PlanPoints, facts_of
from planner.domain.deployment import DeploymentPlan, Parallelism, Role, RolePlan, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.evaluation import Binding, Evaluation, MemoryBreakdown, StepBreakdown, StepTerm, TermTime
from planner.domain.provenance import Estimate, Provenance
from planner.domain.workload import SloTargets, Workload
from planner.search.ask import Request, build_problem
from planner.search.plans import default_router

OWNED = 32
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
WORKLOAD = Workload(isl=4000, osl=1000)
REQUEST = Request(
    name="sample", model="deepseek-ai/DeepSeek-R1", gpu="h200-sxm", gpus=OWNED, fabric="ib-ndr400", isl=4000, osl=1000,
    ttft_ms=2000.0, tpot_ms=50.0, usd_per_gpu_hour=3.0,
)  # fmt: skip


def role(kind: Role, tp: int, dp: int, **changes: object) -> RolePlan:
    """A role on H200 nodes."""
    base = RolePlan(
        role=kind, groups=1, parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=dp > 1), gpu="h200-sxm",
        node="generic-h200-sxm", max_num_seqs=128, max_num_batched_tokens=8192, kv_dtype=KvDtype.FP8,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


ROLES = (
    role(Role.AGGREGATED, 8, 1),
    role(Role.AGGREGATED, 1, 8),
    role(Role.AGGREGATED, 1, 16, dbo=True),
    role(Role.PREFILL, 1, 8),
    role(Role.DECODE, 1, 8),
    role(Role.DECODE, 1, 16),
    role(Role.DECODE, 2, 8, dbo=True),
)
# (first, second, groups of each): every shape fills 32 GPUs or fewer
SHAPES = ((0, -1, 4, 0), (1, -1, 4, 0), (2, -1, 2, 0), (3, 4, 1, 3), (3, 4, 2, 2), (3, 5, 2, 1), (3, 6, 1, 1))


def sample_points(*, slo: SloTargets | None = None, repeat: int = 1, price: float | None = 3.0) -> PlanPoints:
    """All shapes at all loads, by a simple rule: TPOT grows with load, rate saturates. `repeat` makes more of them."""
    rows = [(s, load, n) for n in range(repeat) for s in range(len(SHAPES)) for load in LOADS]
    shape = np.array([r[0] for r in rows])
    load = np.array([r[1] for r in rows], dtype=np.float64)
    nudge = 1.0 + 0.001 * np.array([r[2] for r in rows])
    disaggregated = np.array([SHAPES[s][1] >= 0 for s in shape])
    tpot = (8.0 + 1.5 * shape + load * np.where(disaggregated, 0.35, 0.6)) * nudge
    ranks = np.array([_ranks(s) for s in shape], dtype=np.float64)
    rate = load * ranks * 1000.0 / tpot / OWNED
    ttft = (300.0 + 100.0 * shape + load * np.where(disaggregated, 6.0, 20.0)) * nudge
    column = np.array(SHAPES, dtype=np.int32)[shape]
    wanted = slo if slo is not None else SloTargets(ttft_ms=2000.0, tpot_ms=50.0)

    def plan_at(i: int) -> DeploymentPlan:
        first, second, a, b = SHAPES[int(shape[i])]
        roles = (
            replace(ROLES[first], groups=a),
            *((replace(ROLES[second], groups=b),) if second >= 0 else ()),
        )
        strategy = Strategy.DISAGGREGATED if second >= 0 else Strategy.AGGREGATED
        return DeploymentPlan(
            name="sample", model="deepseek-ai/DeepSeek-R1", strategy=strategy, roles=roles,
            router=default_router(strategy), engine="vllm", engine_version="0.33.0", fabric="ib-ndr400",
            workload=WORKLOAD, slo=wanted, concurrency=int(load[i] * ranks[i]), gpus_owned=OWNED, max_model_len=6144,
        )  # fmt: skip

    def evaluation_at(i: int) -> Evaluation:
        return evaluation(plan_at(i), ttft_ms=float(ttft[i]), tpot_ms=float(tpot[i]), rate=float(rate[i]))

    return PlanPoints(
        name="sample",
        question="sample question",
        slo=wanted,
        gpus_owned=OWNED,
        usd_per_gpu_hour=price,
        strategies=(Strategy.AGGREGATED, Strategy.DISAGGREGATED),
        roles=tuple(facts_of(r) for r in ROLES),
        strategy=disaggregated.astype(np.int32),
        first=column[:, 0],
        second=column[:, 1],
        first_groups=column[:, 2],
        second_groups=column[:, 3],
        gpus=np.array([_gpus(s) for s in shape], dtype=np.int32),
        ttft_ms=ttft,
        tpot_ms=tpot,
        rate=rate,
        concurrency=load * ranks,
        plan_at=plan_at,
        evaluation_at=evaluation_at,
    )


def _ranks(shape: int) -> int:
    first, second, a, b = SHAPES[shape]
    decode, groups = (ROLES[first], a) if second < 0 else (ROLES[second], b)
    return decode.parallelism.dp * groups


def _gpus(shape: int) -> int:
    first, second, a, b = SHAPES[shape]
    return ROLES[first].parallelism.gpus * a + (ROLES[second].parallelism.gpus * b if second >= 0 else 0)


def evaluation(plan: DeploymentPlan, *, ttft_ms: float, tpot_ms: float, rate: float) -> Evaluation:
    """Numbers of `plan` with a step of known parts and a full GPU."""

    def spread(value: float) -> Estimate:
        return Estimate(value, 0.8 * value, 1.25 * value)

    steps, memory = [], []
    for r in plan.roles:
        terms = ((StepTerm.ATTENTION, 4.0), (StepTerm.EXPERTS, 5.0), (StepTerm.DISPATCH, 1.0)) + (
            ((StepTerm.DBO, -1.0),) if r.dbo else ()
        )
        source = Provenance.FITTED if r.dbo else Provenance.OPERATOR_TABLE
        steps.append(
            StepBreakdown(
                role=r.role,
                tokens=64.0,
                total_ms=sum(ms for _, ms in terms),
                terms=tuple(TermTime(term=t, ms=ms, provenance=source) for t, ms in terms),
            )
        )
        memory.append(
            MemoryBreakdown(
                role=r.role,
                total_gib=140.0,
                reserved_gib=11.0,
                weights_attention_gib=10.0,
                weights_experts_gib=60.0,
                weights_other_gib=3.0,
                activations_gib=2.0,
                graphs_gib=1.0,
                buffers_gib=3.0,
                kv_gib=50.0,
                kv_bytes_per_token=70000.0,
                kv_tokens_per_rank=760000,
            )
        )
    return Evaluation(
        ttft_ms=spread(ttft_ms), tpot_ms=spread(tpot_ms), output_tok_s_per_gpu=spread(rate), tok_s_user=1000.0 / tpot_ms,
        total_tok_s_per_gpu=5.0 * rate, requests_per_s=rate * OWNED / 1000.0, concurrency=float(plan.concurrency),
        usd_per_m_output_tokens=3.0 / (rate * 3600.0) * 1e6, steps=tuple(steps), memory=tuple(memory), kv_transfer_ms=20.0,
        binding=Binding.LOAD, provenance=Provenance.FITTED if plan.roles[-1].dbo else Provenance.OPERATOR_TABLE,
        extrapolates=(), engine="vllm 0.33.0", model_version="sample",
    )  # fmt: skip


def sample_solved(request: Request, origin: str, *, repeat: int = 1) -> Solved:
    """The sample as an answer; the question is really checked."""
    problem, engine = build_problem(request)
    points = replace(
        sample_points(slo=problem.slo, repeat=repeat), name=problem.name, question="DeepSeek-R1, a sample"
    )
    return Solved(request=request, problem=problem, engine=engine, points=points, origin=origin)
