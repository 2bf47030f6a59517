from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.engine_args import find_command
from planner.export.shell import ShellSyntaxError, split_command, variables

ENV = {"A": "1", "B": "two words", "E": "", "N": "8"}


@pytest.mark.parametrize(
    "text",
    [
        "a b  c",
        "a 'b c' \"d e\"",
        'x --j \'{"a":"b"}\'',
        'x "$A" $A ${A}z',
        "x $B y",
        'x "$B" y',
        "x $E y",
        'x "$E" y',
        "x ${E:-d} ${E-d} ${M:-n} ${M-n}",
        "x ${M:-$A}",
        "x $((A * N)) $(( N + A )) $((N-A))",
        'x \\\n  --y \\\n  "z"',
        "x a\\ b \\$A",
        'x "a\\"b\\\\c"',
        "x a # comment",
        "x a; y b",
        "x a | y",
        "x a && y",
        "x pre$B",
        "x '' \"\"",
    ],
)
def test_words_are_those_of_a_real_shell(text: str) -> None:
    body = f'probe() {{ printf \'%s\\0\' "$@"; }}\nx() {{ probe x "$@"; }}\ny() {{ cat; }}\na() {{ probe a "$@"; }}\n{text}\n'
    done = subprocess.run(["/bin/sh", "-c", body], env=ENV, capture_output=True, text=True, check=True)
    assert split_command(text, ENV) == done.stdout.split("\0")[:-1]


@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda t: "\0" not in t), min_size=1, max_size=5))
@settings(max_examples=60)
def test_quoted_words_come_back(words: list[str]) -> None:
    assert split_command(" ".join(shlex.quote(w) for w in words), {}) == words


@pytest.mark.parametrize("text", ["a 'b", 'a "b', 'a "$A'])
def test_open_quotes_are_an_error(text: str) -> None:
    with pytest.raises(ShellSyntaxError):
        split_command(text, ENV)


def test_unknown_names_stay_visible() -> None:
    assert split_command('a "$X" ${Y} $(( X * 2 )) $(date)', {}) == [
        "a",
        "$X",
        "${Y}",
        "$(( X * 2 ))",
        "$(date)",
    ]


SCRIPT = """
R=$(( ${W:-0} * N ))
export ARGS=""
if [ "${MTP:-1}" = "1" ]; then
  ARGS="--spec {\\"m\\":\\"mtp\\",\\"n\\":${T:-3}}"
fi
case "${MODE:-off}" in
  cpu)
    KV='{"c":"Multi",
         "r":"both"}'
    ;;
  *)
    KV='{"c":"Nixl",
         "r":"producer"}'
    ;;
esac
EV=""
if [ "${EVENTS:-0}" = "1" ]; then
  EV="--events on"
elif [ -n "${OTHER:-}" ]; then
  EV="--events other"
else
  EV="--events off"
fi
"""


@pytest.mark.parametrize(
    ("env", "kv", "events", "args"),
    [
        ({}, "Nixl", "--events off", '--spec {"m":"mtp","n":3}'),
        ({"MODE": "cpu", "T": "1"}, "Multi", "--events off", '--spec {"m":"mtp","n":1}'),
        ({"EVENTS": "1", "MTP": "0"}, "Nixl", "--events on", ""),
        ({"OTHER": "x"}, "Nixl", "--events other", '--spec {"m":"mtp","n":3}'),
    ],
)
def test_branches_are_followed(env: dict[str, str], kv: str, events: str, args: str) -> None:
    got = variables(SCRIPT, {"N": "8", "W": "1", **env})
    assert got["R"] == "8"
    assert json.loads(got["KV"])["c"] == kv
    assert got["EV"] == events
    assert got["ARGS"] == args


def test_command_built_from_variables() -> None:
    script = SCRIPT + 'exec vllm serve $ARGS m --kv_transfer_config "$KV" --data-parallel-start-rank $R $EV\n'
    got = find_command([script], {"N": "8", "W": "1"})
    assert got is not None
    assert got.model == "m"
    assert got.json("kv-transfer-config") == {"c": "Nixl", "r": "producer"}
    assert got.text("data-parallel-start-rank") == "8"
    assert got.unknown == ('--spec={"m":"mtp","n":3}', "--events=off")
