"""Results as plain data, and per-request traces as JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from planner.domain.errors import InputError, Issue
from planner.simulation.result import RequestTrace, SimulationResult


def plain(value: Any) -> Any:
    """Dataclass content as JSON-able data; NaN and infinities become null."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def result_document(result: SimulationResult) -> dict[str, Any]:
    """One result without its trace and without what differs between runs of the same seed."""
    data: dict[str, Any] = plain(asdict(result))
    del data["trace"], data["wall_s"]
    data["output_tok_s_per_gpu"] = plain(result.output_tok_s_per_gpu)
    return data


def write_trace(rows: Sequence[RequestTrace], path: Path) -> None:
    """Write `rows` as CSV when `path` ends with .csv, else as JSON lines. Raises `InputError` when it cannot."""
    names = [f.name for f in fields(RequestTrace)]
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                writer = csv.writer(file)
                writer.writerow(names)
                writer.writerows(
                    ["" if v is None else v for v in plain(list(asdict(r).values()))] for r in rows
                )
            else:
                for row in rows:
                    file.write(json.dumps(plain(asdict(row))) + "\n")
    except OSError as error:
        raise unwritable(path, error) from None


def write_text(text: str, path: Path) -> None:
    """Write a report. Raises `InputError` when it cannot."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a file that cannot be written."""
    return InputError(
        Issue(
            code="file.unwritable",
            what=f"{path} cannot be written",
            why=error.strerror or str(error),
            fix="give a path in a folder you may write to",
        )
    )
