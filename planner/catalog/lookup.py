"""Find a profile by id or alias without parsing the whole catalogue.

An id is a file name, so the common case reads one file. An alias is found by searching the files' text and parsing only
those that contain it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

from planner.catalog.documents import Document, read_document
from planner.catalog.locate import profile_dirs
from planner.catalog.wire import structure
from planner.domain.errors import InputError, Issue, did_you_mean

SUFFIXES: Final = (".yaml", ".yml", ".json")

_SHOWN = {"gpu": "GPU", "node": "node shape"}
_SAFE = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FLOW_ALIASES = re.compile(r"^aliases:\s*\[([^\]]*)\]", re.MULTILINE)


class Named(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str:
        """Stable identifier; equal to the file name."""
        ...


T = TypeVar("T", bound=Named)


def normalise(name: str) -> str:
    """Return `name` as ids are written: lower case, dashes for spaces and underscores."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def find_file(kind: str, name: str, *, overlay: Path | None = None) -> Path | None:
    """Return the file of profile `name` of `kind`, the overlay's before the shipped one; None when unknown.

    Ids beat aliases; case, underscores and spaces do not matter.
    """
    wanted = normalise(name)
    if not _SAFE.fullmatch(wanted):
        return None
    dirs = profile_dirs(kind, overlay)
    for folder in dirs:
        for suffix in SUFFIXES:
            path = folder / (wanted + suffix)
            if path.is_file():
                return path
    for path in _unique(dirs):
        if normalise(path.stem) == wanted:
            return path
        text = _text(path)
        if wanted in text.lower().replace("_", "-").replace(" ", "-") and wanted in _aliases(
            read_document(path)
        ):
            return path
    return None


def load_profile(kind: str, name: str, cls: type[T], *, noun: str, overlay: Path | None = None) -> T:
    """Load profile `name` of `kind` as `cls`.

    Raises InputError ``<noun>.unknown`` with the closest names, or the file's own problems (see `wire.structure`);
    ``profiles.id`` when the file's id is not its name.
    """
    path = find_file(kind, name, overlay=overlay)
    if path is None:
        raise InputError(unknown(kind, name, noun=noun, overlay=overlay))
    return load_file(path, cls)


def load_file(path: Path, cls: type[T]) -> T:
    """Load one profile file; its id must be the file name (``profiles.id``)."""
    document = read_document(path)
    value = structure(document, cls)
    issue = misnamed(value, document, path)
    if issue is not None:
        raise InputError(issue)
    return value


def misnamed(value: Named, document: Document, path: Path) -> Issue | None:
    """Return the ``profiles.id`` issue when the id of `value` is not the name of its file."""
    if value.id == path.stem:
        return None
    return Issue(
        code="profiles.id",
        what=f"id '{value.id}' in a file named {path.name}",
        why="profiles are found by file name, so the two must agree",
        fix=f"rename the file to {value.id}{path.suffix} or set id: {path.stem}",
        where=document.where(("id",)),
    )


def unknown(kind: str, name: str, *, noun: str, overlay: Path | None = None) -> Issue:
    """Return the issue for a name that is in no file."""
    return Issue(
        code=f"{noun}.unknown",
        what=f"unknown {_SHOWN.get(noun, noun)} '{name}'",
        why=f"no file in profiles/{kind} has this id or alias",
        fix=f"{did_you_mean(normalise(name), _names(kind, overlay))} (all: planner profiles list {kind})",
    )


def list_ids(kind: str, *, overlay: Path | None = None) -> tuple[str, ...]:
    """Return all ids of `kind`, sorted; overlay files replace shipped ones of the same name."""
    return tuple(sorted(p.stem for p in _unique(profile_dirs(kind, overlay))))


def iter_files(kind: str, *, overlay: Path | None = None) -> Iterator[Path]:
    """Yield the files of `kind` in id order, one per id."""
    yield from sorted(_unique(profile_dirs(kind, overlay)), key=lambda p: p.stem)


def files_containing(kind: str, *needles: str, overlay: Path | None = None) -> Iterator[Path]:
    """Yield the files of `kind`, in id order, whose text contains all `needles`; a cheap filter before parsing."""
    for path in iter_files(kind, overlay=overlay):
        text = _text(path)
        if all(n in text for n in needles):
            yield path


def _unique(dirs: tuple[Path, ...]) -> list[Path]:
    found: dict[str, Path] = {}
    for folder in dirs:
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.suffix in SUFFIXES and path.is_file():
                    found.setdefault(path.stem, path)
    return list(found.values())


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def _aliases(document: Document) -> set[str]:
    data = document.data
    listed = data.get("aliases") if isinstance(data, dict) else None
    return {normalise(a) for a in listed if isinstance(a, str)} if isinstance(listed, list) else set()


def _names(kind: str, overlay: Path | None) -> list[str]:
    """Ids and one-line aliases, for suggestions only."""
    names: list[str] = []
    for path in _unique(profile_dirs(kind, overlay)):
        names.append(path.stem)
        match = _FLOW_ALIASES.search(_text(path))
        if match:
            names += [a.strip(" \"'") for a in match.group(1).split(",") if a.strip()]
    return names
