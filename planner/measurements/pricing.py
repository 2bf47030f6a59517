"""Price measured rows: identical traffic on one model, GPU and engine is one stack, every load at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.analytic.closed_loop import length_cv_of_context, prefill_points
from planner.analytic.operating import Operating, aggregated_at, disaggregated_at, prefill_ttft_ms
from planner.analytic.stack import RoleStack, StepLoad
from planner.domain.deployment import Role, RolePlan
from planner.domain.provenance import Provenance
from planner.domain.workload import Workload
from planner.measurements.points import Metric, Point, PointConfig, PointMode
from planner.measurements.subjects import (
    CannotPriceError,
    Subject,
    check_context,
    role_of,
    subject_of,
    with_tuned_buffers,
)
from planner.measurements.widths import Widths
from planner.perf.calibration import CellFactors, FactorPack, apply_factors, cell_of, checkpoint_of
from planner.perf.components import Components
from planner.perf.memory import rank_memory
from planner.perf.operators.base import FloatArray
from planner.perf.operators.library import load_operators
from planner.perf.step import build_tables
from planner.perf.tables import StepTables
from planner.perf.transfer import kv_transfer_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPrediction:
    """Physics' answer for one row. `terms`: shares of a decode step by part; `state`: further features."""

    ttft_ms: float
    tpot_ms: float
    output_tok_s_per_gpu: float
    provenance: Provenance
    extrapolates: tuple[str, ...]
    features: dict[str, float]

    def value(self, metric: Metric) -> float:
        """The predicted value of `metric`."""
        return {
            Metric.TTFT: self.ttft_ms,
            Metric.TPOT: self.tpot_ms,
            Metric.OUTPUT: self.output_tok_s_per_gpu,
        }[metric]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a row has no prediction."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedRoleOfRow:
    """Tables and capacity of one engine group."""

    plan: RolePlan
    tables: StepTables
    kv_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A configuration ready to be solved at any load."""

    config: PointConfig
    subject: Subject
    workload: Workload
    prefill: PricedRoleOfRow | None
    decode: PricedRoleOfRow | None
    transfer_ms: float


class PointPricer:
    """Prices rows. Operator queries and tables are shared between rows and kept between calls."""

    def __init__(self, *, profiles: Path | None = None, factors: FactorPack | None = None) -> None:
        self.profiles = profiles
        self.factors = factors
        self._subjects: dict[tuple[str, str, str, str], Subject | CannotPriceError] = {}
        self._components: dict[tuple[str, str, str, str], Components] = {}
        self._prepared: dict[PointConfig, Prepared | CannotPriceError] = {}

    @staticmethod
    def sharing(other: PointPricer, *, factors: FactorPack | None) -> PointPricer:
        """A pricer with other factors that shares the uncalibrated tables of `other`."""
        new = PointPricer(profiles=other.profiles, factors=factors)
        new._subjects, new._components, new._prepared = other._subjects, other._components, other._prepared
        return new

    def cell(self, config: PointConfig, side: Widths | None = None) -> CellFactors | None:
        """Calibration factors that hold for one side of `config` (default: decode); None without a pack."""
        if self.factors is None:
            return None
        model = self.prepare(config).subject.model
        gpu = self.prepare(config).subject.pool.gpu
        widths = side or config.decode or config.prefill
        return self.factors.cell(
            *cell_of(model, gpu, config.dialect),
            checkpoint=checkpoint_of(model),
            group_gpus=widths.group_gpus if widths is not None else 1,
        )

    def calibrated(self, config: PointConfig) -> Prepared:
        """`prepare` with the pack's factors applied to the tables."""
        prepared = self.prepare(config)
        if self.factors is None:
            return prepared
        return replace(
            prepared,
            prefill=self._scaled(prepared, prepared.prefill, config.prefill),
            decode=self._scaled(prepared, prepared.decode, config.decode),
        )

    def _scaled(
        self, prepared: Prepared, role: PricedRoleOfRow | None, side: Widths | None
    ) -> PricedRoleOfRow | None:
        cell = self.cell(prepared.config, side)
        if role is None or cell is None:
            return role
        tables = apply_factors(
            role.tables, cell.logs,
            expert_parallel=role.plan.parallelism.expert_parallel, latent=prepared.subject.model.is_mla,
        )  # fmt: skip
        return replace(role, tables=tables)

    def prepare(self, config: PointConfig) -> Prepared:
        """Uncalibrated tables of `config`. Raises `CannotPriceError`."""
        if config not in self._prepared:
            try:
                self._prepared[config] = self._build(config)
            except CannotPriceError as error:
                self._prepared[config] = error
        found = self._prepared[config]
        if isinstance(found, CannotPriceError):
            raise found
        return found

    def _subject(self, config: PointConfig) -> tuple[Subject, Components]:
        key = (config.model, config.quantization, config.gpu, config.dialect)
        if key not in self._subjects:
            try:
                subject = subject_of(config, profiles=self.profiles)
                self._subjects[key] = subject
                operators = load_operators(subject.pool.gpu, subject.pool.fabric, subject.engine.engine)
                self._components[key] = Components(subject.model, operators)
            except CannotPriceError as error:
                self._subjects[key] = error
        found = self._subjects[key]
        if isinstance(found, CannotPriceError):
            raise found
        return found, self._components[key]

    def _build(self, config: PointConfig) -> Prepared:
        subject, components = self._subject(config)
        check_context(config, subject.model)
        workload = Workload(
            isl=config.isl, osl=config.osl, prefix_hit=config.prefix_hit, length_cv=config.length_cv
        )
        aggregated = config.mode is PointMode.AGGREGATED
        roles: dict[Role, PricedRoleOfRow] = {}
        sides: list[tuple[Role, Widths | None]] = [
            (Role.AGGREGATED if aggregated else Role.DECODE, config.decode),
            (Role.PREFILL, config.prefill),
        ]
        for role, side in sides:
            if side is not None:
                roles[role] = self._role(config, subject, components, workload, side, role)
        prefill = roles.get(Role.PREFILL)
        decode = roles.get(Role.AGGREGATED) or roles.get(Role.DECODE)
        moved = 0.0
        if prefill is not None and decode is not None:
            moved = kv_transfer_ms(
                subject.model, workload, prefill=prefill.plan, decode=decode.plan, fabric=subject.pool.fabric
            )
        return Prepared(
            config=config,
            subject=subject,
            workload=workload,
            prefill=prefill,
            decode=decode,
            transfer_ms=moved,
        )

    def _role(
        self,
        config: PointConfig,
        subject: Subject,
        components: Components,
        workload: Workload,
        side: Widths,
        role: Role,
    ) -> PricedRoleOfRow:
        plan = role_of(config, subject, side, role)
        # published benchmarks send random tokens: experts are chosen evenly, chance apart
        tables = build_tables(
            components, plan, subject.pool, subject.engine, popularity_cv=0.0, calibrated=False
        )
        context = workload.isl if role is Role.PREFILL else workload.context_at_end
        memory = rank_memory(
            subject.model, with_tuned_buffers(plan), subject.pool.gpu, subject.engine,
            ranks_per_domain=subject.pool.scale_up_gpus, context_tokens=context,
        )  # fmt: skip
        # a row that was measured did fit: the memory model may not refuse it
        tokens = max(float(memory.kv_tokens_per_rank), 2.0 * context)
        return PricedRoleOfRow(plan=plan, tables=tables, kv_tokens=tokens)

    def price(self, points: Sequence[Point]) -> list[RawPrediction | Failure]:
        """One answer per point, in order."""
        answers: list[RawPrediction | Failure | None] = [None] * len(points)
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, point in enumerate(points):
            try:
                prepared = self.prepare(point.config)
            except CannotPriceError as error:
                answers[index] = Failure(code=error.code, reason=error.reason)
                continue
            c = point.config
            key = (
                c.model, c.quantization, c.gpu, c.dialect, c.mode, prepared.workload, point.load is None,
            )  # fmt: skip
            groups.setdefault(key, []).append(index)
        for members in groups.values():
            for index, answer in zip(members, self._group([points[i] for i in members]), strict=True):
                answers[index] = answer
        return [a if a is not None else Failure(code="internal", reason="not priced") for a in answers]

    def _group(self, points: Sequence[Point]) -> list[RawPrediction | Failure]:
        by_config = {c: self.calibrated(c) for c in dict.fromkeys(p.config for p in points)}
        prepared = [by_config[p.config] for p in points]
        mode = points[0].config.mode
        workload = prepared[0].workload
        stacks = _stacks(prepared)
        loads = np.array([[p.load if p.load is not None else 1.0] for p in points])
        if mode is PointMode.PREFILL_ONLY:
            return _prefill_only(points, prepared, stacks[0], workload)
        if points[0].load is None:
            loads = _loads_of_rates(stacks, prepared, workload, points)
        at = _solve(stacks, prepared, workload, loads)
        return _answers(points, prepared, stacks, workload, at, loads)


Stacks = tuple[RoleStack | None, RoleStack | None]


def _stacks(prepared: Sequence[Prepared]) -> Stacks:
    def stack(roles: list[PricedRoleOfRow]) -> RoleStack:
        return RoleStack([r.plan for r in roles], [r.tables for r in roles], [r.kv_tokens for r in roles])

    prefill = [p.prefill for p in prepared if p.prefill is not None]
    decode = [p.decode for p in prepared if p.decode is not None]
    return (stack(prefill) if prefill else None, stack(decode) if decode else None)


def _groups(stack: RoleStack) -> FloatArray:
    return np.array([[float(r.groups)] for r in stack.roles])


def _solve(stacks: Stacks, prepared: Sequence[Prepared], workload: Workload, loads: FloatArray) -> Operating:
    prefill, decode = stacks
    assert decode is not None  # noqa: S101 (prefill-only rows are handled before)
    if prefill is None:
        if prepared[0].config.mode is PointMode.DECODE_ONLY:
            return _decode_only(decode, workload, loads)
        return aggregated_at(decode, workload, groups=_groups(decode), concurrency=loads)
    return disaggregated_at(
        prefill, decode, workload, prefill_groups=_groups(prefill), decode_groups=_groups(decode),
        transfer_ms=np.array([[p.transfer_ms] for p in prepared]), concurrency=loads,
    )  # fmt: skip


def _decode_only(stack: RoleStack, workload: Workload, loads: FloatArray) -> Operating:
    from planner.analytic.closed_loop import decode_points

    ranks = stack.ranks * _groups(stack)
    batch = np.minimum(loads / ranks, stack.max_num_seqs)
    at = decode_points(stack, workload, batch)
    zero = np.zeros_like(batch)
    return Operating(
        batch=batch, tpot_ms=at.tpot_ms, ttft_ms=at.step_ms, rate_per_ms=at.rate_per_ms * ranks, waiting=zero,
        utilisation=zero, surplus=zero > 0.0,
    )  # fmt: skip


def _loads_of_rates(
    stacks: Stacks, prepared: Sequence[Prepared], workload: Workload, points: Sequence[Point]
) -> FloatArray:
    """Concurrency at which the plan finishes as many requests as arrive (open loop), or its largest sensible one."""
    decode = stacks[1]
    assert decode is not None  # noqa: S101
    ranks = decode.ranks * _groups(decode)
    grid = np.geomspace(0.02, 512.0, 80)[None, :] * ranks
    at = _solve(stacks, prepared, workload, grid)
    out = np.empty((len(points), 1))
    for i, point in enumerate(points):
        wanted = (point.request_rate or 0.0) / 1000.0
        rates = np.maximum.accumulate(at.rate_per_ms[i])
        out[i, 0] = np.interp(wanted, rates, grid[i])
    return out


def _prefill_only(
    points: Sequence[Point], prepared: Sequence[Prepared], stack: RoleStack | None, workload: Workload
) -> list[RawPrediction | Failure]:
    assert stack is not None  # noqa: S101
    pre = prefill_points(stack, workload)
    servers = stack.ranks * _groups(stack)
    load = np.array([[p.load or 1.0] for p in points])
    used = np.minimum(load / servers, 1.0)
    ttft = prefill_ttft_ms(pre, np.minimum(used, 0.5), servers)
    queue = np.maximum(load / (servers * pre.prompts_per_step) - 1.0, 0.0) * pre.step_ms * pre.chunks
    found: list[RawPrediction | Failure] = []
    for i, row in enumerate(prepared):
        role = row.prefill
        assert role is not None  # noqa: S101
        ms = float(ttft[i, 0] + queue[i, 0])
        rate = float(pre.capacity_per_ms[i, 0] * servers[i, 0])
        found.append(
            RawPrediction(
                ttft_ms=ms,
                tpot_ms=float(pre.step_ms[i, 0]),
                output_tok_s_per_gpu=rate * 1000.0 * workload.osl / role.plan.gpus,
                provenance=_provenance(role.tables),
                extrapolates=(),
                features={},
            )
        )
    return found


def _answers(
    points: Sequence[Point],
    prepared: Sequence[Prepared],
    stacks: Stacks,
    workload: Workload,
    at: Operating,
    loads: FloatArray,
) -> list[RawPrediction | Failure]:
    decode = stacks[1]
    assert decode is not None  # noqa: S101
    shares = step_shares(decode, workload, at.batch)
    found: list[RawPrediction | Failure] = []
    for i, (point, row) in enumerate(zip(points, prepared, strict=True)):
        rate = float(at.rate_per_ms[i, 0])
        features = {name: float(values[i, 0]) for name, values in shares.items()}
        features |= {
            "batch": float(at.batch[i, 0]),
            "utilisation": float(at.utilisation[i, 0]),
            "surplus": float(at.waiting[i, 0] / max(loads[i, 0], 1.0)),
            "load": float(loads[i, 0]),
            "transfer_ms": row.transfer_ms,
        }
        assert row.decode is not None  # noqa: S101
        outside: list[str] = []
        if features["batch"] > row.decode.tables.max_tokens_within:
            outside.append("tokens per step")
        if workload.mean_context > row.decode.tables.max_context_within:
            outside.append("context")
        sources = [_provenance(r.tables) for r in (row.decode, row.prefill) if r is not None]
        found.append(
            RawPrediction(
                ttft_ms=float(at.ttft_ms[i, 0]),
                tpot_ms=float(at.tpot_ms[i, 0]),
                output_tok_s_per_gpu=rate * 1000.0 * workload.osl / max(point.output_denominator_gpus, 1),
                provenance=Provenance.weakest(*sources),
                extrapolates=tuple(outside),
                features=features,
            )
        )
    return found


def step_shares(stack: RoleStack, workload: Workload, batch: FloatArray) -> dict[str, FloatArray]:
    """Decode step at `batch` and the share of each part of it."""
    attention = stack.decode_attention_ms(batch, workload.mean_context, length_cv_of_context(workload))
    tokens = batch * (1.0 + stack.drafts)
    load = StepLoad(max_tokens=tokens, mean_tokens=tokens, sequences=batch, attention_ms=attention)
    terms = stack.terms_ms(load, prefill=False)
    total = stack.step_ms(load, prefill=False)
    return {"step_ms": total} | {f"share_{name}": ms / total for name, ms in terms.items()}


def _provenance(tables: StepTables) -> Provenance:
    return Provenance.weakest(*(p for _, p in tables.provenance))


def with_load(point: Point, load: float) -> Point:
    """The same configuration at another concurrency."""
    return replace(point, load=load)
