"""Fluent builders of synthetic clusters: step times with stated coefficients instead of operator curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.domain.deployment import Role, RouterKind, RouterPolicy, Scorer
from planner.domain.provenance import Provenance
from planner.perf.tables import BATCH, CHUNK, CONTEXT, PREFIX, TOKENS, DboRule, StepTables
from planner.simulation.cluster import Cluster, EngineRole, Network, RouterTiming


def tables(
    *,
    fixed_ms: float = 8.0,
    per_token_us: float = 20.0,
    per_context_ns: float = 0.5,
    prefill_attention_ps: float = 50.0,
    experts_ms: float = 2.0,
    exchange_ms: float = 1.0,
    host_ms: float = 0.2,
    async_scheduling: bool = True,
    dbo: DboRule | None = None,
) -> StepTables:
    """Linear costs: a fixed part, microseconds per token, nanoseconds per context token, ps per chunk x position."""
    t, n = TOKENS, len(TOKENS)
    zero = np.zeros(n)
    b, c = np.meshgrid(BATCH, CONTEXT, indexing="ij")
    k, p = np.meshgrid(CHUNK, PREFIX, indexing="ij")
    return StepTables(
        attn_linear_ms=fixed_ms + per_token_us * 1e-3 * t,
        dense_mlp_ms=zero.copy(),
        shared_ms=zero.copy(),
        experts_ms=experts_ms + 0.2 * per_token_us * 1e-3 * t,
        dispatch_ms=np.full(n, exchange_ms),
        combine_ms=np.full(n, exchange_ms),
        collectives_ms=zero.copy(),
        collectives_eager_ms=np.full(n, 0.5),
        head_ms=np.full(n, 0.3),
        decode_attn_ms=per_context_ns * 1e-6 * b * c,
        prefill_attn_ms=prefill_attention_ps * 1e-9 * k * (p + k / 2),
        host_step_ms=host_ms,
        host_per_seq_ms=0.002,
        async_scheduling=async_scheduling,
        moe_layer_share=0.95,
        dbo=dbo,
        provenance=(("attn_linear", Provenance.FITTED),),
        max_tokens_within=65536.0,
        max_context_within=131072.0,
    )


def constant_tables(step_ms: float) -> StepTables:
    """Every step takes the same time, whatever it holds."""
    t = tables(
        fixed_ms=step_ms,
        per_token_us=0,
        per_context_ns=0,
        prefill_attention_ps=0,
        experts_ms=0,
        exchange_ms=0,
    )
    return replace(t, collectives_eager_ms=np.zeros(len(TOKENS)), head_ms=np.zeros(len(TOKENS)), host_step_ms=0.0,
                   host_per_seq_ms=0.0)  # fmt: skip


def role(kind: Role = Role.AGGREGATED, **changes: object) -> EngineRole:
    """An engine role with sensible defaults; any field can be replaced."""
    base = EngineRole(
        name=kind.value,
        role=kind,
        groups=1,
        ranks=4,
        gpus_per_rank=1,
        tables=tables(),
        kv_blocks=4000,
        block_size=64,
        max_num_seqs=256,
        max_num_batched_tokens=8192,
        kv_bytes_per_token=70_000.0,
        network=Network(gbps=40.0),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


ACTIVE = RouterPolicy(
    kind=RouterKind.LLM_D,
    prefill_scorers=(
        Scorer(type="prefix-cache-scorer", weight=3.0),
        Scorer(type="active-request-scorer", weight=2.0),
    ),
    decode_scorers=(
        Scorer(type="prefix-cache-scorer", weight=3.0),
        Scorer(type="active-request-scorer", weight=2.0),
    ),
)
SCRAPED = RouterPolicy(
    kind=RouterKind.LLM_D,
    prefill_scorers=tuple(
        Scorer(type=t, weight=w)
        for t, w in (
            ("prefix-cache-scorer", 3.0),
            ("queue-scorer", 2.0),
            ("kv-cache-utilization-scorer", 2.0),
        )
    ),
    decode_scorers=tuple(
        Scorer(type=t, weight=w)
        for t, w in (
            ("prefix-cache-scorer", 3.0),
            ("queue-scorer", 2.0),
            ("kv-cache-utilization-scorer", 2.0),
        )
    ),
)


def policy(kind: RouterKind) -> RouterPolicy:
    """A router without plugins."""
    return RouterPolicy(kind=kind)


def aggregated(router: RouterPolicy = ACTIVE, **changes: object) -> Cluster:
    """One aggregated role."""
    return Cluster(name="aggregated", roles=(role(Role.AGGREGATED, **changes),), router=router)


def disaggregated(
    router: RouterPolicy = ACTIVE, *, prefill: dict[str, object] | None = None, decode: dict[str, object] | None = None,
    timing: RouterTiming | None = None,
) -> Cluster:  # fmt: skip
    """Two prefill groups of one rank and one decode group of four."""
    return Cluster(
        name="disaggregated",
        roles=(
            role(Role.PREFILL, **{"groups": 2, "ranks": 1, **(prefill or {})}),
            role(Role.DECODE, **{"groups": 1, "ranks": 4, **(decode or {})}),
        ),
        router=router,
        timing=timing or RouterTiming(),
    )
