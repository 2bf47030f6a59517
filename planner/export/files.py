"""Manifests from files, folders and standard input."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from planner.domain.errors import InputError, Issue, MissingDataError
from planner.export.yaml import Document, load_stream

_SUFFIXES = (".yaml", ".yml", ".json")


def read_manifests(names: Iterable[str], stdin: TextIO) -> tuple[Document, ...]:
    """All documents of `names`: files, folders (searched for YAML and JSON), ``-`` for standard input.

    Raises MissingDataError ``lint.file_missing``, InputError ``lint.empty``, ``lint.not_text`` and the ``yaml.*`` codes.
    """
    out: list[Document] = []
    listed = tuple(names)
    for name in listed:
        if name == "-":
            out += load_stream(stdin.read(), source="<stdin>")
            continue
        path = Path(name)
        if not path.exists():
            raise MissingDataError(
                Issue(
                    code="lint.file_missing",
                    what=f"'{name}' is not here",
                    why="manifests are read from files, folders or '-'",
                    fix="check the path",
                    where=name,
                )
            )
        files = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES) if path.is_dir() else [path]
        for file in files:
            out += load_stream(_text(file), source=str(file))
    if not out:
        raise InputError(
            Issue(
                code="lint.empty",
                what=f"no documents in {', '.join(listed) or 'nothing'}",
                why="there is nothing to check",
                fix="pass manifests, or '-' for standard input",
            )
        )
    return tuple(out)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            Issue(
                code="lint.not_text",
                what=f"'{path}' cannot be read",
                why=str(error),
                fix="pass UTF-8 text files",
                where=str(path),
            )
        ) from None
