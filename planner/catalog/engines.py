"""Load engine profiles by name and version."""

from __future__ import annotations

from pathlib import Path

from planner.catalog.checks import check_engine
from planner.catalog.documents import read_document
from planner.catalog.findings import refuse_errors
from planner.catalog.lookup import find_file, list_ids, load_file, unknown
from planner.domain.engine import EngineName, EngineProfile
from planner.domain.errors import InputError, Issue, did_you_mean


def load_engine(name: str, version: str | None = None, *, overlay: Path | None = None) -> EngineProfile:
    """Return an engine profile.

    `name` is an engine (``vllm``) or a profile id (``vllm-0.33.0``). Without `version` the newest profile of the engine
    is returned. Raises InputError ``engine.unknown``, ``engine.version_unknown``, or the file's own problems.
    """
    ids = list_ids("engines", overlay=overlay)
    wanted = name.strip().lower()
    if version is None and wanted in ids:
        return _load(wanted, overlay)
    engine = wanted if wanted in {e.value for e in EngineName} else wanted.rpartition("-")[0]
    versions = {i.removeprefix(f"{engine}-"): i for i in ids if engine and i.startswith(f"{engine}-")}
    if not versions:
        raise InputError(unknown("engines", name, noun="engine", overlay=overlay))
    if version is None and wanted == engine:
        return _load(versions[max(versions, key=version_key)], overlay)
    asked = (
        (version if version is not None else wanted.removeprefix(f"{engine}-"))
        .strip()
        .lower()
        .removeprefix("v")
    )
    if asked not in versions:
        raise InputError(
            Issue(
                code="engine.version_unknown",
                what=f"no profile for {engine} {asked}",
                why="defaults and overheads differ between versions, so another version is not taken silently",
                fix=f"{did_you_mean(asked, versions)} Or write engines/{engine}-{asked}.yaml and pass --profiles DIR",
            )
        )
    return _load(versions[asked], overlay)


def list_engines(*, overlay: Path | None = None) -> tuple[str, ...]:
    """Return the ids of all engine profiles, sorted."""
    return list_ids("engines", overlay=overlay)


def version_key(version: str) -> tuple[int, ...]:
    """Order versions by their numbers: 0.9 before 0.33."""
    return tuple(int(p) if p.isdecimal() else 0 for p in version.split("."))


def _load(engine_id: str, overlay: Path | None) -> EngineProfile:
    path = find_file("engines", engine_id, overlay=overlay)
    if path is None:
        raise InputError(unknown("engines", engine_id, noun="engine", overlay=overlay))
    engine = load_file(path, EngineProfile)
    refuse_errors(check_engine(engine, document=read_document(path) if overlay is not None else None))
    return engine
