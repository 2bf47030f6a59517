"""Strict reading: every problem at once, each with file, line and path; plain data and back without loss."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.documents import Document, parse_document, read_document
from planner.catalog.wire import structure, structure_data, unstructure
from planner.domain.errors import InputError, MissingDataError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    weight: float
    count: int = 1
    flag: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    id: str
    colour: Colour
    parts: tuple[Part, ...] = ()
    limits: Mapping[int, int] = field(default_factory=dict)
    by_colour: Mapping[Colour, float] = field(default_factory=dict)
    options: Mapping[str, float | int | str | bool] = field(default_factory=dict)
    note: str | None = None


def doc(text: str, name: str = "f.yaml") -> Document:
    return parse_document(text, name=name)


def problems(text: str, name: str = "f.yaml") -> list[tuple[str, str | None]]:
    with pytest.raises(InputError) as caught:
        structure(doc(text, name), Whole)
    return [(i.code, i.where) for i in caught.value.issues]


def test_all_problems_are_reported_with_their_lines() -> None:
    text = (
        "id: 7\n"
        "colour: green\n"
        "parts:\n"
        "  - {name: a, weight: 1}\n"
        "  - name: b\n"
        "    weight: heavy\n"
        "    wieght: 2\n"
        "limits: {1: two}\n"
        "extra: 1\n"
    )
    assert sorted(problems(text)) == sorted(
        [
            ("input.wrong_type", "f.yaml:1 @ $.id"),
            ("input.wrong_value", "f.yaml:2 @ $.colour"),
            ("input.wrong_type", "f.yaml:6 @ $.parts[1].weight"),
            ("input.unknown_key", "f.yaml:7 @ $.parts[1].wieght"),
            ("input.wrong_type", "f.yaml:8 @ $.limits.1"),
            ("input.unknown_key", "f.yaml:9 @ $.extra"),
        ]
    )


def test_json_problems_have_lines_too() -> None:
    text = '{\n  "id": "x",\n  "colour": "red",\n  "parts": [\n    {"name": "a"}\n  ]\n}'
    assert problems(text, "f.json") == [("input.missing_key", "f.json:5 @ $.parts[0].weight")]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('weight: "1.5"', "input.wrong_type"),
        ("weight: true", "input.wrong_type"),
        ("weight: .nan", "input.wrong_type"),
        ("weight: .inf", "input.wrong_type"),
        ("weight: 1e400", "input.wrong_type"),
        ("weight: 1\n  count: 2.0", "input.wrong_type"),
        ("weight: 1\n  count: true", "input.wrong_type"),
        ("weight: 1\n  flag: 1", "input.wrong_type"),
        ('weight: 1\n  flag: "yes"', "input.wrong_type"),
    ],
)
def test_no_value_is_converted(line: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        structure(doc(f"name: a\n{line.replace(chr(10) + '  ', chr(10))}\n"), Part)
    assert [i.code for i in caught.value.issues] == [code]


def test_whole_numbers_are_fine_where_numbers_are_expected() -> None:
    part = structure(doc("name: a\nweight: 3\n"), Part)
    assert part.weight == 3.0
    assert isinstance(part.weight, float)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "text", "- a: 1"])
def test_a_document_of_the_wrong_shape_is_refused(text: str) -> None:
    assert problems(text) == [("input.wrong_type", "f.yaml:1 @ $")]


def test_text_is_not_a_list_of_letters() -> None:
    assert problems("id: x\ncolour: red\nparts: abc\n") == [("input.wrong_type", "f.yaml:3 @ $.parts")]


def test_misspelt_keys_and_values_get_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        structure(doc("id: x\ncolour: blu\nnotes: a\n"), Whole)
    fixes = {i.code: i.fix for i in caught.value.issues}
    assert "'blue'" in fixes["input.wrong_value"]
    assert "'note'" in fixes["input.unknown_key"]


def test_dates_and_norway_stay_text() -> None:
    whole = structure(doc('id: 2026-11-29\ncolour: red\nnote: "no"\n'), Whole)
    assert (whole.id, whole.note) == ("2026-11-29", "no")


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: [1, 2\nb: 3\n", "file.malformed", 2),
        ("a: 1\nb:\n\t- x\n", "file.malformed", 3),
        ('{"a": 1,\n "b": }', "file.malformed", 2),
        ('{"a": 1,\n "b": NaN}', "file.malformed", 2),
        ("a: 1\nb: 2\na: 3\n", "file.duplicate_key", 3),
        ('{"a": 1,\n "a": 2}', "file.duplicate_key", 2),
        ("x:\n  a: !!python/object:os.system 1\n", "file.malformed", 2),
        ("", "file.malformed", 1),
        ("# only a comment\n", "file.malformed", 1),
    ],
)
def test_malformed_documents_name_the_line(text: str, code: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, name="f")
    assert caught.value.issues[0].code == code
    assert caught.value.issues[0].where == f"f:{line} @ $"


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5_000, '{"a":' * 50_000])
def test_absurd_nesting_is_refused_not_crashed_on(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, name="f")
    assert caught.value.issues[0].code == "file.malformed"


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError) as missing:
        read_document(tmp_path / "none.yaml")
    assert missing.value.issues[0].code == "file.not_found"
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    for path in (tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(InputError) as caught:
            read_document(path)
        assert caught.value.issues[0].code == "file.unreadable"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: a\nweight: 1\n")
    assert structure(read_document(path), Part).name == "a"


parts = st.builds(
    Part,
    name=st.text(max_size=8),
    weight=st.floats(allow_nan=False, allow_infinity=False),
    count=st.integers(),
    flag=st.booleans(),
)
wholes = st.builds(
    Whole,
    id=st.text(max_size=8),
    colour=st.sampled_from(Colour),
    parts=st.lists(parts, max_size=3).map(tuple),
    limits=st.dictionaries(st.integers(min_value=0), st.integers(), max_size=3),
    by_colour=st.dictionaries(st.sampled_from(Colour), st.floats(allow_nan=False, allow_infinity=False)),
    options=st.dictionaries(
        st.text(max_size=3), st.booleans() | st.integers() | st.text(max_size=3), max_size=3
    ),
    note=st.none() | st.text(max_size=5),
)


@given(wholes)
def test_structure_undoes_unstructure_through_json(whole: Whole) -> None:
    assert structure_data(json.loads(json.dumps(unstructure(whole))), Whole, name="x") == whole


def test_importing_the_reader_is_cheap() -> None:
    """The heavy imports of the product must not creep into the catalogue."""
    code = (
        "import sys; import planner.catalog.wire; print(sorted({'numpy','rich','typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
