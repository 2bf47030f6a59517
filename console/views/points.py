"""Every (plan, load) point of a solved problem as columns that views filter, rank and plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.views.metrics import Axis
from planner.domain.deployment import DeploymentPlan, RolePlan, Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.workload import SloTargets
from planner.perf.operators.base import FloatArray
from planner.search.notation import SHORT_NAMES
from planner.search.plans import plan_of
from planner.search.recommend import question
from planner.search.solve import Solution, StrategyPoints

Codes = NDArray[np.int32]
REMEMBERED: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """What tables and filters show of a role: widths, switches, GPU type.

    Roles of equal `shape` differ only in limits and formats, and are shown once in tables.
    """

    label: str
    shape: str
    extras: str
    tp: int
    ep: int
    dbo: bool
    gpu: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanPoints:
    """Columns of equal length, one entry per (plan, load). Rates are output tokens/s per GPU owned.

    `strategy` indexes `strategies`. `first` and `second` index `roles` (second -1: aggregated). `plan_at` rebuilds the
    plan of an entry; `evaluation_at` gives its numbers with intervals and breakdowns (milliseconds, remembered).
    """

    name: str
    question: str
    slo: SloTargets
    gpus_owned: int
    usd_per_gpu_hour: float | None
    strategies: tuple[Strategy, ...]
    roles: tuple[RoleFacts, ...]
    strategy: Codes
    first: Codes
    second: Codes
    first_groups: Codes
    second_groups: Codes
    gpus: Codes
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    rate: FloatArray
    concurrency: FloatArray
    plan_at: Callable[[int], DeploymentPlan]
    evaluation_at: Callable[[int], Evaluation]

    def __len__(self) -> int:
        return int(self.rate.size)

    def values(self, axis: Axis, index: NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        """The column of `axis` at `index`; NaN throughout for a cost without a price."""
        if axis is Axis.RATE:
            return self.rate[index].astype(np.float64)
        if axis is Axis.TTFT:
            return self.ttft_ms[index].astype(np.float64)
        if axis is Axis.TPOT:
            return self.tpot_ms[index].astype(np.float64)
        if axis is Axis.CONCURRENCY:
            return self.concurrency[index].astype(np.float64)
        if axis is Axis.TOK_S_USER:
            speed: FloatArray = 1000.0 / self.tpot_ms[index].astype(np.float64)
            return speed
        rate = self.rate[index].astype(np.float64)
        if self.usd_per_gpu_hour is None:
            return np.full(rate.shape, np.nan)
        cost: FloatArray = self.usd_per_gpu_hour / (rate * 3600.0) * 1e6
        return cost

    def meets(self, slo: SloTargets) -> NDArray[np.bool_]:
        """Which entries meet every target of `slo`."""
        ok = np.ones(len(self), dtype=bool)
        if slo.ttft_ms is not None:
            ok &= self.ttft_ms <= slo.ttft_ms
        limit = slo.tpot_limit_ms
        if limit is not None:
            ok &= self.tpot_ms <= limit
        return ok

    def main_role(self, index: NDArray[np.intp] | slice = slice(None)) -> Codes:
        """Index in `roles` of the role that decodes."""
        first, second = self.first[index], self.second[index]
        return np.where(second >= 0, second, first).astype(np.int32)

    def configuration(self, index: NDArray[np.intp]) -> NDArray[np.int64]:
        """One number per deployment shape at `index`: same strategy, roles' widths and switches, group counts."""
        shapes: dict[str, int] = {}
        code = np.array(
            [shapes.setdefault(r.shape, len(shapes)) for r in self.roles] + [len(shapes)], dtype=np.int64
        )
        width = len(shapes) + 1
        key = self.strategy[index].astype(np.int64)
        for part, size in (
            (code[self.first[index]], width),
            (code[self.second[index]], width),
            (self.first_groups[index].astype(np.int64), 4096),
            (self.second_groups[index].astype(np.int64), 4096),
        ):
            key = key * size + part
        return key

    def label(self, i: int) -> str:
        """Short text of entry `i`, as `DeploymentPlan.label` writes it."""
        first = f"{self.first_groups[i]}x({self.roles[self.first[i]].label})"
        if self.second[i] < 0:
            return first
        return f"P {first} D {self.second_groups[i]}x({self.roles[self.second[i]].label})"

    def short(self, i: int) -> str:
        """The label without brackets, for narrow tables: ``P2×tp1dp8ep8 D1×tp1dp16ep16``."""
        first = f"{self.first_groups[i]}×{self.roles[int(self.first[i])].label.replace(',', '')}"
        if self.second[i] < 0:
            return first
        second = self.roles[int(self.second[i])].label.replace(",", "")
        return f"P{first} D{self.second_groups[i]}×{second}"

    def extras(self, i: int) -> str:
        """Switches of entry `i` per role: KV format, exchange backend, DBO, EPLB."""
        first, second = self.roles[int(self.first[i])].extras, int(self.second[i])
        if second < 0 or self.roles[second].extras == first:
            return first
        return f"P {first} · D {self.roles[second].extras}"


def facts_of(role: RolePlan) -> RoleFacts:
    """What is shown of `role`."""
    extras = [role.kv_dtype.value]
    if role.parallelism.dp > 1 and role.parallelism.expert_parallel:
        extras.append(SHORT_NAMES[role.all2all])
    if role.dbo:
        extras.append("dbo")
    if role.eplb is not None:
        extras.append(f"eplb+{role.eplb.redundant_experts}")
    p = role.parallelism
    return RoleFacts(
        label=p.label(),
        shape=f"{p.label()} {role.all2all.value} {role.dbo}",
        extras=" ".join(extras),
        tp=p.tp,
        ep=p.ep,
        dbo=role.dbo,
        gpu=role.gpu,
    )


def points_of(solution: Solution) -> PlanPoints:
    """The columns of a solved problem; arrays are shared where possible."""
    problem = solution.problem
    roles: list[RoleFacts] = []
    columns: list[_Columns] = []
    for number, found in enumerate(solution.strategies):
        columns.append(_columns(found, number, len(roles)))
        roles.extend(facts_of(r) for r in (*found.first, *found.second))
    starts = np.cumsum([0] + [len(s.points) for s in solution.strategies])

    @lru_cache(maxsize=REMEMBERED)
    def plan_at(i: int) -> DeploymentPlan:
        number = int(np.searchsorted(starts, i, side="right")) - 1
        return plan_of(solution, solution.strategies[number], i - int(starts[number]))

    @lru_cache(maxsize=REMEMBERED)
    def evaluation_at(i: int) -> Evaluation:
        return solution.pricer.evaluate(plan_at(i))

    owned = problem.gpus
    points = [s.points for s in solution.strategies]
    return PlanPoints(
        name=problem.name,
        question=question(problem),
        slo=problem.slo,
        gpus_owned=owned,
        usd_per_gpu_hour=problem.usd_per_gpu_hour,
        strategies=tuple(s.strategy for s in solution.strategies),
        roles=tuple(roles),
        strategy=_join([c.strategy for c in columns]),
        first=_join([c.first for c in columns]),
        second=_join([c.second for c in columns]),
        first_groups=_join([p.first_groups for p in points]),
        second_groups=_join([p.second_groups for p in points]),
        gpus=_join([p.gpus for p in points]),
        ttft_ms=_floats([p.ttft_ms for p in points]),
        tpot_ms=_floats([p.tpot_ms for p in points]),
        rate=_floats([p.output_tok_s / np.float32(owned) for p in points]),
        concurrency=_floats([p.concurrency for p in points]),
        plan_at=plan_at,
        evaluation_at=evaluation_at,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    strategy: Codes
    first: Codes
    second: Codes


def _columns(found: StrategyPoints, number: int, offset: int) -> _Columns:
    points = found.points
    second = np.where(points.second >= 0, points.second + offset + len(found.first), -1).astype(np.int32)
    if found.strategy is Strategy.AGGREGATED:
        second = np.full(len(points), -1, dtype=np.int32)
    return _Columns(
        strategy=np.full(len(points), number, dtype=np.int32),
        first=(points.first + offset).astype(np.int32),
        second=second,
    )


def _join(parts: list[NDArray[np.int32]]) -> Codes:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _floats(parts: list[NDArray[np.float32] | FloatArray]) -> FloatArray:
    # float32 stays float32: a large space has millions of points
    joined: FloatArray = np.concatenate(parts, dtype=np.float32) if parts else np.empty(0)
    return joined
