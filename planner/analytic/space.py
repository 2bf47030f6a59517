"""Every role configuration a problem could use, and why the illegal ones are out.

The space is a plain product of the decision variables, so the counts add up: candidates = legal + excluded by rule.
Load (requests per rank) is not a member of it: every legal configuration is evaluated at every load point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.domain.deployment import All2AllBackend, Eplb, Parallelism, Role, RolePlan, Speculation
from planner.domain.dtypes import KvDtype
from planner.domain.engine import EngineProfile
from planner.domain.hardware import Pool, ScaleUpKind, Vendor
from planner.domain.legality import role_codes
from planner.domain.model import ModelSpec
from planner.domain.problem import SearchBounds
from planner.perf.memory import rank_memory
from planner.perf.operators.base import FloatArray

LOADS: Final[FloatArray] = np.array(
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160,
     192, 224, 256, 288, 320, 384, 448, 512, 576, 640, 768, 1024], dtype=np.float64,
)  # fmt: skip
PREFILL_BUDGETS: Final = (4096, 8192, 16384)
AGGREGATED_BUDGETS: Final = (2048, 8192)
LOW_LATENCY_BUDGETS: Final = (128, 256, 512, 1024)
DECODE_SEQS: Final = 1024
DCP_SIZES: Final = (1, 2, 4, 8)
REDUNDANT_TARGET: Final = 32  # vLLM's advice at large scale

NO_MEMORY_WEIGHTS: Final = "memory.weights"
NO_MEMORY_KV: Final = "memory.one-request"
MEMORY_TITLES: Final = {
    NO_MEMORY_WEIGHTS: "Weights and buffers fit on a GPU",
    NO_MEMORY_KV: "A rank's KV cache holds one whole request",
}
LOW_LATENCY_BACKENDS: Final = (All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal role configuration (one group) that fits; `kv_tokens` per DP rank."""

    role: RolePlan
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class RoleSpace:
    """Legal candidates of one role and the count of the others by rule code."""

    candidates: tuple[Candidate, ...]
    excluded: Counter[str]

    @property
    def total(self) -> int:
        """Legal and excluded together."""
        return len(self.candidates) + self.excluded.total()


def enumerate_role(
    role: Role,
    *,
    model: ModelSpec,
    pool: Pool,
    engine: EngineProfile,
    bounds: SearchBounds,
    min_tokens: int,
    context_tokens: int,
    speculation: Speculation | None = None,
) -> RoleSpace:
    """All candidates of `role` on `pool`. `min_tokens`: KV tokens one request needs (isl + osl, or isl to prefill).

    `context_tokens`: request length that capacity is stated for.
    """
    legal: list[Candidate] = []
    excluded: Counter[str] = Counter()
    for plan in _product(
        role, model=model, pool=pool, bounds=bounds, speculation=speculation, prompt=min_tokens
    ):
        codes = role_codes(model, plan, pool, engine)
        if codes:
            excluded[codes[0]] += 1
            continue
        memory = rank_memory(
            model, plan, pool.gpu, engine, ranks_per_domain=pool.scale_up_gpus, context_tokens=context_tokens
        )
        kv = memory.kv_tokens_per_rank
        if kv <= 0:
            excluded[NO_MEMORY_WEIGHTS] += 1
        elif kv < min_tokens:
            excluded[NO_MEMORY_KV] += 1
        else:
            legal.append(Candidate(plan, kv))
    return RoleSpace(tuple(legal), excluded)


def group_sizes(pool: Pool) -> tuple[int, ...]:
    """GPUs per engine group that tile nodes: divisors of a node, then whole nodes."""
    node = pool.gpus_per_node
    small = [g for g in range(1, node + 1) if node % g == 0 and g <= pool.gpus]
    nodes = pool.gpus // node
    # all small multiples, then powers of two and their 1.5-fold: rank counts people deploy
    steps = {
        n
        for n in range(2, nodes + 1)
        if n <= 4 or n & (n - 1) == 0 or (n % 3 == 0 and (n // 3) & (n // 3 - 1) == 0)
    }
    if node < pool.scale_up_gpus:
        steps |= {n for n in range(2, nodes + 1) if pool.scale_up_gpus % (n * node) == 0}
    return tuple(small + sorted(node * n for n in steps))


def _product(
    role: Role,
    *,
    model: ModelSpec,
    pool: Pool,
    bounds: SearchBounds,
    speculation: Speculation | None,
    prompt: int,
) -> Iterator[RolePlan]:
    kv_dtypes = bounds.kv_dtypes or (KvDtype.BF16, KvDtype.FP8)
    tp_limit = min(bounds.max_tp, max(pool.gpus_per_node, min(pool.scale_up_gpus, 16)))
    for gpus in group_sizes(pool):
        for tp in (t for t in (1, 2, 4, 8, 16) if t <= tp_limit and gpus % t == 0):
            for expert_parallel in (True, False) if model.moe is not None and gpus > 1 else (False,):
                for dcp in (d for d in DCP_SIZES if d <= tp) if role is not Role.PREFILL else (1,):
                    p = Parallelism(tp=tp, dp=gpus // tp, expert_parallel=expert_parallel, dcp=dcp)
                    for backend in _backends(role, p, pool):
                        for kv in kv_dtypes:
                            yield from _limits(role, p, backend, kv, model, pool, bounds, speculation, prompt)


def _limits(
    role: Role, p: Parallelism, backend: All2AllBackend, kv: KvDtype, model: ModelSpec, pool: Pool,
    bounds: SearchBounds, speculation: Speculation | None, prompt: int,
) -> Iterator[RolePlan]:  # fmt: skip
    draft = speculation.draft_tokens if speculation else 0
    dbo_choices = (False, True) if bounds.allow_dbo and p.dp > 1 and p.expert_parallel else (False,)
    for budget in _budgets(role, backend, prompt):
        seqs = min(DECODE_SEQS, bounds.max_concurrency_per_rank, budget // (1 + draft))
        if role is Role.PREFILL:
            seqs = min(seqs, 64)
        for dbo in dbo_choices:
            for eplb in _eplb_choices(model, p, bounds):
                yield RolePlan(
                    role=role,
                    groups=1,
                    parallelism=p,
                    gpu=pool.gpu.id,
                    node=pool.node.id,
                    max_num_seqs=seqs,
                    max_num_batched_tokens=budget,
                    kv_dtype=kv,
                    all2all=backend,
                    dbo=dbo,
                    eplb=eplb,
                    speculation=speculation,
                )


def _budgets(role: Role, backend: All2AllBackend, prompt: int) -> tuple[int, ...]:
    if role is Role.PREFILL:
        # beyond one whole prompt a longer step only makes the group's other ranks wait
        return tuple(b for b in PREFILL_BUDGETS if b < 2 * PREFILL_BUDGETS[0] or b < 2 * prompt)
    if backend in LOW_LATENCY_BACKENDS:
        return LOW_LATENCY_BUDGETS
    if role is Role.DECODE:
        return (DECODE_SEQS,)
    return AGGREGATED_BUDGETS


def _backends(role: Role, p: Parallelism, pool: Pool) -> tuple[All2AllBackend, ...]:
    """Backends worth enumerating; legality has the last word."""
    default = (All2AllBackend.ALLGATHER_REDUCESCATTER,)
    if not p.expert_parallel or p.dp == 1:
        return default
    if pool.gpu.vendor is Vendor.AMD:
        high = All2AllBackend.MORI_HIGH_THROUGHPUT
        low = All2AllBackend.MORI_LOW_LATENCY
    else:
        high = All2AllBackend.DEEPEP_HIGH_THROUGHPUT
        low = All2AllBackend.DEEPEP_LOW_LATENCY
    by_role = {Role.PREFILL: (high,), Role.DECODE: (low,), Role.AGGREGATED: (high, low)}
    extra: tuple[All2AllBackend, ...] = ()
    switched = pool.gpu.scale_up.kind is ScaleUpKind.SWITCHED
    if pool.gpu.vendor is Vendor.NVIDIA and switched and pool.scale_up_gpus > pool.gpus_per_node:
        extra = (All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED,)
    return default + by_role[role] + extra


def _eplb_choices(model: ModelSpec, p: Parallelism, bounds: SearchBounds) -> tuple[Eplb | None, ...]:
    if not bounds.allow_eplb or not p.expert_parallel or model.moe is None or p.ep < 4:
        return (None,)
    experts = model.moe.experts
    redundant = next(
        r for r in range(REDUNDANT_TARGET, REDUNDANT_TARGET + p.ep + 1) if (experts + r) % p.ep == 0
    )
    return (None, Eplb(redundant_experts=redundant))
