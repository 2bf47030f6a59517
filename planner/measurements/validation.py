"""How far predictions are from measured rows: errors, bias, coverage of the intervals, order within sweeps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.measurements.points import Metric, Point, RefusedPoint
from planner.measurements.predictions import Answer, PointPrediction

LARGEST_NAMED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of one metric over `n` rows. Percentages of the measured value; `bias` is signed, > 0 = too high.

    `covered` is the share of measured values inside the 80 % interval, `half_width` the median interval half-width as a
    percentage of the prediction.
    """

    n: int
    median_pct: float
    mean_pct: float
    p90_pct: float
    bias_pct: float
    covered: float
    half_width_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Scores of the rows that share one label of one kind."""

    kind: str
    label: str
    rows: int
    scores: dict[Metric, Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Rank correlation within sweeps: rows of one configuration at three or more loads."""

    sweeps: int
    median: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Everything `planner validate` reports."""

    rows: int
    answered: int
    complete: int  # rows whose configuration the source states in full
    scored: int
    refused: dict[str, int]
    groups: tuple[Group, ...]
    order: dict[Metric, Order]

    def group(self, kind: str, label: str) -> Group | None:
        """The group of that kind and label, if there is one."""
        return next((g for g in self.groups if g.kind == kind and g.label == label), None)


_INCOMPLETE = {"point.lengths", "point.widths", "point.mode", "point.load", "point.engine", "gpu.unknown"}


def validate(answers: Sequence[Answer]) -> Validation:
    """Score the answers whose row is fit for scoring; flagged rows count as answered only."""
    priced = [a for a in answers if isinstance(a, PointPrediction)]
    refused = [a for a in answers if isinstance(a, RefusedPoint)]
    scored = [a for a in priced if a.point.scored and a.point.measured]
    codes: dict[str, int] = defaultdict(int)
    for row in refused:
        codes[row.code] += 1
    groups = [Group(kind="all", label="all", rows=len(scored), scores=_scores(scored))]
    for kind, key in KINDS.items():
        members: dict[str, list[PointPrediction]] = defaultdict(list)
        for answer in scored:
            members[key(answer.point)].append(answer)
        groups += [
            Group(kind=kind, label=label, rows=len(rows), scores=_scores(rows))
            for label, rows in sorted(members.items())
        ]
    return Validation(
        rows=len(answers),
        answered=len(priced),
        complete=len(priced) + sum(1 for r in refused if r.code not in _INCOMPLETE),
        scored=len(scored),
        refused=dict(sorted(codes.items())),
        groups=tuple(groups),
        order={m: _order(scored, m) for m in Metric},
    )


def _width(point: Point) -> str:
    side = point.config.decode or point.config.prefill
    gpus = side.group_gpus if side is not None else 0
    for top in (1, 2, 4, 8, 16, 32):
        if gpus <= top:
            return f"{top:>2} GPUs per group" if gpus == top else f"up to {top} GPUs per group"
    return "over 32 GPUs per group"


def _load(point: Point) -> str:
    side = point.config.decode or point.config.prefill
    if point.load is None or side is None:
        return "open loop"
    per_gpu = point.load / max(side.gpus, 1)
    for top in (1, 4, 16, 64):
        if per_gpu <= top:
            return f"up to {top} in flight per GPU"
    return "over 64 in flight per GPU"


KINDS: dict[str, Callable[[Point], str]] = {
    "model": lambda p: p.config.model,
    "gpu": lambda p: p.config.gpu,
    "engine": lambda p: p.config.dialect,
    "phase": lambda p: p.config.mode.value,
    "width": _width,
    "load": _load,
    "speculation": lambda p: "mtp" if p.config.mtp else "no mtp",
}


def _scores(answers: Iterable[PointPrediction]) -> dict[Metric, Score]:
    rows = list(answers)
    found: dict[Metric, Score] = {}
    for metric in Metric:
        pairs = [(a.values[metric], a.point.measured[metric]) for a in rows if metric in a.point.measured]
        if not pairs:
            continue
        predicted = np.array([e.value for e, _ in pairs])
        measured = np.array([m for _, m in pairs])
        inside = np.array([e.low <= m <= e.high for e, m in pairs])
        ape = np.abs(predicted / measured - 1.0) * 100.0
        half = np.array([math.sqrt(e.high / max(e.low, 1e-12)) - 1.0 for e, _ in pairs]) * 100.0
        found[metric] = Score(
            n=len(pairs),
            median_pct=float(np.median(ape)),
            mean_pct=float(ape.mean()),
            p90_pct=float(np.quantile(ape, 0.9)),
            bias_pct=float((np.exp(np.median(np.log(predicted / measured))) - 1.0) * 100.0),
            covered=float(inside.mean()),
            half_width_pct=float(np.median(half)),
        )
    return found


def _order(answers: Sequence[PointPrediction], metric: Metric) -> Order:
    sweeps: dict[object, list[PointPrediction]] = defaultdict(list)
    for a in answers:
        if a.point.load is not None and metric in a.point.measured:
            sweeps[(a.point.config, a.point.source, a.point.date)].append(a)
    taus = [
        kendall_tau([a.point.measured[metric] for a in rows], [a.values[metric].value for a in rows])
        for rows in sweeps.values()
        if len({a.point.load for a in rows}) >= 3
    ]
    found = np.array([t for t in taus if not math.isnan(t)])
    if not found.size:
        return Order(sweeps=0, median=math.nan, mean=math.nan)
    return Order(sweeps=len(found), median=float(np.median(found)), mean=float(found.mean()))


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau-b; NaN when one side is constant."""
    x, y = np.asarray(a), np.asarray(b)
    dx = np.sign(x[:, None] - x[None, :])
    dy = np.sign(y[:, None] - y[None, :])
    upper = np.triu_indices(len(x), 1)
    product = (dx * dy)[upper].sum()
    ties = np.sqrt((dx[upper] != 0).sum() * float((dy[upper] != 0).sum()))
    return float(product / ties) if ties > 0 else math.nan
