"""`planner calibrate`: fit the model to your own measurements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.output import emit_json, print_table, stderr, stdout

if TYPE_CHECKING:
    from planner.domain.calibration import Band, Calibration
    from planner.measurements.fitting import FittedScope
    from planner.storage.measured import StoredMeasurement
    from planner.storage.store import Store


def calibrate(
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Result file, folder, campaign folder (imported on the way) or study; repeatable. "
            "Default: all that was imported.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Only measurements of this model.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Only measurements on this GPU.")] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", help="Only measurements of this engine version.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and report, store nothing.")] = False,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Fit a few physical factors to measurements, one calibration per model, GPU and engine version.

    Says which factors moved, what the fit improves by leave-one-out, and how wide the bands are. Later recommendations use
    it and say so, unless left-out measurements are predicted worse than without it: then only with --calibration.
    """
    from planner.measurements.fitting import fit_scopes
    from planner.measurements.names import CatalogueNames
    from planner.search.campaigns.sources import measurements_from
    from planner.storage.store import open_store

    names = CatalogueNames(profiles=profiles)
    wanted = (
        names.model(model) if model else None,
        names.known_gpu(gpu) if gpu else None,
        engine_version,
    )
    with open_store() as store:
        if sources:
            found = measurements_from(store, sources, profiles=profiles, keep=not dry_run)
            stored = tuple(s for s in found if _matches(s, *wanted))
        else:
            stored = store.measurements.list(model=wanted[0], gpu=wanted[1], engine_version=wanted[2])
        fitted = fit_scopes(stored, profiles=profiles, created_at=store.database.clock())
        if not dry_run:
            _save(store, fitted)
    if json:
        emit_json("calibration", {"stored": not dry_run, "scopes": [_document(f) for f in fitted]})
        return
    for f in fitted:
        _print(f)
    if dry_run:
        stderr().print("nothing was stored (--dry-run)")


def _matches(stored: StoredMeasurement, model: str | None, gpu: str | None, version: str | None) -> bool:
    m = stored.measurement
    return model in {None, m.model} and gpu in {None, m.gpu} and version in {None, m.engine_version}


def _save(store: Store, fitted: tuple[FittedScope, ...]) -> None:
    for f in fitted:
        if f.calibration is not None:
            store.calibrations.save(f.calibration)


def _document(f: FittedScope) -> dict[str, Any]:
    from planner.storage.codec import CONVERTER

    document: dict[str, Any] = CONVERTER.unstructure(f)
    used = f.calibration is not None and f.calibration.trusted
    why = f.calibration.distrust if f.calibration is not None else "nothing to fit"
    return document | {"used_by_default": used, "why_not_used": why or None}


def _print(f: FittedScope) -> None:
    from planner.measurements.calibration import provenance_text

    scope = f.scope
    title = f"{scope.model}, {scope.gpu}, {scope.engine} {scope.engine_version}"
    out = stdout()
    if f.calibration is None:
        out.print(f"{title}: nothing to fit", markup=False)
    else:
        out.print(f"[bold]{title}[/bold]: {provenance_text(f.calibration)}")
        _print_factors(f.calibration)
        _print_improvements(f.calibration)
        _print_region(f.calibration)
    reasons: dict[str, int] = {}
    for left in f.left_out:
        reasons[left.reason] = reasons.get(left.reason, 0) + 1
    for reason, count in reasons.items():
        stderr().print(f"left out: {count} ({reason})", markup=False)


def _print_factors(calibration: Calibration) -> None:
    print_table(
        ["factor", "multiplier", "68 % range", "moved"],
        [
            [
                x.name,
                f"{math.exp(x.log_value):.2f}",
                f"{math.exp(x.log_value - x.log_sd):.2f} to {math.exp(x.log_value + x.log_sd):.2f}",
                "yes" if x.moved else "",
            ]
            for x in calibration.factors
        ],
        right=(1, 2),
    )


def _print_improvements(calibration: Calibration) -> None:
    from planner.domain.calibration import BandKind

    print_table(
        ["metric", "n", "error before", "after (leave-one-out)", "80 % band", "90 % band", "process"],
        [
            [
                i.metric.value,
                str(i.n),
                f"{i.mape_before:.1%}",
                f"{i.mape_after_loo:.1%}",
                *(_band(calibration, i.metric.value, level) for level in (0.80, 0.90)),
                "yes" if any(p.metric is i.metric for p in calibration.processes) else "",
            ]
            for i in calibration.improvements
        ],
        right=(1, 2, 3, 4, 5),
    )
    shown = {i.metric for i in calibration.improvements}
    priors = [
        b for b in calibration.bands if b.kind is BandKind.PRIOR and b.level < 0.95 and b.metric in shown
    ]
    if priors:
        needs = " and ".join(
            f"{level:.0%} needs {n}" for level, n in sorted({(b.level, b.needed) for b in priors})
        )
        stdout().print(f"* prior band, not yet from your own measurements ({needs} of them)")
    if not calibration.trusted:
        stderr().print(
            f"warning: recommendations will not use this fit: {calibration.distrust}. The model misses something that "
            "these factors cannot express, or there are too few measurements. Force it with --calibration",
            markup=False,
        )


def _band(calibration: Calibration, metric: str, level: float) -> str:
    for b in calibration.bands:
        if b.metric.value == metric and abs(b.level - level) < 1e-9:
            return _band_text(b)
    return "-"


def _band_text(b: Band) -> str:
    from planner.domain.calibration import BandKind

    text = f"{math.exp(-b.log_half_width):.2f} to {math.exp(b.log_half_width):.2f}"
    return text if b.kind is BandKind.CONFORMAL else f"{text} *"


def _print_region(calibration: Calibration) -> None:
    region = calibration.region
    spans = []
    for name, low, high in zip(region.names, region.low, region.high, strict=True):
        if name == "disaggregated":
            spans.append({(0.0, 0.0): "aggregated", (1.0, 1.0): "P/D"}.get((low, high), "aggregated and P/D"))
        else:
            spans.append(f"{name} {math.exp(low):,.4g} to {math.exp(high):,.4g}")
    out = stdout()
    out.print(f"measured: {', '.join(spans)}", markup=False)
    out.print("outside that region bands are doubled and predictions say that they extrapolate")
