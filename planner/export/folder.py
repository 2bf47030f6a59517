"""Write an export into a folder, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from planner.domain.errors import InputError, Issue
from planner.export.targets.base import ExportFile


def write_folder(files: Iterable[ExportFile], folder: Path) -> tuple[Path, ...]:
    """Write `files` below `folder`, each by rename so that no half-written file is left.

    Raises InputError ``export.unwritable``.
    """
    written = []
    try:
        for file in files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.tmp")
            temporary.write_text(file.text, encoding="utf-8")
            temporary.replace(path)
            written.append(path)
    except OSError as error:
        raise InputError(
            Issue(
                code="export.unwritable",
                what=f"cannot write '{error.filename or folder}'",
                why=error.strerror or str(error),
                fix="name a folder you can write to",
                where="--out",
            )
        ) from None
    return tuple(written)
