"""Damaged files are refused or read, never a crash: values of odd types and missing parts at random places."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from planner.domain.deployment import Role
from planner.domain.errors import InputError
from planner.measurements.complete import AsWritten
from planner.measurements.documents import parse
from planner.measurements.draft import Supplied, parse_role
from planner.measurements.importing import read_document
from tests.measurements import samples as s

ODD: list[Any] = [None, [], {}, "", "x", -1, 0, 1e308, True, "1e400", [None], {"a": 1}, "nan", "٣", "\u0000"]
SAMPLES = {
    "vllm": s.vllm(), "guidellm": s.guidellm(), "aiperf": s.aiperf(), "inference-perf": s.inference_perf(),
    "report": s.llm_d_0_2(), "report 0.1": s.llm_d_0_1(), "inferencex": s.inferencex(),
    "inferencex p/d": s.inferencex_disaggregated(),
}  # fmt: skip
ROLE = parse_role("1x(tp1,dp16,ep16)", Role.AGGREGATED)
assert ROLE is not None
SUPPLIED = Supplied(model="m", gpu="H200", engine="vllm", engine_version="1", roles=(ROLE,), override=True)


def damage(value: Any, rng: random.Random) -> Any:
    """One random place changed or removed."""
    damaged = copy.deepcopy(value)
    node = damaged
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return damaged
        key = rng.choice(keys)
        child = node[key]
        if isinstance(child, dict | list) and child and rng.random() < 0.8:
            node = child
            continue
        if rng.random() < 0.3:
            del node[key]
        else:
            node[key] = rng.choice(ODD)
        return damaged


def survives(content: bytes, supplied: Supplied) -> None:
    try:
        read = read_document(parse(content, name="f"), supplied=supplied, names=AsWritten())
    except InputError:
        return
    for m in read.measurements:
        assert m.gpus >= 1
        assert m.workload.isl > 0
        assert m.workload.osl > 0
        assert (m.result.output_tok_s_per_gpu or 0.0) >= 0.0


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_files_never_crash(name: str) -> None:
    rng = random.Random(name)  # noqa: S311
    for _ in range(300):
        value = SAMPLES[name]
        for _ in range(rng.randint(1, 3)):
            value = damage(value, rng)
        survives(s.dump(value), rng.choice([SUPPLIED, Supplied()]))


def test_damaged_rows_never_crash() -> None:
    rng = random.Random(0)  # noqa: S311
    cells = [
        "",
        "x",
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "~400",
        "1000-2000",
        "6000 shared + 500",
        "2.5",
        "off",
        '"',
    ]
    for _ in range(300):
        row = s.csv_row()
        for column in rng.sample(s.CSV_COLUMNS, 3):
            row[column] = rng.choice(cells)
        survives(s.csv_text(row).encode(), rng.choice([SUPPLIED, Supplied()]))


def test_cut_files_never_crash() -> None:
    rng = random.Random(1)  # noqa: S311
    for value in SAMPLES.values():
        content = s.dump(value)
        for _ in range(30):
            survives(content[: rng.randrange(len(content))], SUPPLIED)
