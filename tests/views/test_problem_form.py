"""The problem form: units, placement of issues, the same question on the command line."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.views.problem_form import (
    BY_KEY,
    FIELDS,
    FormState,
    check_form,
    check_targets,
    suggestions,
    values_of,
    values_of_targets,
)
from planner.domain.workload import SloTargets
from tests.views.samples import REQUEST

GOOD = values_of(REQUEST)


def wrong(state: FormState) -> dict[str, str]:
    return {f.spec.key: f.issues[0].code for f in state.fields if f.issues}


def test_a_request_survives_the_form() -> None:
    state = check_form(GOOD)
    assert state.ready
    assert state.request is not None
    assert values_of(state.request) == GOOD
    assert "DeepSeek-R1" in state.summary


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [("ttft_ms", "2s", 2000.0), ("ttft_ms", "300 ms", 300.0), ("tpot_ms", "30", 30.0), ("isl", "4k", 4000),
     ("isl", "4,000", 4000), ("prefix_hit", "30%", 0.3), ("prefix_hit", ".5", 0.5)],
)  # fmt: skip
def test_units_are_understood(key: str, text: str, value: float) -> None:
    state = check_form({**GOOD, key: text})
    assert state.ready, state.issues
    assert getattr(state.request, key) == pytest.approx(value)


@pytest.mark.parametrize(
    ("key", "text", "code"),
    [("gpus", "many", "form.value"), ("gpus", "2.5", "form.value"), ("ttft_ms", "2h", "form.value"),
     ("strategy", "both", "form.value"), ("gpu", "h20O", "gpu.unknown"), ("gpus", "33", "gpus.not-tiling"),
     ("prefix_hit", "1.5", "prefix-hit.range"), ("tpot_ms", "0", "tpot-ms.not-positive")],
)  # fmt: skip
def test_what_is_wrong_stands_at_its_field(key: str, text: str, code: str) -> None:
    state = check_form({**GOOD, key: text})
    assert not state.ready
    assert wrong(state) == {key: code}


def test_several_mistakes_are_named_together() -> None:
    state = check_form({**GOOD, "gpu": "nosuch", "prefix_hit": "2", "model": "no/such-model"})
    assert {"gpu", "prefix_hit", "model"} <= set(wrong(state))


def test_what_arithmetic_rules_out_is_said_before_asking() -> None:
    state = check_form({**GOOD, "gpus": "4"})
    assert not state.ready
    assert state.issues[0].code == "memory.model-too-big"
    assert state.issues[0].fix


def test_an_empty_form_asks_for_model_and_gpus() -> None:
    codes = {i.code for i in check_form({}).issues}
    assert {"model.missing", "gpu.missing", "gpus.missing"} <= codes


def test_the_command_line_asks_the_same_question() -> None:
    words = shlex.split(check_form(GOOD).command)
    assert words[:2] == ["planner", "recommend"]
    flags = {f.flag: f.key for f in FIELDS}
    said = {flags[w]: words[n + 1] for n, w in enumerate(words) if w in flags}
    assert said == {k: v for k, v in GOOD.items() if v}


def test_flags_of_the_form_are_flags_of_recommend() -> None:
    from planner.cli import options

    metas = [m for option in vars(options).values() for m in getattr(option, "__metadata__", ())]
    known = {name for m in metas for name in (m.default, *(m.param_decls or ()))}
    assert {f.flag for f in FIELDS} <= known


@given(st.dictionaries(st.sampled_from([f.key for f in FIELDS if f.key != "model"]), st.text(max_size=12)))
@settings(max_examples=60, deadline=None)
def test_nothing_that_can_be_typed_breaks_the_form(texts: dict[str, str]) -> None:
    state = check_form({**GOOD, **texts})
    assert state.ready == (not state.issues)


def test_targets_are_read_with_units_and_refused_with_reasons() -> None:
    slo, problems = check_targets({"ttft_ms": "1.5s", "tpot_ms": "", "tok_s_user": "40"})
    assert (slo, problems) == (SloTargets(ttft_ms=1500.0, tok_s_user=40.0), {})
    slo, problems = check_targets({"ttft_ms": "-3", "tpot_ms": "0", "tok_s_user": "x"})
    assert slo is None
    assert set(problems) == {"ttft_ms", "tpot_ms", "tok_s_user"}
    kept = SloTargets(ttft_ms=2000.0, tpot_ms=50.0)
    assert check_targets(values_of_targets(kept))[0] == kept


def test_suggestions_belong_to_text_fields_and_are_accepted() -> None:
    found = suggestions()
    assert set(found) <= set(BY_KEY)
    assert "h200-sxm" in found["gpu"]
    assert "deepseek-ai/DeepSeek-R1" in found["model"]
