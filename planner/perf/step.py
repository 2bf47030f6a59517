"""Build the step tables of one role configuration."""

from __future__ import annotations

from collections.abc import Mapping

from planner.domain.deployment import All2AllBackend, Role, RolePlan
from planner.domain.engine import EngineProfile
from planner.domain.hardware import Pool
from planner.domain.model import ModelSpec, MoeMlp
from planner.perf.balance import Phase, popularity_factor
from planner.perf.calibration import apply_factors, shipped_cell
from planner.perf.components import Components, Part
from planner.perf.dialects import DIALECTS, launch_floor_ms
from planner.perf.operators.base import FloatArray
from planner.perf.tables import BATCH, CONTEXT, TOKENS, DboRule, StepTables

SYNC_US_PER_LAYER = 8.0  # four hand-overs between two CPU threads per MoE layer, about 2 us each (derived)
DEFAULT_SMS = 132
USUAL_BATCH = 128.0


def ranks_per_domain(role: RolePlan, pool: Pool) -> int:
    """GPUs of one engine group that share a scale-up domain."""
    return min(role.parallelism.gpus, pool.scale_up_gpus)


def build_tables(
    components: Components,
    role: RolePlan,
    pool: Pool,
    engine: EngineProfile,
    *,
    popularity_cv: float | None = None,
    calibrated: bool = True,
    added: Mapping[str, float] | None = None,
) -> StepTables:
    """Step tables of `role` on `pool`, with the shipped calibration of its engine and GPU family.

    `added`: log-factors on top of the shipped ones, from a user's own calibration.
    `popularity_cv` overrides the spread of expert popularity (0 = forced balance). Raises nothing of its own:
    legality is checked before.
    """
    model = components.model
    p = role.parallelism
    phase = Phase.PREFILL if role.role is Role.PREFILL else Phase.DECODE
    domain = ranks_per_domain(role, pool)
    drafts = role.speculation.draft_tokens if role.speculation else 0
    redundant = role.eplb.redundant_experts if role.eplb else 0
    moe = model.moe
    hot = 1.0
    if moe is not None and p.expert_parallel and p.dp > 1:
        hot = popularity_factor(
            ep=p.ep, experts_local=(moe.experts + redundant) / p.ep, phase=phase, eplb=role.eplb is not None,
            popularity_cv=popularity_cv,
        )  # fmt: skip
    parts: dict[str, Part] = {
        "attn_linear": components.attn_linear(p.tp),
        "dense_mlp": components.dense_mlp(p.tp),
        "shared": components.shared(p.tp),
        "experts": components.experts(
            p, redundant=redundant, phase=phase, eplb=role.eplb is not None, cv=popularity_cv
        ),
        "dispatch": components.exchange(p, role.all2all, domain, combine=False, hot=hot),
        "combine": components.exchange(p, role.all2all, domain, combine=True, hot=hot),
        "collectives": components.collectives(p, domain, graph=True),
        "collectives_eager": components.collectives(p, domain, graph=False),
        "head": components.head(p.tp),
        "decode_attn": components.decode_attention(p.tp, p.dcp, role.kv_dtype, 1 + drafts),
        "prefill_attn": components.prefill_attention(p.tp, role.kv_dtype),
    }
    # each draft token runs one more decoder layer (the MTP layer) and the head
    extra = 1.0 + drafts / model.num_layers
    scaled = {name: part.ms * (1.0 if name == "prefill_attn" else extra) for name, part in parts.items()}
    scaled["head"] = parts["head"].ms * (1.0 + drafts)
    tables = StepTables(
        attn_linear_ms=scaled["attn_linear"],
        dense_mlp_ms=scaled["dense_mlp"],
        shared_ms=scaled["shared"],
        experts_ms=scaled["experts"],
        dispatch_ms=scaled["dispatch"],
        combine_ms=scaled["combine"],
        collectives_ms=scaled["collectives"],
        collectives_eager_ms=scaled["collectives_eager"],
        head_ms=scaled["head"],
        decode_attn_ms=scaled["decode_attn"],
        prefill_attn_ms=scaled["prefill_attn"],
        host_step_ms=engine.host_step_us / 1000.0,
        host_per_seq_ms=engine.host_per_sequence_us / 1000.0,
        async_scheduling=engine.async_scheduling,
        moe_layer_share=_moe_layer_share(model),
        dbo=_dbo_rule(model, role, pool, engine),
        provenance=tuple((name, part.provenance) for name, part in parts.items() if part.ms.any()),
        max_tokens_within=_edge(parts["attn_linear"].within * parts["experts"].within, TOKENS),
        # tables leave out large batches at long contexts for lack of memory: judge by the batches a rank runs
        max_context_within=_edge(parts["decode_attn"].within[BATCH <= USUAL_BATCH].min(axis=0), CONTEXT),
        launch_floor_ms=launch_floor_ms(engine.engine, pool.gpu, model.num_layers),
        separate_prefill=DIALECTS[engine.engine].separate_prefill,
        balance_steps=DIALECTS[engine.engine].balance_steps if p.dp > 1 else 0.0,
        frontend_ms=engine.frontend_ms,
    )
    cell = shipped_cell(model, pool.gpu, engine.engine.value, p.gpus) if calibrated else None
    if cell is None and not added:
        return tables
    logs = dict(cell.logs) if cell is not None else {}
    for name, value in (added or {}).items():
        logs[name] = logs.get(name, 0.0) + value
    return apply_factors(tables, logs, expert_parallel=p.expert_parallel, latent=model.is_mla)


def _edge(within: FloatArray, grid: FloatArray) -> float:
    """Largest grid value that still lies inside the data (0 when none does)."""
    inside = grid[within > 0.5]
    return float(inside.max()) if inside.size else 0.0


def _moe_layer_share(model: ModelSpec) -> float:
    attention_layers = sum(g.count for g in model.layers if g.attention is not None)
    in_moe = sum(g.count for g in model.layers if g.attention is not None and isinstance(g.mlp, MoeMlp))
    return in_moe / attention_layers if attention_layers else 0.0


def _dbo_rule(model: ModelSpec, role: RolePlan, pool: Pool, engine: EngineProfile) -> DboRule | None:
    if not role.dbo:
        return None
    uses_sms = role.all2all is All2AllBackend.DEEPEP_HIGH_THROUGHPUT
    share = engine.dbo_comm_sms / (pool.gpu.sm_count or DEFAULT_SMS) if uses_sms else 0.0
    return DboRule(
        decode_threshold=engine.dbo_decode_threshold,
        prefill_threshold=engine.dbo_prefill_threshold,
        comm_sm_share=share,
        sync_ms=SYNC_US_PER_LAYER * model.moe_layers / 1000.0,
    )
