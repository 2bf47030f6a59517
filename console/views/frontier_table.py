"""Rows of the frontier page: the front over two metrics, and the ranked table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.views.frontier_model import ColourBy, FrontierOptions, Index, PlanRow
from console.views.metrics import METRICS, Axis
from console.views.points import PlanPoints
from planner.analytic.front import pareto_indexes
from planner.domain.evaluation import Evaluation
from planner.perf.operators.base import FloatArray
from planner.search.recommend import RANKED_PER_STRATEGY

CANDIDATES: Final = (
    200_000  # points looked at for the ranked table; 40 loads per configuration, so enough for its rows
)
SAMPLE: Final = 200_000  # points that find the front's neighbourhood in a larger space


def front_of(points: PlanPoints, options: FrontierOptions, index: Index) -> Index:
    """The exact front among `index` over the two axes shown, by descending quality on x."""
    x = points.values(options.x, index) * METRICS[options.x].sign
    y = points.values(options.y, index) * METRICS[options.y].sign
    usable = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if usable.size > SAMPLE:
        usable = usable[_not_below(x[usable], y[usable])]
    return index[usable[pareto_indexes(x[usable], y[usable])]]


def _not_below(x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Drops points that a sample's front dominates, so that only a few have to be sorted; the front stays exact."""
    step = x.size // SAMPLE + 1
    found = pareto_indexes(x[::step], y[::step])[::-1]
    front_x, front_y = x[::step][found], y[::step][found]
    right = np.searchsorted(front_x, x, side="left")
    beaten = right < front_x.size
    at = np.minimum(right, front_x.size - 1)
    strictly: NDArray[np.bool_] = beaten & ((front_y[at] > y) | ((front_y[at] == y) & (front_x[at] > x)))
    return ~strictly


def ranked_rows(
    points: PlanPoints, options: FrontierOptions, meets: NDArray[np.bool_], overall: Index
) -> tuple[PlanRow, ...]:
    """The best load of each configuration that meets the targets, in the order of the recommendation."""
    index = np.flatnonzero(meets)
    rate = points.rate[index]
    if index.size > CANDIDATES:
        kept = np.sort(np.argpartition(-rate, CANDIDATES)[:CANDIDATES])
        index, rate = index[kept], rate[kept]
    order = np.lexsort((index, points.ttft_ms[index], points.gpus[index], -rate))
    index = index[order]
    _, first = np.unique(points.configuration(index), return_index=True)
    chosen = index[np.sort(first)[: options.max_rows]]
    exact: dict[int, Evaluation] = {}
    if options.y is Axis.RATE:
        chosen, exact = _as_recommended(points, chosen)
    else:
        by_metric = np.argsort(-points.values(options.y, chosen) * METRICS[options.y].sign, kind="stable")
        chosen = chosen[by_metric]
    on_front = set(overall.tolist())
    return tuple(
        _row(points, i, n, meets=True, on_front=i in on_front, priced=exact.get(i))
        for n, i in enumerate(chosen.tolist(), start=1)
    )


def _as_recommended(points: PlanPoints, chosen: Index) -> tuple[Index, dict[int, Evaluation]]:
    """The first plans of each strategy are priced one by one, as `planner recommend` does, and ordered by that."""
    exact: dict[int, Evaluation] = {}
    keys: dict[int, tuple[float, int, str]] = {}
    for strategy in range(len(points.strategies)):
        for i in chosen[points.strategy[chosen] == strategy][:RANKED_PER_STRATEGY].tolist():
            plan = points.plan_at(i)
            exact[i] = points.evaluation_at(i)
            keys[i] = (-exact[i].output_tok_s_per_gpu.value, plan.gpus_used, plan.label())
    wanted = [keys.get(i, (-float(points.rate[i]), int(points.gpus[i]), "")) for i in chosen.tolist()]
    order = sorted(range(len(wanted)), key=lambda n: (wanted[n], n))
    return chosen[np.array(order, dtype=np.intp)], exact


def front_rows(
    points: PlanPoints, options: FrontierOptions, members: Index, overall: Index
) -> tuple[PlanRow, ...]:
    """The front as rows, best x first; `overall` marks those that no strategy dominates."""
    on_front = set(overall.tolist())
    ok = points.meets(options.slo)
    order = members[np.argsort(-points.values(options.x, members) * METRICS[options.x].sign, kind="stable")]
    return tuple(
        _row(points, int(i), n, meets=bool(ok[i]), on_front=int(i) in on_front)
        for n, i in enumerate(order[: options.max_rows], start=1)
    )


def _row(
    points: PlanPoints, i: int, rank: int, *, meets: bool, on_front: bool, priced: Evaluation | None = None
) -> PlanRow:
    one = np.array([i], dtype=np.intp)
    values = tuple(float(points.values(axis, one)[0]) for axis in Axis)
    if priced is not None:
        values = tuple(value_on(priced, axis) for axis in Axis)
    return PlanRow(
        point=i,
        rank=rank,
        plan=points.label(i),
        short=points.short(i),
        extras=points.extras(i),
        kind=points.strategies[points.strategy[i]].value,
        group="",
        gpus=f"{points.gpus[i]}/{points.gpus_owned}",
        values=values,
        meets=meets,
        on_front=on_front,
    )


def value_on(evaluation: Evaluation, axis: Axis) -> float:
    """A metric of one priced plan; NaN for a cost without a price."""
    cost = evaluation.usd_per_m_output_tokens
    return {
        Axis.TOK_S_USER: evaluation.tok_s_user,
        Axis.RATE: evaluation.output_tok_s_per_gpu.value,
        Axis.TTFT: evaluation.ttft_ms.value,
        Axis.TPOT: evaluation.tpot_ms.value,
        Axis.COST: float("nan") if cost is None else cost,
        Axis.CONCURRENCY: evaluation.concurrency,
    }[axis]


def groups_of(points: PlanPoints, by: ColourBy, members: Index) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Group names and the group of each of `members`."""
    if by is ColourBy.PROVENANCE:
        texts = [points.evaluation_at(i).provenance.value for i in members.tolist()]
        names = tuple(sorted(set(texts)))
        return names, np.array([names.index(t) for t in texts], dtype=np.int64)
    names, lookup = _role_groups(points, by)
    if by is ColourBy.KIND:
        return names, points.strategy[members].astype(np.int64)
    return names, lookup[points.main_role(members)]


def _role_groups(points: PlanPoints, by: ColourBy) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    if by is ColourBy.KIND:
        return tuple(s.value for s in points.strategies), np.empty(0, dtype=np.int64)
    if by is ColourBy.TP:
        sizes = [r.tp for r in points.roles]
    elif by is ColourBy.EP:
        sizes = [r.ep for r in points.roles]
    elif by is ColourBy.DBO:
        sizes = [int(r.dbo) for r in points.roles]
    else:
        gpus = sorted({r.gpu for r in points.roles})
        return tuple(gpus), np.array([gpus.index(r.gpu) for r in points.roles], dtype=np.int64)
    present = sorted(set(sizes))
    names = {
        ColourBy.TP: [f"TP {v}" for v in present],
        ColourBy.EP: [f"EP {v}" if v > 1 else "no EP" for v in present],
        ColourBy.DBO: ["DBO" if v else "no DBO" for v in present],
    }
    return tuple(names[by]), np.array([present.index(v) for v in sizes], dtype=np.int64)


def with_groups(
    rows: tuple[PlanRow, ...], points: PlanPoints, options: FrontierOptions, names: tuple[str, ...]
) -> tuple[PlanRow, ...]:
    """`rows` with the name of the group that colour and marker stand for."""
    if not rows or options.colour_by is ColourBy.PROVENANCE:
        return rows
    _, code = groups_of(points, options.colour_by, np.array([r.point for r in rows], dtype=np.intp))
    return tuple(replace(r, group=names[c]) for r, c in zip(rows, code, strict=True))
