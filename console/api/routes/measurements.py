"""Measured results: import, list, calibration, and how far predictions are off."""

from __future__ import annotations

import hashlib
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from console.api.audit import note
from console.api.documents import tagged
from console.api.queries import State, Text
from console.api.state import ConsoleState
from console.api.wire import Issue, Wire, finite
from planner.domain.calibration import Calibration, Factor
from planner.domain.errors import Issue as DomainIssue
from planner.domain.errors import MissingDataError
from planner.storage.codec import CONVERTER
from planner.storage.measured import StoredMeasurement

router = APIRouter(prefix="/api/v1", tags=["measurements"])
SUFFIXES = (".json", ".jsonl", ".csv", ".yaml", ".yml")
KEPT_FILES = 50


class MeasurementOut(Wire):
    """One measured operating point."""

    hash: str
    model: str
    label: str
    gpu: str
    gpus: int
    engine: str
    isl: int
    osl: int
    concurrency: float | None
    output_tok_s_per_gpu: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    format: str
    file: str
    flags: tuple[str, ...]


class MeasurementsOut(Wire):
    """One page of measurements, in the order of their import."""

    measurements: tuple[MeasurementOut, ...]
    total: int
    models: tuple[str, ...]


class ImportedOut(Wire):
    """What an upload gave."""

    new: int
    duplicates: int
    skipped: tuple[Issue, ...]


class FactorOut(Wire):
    """A physical factor of a calibration; 1 means that the model was right."""

    name: str
    multiplier: float
    low: float
    high: float
    moved: bool


class ImprovementOut(Wire):
    """Mean absolute errors before and after, each point left out in turn. Shares."""

    metric: str
    n: int
    before: float
    after: float


class ScopeOut(Wire):
    """The calibration of one model on one GPU and engine version."""

    scope: str
    measurements: int
    factors: tuple[FactorOut, ...]
    improvements: tuple[ImprovementOut, ...]
    left_out: tuple[str, ...]


class CalibrationOut(Wire):
    """What fitting to the stored measurements would give."""

    scopes: tuple[ScopeOut, ...]


class ScoreOut(Wire):
    """Errors of one metric in one group, in percent; `covered` is the share inside the 80 % interval."""

    n: int
    median_pct: float
    mean_pct: float
    p90_pct: float
    bias_pct: float
    covered: float
    half_width_pct: float


class GroupOut(Wire):
    """Scores of one group of rows."""

    kind: str
    label: str
    rows: int
    metrics: dict[str, ScoreOut]


class AccuracyOut(Wire):
    """Predictions beside measurements."""

    file: str
    rows: int
    answered: int
    scored: int
    refused: dict[str, int]
    groups: tuple[GroupOut, ...]
    figure: dict[str, Any]


class FileOut(Wire):
    """A file of points that was brought along."""

    file: str


@router.get("/measurements")
async def measurements(
    state: State,
    model: Text = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> MeasurementsOut:
    """Stored measurements."""
    return await state.answers.run(_list, state, model, limit, offset)


def _list(state: ConsoleState, model: str, limit: int, offset: int) -> MeasurementsOut:
    every = state.store.measurements.list()
    found = [s for s in every if not model or s.measurement.model == model]
    return MeasurementsOut(
        measurements=tuple(_one(s) for s in found[offset : offset + limit]),
        total=len(found),
        models=tuple(sorted({s.measurement.model for s in every})),
    )


def _one(stored: StoredMeasurement) -> MeasurementOut:
    m = stored.measurement
    rate, ttft, tpot = m.result.output_tok_s_per_gpu, m.result.ttft.typical_ms, m.result.tpot.typical_ms
    return MeasurementOut(
        hash=stored.hash, model=m.model, label=m.label(), gpu=m.gpu, gpus=m.gpus,
        engine=f"{m.engine.value} {m.engine_version}", isl=m.workload.isl, osl=m.workload.osl,
        concurrency=m.load.concurrency, output_tok_s_per_gpu=None if rate is None else finite(rate),
        ttft_ms=None if ttft is None else finite(ttft), tpot_ms=None if tpot is None else finite(tpot),
        format=m.origin.format.value, file=Path(m.origin.file).name, flags=tuple(f.value for f in m.flags),
    )  # fmt: skip


@router.post("/uploads/measurements", status_code=201)
async def upload(
    state: State,
    request: Request,
    name: Annotated[str, Query(max_length=200)],
    model: Text = "",
    gpu: Text = "",
    engine_version: Text = "",
    skip_incomplete: bool = False,
) -> ImportedOut:
    """Import one benchmark file. `model`, `gpu` and `engine_version` state what the file does not say.

    With `skip_incomplete`, runs that lack something are left out instead of refusing the file.
    """
    body = await request.body()
    made = await state.answers.run(
        partial(_import, state, body, name, model, gpu, engine_version, skip_incomplete=skip_incomplete)
    )
    await state.answers.run(
        partial(note, state, request, "measurements.import", Path(name).name, new=made.new)
    )
    return made


def _import(
    state: ConsoleState,
    body: bytes,
    name: str,
    model: str,
    gpu: str,
    engine_version: str,
    *,
    skip_incomplete: bool,
) -> ImportedOut:
    from planner.measurements.draft import Supplied
    from planner.measurements.importing import import_files
    from planner.measurements.names import CatalogueNames

    with tempfile.TemporaryDirectory(prefix="wideplan-") as folder:
        path = Path(folder) / _safe(name)
        path.write_bytes(body)
        report = import_files(
            state.store,
            [path],
            supplied=Supplied(model=model or None, gpu=gpu or None, engine_version=engine_version or None),
            names=CatalogueNames(profiles=state.settings.profiles),
            skip_incomplete=skip_incomplete,
        )
    return ImportedOut(
        new=report.new,
        duplicates=report.duplicates,
        skipped=tuple(_hidden(state, i) for i in report.skipped),
    )


def _hidden(state: ConsoleState, issue: DomainIssue) -> Issue:
    """The issue without the folder that the file was read from."""
    where = None if issue.where is None else state.redactor.text(issue.where)
    return Issue(
        code=issue.code, what=state.redactor.text(issue.what), why=issue.why, fix=issue.fix, where=where
    )


def _safe(name: str) -> str:
    """A file name without folders; the suffix stays, for it tells formats apart."""
    plain = "".join(c if c.isalnum() or c in "-._" else "-" for c in Path(name).name).lstrip(".")[-80:]
    return plain if plain.lower().endswith(SUFFIXES) else f"{plain or 'upload'}.json"


@router.get("/calibration", response_model=CalibrationOut)
async def calibration(state: State, request: Request) -> Response:
    """Fit the physical factors to the stored measurements; nothing is stored."""
    stamp = await state.answers.run(_stamp, state)
    made = await state.answers.slow_text(("calibration", stamp), partial(_calibration, state))
    return tagged(request, made)


def _stamp(state: ConsoleState) -> str:
    found = state.store.measurements.list()
    if not found:
        raise MissingDataError(
            DomainIssue(
                code="calibration.no_measurements",
                what="no measurement is stored",
                why="there is nothing to fit to",
                fix="upload a benchmark result, or planner measurements import FILE",
            )
        )
    return hashlib.sha256("".join(s.hash for s in found).encode()).hexdigest()


async def _calibration(state: ConsoleState) -> bytes:
    document = await state.children.command("calibrate", "--dry-run")
    scopes = []
    for s in document["scopes"]:
        c = None if s["calibration"] is None else CONVERTER.structure(s["calibration"], Calibration)
        where = s["scope"]
        reasons: dict[str, int] = {}
        for left in s["left_out"]:
            reasons[left["reason"]] = reasons.get(left["reason"], 0) + 1
        scopes.append(
            ScopeOut(
                scope=f"{where['model']}, {where['gpu']}, {where['engine']} {where['engine_version']}",
                measurements=0 if c is None else c.n,
                factors=() if c is None else tuple(_factor(f) for f in c.factors),
                improvements=()
                if c is None
                else tuple(
                    ImprovementOut(metric=i.metric.value, n=i.n, before=i.mape_before, after=i.mape_after_loo)
                    for i in c.improvements
                ),
                left_out=tuple(f"{n}: {reason}" for reason, n in reasons.items()),
            )
        )
    return CalibrationOut(scopes=tuple(scopes)).model_dump_json().encode()


def _factor(f: Factor) -> FactorOut:
    return FactorOut(
        name=f.name,
        multiplier=math.exp(f.log_value),
        low=math.exp(f.log_value - f.log_sd),
        high=math.exp(f.log_value + f.log_sd),
        moved=f.moved,
    )


@router.post("/uploads/points", status_code=201)
async def upload_points(state: State, request: Request) -> FileOut:
    """Bring a CSV of measured points to be predicted and scored."""
    body = await request.body()
    file = await state.answers.run(_keep_points, state, body)
    await state.answers.run(note, state, request, "upload.points", file)
    return FileOut(file=file)


def _keep_points(state: ConsoleState, body: bytes) -> str:
    from planner.measurements.points import read_points

    folder = state.settings.uploads / "points"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(body).hexdigest()[:16]}.csv"
    if path.exists():
        return path.stem
    oldest = sorted(folder.glob("*.csv"), key=lambda p: p.stat().st_mtime)
    for old in oldest[: max(0, len(oldest) - KEPT_FILES + 1)]:
        old.unlink(missing_ok=True)
    path.write_bytes(body)
    try:
        read_points(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path.stem


@router.get("/accuracy", response_model=AccuracyOut)
async def accuracy(
    state: State, request: Request, file: Annotated[str, Query(pattern=r"^([0-9a-f]{16})?$")] = ""
) -> Response:
    """Score predictions against a file that was brought along, or against the stored measurements."""
    if file:
        path = state.settings.uploads / "points" / f"{file}.csv"
        if not path.is_file():
            raise MissingDataError(
                DomainIssue(
                    code="accuracy.file",
                    what=f"no file {file}",
                    why="it was not uploaded here, or was replaced by newer ones",
                    fix="upload it again",
                )
            )
        stamp, argument = file, str(path)
    else:
        stamp, argument = await state.answers.run(_stamp, state), "--stored"
    made = await state.answers.slow_text(("accuracy", stamp), partial(_accuracy, state, argument))
    return tagged(request, made)


async def _accuracy(state: ConsoleState, argument: str) -> bytes:
    document = await state.children.document("console.api.accuracy_process", argument)
    return await state.answers.run(_scored, document)


def _scored(document: dict[str, Any]) -> bytes:
    from console.figures.accuracy import Pair, parity_figure

    pairs = [
        Pair(metric=p["metric"], engine=p["engine"], label=p["label"], measured=p["measured"], predicted=p["predicted"])
        for p in document["pairs"]
    ]  # fmt: skip
    out = AccuracyOut(
        file=document["file"],
        rows=document["rows"],
        answered=document["answered"],
        scored=document["scored"],
        refused=document["refused"],
        groups=tuple(
            GroupOut(
                kind=g["kind"], label=g["label"], rows=g["rows"],
                metrics={k: ScoreOut(**v) for k, v in g["metrics"].items()},
            )
            for g in document["groups"]
        ),
        figure=parity_figure(pairs),
    )  # fmt: skip
    return out.model_dump_json().encode()
