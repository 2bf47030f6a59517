"""The frontier page: what is plotted, the ranked table, and the sentence that says what is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from console.views.filters import parse_filter, passes
from console.views.frontier_model import ColourBy, FrontierOptions, FrontierView, Series, TableMode
from console.views.frontier_plot import axes_of, bands_of, cloud_of, series_of, slo_lines_of, staircase_of
from console.views.frontier_table import front_of, front_rows, groups_of, ranked_rows, with_groups
from console.views.metrics import Axis, figure
from console.views.points import PlanPoints
from planner.domain.workload import SloTargets


def frontier_view(points: PlanPoints, options: FrontierOptions) -> FrontierView:
    """Build the page; milliseconds for 10^5 points, to be run outside the interface's thread.

    The front is over the two axes shown, among points that pass the filter and the TTFT target, one front per strategy;
    the staircase is the front over all of them. Raises InputError ``filter.*``.
    """
    shown = passes(points, parse_filter(options.filter))
    within = shown if options.slo.ttft_ms is None else shown & (points.ttft_ms <= options.slo.ttft_ms)
    meets = shown & points.meets(options.slo)
    fronts = [front_of(points, options, np.flatnonzero(within & (points.strategy == s)))
              for s in range(len(points.strategies))]  # fmt: skip
    members = np.concatenate(fronts) if fronts else np.empty(0, dtype=np.intp)
    overall = front_of(points, options, members)
    best_rows = ranked_rows(points, options, meets, overall)
    rows = best_rows if options.mode is TableMode.RANKED else front_rows(points, options, members, overall)
    x_axis, y_axis = axes_of(points, options, members)
    names, code = groups_of(points, options.colour_by, members)
    cloud: tuple[Series, ...] = ()
    if options.dominated and options.colour_by is not ColourBy.PROVENANCE:
        cloud = cloud_of(points, options, np.flatnonzero(shown), x_axis, y_axis, names)
    view = FrontierView(
        title=points.name,
        question=points.question,
        summary="",
        options=options,
        x_axis=x_axis,
        y_axis=y_axis,
        fronts=series_of(points, options, members, code, names),
        cloud=cloud,
        staircase=staircase_of(points, options, overall),
        bands=bands_of(points, options, overall) if options.intervals else (),
        slo_lines=slo_lines_of(options),
        rows=with_groups(rows, points, options, names),
        best=next(iter(with_groups(best_rows[:1], points, options, names)), None),
        total=len(points),
        shown=int(shown.sum()),
        meeting=int(meets.sum()),
        groups=names,
    )
    return replace(view, summary=_summary(view, len(overall)))


def targets_text(slo: SloTargets) -> str:
    """The targets in one phrase."""
    parts = []
    if slo.ttft_ms is not None:
        parts.append(f"TTFT ≤ {slo.ttft_ms:g} ms")
    if slo.tpot_ms is not None:
        parts.append(f"TPOT ≤ {slo.tpot_ms:g} ms")
    if slo.tok_s_user is not None:
        parts.append(f"≥ {slo.tok_s_user:g} tok/s/user")
    return ", ".join(parts) or "no targets"


def _summary(view: FrontierView, on_front: int) -> str:
    targets = targets_text(view.options.slo)
    if view.total == 0:
        return "No plan is reachable: every configuration was left out. Press w to ask why, or change the problem."
    if view.shown == 0:
        return f"No plan passes the filter '{view.options.filter}'."
    counted = f"{view.meeting:,} of {view.shown:,} points meet {targets}"
    if view.best is None:
        return f"No plan meets {targets}; press s to edit the targets. {on_front} plans on the frontier."
    best = view.best
    return (
        f"Best {figure(best.value(Axis.RATE))} tok/s/GPU at {figure(best.value(Axis.TOK_S_USER))} tok/s/user: "
        f"{best.plan}. {counted}; {on_front} on the frontier."
    )


def targets_effect(points: PlanPoints, slo: SloTargets) -> str:
    """What `slo` would leave, in words: how many points pass, and the best of them or what is nearest."""
    ok = points.meets(slo)
    count = int(ok.sum())
    head = f"{count:,} of {len(points):,} points meet {targets_text(slo)}"
    if count:
        i = int(np.argmax(np.where(ok, points.rate, -1.0)))
        return f"{head}\nbest: {points.label(i)}\n{figure(float(points.rate[i]))} tok/s/GPU, TTFT {figure(float(points.ttft_ms[i]))} ms, TPOT {figure(float(points.tpot_ms[i]))} ms"
    if not len(points):
        return head
    over = np.ones(len(points))
    if slo.ttft_ms is not None:
        over = np.maximum(over, points.ttft_ms / slo.ttft_ms)
    limit = slo.tpot_limit_ms
    if limit is not None:
        over = np.maximum(over, points.tpot_ms / limit)
    i = int(np.argmin(over))
    return (
        f"{head}\nnearest: {points.label(i)}\nTTFT {figure(float(points.ttft_ms[i]))} ms, "
        f"TPOT {figure(float(points.tpot_ms[i]))} ms"
    )
