"""What a target produces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from planner.export.objects import Manifest
from planner.export.render import Prepared
from planner.export.yaml import Plain, comment_lines, dump_document, dump_stream


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file, its path relative to the export folder."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Files of an export, and the single stream that stands for them on stdout (None: a folder is needed).

    `manifests` are the Kubernetes objects among them, for the linter.
    """

    files: tuple[ExportFile, ...]
    stream: str | None
    manifests: tuple[Manifest, ...] = ()
    notes: tuple[str, ...] = ()


TargetWriter: TypeAlias = Callable[[Prepared], Export]


def stream_of(manifests: Sequence[Manifest], header: Sequence[str]) -> str:
    """All objects as one stream for ``kubectl apply -f -``."""
    return dump_stream([(m.comments, m.plain()) for m in manifests], header=header)


def document_file(path: str, value: Plain, comments: Sequence[str] = ()) -> ExportFile:
    """One document as a file with comment lines on top."""
    return ExportFile(path, comment_lines(comments) + dump_document(value))
