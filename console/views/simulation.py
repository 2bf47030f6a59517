"""Simulation runs as tables and time series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from console.views.axes import AxisView, axis_view
from console.views.metrics import change, figure
from planner.simulation.result import Distribution, RoleSeries, SimulationResult

MOST_POINTS: Final = 400


class SeriesMetric(StrEnum):
    """What is drawn over time, summed or averaged over the ranks of a role."""

    WAITING = "waiting requests"
    RUNNING = "running requests"
    KV = "KV share"
    BUSY = "busy share"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run. Changes are against the first run of the list; `note` says what limits its meaning."""

    name: str
    cells: tuple[str, ...]
    changes: tuple[str, ...]


RUN_COLUMNS: Final = ("tok/s/GPU", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "prefix hits", "goodput/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One role of one run over time (s); `group` numbers colours."""

    label: str
    group: int
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """Lines with their axes."""

    title: str
    x_axis: AxisView
    y_axis: AxisView
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTableRow:
    """One DP rank of a run."""

    role: str
    rank: str
    cells: tuple[str, ...]


RANK_COLUMNS: Final = ("requests", "output tok", "hits", "busy", "peak KV", "preempted")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """One run in full."""

    title: str
    lines: tuple[str, ...]
    ranks: tuple[RankTableRow, ...]


def run_rows(runs: Sequence[tuple[str, SimulationResult]]) -> tuple[RunRow, ...]:
    """One row per run, with differences to the first."""
    rows = []
    for name, r in runs:
        values = _values(r)
        base = _values(runs[0][1])
        changes = ("",) * len(values) if r is runs[0][1] else tuple(
            change(v, b) if v is not None and b is not None else "" for v, b in zip(values, base, strict=True)
        )  # fmt: skip
        cells = [figure(v) for v in values]
        cells[5] = f"{100.0 * r.prefix_hit_rate:.0f} %"
        if not r.ttft_ms.reliable_p99:
            cells[2] += "?"
        if not r.tpot_ms.reliable_p99:
            cells[4] += "?"
        rows.append(RunRow(name=name, cells=tuple(cells), changes=changes))
    return tuple(rows)


def _values(r: SimulationResult) -> tuple[float | None, ...]:
    return (
        r.output_tok_s_per_gpu,
        r.ttft_ms.p50.value,
        r.ttft_ms.p99.value,
        r.tpot_ms.p50.value,
        r.tpot_ms.p99.value,
        r.prefix_hit_rate,
        r.goodput_per_s,
    )


def time_series(runs: Sequence[tuple[str, SimulationResult]], metric: SeriesMetric) -> TimeSeries:
    """Occupancy of every role of `runs` over time; with several runs each line names its run."""
    lines: list[Line] = []
    for name, r in runs:
        for s in r.series:
            x, y = _thin(np.array(r.series_s), np.array(_column(s, metric)))
            label = s.role.value if len(runs) == 1 else f"{name} {s.role.value}"
            lines.append(Line(label=label, group=len(lines), x=x, y=y))
    xs = np.concatenate([np.array(n.x) for n in lines]) if lines else np.empty(0)
    ys = np.concatenate([np.array([*n.y, 0.0]) for n in lines]) if lines else np.empty(0)
    return TimeSeries(
        title=metric.value,
        x_axis=axis_view("simulated time, s", xs, log=False),
        y_axis=axis_view(metric.value, ys, log=False),
        lines=tuple(lines),
    )


def _column(series: RoleSeries, metric: SeriesMetric) -> tuple[float, ...]:
    return {
        SeriesMetric.WAITING: series.waiting,
        SeriesMetric.RUNNING: series.running,
        SeriesMetric.KV: series.kv_share,
        SeriesMetric.BUSY: series.busy_share,
    }[metric]


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    step = max(1, -(-x.size // MOST_POINTS))
    return tuple(x[::step].tolist()), tuple(y[::step].tolist())


def run_detail(name: str, r: SimulationResult) -> RunDetail:
    """Everything about one run."""
    lines = [
        f"{r.cluster}; {r.workload}; {r.engine}",
        f"{r.measured:,} of {r.requests:,} requests measured over {r.window_s:.0f} s, {r.warmup:,} warm-up, {r.failed} failed",
        _distribution("TTFT", r.ttft_ms),
        _distribution("TPOT", r.tpot_ms),
        _distribution("ITL", r.itl_ms),
        _distribution("E2E", r.e2e_ms),
        f"{r.events:,} events in {r.wall_s:.1f} s of computing",
    ]
    lines.extend(
        f"{role.name}: step {role.step_ms:.1f} ms, busy {100 * role.busy_share:.0f} %, waiting for stragglers "
        f"{100 * role.straggler_share:.0f} %, idle ranks {100 * role.dummy_share:.0f} %, hits "
        f"{100 * role.hit_rate:.0f} %, {role.preemptions} preemptions"
        for role in r.roles
    )
    ranks = tuple(
        RankTableRow(
            role=role.name,
            rank=f"{k.group}.{k.rank}",
            cells=(
                f"{k.requests:,}", f"{k.output_tokens:,}", f"{100 * k.hit_rate:.0f} %", f"{100 * k.busy_share:.0f} %",
                f"{100 * k.peak_kv_share:.0f} %", str(k.preemptions),
            ),
        )
        for role in r.roles for k in role.ranks
    )  # fmt: skip
    return RunDetail(title=name, lines=(*lines, *(f"note: {n}" for n in r.notes)), ranks=ranks)


def _distribution(name: str, d: Distribution) -> str:
    sure = "" if d.reliable_p99 else " (p99 from few values)"
    return (
        f"{name} ms: mean {figure(d.mean.value)}, p50 {figure(d.p50.value)} [{figure(d.p50.low)} – {figure(d.p50.high)}], "
        f"p90 {figure(d.p90.value)}, p99 {figure(d.p99.value)}{sure}"
    )
