"""What ``planner calibrate --from`` names: result files, a campaign's folder, or a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.domain.measurement import Measurement
from planner.measurements.draft import Supplied
from planner.measurements.importing import import_files, read_files
from planner.measurements.names import CatalogueNames
from planner.search.campaigns.document import FILE, load_campaign
from planner.search.campaigns.load import require_results, results_of, supplied_of
from planner.storage.measured import StoredMeasurement, measurement_hash
from planner.storage.store import Store


def measurements_from(
    store: Store, sources: Sequence[str], *, profiles: Path | None = None, keep: bool
) -> tuple[StoredMeasurement, ...]:
    """Measurements of every source, each once, in order; with `keep` those of files are imported on the way.

    A file or folder is read as ``planner measurements import`` does; a campaign's folder with what the campaign knows of each
    run. A study stands for the stored measurements of its model, GPU, engine and version: its simulated trials are
    predictions and are never fitted to.

    Raises InputError ``calibration.source_unknown``, MissingDataError ``calibration.study_not_measured``, and what reading
    files raises.
    """
    names = CatalogueNames(profiles=profiles)
    found: dict[str, Measurement] = {}
    for source in sources:
        path = Path(source)
        if path.exists():
            found |= _from_path(store, path, names, keep=keep)
        else:
            found |= _from_study(store, source)
    return tuple(StoredMeasurement(hash=h, measurement=m) for h, m in found.items())


def _from_path(store: Store, path: Path, names: CatalogueNames, *, keep: bool) -> dict[str, Measurement]:
    if not (path.is_dir() and (path / FILE).is_file()):
        return _read(store, [path], Supplied(), names, keep=keep)
    campaign = load_campaign(path)
    results = {run.id: results_of(path, run) for run in campaign.runs}
    require_results([f for files in results.values() for f in files], path)
    found: dict[str, Measurement] = {}
    for run in campaign.runs:
        if results[run.id]:
            found |= _read(store, results[run.id], supplied_of(run), names, keep=keep)
    return found


def _read(
    store: Store, paths: Sequence[Path], supplied: Supplied, names: CatalogueNames, *, keep: bool
) -> dict[str, Measurement]:
    if keep:
        report = import_files(store, paths, supplied=supplied, names=names)
        return {i.hash: i.measurement for i in report.imported}
    read, _ = read_files(paths, supplied=supplied, names=names)
    return {measurement_hash(m): m for f in read for m in f.measurements}


def _from_study(store: Store, name: str) -> dict[str, Measurement]:
    known = [s.study.name for s in store.studies.list()]
    if name not in known:
        raise InputError(
            Issue(
                code="calibration.source_unknown",
                what=f"--from {name}",
                why="there is neither a file, nor a folder, nor a study of that name",
                fix=did_you_mean(name, known)
                if known
                else "name a result file, a folder or a campaign's folder",
                where="--from",
            )
        )
    problem = store.problems.get(store.studies.get(name).problem_hash)
    gpu = problem.decode_pool.gpu.id
    stored = store.measurements.list(model=problem.model.id, gpu=gpu, engine_version=problem.engine_version)
    if not stored:
        raise MissingDataError(
            Issue(
                code="calibration.study_not_measured",
                what=f"study '{name}' has no measurements",
                why=f"its trials are simulated; none of {problem.model.id} on {gpu} with {problem.engine} "
                f"{problem.engine_version} was measured and imported",
                fix="planner campaign design RECIPE --out FOLDER, run it, then planner calibrate --from FOLDER",
                where="--from",
            )
        )
    return {s.hash: s.measurement for s in stored}
