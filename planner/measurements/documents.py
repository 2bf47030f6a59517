"""Benchmark files as parsed documents. The kind is found from the content, never from the name."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from planner.domain.errors import InputError, Issue
from planner.measurements.values import Json

_SUFFIXES: Final = {".json", ".jsonl", ".yaml", ".yml", ".csv"}
# files the tools write beside their results; they hold no result of their own or repeat one
_SIDE_FILES: Final = {"warmup.json", ".failure.json", "config.yaml", "per_request_lifecycle_metrics.json"}
MAX_BYTES: Final = 512 * 2**20


class Kind(StrEnum):
    """How a file was parsed."""

    JSON = "json"
    JSON_LINES = "json lines"
    YAML = "yaml"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file. `value`: the JSON or YAML value; a list of objects for JSON lines and CSV rows.

    `in_sweep`: the file lies in a folder written by ``vllm bench sweep``; `warm_up_beside`: that folder records one.
    """

    name: str
    content: bytes
    kind: Kind
    value: Json
    in_sweep: bool = False
    warm_up_beside: bool = False

    def runs(self) -> list[tuple[str, Json]]:
        """Position and value of every candidate run at the top level of the file."""
        if isinstance(self.value, list):
            if self.kind is Kind.CSV:
                return [(f"row {i}", row) for i, row in enumerate(self.value, start=1)]
            if self.kind is Kind.JSON_LINES:
                return [(f"line {i}", row) for i, row in enumerate(self.value, start=1)]
            return [(f"$[{i}]", row) for i, row in enumerate(self.value)]
        return [("", self.value)]


def load(path: Path) -> Document:
    """Read and parse one file. InputError: ``measurement.file``, ``measurement.unreadable``."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(_unreadable(path, f"larger than {MAX_BYTES >> 20} MiB"))
        content = path.read_bytes()
    except OSError as e:
        raise InputError(
            Issue(
                code="measurement.file",
                what=f"{path} cannot be read",
                why=e.strerror or str(e),
                fix="check the path and its permissions",
                where=str(path),
            )
        ) from e
    in_sweep = path.name.startswith("run=")
    return parse(
        content,
        name=str(path),
        in_sweep=in_sweep,
        warm_up_beside=in_sweep and _warm_up_near(path),
    )


def parse(content: bytes, *, name: str, in_sweep: bool = False, warm_up_beside: bool = False) -> Document:
    """Parse bytes; InputError ``measurement.unreadable`` when they are no JSON, JSON lines, YAML or CSV."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise InputError(_unreadable(Path(name), "not UTF-8 text")) from e
    kind, value = _parse_text(text, name)
    return Document(
        name=name,
        content=content,
        kind=kind,
        value=value,
        in_sweep=in_sweep,
        warm_up_beside=warm_up_beside,
    )


def _parse_text(text: str, name: str) -> tuple[Kind, Json]:
    try:
        return Kind.JSON, json.loads(text)
    except ValueError as e:
        error = str(e)
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{") and lines[0].rstrip().endswith("}"):
        return Kind.JSON_LINES, [_json_line(line, i, name) for i, line in enumerate(lines, start=1)]
    if lines and lines[0].count(",") >= 2 and ":" not in lines[0]:
        rows = csv.DictReader(io.StringIO(text))
        return Kind.CSV, [dict(row) for row in rows]
    if not text.lstrip().startswith(("{", "[")):
        try:
            documents = [d for d in yaml.safe_load_all(text) if d is not None]
        except yaml.YAMLError as e:
            raise InputError(_unreadable(Path(name), str(e).replace("\n", " "))) from e
        value = documents[0] if len(documents) == 1 else documents
        if isinstance(value, dict | list) and value:
            return Kind.YAML, value
    raise InputError(_unreadable(Path(name), error))


def _json_line(line: str, index: int, name: str) -> Json:
    try:
        return json.loads(line)
    except ValueError as e:
        raise InputError(_unreadable(Path(name), f"line {index}: {e}")) from e


def files_under(folder: Path) -> list[Path]:
    """Candidate result files of a folder, sorted; summaries that repeat the runs beside them are left out."""
    found = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix.lower() in _SUFFIXES]
    has_runs = any(p.name.startswith("run=") for p in found)
    stages = any(p.name.startswith("stage_") and p.name.endswith("lifecycle_metrics.json") for p in found)
    skipped = set(_SIDE_FILES)
    if has_runs:
        skipped.add("summary.json")
    if stages:
        skipped.add("summary_lifecycle_metrics.json")
    return [p for p in found if p.name not in skipped]


def _warm_up_near(path: Path) -> bool:
    return any((folder / "warmup.json").is_file() for folder in (path.parent, path.parent.parent))


def _unreadable(path: Path, why: str) -> Issue:
    return Issue(
        code="measurement.unreadable",
        what=f"{path} is not a JSON, JSON lines, YAML or CSV file",
        why=why,
        fix="give the result file as the benchmark tool wrote it",
        where=str(path),
    )
