"""Read request traces: Mooncake JSONL, Azure LLM inference CSV, and our own JSONL. Every bad line is named.

Formats
- Mooncake (github.com/kvcache-ai/Mooncake): ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids`` (one id
  per 512-token block; equal ids at equal positions are equal prefixes).
- Azure (github.com/Azure/AzurePublicDataset): header ``TIMESTAMP,ContextTokens,GeneratedTokens``, ISO times.
- Ours: ``arrival_s``, ``isl``, ``osl`` and optionally ``session`` (turns of one conversation extend each other's prompt)
  or ``hash_ids`` with ``block_tokens``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from planner.domain.errors import InputError, Issue, MissingDataError
from planner.simulation.traffic import Traffic

MOONCAKE_BLOCK = 512
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a trace."""

    arrival_s: float
    isl: int
    osl: int
    session: str | None = None
    blocks: tuple[int, ...] = ()
    block_tokens: int = MOONCAKE_BLOCK


@dataclass(slots=True)
class _Problems:
    """Collects what is wrong with a file, line by line."""

    path: Path
    issues: list[Issue] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, what: str, why: str, fix: str) -> None:
        self.count += 1
        if len(self.issues) < _SHOWN:
            where = f"{self.path}:{line}"
            self.issues.append(Issue(code="trace.line", what=what, why=why, fix=fix, where=where))

    def stop(self) -> None:
        if not self.issues:
            return
        if self.count > len(self.issues):
            rest = self.count - len(self.issues)
            self.issues.append(
                Issue(
                    code="trace.line",
                    what=f"{rest} more lines of this file are wrong",
                    why="the first ones are shown",
                    fix="mend those and run again",
                    where=str(self.path),
                )
            )
        raise InputError(*self.issues)


def read_trace(path: Path, *, limit: int | None = None) -> Traffic:
    """Traffic of a trace file; the format is recognised by its content. `limit`: first requests only.

    Raises `MissingDataError` when the file is absent and `InputError` with file and line for each bad line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingDataError(
            Issue(
                code="file.not_found",
                what=f"trace {path} does not exist",
                why="--workload names neither a built-in workload nor a file",
                fix="seed-talk, ISL/OSL such as 8000/1000, or the path of a trace",
            )
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            Issue(
                code="file.unreadable",
                what=f"trace {path} cannot be read",
                why=str(error),
                fix="give a UTF-8 text file",
            )
        ) from None
    problems = _Problems(path)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    rows = list(_jsonl(lines, problems) if first.lstrip().startswith("{") else _azure(lines, problems))
    problems.stop()
    rows = rows[:limit]
    if not rows:
        raise InputError(
            Issue(
                code="workload.empty",
                what=f"trace {path} has no requests",
                why="there is nothing to simulate",
                fix="give a trace with at least one entry",
            )
        )
    return _traffic(path.name, rows)


def _jsonl(lines: Iterable[str], problems: _Problems) -> Iterator[Row]:
    previous = 0.0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            problems.add(number, f"not JSON: {line.strip()[:60]!r}", error.msg, "one JSON object per line")
            continue
        if not isinstance(data, dict):
            problems.add(
                number,
                f"not an object: {line.strip()[:60]!r}",
                "a request has named fields",
                "see docs/simulation.md",
            )
            continue
        mooncake = "timestamp" in data
        names = ("timestamp", "input_length", "output_length") if mooncake else ("arrival_s", "isl", "osl")
        missing = [n for n in names if n not in data]
        if missing:
            problems.add(
                number, f"no field {', '.join(missing)}", f"found {', '.join(map(str, data)) or 'nothing'}",
                "Mooncake: timestamp, input_length, output_length; ours: arrival_s, isl, osl",
            )  # fmt: skip
            continue
        row = _row(data, names, 1e-3 if mooncake else 1.0, number, problems)
        if row is not None:
            previous = _in_order(row.arrival_s, previous, number, problems)
            yield row


def _row(
    data: dict[str, object], names: tuple[str, str, str], unit_s: float, number: int, problems: _Problems
) -> Row | None:
    values = [data[n] for n in names]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            problems.add(number, f"{name} = {value!r}", "a finite number is needed", "give a number")
            return None
    arrival, isl, osl = (float(v) for v in values)  # type: ignore[arg-type]
    if not _valid(arrival * unit_s, isl, osl, number, problems):
        return None
    ids = data.get("hash_ids", [])
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
        problems.add(
            number, f"hash_ids = {ids!r}"[:80], "a list of whole numbers is needed", "one id per block"
        )
        return None
    block = data.get("block_tokens", MOONCAKE_BLOCK)
    if not isinstance(block, int) or block < 1:
        problems.add(number, f"block_tokens = {block!r}", "a positive whole number is needed", "e.g. 512")
        return None
    session = data.get("session")
    return Row(
        arrival * unit_s, int(isl), int(osl), None if session is None else str(session), tuple(ids), block
    )


def _valid(arrival_s: float, isl: float, osl: float, number: int, problems: _Problems) -> bool:
    if arrival_s < 0.0:
        problems.add(
            number, f"arrival at {arrival_s:g} s", "time starts at 0", "shift the trace to start at 0"
        )
        return False
    for name, value in (("prompt", isl), ("answer", osl)):
        if value < 1 or value != int(value):
            problems.add(
                number,
                f"{name} of {value:g} tokens",
                "every request has at least one of each",
                "drop the line",
            )
            return False
    return True


def _in_order(arrival_s: float, previous_s: float, number: int, problems: _Problems) -> float:
    if arrival_s < previous_s:
        problems.add(
            number, f"arrival at {arrival_s:g} s after one at {previous_s:g} s", "arrivals must not go back in time",
            "sort the trace by time",
        )  # fmt: skip
    return max(arrival_s, previous_s)


def _azure(lines: list[str], problems: _Problems) -> Iterator[Row]:
    reader = csv.DictReader(lines)
    wanted = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    if not set(wanted) <= set(reader.fieldnames or ()):
        problems.add(
            1, f"header {','.join(reader.fieldnames or ())[:80]!r}", "neither JSON lines nor the Azure columns",
            f"a CSV needs {', '.join(wanted)}",
        )  # fmt: skip
        return
    start: datetime | None = None
    previous = 0.0
    for data in reader:
        number = reader.line_num
        try:
            # seven digits of a second: Python reads six
            stamp, _, fraction = data["TIMESTAMP"].strip().partition(".")
            at = datetime.fromisoformat(stamp)
            seconds = float("0." + "".join(c for c in fraction if c.isdigit())) if fraction else 0.0
            isl, osl = float(data["ContextTokens"]), float(data["GeneratedTokens"])
        except (ValueError, AttributeError, TypeError):
            problems.add(
                number, f"{data}"[:90], "time or token counts cannot be read", "ISO time and whole numbers"
            )
            continue
        start = start or at.replace(microsecond=0)
        arrival = (at - start).total_seconds() + seconds
        if _valid(arrival, isl, max(osl, 1.0), number, problems):
            previous = _in_order(arrival, previous, number, problems)
            yield Row(arrival, int(isl), int(max(osl, 1.0)))


def _traffic(label: str, rows: list[Row]) -> Traffic:
    n = len(rows)
    start, nodes, ends, count = _paths(rows)
    names: dict[str, int] = {}
    first = count
    session = np.full(n, -1, dtype=np.int32)
    if count == 0 and any(r.session is not None for r in rows):
        start = np.zeros(n + 1, dtype=np.int32)
        path: list[tuple[int, int]] = []
        for i, row in enumerate(rows):
            if row.session is not None:
                session[i] = names.setdefault(row.session, len(names))
                path.append((first + int(session[i]), row.isl))
            start[i + 1] = len(path)
        nodes = np.array([p[0] for p in path], dtype=np.int32)
        ends = np.array([p[1] for p in path], dtype=np.int32)
        count = len(names)
    origin = rows[0].arrival_s
    return Traffic(
        label=label,
        arrival_s=np.array([r.arrival_s - origin for r in rows]),
        isl=np.array([r.isl for r in rows], dtype=np.int32),
        osl=np.array([r.osl for r in rows], dtype=np.int32),
        think_s=np.zeros(n),
        follow=np.full(n, -1, dtype=np.int32),
        session=session,
        path_start=start,
        path_nodes=nodes,
        path_ends=ends,
        pool=np.zeros(0, dtype=np.int32),
        nodes=count,
        sessions=max(len(names), 1),
        closed=False,
        warmup=n // 10,
    )


def _paths(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Compressed radix tree of the rows' block ids: a chain without a fork or an end inside becomes one node."""
    children: dict[tuple[int, int], int] = {}
    parent = [-1]
    forks = [0]
    is_end = [True]
    walks: list[list[int]] = []
    for row in rows:
        at = 0
        walk = []
        for block in row.blocks[: max(1, row.isl // row.block_tokens + 1)]:
            child = children.get((at, block))
            if child is None:
                child = len(parent)
                children[at, block] = child
                parent.append(at)
                forks.append(0)
                is_end.append(False)
                forks[at] += 1
            at = child
            walk.append(at)
        is_end[at] = True
        walks.append(walk)
    edge = [0] * len(parent)
    edges = 0
    for node in range(1, len(parent)):
        above = parent[node]
        if above == 0 or forks[above] > 1 or is_end[above]:
            edge[node] = edges
            edges += 1
        else:
            edge[node] = edge[above]
    start = np.zeros(len(rows) + 1, dtype=np.int32)
    nodes: list[int] = []
    ends: list[int] = []
    for i, (row, walk) in enumerate(zip(rows, walks, strict=True)):
        for depth, node in enumerate(walk):
            end = min((depth + 1) * row.block_tokens, row.isl)
            if depth and edge[node] == edge[walk[depth - 1]]:
                ends[-1] = end
            else:
                nodes.append(edge[node])
                ends.append(end)
        start[i + 1] = len(nodes)
    return start, np.array(nodes, dtype=np.int32), np.array(ends, dtype=np.int32), edges
