"""The work behind `planner cluster residuals`."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planner.cli.output import emit_json, print_table, stderr, stdout
from planner.domain.errors import ExitCode

if TYPE_CHECKING:
    from console.cluster.open import Opening
    from console.cluster.residuals import Measured
    from console.cluster.source import ClusterSource
    from console.cluster.state import Snapshot
    from console.views.cluster_residuals import ResidualRow
    from planner.domain.deployment import DeploymentPlan

READY_S = 30.0


async def show_residuals(
    opening: Opening,
    plan_file: Path,
    *,
    name: str | None,
    window_s: float,
    profiles: Path | None,
    keep: bool,
    json: bool,
) -> None:
    """Measure for a window, price the plan at that load, print both."""
    from console.cluster.open import open_source
    from console.cluster.residuals import measured
    from console.views.cluster_residuals import residual_rows, workload_of
    from planner.catalog.plans import load_plan
    from planner.catalog.wire import unstructure
    from planner.export.naming import slug
    from planner.search.price import price_plan

    plan = load_plan(plan_file)
    async with open_source(opening) as source:
        await source.ready(READY_S)
        snapshot = await _after_window(source, window_s)
    seen = measured(snapshot, plan, name=name or slug(plan.name))
    load = max(1, round(seen.in_flight)) if seen.in_flight else None
    at_traffic = replace(plan, workload=workload_of(plan, seen))
    priced = price_plan(at_traffic, concurrency=load, profiles=profiles, usd=None)
    rows = residual_rows(plan, priced.evaluation, seen)
    if json:
        emit_json(
            "cluster-residuals",
            {
                "plan": plan.name,
                "concurrency": priced.plan.concurrency,
                "rows": [unstructure(r) | {"residual": r.residual, "inside": r.inside} for r in rows],
                "measured": unstructure(seen),
                "extrapolates": list(priced.evaluation.extrapolates),
            },
        )
    else:
        _print(rows, seen, concurrency=priced.plan.concurrency)
    if keep:
        _keep(plan, seen, snapshot)


async def _after_window(source: ClusterSource, window_s: float) -> Snapshot:
    """Follow until every fresh rank has a window, or the time is over."""
    deadline = time.monotonic() + window_s * 1.25 + 5.0
    snapshot = source.snapshot()
    while source.api is not None and time.monotonic() < deadline:
        if snapshot.readings and all(r.window_s >= window_s * 0.8 for r in snapshot.readings.values()):
            break
        await source.changed(1.0)
        snapshot = source.snapshot()
    return snapshot


def _print(rows: tuple[ResidualRow, ...], seen: Measured, *, concurrency: int) -> None:
    def text(value: float | None) -> str:
        return "–" if value is None else f"{value:,.3g}" if abs(value) < 10 else f"{value:,.1f}"

    print_table(
        ["metric", "unit", "predicted or planned", "80 % interval", "measured", "residual", "inside"],
        [
            [
                r.metric,
                r.unit,
                text(r.predicted),
                f"{text(r.low)} to {text(r.high)}" if r.low is not None else "–",
                text(r.measured),
                "–" if r.residual is None else f"{r.residual:+.1%}",
                {True: "yes", False: "no", None: "–"}[r.inside],
            ]
            for r in rows
        ],
        title=f"priced for {concurrency} requests in flight, window {seen.window_s:.0f} s, {seen.ranks_fresh} of {seen.ranks} ranks",
        right=(2, 4, 5),
    )
    if seen.ttft_bucket_ms is not None:
        low, high = seen.ttft_bucket_ms
        stderr().print(
            f"TTFT lies between {low:.0f} and {high:.0f} ms: the engines' buckets say no more", markup=False
        )
    for why in seen.unsteady:
        stderr().print(f"not a steady window: {why}", markup=False)


def _keep(plan: DeploymentPlan, seen: Measured, snapshot: Snapshot) -> None:
    """Store the window, or say why not and end with status 1."""
    from console.views.cluster_residuals import measurement_csv
    from planner.domain.measurement import BenchmarkFormat
    from planner.measurements.complete import AsWritten
    from planner.measurements.documents import parse
    from planner.measurements.draft import Supplied
    from planner.measurements.importing import read_document
    from planner.storage.measured import RawFile
    from planner.storage.store import open_store

    if seen.unsteady:
        sys.stderr.write("nothing was kept: a measurement needs a steady window\n")
        raise typer.Exit(int(ExitCode.ANSWERED_NO))
    at = datetime.fromtimestamp(snapshot.now, tz=UTC)
    identity = snapshot.identity
    text = measurement_csv(
        plan, seen, at=at, source=f"{identity.source}: {identity.context}/{identity.namespace}"
    )
    content = text.encode()
    file = f"{plan.name}-{at:%Y%m%dT%H%M%SZ}.csv"
    read = read_document(parse(content, name=file), supplied=Supplied(), names=AsWritten())
    with open_store() as store:
        raw = RawFile(name=file, format=BenchmarkFormat.WIDEPLAN_CSV, content=content)
        added = store.measurements.add(raw, read.measurements)
    stdout().print(f"kept {sum(added)} measurement; planner calibrate fits the model to it", markup=False)
