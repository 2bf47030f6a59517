"""Import benchmark files: detect, read, complete, store. A file with anything missing is refused as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from planner.domain.errors import InputError, Issue
from planner.domain.measurement import BenchmarkFormat, Measurement, MeasurementOrigin
from planner.measurements.complete import AsWritten, Completed, Names, complete
from planner.measurements.documents import Document, files_under, load
from planner.measurements.draft import Supplied
from planner.measurements.formats import IMPORTERS, detect
from planner.storage.canonical import bytes_hash
from planner.storage.measured import RawFile, measurement_hash
from planner.storage.store import Store

_PLACES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A file that was read: its raw content, its measurements, and runs that were skipped as incomplete."""

    raw: RawFile
    measurements: tuple[Measurement, ...]
    skipped: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One measurement of an import and whether it was new."""

    hash: str
    measurement: Measurement
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did. `ignored` are files of a folder that are no benchmark results."""

    imported: tuple[Imported, ...]
    skipped: tuple[Issue, ...] = ()
    ignored: tuple[Path, ...] = field(default=())

    @property
    def new(self) -> int:
        """Measurements that were not known before."""
        return sum(i.new for i in self.imported)

    @property
    def duplicates(self) -> int:
        """Measurements that were known already."""
        return len(self.imported) - self.new


def import_files(
    store: Store,
    paths: Sequence[Path],
    *,
    supplied: Supplied | None = None,
    names: Names | None = None,
    skip_incomplete: bool = False,
) -> ImportReport:
    """Read all files first, then store them: an error in one stores nothing.

    Raises InputError with every issue of every file.
    """
    read, ignored = read_files(paths, supplied=supplied, names=names, skip_incomplete=skip_incomplete)
    imported: list[Imported] = []
    for f in read:
        added = store.measurements.add(f.raw, f.measurements)
        imported += [
            Imported(hash=measurement_hash(m), measurement=m, new=new)
            for m, new in zip(f.measurements, added, strict=True)
        ]
    return ImportReport(
        imported=tuple(imported), skipped=tuple(i for f in read for i in f.skipped), ignored=ignored
    )


def read_files(
    paths: Sequence[Path],
    *,
    supplied: Supplied | None = None,
    names: Names | None = None,
    skip_incomplete: bool = False,
) -> tuple[tuple[ReadFile, ...], tuple[Path, ...]]:
    """Measurements of files and folders without storing them, and the files of folders that are no results.

    Raises InputError with every issue of every file: those of `complete`, ``measurement.file``,
    ``measurement.unreadable``, ``measurement.format_unknown``, ``measurement.none_found``.
    """
    read: list[ReadFile] = []
    ignored: list[Path] = []
    issues: list[Issue] = []
    for path in paths:
        in_folder = path.is_dir()
        found = 0
        for file in files_under(path) if in_folder else [path]:
            try:
                one = read_file(
                    file,
                    supplied=supplied or Supplied(),
                    names=names or AsWritten(),
                    skip_incomplete=skip_incomplete,
                )
            except InputError as e:
                foreign = {i.code for i in e.issues} <= {
                    "measurement.format_unknown",
                    "measurement.unreadable",
                }
                if in_folder and foreign:
                    ignored.append(file)
                else:
                    issues += e.issues
                    found += 1
                continue
            read.append(one)
            found += 1
        if in_folder and not found:
            issues.append(_none_found(path))
    if issues:
        raise InputError(*issues)
    return tuple(read), tuple(ignored)


def read_file(path: Path, *, supplied: Supplied, names: Names, skip_incomplete: bool = False) -> ReadFile:
    """Measurements of one file; see `read_files` for the errors."""
    return read_document(load(path), supplied=supplied, names=names, skip_incomplete=skip_incomplete)


def read_document(
    document: Document, *, supplied: Supplied, names: Names, skip_incomplete: bool = False
) -> ReadFile:
    """Measurements of a parsed document; see `read_files` for the errors."""
    importer = detect(document)
    if importer is None:
        raise InputError(_unknown_format(document))
    raw = RawFile(name=Path(document.name).name, format=importer.format, content=document.content)
    origin = MeasurementOrigin(format=importer.format, file=raw.name, raw_sha256=bytes_hash(document.content))
    drafts = importer.read(document)
    done = [complete(d, supplied, names=names, origin=origin) for d in drafts]
    issues = _grouped(document.name, zip((d.position for d in drafts), done, strict=True))
    if issues and not skip_incomplete:
        raise InputError(*issues)
    return ReadFile(
        raw=raw,
        measurements=tuple(c.measurement for c in done if c.measurement is not None),
        skipped=issues,
    )


def _grouped(name: str, runs: Iterable[tuple[str, Completed]]) -> tuple[Issue, ...]:
    """Equal issues of many runs as one, saying where: a table of 1,000 rows gives one message per column."""
    places: dict[Issue, list[str]] = {}
    for position, done in runs:
        for issue in done.issues:
            places.setdefault(issue, []).append(position)
    return tuple(replace(issue, where=_where(name, found)) for issue, found in places.items())


def _where(name: str, positions: Sequence[str]) -> str:
    shown = [p for p in positions[:_PLACES_SHOWN] if p]
    rest = len(positions) - len(shown)
    if not shown:
        return name
    return f"{name} @ {', '.join(shown)}{f' and {rest} more' if rest > 0 else ''}"


def _unknown_format(document: Document) -> Issue:
    known = ", ".join(i.format.value for i in IMPORTERS)
    keys = list(document.value)[:6] if isinstance(document.value, dict) else []
    seen = f"its top-level keys are {', '.join(map(str, keys))}" if keys else "it is a list or a table"
    return Issue(
        code="measurement.format_unknown",
        what=f"{document.name} is not a known benchmark result",
        why=f"{seen}; known formats: {known}",
        fix="give the summary file of the benchmark tool, or write a CSV (planner measurements import --help)",
        where=document.name,
    )


def _none_found(path: Path) -> Issue:
    return Issue(
        code="measurement.none_found",
        what=f"{path} holds no benchmark results",
        why=f"known formats: {', '.join(f.value for f in BenchmarkFormat)}",
        fix="name the folder the benchmark wrote into",
        where=str(path),
    )
