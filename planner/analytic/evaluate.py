"""Price one plan at one load, with the breakdown of steps and memory. Same equations as the search."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.analytic.closed_loop import (
    aggregated_points,
    decode_points,
    length_cv_of_context,
    prefill_points,
    sequences_that_fit,
)
from planner.analytic.operating import prefill_ttft_ms
from planner.analytic.stack import RoleStack, StepLoad
from planner.domain.calibration import Calibration
from planner.domain.calibration import Metric as OwnMetric
from planner.domain.deployment import DeploymentPlan, Role, RolePlan, Strategy
from planner.domain.engine import EngineProfile
from planner.domain.evaluation import Binding, Evaluation, MemoryBreakdown, StepBreakdown, StepTerm, TermTime
from planner.domain.hardware import Pool
from planner.domain.model import ModelSpec
from planner.domain.provenance import Estimate, Provenance
from planner.perf.calibration import shipped_cell
from planner.perf.components import Components
from planner.perf.intervals import Metric, calibrated_interval, prior_interval
from planner.perf.memory import rank_memory
from planner.perf.operators.base import FloatArray
from planner.perf.step import build_tables
from planner.perf.tables import StepTables
from planner.perf.transfer import kv_transfer_ms

MODEL_VERSION = "2"
SIGNIFICANT_SHARE = 0.05  # terms below this share of a step do not decide its provenance

_TERM_OF = {
    "attention": StepTerm.ATTENTION,
    "attn_linear": StepTerm.DENSE_GEMM,
    "dense_mlp": StepTerm.DENSE_GEMM,
    "shared": StepTerm.DENSE_GEMM,
    "experts": StepTerm.EXPERTS,
    "dispatch": StepTerm.DISPATCH,
    "combine": StepTerm.COMBINE,
    "collectives": StepTerm.COLLECTIVES,
    "head": StepTerm.HEAD,
}


_OWN_METRIC = {
    Metric.TTFT: OwnMetric.TTFT,
    Metric.TPOT: OwnMetric.TPOT,
    Metric.OUTPUT_RATE: OwnMetric.THROUGHPUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedRole:
    """One role ready to be priced: its tables, memory and a stack of one."""

    plan: RolePlan
    pool: Pool
    tables: StepTables
    memory: MemoryBreakdown
    stack: RoleStack


class Pricer:
    """Prices plans of one model on given pools; operator queries are shared between plans."""

    def __init__(
        self,
        *,
        model: ModelSpec,
        pools: dict[str, Pool],
        components: dict[str, Components],
        engine: EngineProfile,
        usd_per_gpu_hour: float | None,
        popularity_cv: float | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.model = model
        self.pools = pools
        self.components = components
        self.engine = engine
        self.usd_per_gpu_hour = usd_per_gpu_hour
        self.popularity_cv = popularity_cv
        self.calibration = calibration

    @property
    def added_factors(self) -> dict[str, float] | None:
        """Log-factors of the user's own calibration."""
        return self.calibration.log_factors if self.calibration is not None else None

    def role(self, plan: RolePlan, *, context_tokens: int) -> PricedRole:
        """Tables and memory of one role; capacity is stated for requests of `context_tokens`."""
        pool = self.pools[plan.gpu]
        tables = build_tables(
            self.components[plan.gpu],
            plan,
            pool,
            self.engine,
            popularity_cv=self.popularity_cv,
            added=self.added_factors,
        )
        memory = rank_memory(
            self.model,
            plan,
            pool.gpu,
            self.engine,
            ranks_per_domain=pool.scale_up_gpus,
            context_tokens=context_tokens,
        )
        stack = RoleStack([plan], [tables], [float(memory.kv_tokens_per_rank)])
        return PricedRole(plan=plan, pool=pool, tables=tables, memory=memory, stack=stack)

    def evaluate(self, plan: DeploymentPlan) -> Evaluation:
        """The plan at its `concurrency`. Past saturation the surplus waits and only TTFT grows."""
        if plan.strategy is Strategy.AGGREGATED:
            return self._aggregated(plan)
        return self._disaggregated(plan)

    # --- aggregated ---

    def _aggregated(self, plan: DeploymentPlan) -> Evaluation:
        role = self.role(plan.roles[0], context_tokens=plan.workload.context_at_end)
        ranks = role.plan.groups * role.plan.parallelism.dp
        target = plan.concurrency / ranks
        grid = _grid(role, plan)
        at = aggregated_points(role.stack, plan.workload, grid)
        limit, binding = self._limit(role, plan)
        reachable = _reachable(at.concurrency[0], at.rate_per_ms[0], limit)
        batch, surplus = _invert(grid[0], at.concurrency[0], min(target, reachable), target)
        point = aggregated_points(role.stack, plan.workload, np.array([[batch]]))
        rate = float(point.rate_per_ms[0, 0])
        ttft = float(point.ttft_ms[0, 0]) + surplus / rate
        if surplus <= 0.0:
            binding = Binding.LOAD
        tokens = batch * (1.0 + float(role.stack.drafts[0, 0]))
        steps = (self._breakdown(role, plan, batch=batch, tokens=tokens, prefill=False),)
        return self._finish(
            plan, roles=(role,), steps=steps, ttft_ms=ttft, tpot_ms=float(point.tpot_ms[0, 0]),
            requests_per_s=rate * ranks * 1000.0, transfer=0.0, binding=binding,
        )  # fmt: skip

    def _limit(self, role: PricedRole, plan: DeploymentPlan) -> tuple[float, Binding]:
        by_kv = float(sequences_that_fit(role.stack.kv_tokens, plan.workload)[0, 0])
        if by_kv < role.plan.max_num_seqs:
            return by_kv, Binding.KV_CAPACITY
        return float(role.plan.max_num_seqs), Binding.MAX_NUM_SEQS

    # --- disaggregated ---

    def _disaggregated(self, plan: DeploymentPlan) -> Evaluation:
        prefill = self.role(_the(plan, Role.PREFILL), context_tokens=plan.workload.isl)
        decode = self.role(_the(plan, Role.DECODE), context_tokens=plan.workload.context_at_end)
        workload = plan.workload
        moved = kv_transfer_ms(
            self.model, workload, prefill=prefill.plan, decode=decode.plan, fabric=decode.pool.fabric
        )
        pre = prefill_points(prefill.stack, workload)
        servers = float(prefill.stack.ranks[0, 0] * prefill.plan.groups)
        decode_ranks = float(decode.stack.ranks[0, 0] * decode.plan.groups)
        grid = _grid(decode, plan)
        dec = decode_points(decode.stack, workload, grid)
        demand = dec.rate_per_ms[0] * decode_ranks
        capacity = float(pre.capacity_per_ms[0, 0]) * servers
        utilisation = demand / capacity
        count = np.array([[servers]])
        before = prefill_ttft_ms(pre, utilisation[None, :], count)
        ttft = before[0] + moved + dec.admission_ms[0]
        in_flight = dec.batch[0] * decode_ranks + demand * ttft
        limit, binding = self._limit(decode, plan)
        sustainable = (utilisation < 0.98) & (dec.batch[0] <= limit)
        if not sustainable.any():
            sustainable[0] = True
        last = int(np.flatnonzero(sustainable)[-1])
        if last + 1 < len(sustainable) and utilisation[last + 1] >= 0.98:
            binding = Binding.PREFILL_RATE
        target = float(plan.concurrency)
        batch, surplus = _invert(grid[0], in_flight, min(target, float(in_flight[last])), target)
        point = decode_points(decode.stack, workload, np.array([[batch]]))
        rate = float(point.rate_per_ms[0, 0]) * decode_ranks
        used = np.array([[rate / capacity]])
        ttft_ms = float(prefill_ttft_ms(pre, used, count)[0, 0]) + moved
        ttft_ms += float(point.admission_ms[0, 0])
        ttft_ms += surplus / rate
        if surplus <= 0.0:
            binding = Binding.LOAD
        prompt_tokens = workload.new_tokens / float(pre.chunks[0, 0])
        per_step = float(pre.prompts_per_step[0, 0])
        tokens = batch * (1.0 + float(decode.stack.drafts[0, 0]))
        steps = (
            self._breakdown(prefill, plan, batch=per_step, tokens=prompt_tokens * per_step, prefill=True),
            self._breakdown(decode, plan, batch=batch, tokens=tokens, prefill=False),
        )
        return self._finish(
            plan, roles=(prefill, decode), steps=steps, ttft_ms=ttft_ms, tpot_ms=float(point.tpot_ms[0, 0]),
            requests_per_s=rate * 1000.0, transfer=moved, binding=binding,
        )  # fmt: skip

    # --- shared ---

    def _breakdown(
        self, role: PricedRole, plan: DeploymentPlan, *, batch: float, tokens: float, prefill: bool
    ) -> StepBreakdown:
        column = np.array([[tokens]])
        if prefill:
            attention = role.stack.prefill_attention_ms(column / batch, 0.0) * batch
        else:
            attention = role.stack.decode_attention_ms(
                np.array([[batch]]), plan.workload.mean_context, length_cv_of_context(plan.workload)
            )
        load = StepLoad(
            max_tokens=column, mean_tokens=column, sequences=np.array([[batch]]), attention_ms=attention
        )
        total = float(role.stack.step_ms(load, prefill=prefill)[0, 0])
        provenance = dict(role.tables.provenance)
        sums: dict[StepTerm, float] = {}
        weakest: dict[StepTerm, Provenance] = {}
        for name, ms in role.stack.terms_ms(load, prefill=prefill).items():
            term = _TERM_OF[name]
            source = (
                provenance.get("prefill_attn" if prefill else "decode_attn")
                if name == "attention"
                else provenance.get(name)
            )
            value = float(ms[0, 0])
            sums[term] = sums.get(term, 0.0) + value
            if source is not None and value > SIGNIFICANT_SHARE * total:
                weakest[term] = Provenance.weakest(weakest.get(term, source), source)
            elif source is not None:
                weakest.setdefault(term, source)
        gpu = sum(sums.values())
        rest = total - gpu
        if abs(rest) > 1e-9:
            # with overlap on, what parts do not explain is overlap: a gain, or expert weights read twice
            overlapped = role.tables.dbo is not None
            term = StepTerm.DBO if rest < 0 or overlapped else StepTerm.HOST
            sums[term] = rest
            weakest[term] = Provenance.DATASHEET if term is StepTerm.DBO else Provenance.FITTED
        terms = tuple(
            TermTime(term=t, ms=sums[t], provenance=weakest.get(t, Provenance.DATASHEET))
            for t in StepTerm
            if abs(sums.get(t, 0.0)) > 0.0
        )
        return StepBreakdown(role=role.plan.role, tokens=tokens, total_ms=total, terms=terms)

    def _finish(
        self,
        plan: DeploymentPlan,
        *,
        roles: tuple[PricedRole, ...],
        steps: tuple[StepBreakdown, ...],
        ttft_ms: float,
        tpot_ms: float,
        requests_per_s: float,
        transfer: float,
        binding: Binding,
    ) -> Evaluation:
        provenance = Provenance.weakest(
            *(
                t.provenance
                for s in steps
                for t in s.terms
                if t.ms > SIGNIFICANT_SHARE * s.total_ms and t.term is not StepTerm.HOST
            )
        )
        cells = [shipped_cell(self.model, r.pool.gpu, plan.engine, r.plan.parallelism.gpus) for r in roles]
        calibrated = all(c is not None and c.rows > 0 and not c.transferred_from for c in cells)
        transferred = {c.transferred_from for c in cells if c is not None and c.transferred_from}
        extrapolates = self._extrapolates(plan, roles, steps)
        extrapolates += tuple(f"calibration transferred from {t}" for t in sorted(transferred))
        output = requests_per_s * plan.workload.osl
        per_gpu = output / plan.gpus_owned
        outside = bool(extrapolates)

        def band(value: float, metric: Metric) -> Estimate:
            own = self._own_band(value, metric, outside=outside)
            if own is not None:
                return own
            if calibrated:
                split = plan.strategy is Strategy.DISAGGREGATED
                return calibrated_interval(value, metric, disaggregated=split, extrapolates=outside)
            return prior_interval(value, metric, provenance, extrapolates=outside)

        cost = None
        if self.usd_per_gpu_hour is not None and output > 0:
            cost = self.usd_per_gpu_hour * plan.gpus_owned / (output * 3600.0) * 1e6
        return Evaluation(
            ttft_ms=band(ttft_ms, Metric.TTFT),
            tpot_ms=band(tpot_ms, Metric.TPOT),
            output_tok_s_per_gpu=band(per_gpu, Metric.OUTPUT_RATE),
            tok_s_user=1000.0 / tpot_ms,
            total_tok_s_per_gpu=requests_per_s * (plan.workload.isl + plan.workload.osl) / plan.gpus_owned,
            requests_per_s=requests_per_s,
            concurrency=float(plan.concurrency),
            usd_per_m_output_tokens=cost,
            steps=steps,
            memory=tuple(r.memory for r in roles),
            kv_transfer_ms=transfer,
            binding=binding,
            provenance=Provenance.CALIBRATED if calibrated or self.calibration is not None else provenance,
            extrapolates=extrapolates,
            engine=f"{plan.engine} {plan.engine_version}",
            model_version=MODEL_VERSION,
        )

    def _own_band(self, value: float, metric: Metric, *, outside: bool) -> Estimate | None:
        """The 80 % interval of the user's own calibration, twice as wide outside the curves' data."""
        if self.calibration is None:
            return None
        found = self.calibration.band(_OWN_METRIC[metric])
        if found is None or not math.isfinite(found.log_half_width):
            return None
        half = found.log_half_width * (2.0 if outside else 1.0)
        return Estimate(value, value * math.exp(-half), value * math.exp(half))

    def _extrapolates(
        self, plan: DeploymentPlan, roles: tuple[PricedRole, ...], steps: tuple[StepBreakdown, ...]
    ) -> tuple[str, ...]:
        found: list[str] = []
        for role, step in zip(roles, steps, strict=True):
            if step.tokens > role.tables.max_tokens_within:
                found.append(f"tokens per step ({role.plan.role.value})")
            if (
                role.plan.role is not Role.PREFILL
                and plan.workload.mean_context > role.tables.max_context_within
            ):
                found.append(f"context ({role.plan.role.value})")
        return tuple(found)


def _the(plan: DeploymentPlan, role: Role) -> RolePlan:
    found = plan.role(role)
    if found is None:
        msg = f"a disaggregated plan needs a {role.value} role"
        raise ValueError(msg)
    return found


def _grid(role: PricedRole, plan: DeploymentPlan) -> FloatArray:
    """Dense batches per rank up to a little past what the role can hold, as [1, L]."""
    top = max(min(float(role.plan.max_num_seqs), float(plan.concurrency)), 1.0)
    result: FloatArray = np.geomspace(0.02, top, 240)[None, :]
    return result


def _reachable(concurrency: FloatArray, rate: FloatArray, limit: float) -> float:
    """Largest concurrency per rank that runs without queueing: below the limit and before the rate stops rising."""
    rising = np.maximum.accumulate(rate) <= rate + 1e-12
    ok = (concurrency <= limit) & rising
    return float(concurrency[ok].max()) if ok.any() else float(concurrency[0])


def _invert(batch: FloatArray, concurrency: FloatArray, wanted: float, target: float) -> tuple[float, float]:
    """Batch at which `concurrency` reaches `wanted`, and the requests of `target` that wait outside."""
    monotone = np.maximum.accumulate(concurrency)
    found = float(np.interp(wanted, monotone, batch))
    return found, max(target - wanted, 0.0)
