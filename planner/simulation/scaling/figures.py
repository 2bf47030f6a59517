"""What a run with changing groups cost and how well it served: GPU-hours, targets over time, groups over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain.workload import SloTargets
from planner.simulation.scaling.fleet import Phase, Span
from planner.simulation.scaling.load import LoadCurve
from planner.simulation.scaling.play import ScaledRun

WINDOWS = 48  # of the curve, for the series


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFigures:
    """Requests that arrived in one window of the curve. NaN where nobody arrived."""

    from_s: float
    requests: int
    rps: float
    attainment: float  # share within every target
    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLife:
    """GPU-hours of one role within the curve, by phase, and its groups over time (mean per window)."""

    role: str
    gpus_per_group: int
    gpu_hours: float
    starting_gpu_hours: float
    draining_gpu_hours: float
    longest_drain_s: float
    most: int
    least: int
    groups: tuple[float, ...]  # serving, mean per window
    held: tuple[float, ...]  # serving, starting and draining, mean per window


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledFigures:
    """One variant. Shares are of all requests; times in milliseconds."""

    name: str
    requests: int
    failed: int
    refused: int
    gpu_hours: float
    attainment: float
    ttft_attainment: float
    tpot_attainment: float
    worst_window: float
    windows_met: float  # share of windows whose medians meet the targets, as a plan promises
    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_p50_ms: float
    late: int  # requests that left after the curve's end
    started: int
    removed: int
    roles: tuple[RoleLife, ...]
    windows: tuple[WindowFigures, ...]


def gpu_hours(
    spans: Sequence[Span], *, until_s: float, phase: Phase | None = None, role: str | None = None
) -> float:
    """GPU-hours held within ``[0, until_s]``: the exact integral of the spans."""
    seconds = sum(
        s.gpus * max(min(s.to_s, until_s) - s.from_s, 0.0)
        for s in spans
        if (phase is None or s.phase is phase) and (role is None or s.role == role)
    )
    return seconds / 3600.0


def mean_groups(spans: Sequence[Span], edges: np.ndarray, phases: Sequence[Phase]) -> tuple[float, ...]:
    """Mean number of groups in `phases` between consecutive `edges` (seconds)."""
    total = np.zeros(len(edges) - 1)
    for s in spans:
        if s.phase in phases:
            inside = np.minimum(s.to_s, edges[1:]) - np.maximum(s.from_s, edges[:-1])
            total += s.groups * np.maximum(inside, 0.0)
    return tuple((total / np.diff(edges)).tolist())


def within_targets(req: np.ndarray, slo: SloTargets) -> tuple[np.ndarray, np.ndarray]:
    """Per request: TTFT within its target, TPOT within its target. A failed request misses both; no target, no miss."""
    failed = np.asarray(req["failed"]) > 0
    ttft = (req["first"] - req["arrival"]) * 1e3
    tpot = (req["finish"] - req["first"]) * 1e3 / np.maximum(req["osl"] - 1, 1)
    limit = slo.tpot_limit_ms
    good_ttft = ~failed if slo.ttft_ms is None else ~failed & (ttft <= slo.ttft_ms)
    good_tpot = ~failed if limit is None else ~failed & (tpot <= limit)
    return good_ttft, good_tpot


def figures(
    name: str,
    run: ScaledRun,
    curve: LoadCurve,
    *,
    slo: SloTargets,
    started: int = 0,
    removed: int = 0,
) -> ScaledFigures:
    """Figures of `run` under `curve`; `started` and `removed` groups were counted by the actuators."""
    req = np.asarray(run.state.req)
    end = curve.end_s
    edges = np.linspace(0.0, end, WINDOWS + 1)
    ttft = (req["first"] - req["arrival"]) * 1e3
    tpot = (req["finish"] - req["first"]) * 1e3 / np.maximum(req["osl"] - 1, 1)
    good_ttft, good_tpot = within_targets(req, slo)
    good = good_ttft & good_tpot
    ok = req["failed"] == 0
    window = np.clip(np.searchsorted(edges, req["arrival"], side="right") - 1, 0, WINDOWS - 1)
    windows = []
    for i in range(WINDOWS):
        inside = window == i
        served = inside & ok
        nothing = not served.any()
        windows.append(
            WindowFigures(
                from_s=float(edges[i]),
                requests=int(inside.sum()),
                rps=float(inside.sum() / (edges[i + 1] - edges[i])),
                attainment=float(good[inside].mean()) if inside.any() else float("nan"),
                ttft_p50_ms=float("nan") if nothing else float(np.median(ttft[served])),
                ttft_p99_ms=float("nan") if nothing else float(np.percentile(ttft[served], 99.0)),
                tpot_p50_ms=float("nan") if nothing else float(np.median(tpot[served])),
            )
        )
    busy = [w for w in windows if w.requests]
    return ScaledFigures(
        name=name,
        requests=len(req),
        failed=int((~ok).sum()),
        refused=run.refused,
        gpu_hours=gpu_hours(run.spans, until_s=end),
        attainment=float(good.mean()),
        ttft_attainment=float(good_ttft.mean()),
        tpot_attainment=float(good_tpot.mean()),
        worst_window=min(w.attainment for w in busy),
        windows_met=sum(_medians_meet(w, slo) for w in busy) / len(busy),
        ttft_p50_ms=float(np.median(ttft[ok])),
        ttft_p99_ms=float(np.percentile(ttft[ok], 99.0)),
        tpot_p50_ms=float(np.median(tpot[ok])),
        late=int((req["finish"] > end).sum()),
        started=started,
        removed=removed,
        roles=tuple(_life(run.spans, role, edges) for role in dict.fromkeys(s.role for s in run.spans)),
        windows=tuple(windows),
    )


def _medians_meet(w: WindowFigures, slo: SloTargets) -> bool:
    limit = slo.tpot_limit_ms
    return (slo.ttft_ms is None or w.ttft_p50_ms <= slo.ttft_ms) and (limit is None or w.tpot_p50_ms <= limit)


def _life(spans: Sequence[Span], role: str, edges: np.ndarray) -> RoleLife:
    own = [s for s in spans if s.role == role]
    end = float(edges[-1])
    counts = _counts(own, end)
    return RoleLife(
        role=role,
        gpus_per_group=own[0].gpus // own[0].groups,
        gpu_hours=gpu_hours(own, until_s=end),
        starting_gpu_hours=gpu_hours(own, until_s=end, phase=Phase.STARTING),
        draining_gpu_hours=gpu_hours(own, until_s=end, phase=Phase.DRAINING),
        longest_drain_s=max((s.to_s - s.from_s for s in own if s.phase is Phase.DRAINING), default=0.0),
        most=max(counts),
        least=min(counts),
        groups=mean_groups(own, edges, (Phase.SERVING,)),
        held=mean_groups(own, edges, tuple(Phase)),
    )


def _counts(spans: Sequence[Span], end_s: float) -> list[int]:
    """Numbers of serving groups that occurred within the curve."""
    changes: dict[float, int] = {}
    for s in spans:
        if s.phase is Phase.SERVING and s.from_s < end_s:
            changes[s.from_s] = changes.get(s.from_s, 0) + s.groups
            if s.to_s < end_s:
                changes[s.to_s] = changes.get(s.to_s, 0) - s.groups
    total = 0
    out = []
    for t in sorted(changes):
        total += changes[t]
        out.append(total)
    return out
