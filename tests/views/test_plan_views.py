"""Details, comparison, why-not and number formatting."""

from __future__ import annotations

import pytest

from console.views.axes import axis_view
from console.views.comparison import comparison, manifest_diff
from console.views.metrics import change, count, figure
from console.views.plan_detail import plan_detail
from console.views.why_not import split_roles
from planner.domain.errors import InputError
from planner.perf.operators.base import FloatArray
from tests.views.samples import sample_points


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (9.999, "10.00"), (45.44, "45.4"), (528.9, "529"),
     (12345.6, "12,346"), (None, "–"), (float("nan"), "–"), (float("inf"), "–")],
)  # fmt: skip
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [(110.0, 100.0, "+10 %"), (99.0, 100.0, "-1.0 %"), (100.0, 100.0, "="), (1.0, 0.0, "–")],
)
def test_changes_are_in_percent(value: float, base: float, text: str) -> None:
    assert change(value, base) == text


@pytest.mark.parametrize(
    ("value", "text"), [(999.0, "999"), (45_600.0, "45.6k"), (4_597_787.0, "4.60M"), (2e9, "2.00G")]
)
def test_counts_are_short(value: float, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[3.0], [1.0, 1000.0], [0.5, 0.6], [1e-3, 5.0, 80.0], [12.0, 12.0]])
def test_axes_contain_their_values_and_have_few_ticks(values: list[float], *, log: bool) -> None:
    import numpy as np

    array: FloatArray = np.array(values)
    axis = axis_view("x", array, log=log)
    shown = np.log10(array) if log else array
    assert axis.low <= shown.min()
    assert axis.high >= shown.max()
    assert len(axis.ticks) <= 10
    places = [t for t, _ in axis.ticks]
    assert places == sorted(places)


def test_an_axis_without_values_has_no_ticks() -> None:
    import numpy as np

    assert axis_view("x", np.array([np.nan]), log=False).ticks == ()
    assert axis_view("x", np.array([0.0, -1.0]), log=True).ticks == ()


def test_bars_account_for_the_whole() -> None:
    points = sample_points()
    for i in range(len(points)):
        detail = plan_detail(points.plan_at(i), points.evaluation_at(i))
        for bar in detail.steps:
            assert sum(s.share for s in bar.segments) == pytest.approx(1.0)
            amounts = [s.amount for s in bar.segments]
            assert amounts == sorted(amounts, reverse=True)
        for bar in detail.memory:
            assert sum(s.amount for s in bar.segments) == pytest.approx(bar.total)
        hidden = any("DBO hides 1.0 ms" in bar.note for bar in detail.steps)
        assert hidden == any(r.dbo for r in points.plan_at(i).roles)


def test_the_arithmetic_of_every_role_gives_its_gpus() -> None:
    points = sample_points()
    plan = points.plan_at(len(points) - 1)
    lines = plan_detail(plan, points.evaluation_at(len(points) - 1)).arithmetic
    for role, line in zip(plan.roles, lines, strict=True):
        assert f"= {role.gpus} GPUs" in line


def test_a_comparison_marks_better_and_worse_by_the_metrics_direction() -> None:
    points = sample_points()
    pair = [(points.plan_at(i), points.evaluation_at(i)) for i in (0, len(points) - 1)]
    view = comparison(pair)
    rows = {r.name: r for r in view.metrics}
    for name, higher in (
        ("output tok/s/GPU owned", True),
        ("TTFT p50, ms", False),
        ("$/M output tokens", False),
    ):
        first, second = (float(c.text.replace(",", "")) for c in rows[name].cells)
        assert rows[name].cells[1].better is ((second > first) is higher)
    assert rows["KV transfer, ms"].differs is False
    shown = {r.name for r in view.parameters if r.differs}
    assert {"strategy", "requests in flight"} <= shown
    assert "max_model_len" not in shown


def test_comparing_a_plan_with_itself_finds_nothing() -> None:
    points = sample_points()
    one = (points.plan_at(5), points.evaluation_at(5))
    view = comparison([one, one])
    assert not any(r.differs for r in (*view.parameters, *view.metrics))
    assert "not distinguishable" in view.verdict[0]


def test_manifest_diff_is_empty_for_equal_text() -> None:
    assert manifest_diff("a\nb", "a\nb", names=("1", "2")) == ()
    assert "-b" in manifest_diff("a\nb", "a\nc", names=("1", "2"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [("2x(tp1,dp8)", ("2x(tp1,dp8)", None, None)),
     ("P 2x(tp1,dp8) D 1x(tp1,dp16,dbo)", (None, "2x(tp1,dp8)", "1x(tp1,dp16,dbo)")),
     ("2x(tp1,dp8) / 1x(tp2,dp8)", (None, "2x(tp1,dp8)", "1x(tp2,dp8)"))],
)  # fmt: skip
def test_a_plan_may_be_typed_in_three_ways(text: str, parts: tuple[str | None, ...]) -> None:
    assert split_roles(text) == parts


def test_the_label_of_every_plan_can_be_asked_about() -> None:
    points = sample_points()
    for i in range(len(points)):
        label = points.label(i)
        assert label == points.plan_at(i).label()
        aggregated, prefill, decode = split_roles(label)
        assert (aggregated is None) == (prefill is not None and decode is not None)


def test_nothing_to_ask_about_is_refused() -> None:
    with pytest.raises(InputError, match=r"why-not\.roles"):
        split_roles(" / ")
