"""The rank heat map: one row per pod, one cell per DP rank, so that imbalance between ranks is seen at once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.views.cluster import ClusterOverview, RankRow
from console.views.metrics import count

LEVELS: Final = 6


class HeatMetric(StrEnum):
    """What a cell shows."""

    QUEUE = "waiting requests"
    RUNNING = "running requests"
    KV = "KV usage"
    HITS = "prefix hits"
    OUTPUT = "output tok/s"
    PROMPT = "prompt tok/s"


_VALUE: Final[dict[HeatMetric, Callable[[RankRow], float | None]]] = {
    HeatMetric.QUEUE: lambda r: r.waiting,
    HeatMetric.RUNNING: lambda r: r.running,
    HeatMetric.KV: lambda r: r.kv_usage,
    HeatMetric.HITS: lambda r: r.prefix_hit,
    HeatMetric.OUTPUT: lambda r: r.output_tok_s,
    HeatMetric.PROMPT: lambda r: r.prompt_tok_s,
}
_SHARES: Final = (HeatMetric.KV, HeatMetric.HITS)
_FLOOR: Final = {HeatMetric.QUEUE: 4.0, HeatMetric.RUNNING: 4.0}  # a mean is never taken to be less than this
_LEVELS_PER_MEAN: Final = 2.5  # the mean is level 2, twice the mean is the hottest


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One rank. `level` 0 (calm) to 5 (hot); None when nothing fresh is known, then `text` is a dot."""

    text: str
    level: int | None
    hot: bool
    rank: RankRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One pod. `peak` is highest over mean of its ranks, None without values; `spread` their standard deviation."""

    pod: str
    label: str
    role: str
    group: str
    cells: tuple[HeatCell, ...]
    peak: float | None
    spread: float | None

    @property
    def faulty(self) -> bool:
        """Whether a rank is silent or queues far above its peers."""
        return any(c.hot or c.level is None for c in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """All rows, prefill first; `width` is the largest number of ranks in a row. `scale` says what hot means."""

    metric: HeatMetric
    rows: tuple[HeatRow, ...]
    width: int
    scale: str
    summary: str


def heat_map(
    overview: ClusterOverview, metric: HeatMetric, *, faults_only: bool = False, filter_text: str = ""
) -> HeatMap:
    """Build the map. Levels are relative to the mean of the role, so that balance is calm, or absolute for shares."""
    by_pod: dict[tuple[str, str, str], list[RankRow]] = {}
    for rank in overview.ranks:
        by_pod.setdefault((_order(rank.role), rank.group, rank.pod), []).append(rank)
    means = _means(overview.ranks, metric)
    rows = [_row(pod, ranks, metric, means) for (_, _, pod), ranks in sorted(by_pod.items())]
    words = filter_text.lower().split()
    shown = tuple(
        r for r in rows
        if (not faults_only or r.faulty) and all(w in f"{r.label} {r.role} {r.pod} {r.group}".lower() for w in words)
    )  # fmt: skip
    silent = sum(c.level is None for r in rows for c in r.cells)
    hot = sum(c.hot for r in rows for c in r.cells)
    return HeatMap(
        metric=metric,
        rows=shown,
        width=max((len(r.cells) for r in shown), default=0),
        scale="share of 100 %" if metric in _SHARES else "against the mean of the role",
        summary=f"{len(overview.ranks)} ranks, {hot} hot, {silent} silent",
    )


def _order(role: str) -> str:
    return {"prefill": "0", "decode": "1"}.get(role, f"2{role}")


def _means(ranks: Sequence[RankRow], metric: HeatMetric) -> dict[str, float]:
    """Mean per role."""
    values: dict[str, list[float]] = {}
    for r in ranks:
        value = _VALUE[metric](r)
        if value is not None:
            values.setdefault(r.role, []).append(value)
    return {role: statistics.fmean(found) for role, found in values.items()}


def _row(pod: str, ranks: list[RankRow], metric: HeatMetric, means: dict[str, float]) -> HeatRow:
    first = ranks[0]
    values = [v for r in ranks if (v := _VALUE[metric](r)) is not None]
    mean = statistics.fmean(values) if values else 0.0
    return HeatRow(
        pod=pod,
        label=first.label.rsplit(":", 1)[0],
        role=first.role,
        group=first.group,
        cells=tuple(_cell(r, metric, means.get(r.role, 0.0)) for r in ranks),
        peak=max(values) / mean if mean > 0.0 else None,
        spread=statistics.pstdev(values) if values else None,
    )


def _cell(rank: RankRow, metric: HeatMetric, typical: float) -> HeatCell:
    value = _VALUE[metric](rank)
    if value is None:
        return HeatCell(
            text="·" if rank.silent else "–", level=None if rank.silent else 0, hot=rank.hot, rank=rank
        )
    if metric in _SHARES:
        return HeatCell(text=f"{100.0 * value:.0f}%", level=_level(value), hot=rank.hot, rank=rank)
    times = value / max(typical, _FLOOR.get(metric, 1.0))
    level = min(int(times * _LEVELS_PER_MEAN), LEVELS - 1)
    return HeatCell(text=count(value), level=level, hot=rank.hot, rank=rank)


def _level(share: float) -> int:
    return min(max(int(share * LEVELS), 0), LEVELS - 1)


def rank_lines(rank: RankRow) -> tuple[str, ...]:
    """Everything about one rank, as lines; what is not known is a dash, never zero."""

    def number(value: float | None, unit: str = "") -> str:
        return "–" if value is None else f"{count(value)}{unit}"

    def share(value: float | None) -> str:
        return "–" if value is None else f"{100.0 * value:.0f} %"

    lines = [f"{rank.label}  {rank.pod}:{rank.port}  engine {rank.engine or '–'}  group {rank.group}"]
    if rank.silent:
        return (*lines, f"silent: {rank.silent}")
    ttft = "–"
    if rank.ttft is not None:
        ttft = f"{'' if rank.ttft.high is not None else '>'}{rank.ttft.value:.2f} s"
    itl = "–" if rank.itl_mean_s is None else f"{1000.0 * rank.itl_mean_s:.1f} ms"
    age = "–" if rank.age_s is None else f"{rank.age_s:.0f} s ago"
    queue = f"running {number(rank.running)}  waiting {number(rank.waiting)}"
    cache = f"KV {share(rank.kv_usage)}  prefix hits {share(rank.prefix_hit)}"
    rates = f"output {number(rank.output_tok_s, ' tok/s')}  prompt {number(rank.prompt_tok_s, ' tok/s')}"
    times = f"TTFT p99 {ttft}  ITL mean {itl}"
    faults = f"preemptions/min {number(rank.preemptions_per_min)}  failed/min {number(rank.failed_per_min)}"
    return (*lines, f"{queue}  {cache}", f"{rates}  {times}", f"{faults}  scraped {age}")
