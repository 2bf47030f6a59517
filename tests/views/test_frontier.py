"""Laws of the frontier page."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.views.filters import parse_filter, passes
from console.views.frontier import frontier_view, targets_effect
from console.views.frontier_model import ColourBy, FrontierOptions, TableMode
from console.views.frontier_table import _not_below, front_of
from console.views.metrics import METRICS, Axis
from planner.analytic.front import pareto_indexes
from planner.domain.errors import InputError
from planner.domain.workload import SloTargets
from tests.views.samples import sample_points

NONE = SloTargets()


def options(**changes: object) -> FrontierOptions:
    base: dict[str, object] = {"slo": SloTargets(ttft_ms=2000.0, tpot_ms=50.0)}
    return FrontierOptions(**{**base, **changes})  # type: ignore[arg-type]


PAIRS = [(x, y) for x, y in product(Axis, Axis) if x is not y]


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_no_point_dominates_a_member_of_the_front(x: Axis, y: Axis) -> None:
    points = sample_points()
    front = front_of(points, options(slo=NONE, x=x, y=y), np.arange(len(points)))
    u, v = points.values(x) * METRICS[x].sign, points.values(y) * METRICS[y].sign
    for i in front:
        assert not np.any((u >= u[i]) & (v >= v[i]) & ((u > u[i]) | (v > v[i])))
    for j in set(range(len(points))) - set(front.tolist()):
        assert np.any((u >= u[j]) & (v >= v[j])), "left out without being dominated or equalled"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80))
@settings(max_examples=100, deadline=None)
def test_the_shortcut_for_large_spaces_never_drops_a_front_member(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(c, dtype=np.float64) for c in zip(*pairs, strict=True))
    kept = np.flatnonzero(_not_below(x, y))
    direct = {(x[i], y[i]) for i in pareto_indexes(x, y)}
    shortcut = {(x[kept[i]], y[kept[i]]) for i in pareto_indexes(x[kept], y[kept])}
    assert shortcut == direct


def test_ranked_rows_are_one_per_configuration_and_best_first() -> None:
    view = frontier_view(sample_points(repeat=3), options())
    assert [r.rank for r in view.rows] == list(range(1, len(view.rows) + 1))
    assert len({r.plan + r.extras for r in view.rows}) == len(view.rows) == 7
    rates = [r.value(Axis.RATE) for r in view.rows]
    assert rates == sorted(rates, reverse=True)
    for row in view.rows:
        assert row.meets
        assert row.value(Axis.TTFT) <= 2000.0
        assert row.value(Axis.TPOT) <= 50.0
    assert view.best == view.rows[0]


def test_each_row_is_its_configurations_best_load_under_the_targets() -> None:
    points = sample_points()
    view = frontier_view(points, options())
    ok = points.meets(view.options.slo)
    everything = np.arange(len(points))
    key = points.configuration(everything)
    for row in view.rows:
        same = ok & (key == key[row.point])
        assert points.rate[row.point] == points.rate[same].max()


def test_counts_follow_targets_and_filter() -> None:
    points = sample_points()
    loose, tight = frontier_view(points, options(slo=NONE)), frontier_view(points, options())
    assert loose.meeting == loose.total == len(points)
    assert 0 < tight.meeting < loose.meeting
    some = frontier_view(points, options(filter="disagg !dbo ttft<1000"))
    assert 0 < some.shown < len(points)
    for row in some.rows:
        assert row.kind == "disaggregated"
        assert "dbo" not in row.extras
        assert row.value(Axis.TTFT) < 1000.0


def test_impossible_targets_are_said_with_what_to_do() -> None:
    view = frontier_view(sample_points(), options(slo=SloTargets(tpot_ms=0.1)))
    assert view.best is None
    assert view.rows == ()
    assert "No plan meets TPOT ≤ 0.1 ms" in view.summary
    assert "nearest" in targets_effect(sample_points(), SloTargets(tpot_ms=0.1))
    assert view.fronts, "the front is still shown"


def test_nothing_passes_a_filter() -> None:
    view = frontier_view(sample_points(), options(filter="nosuchthing"))
    assert (view.shown, view.rows, view.fronts) == (0, (), ())
    assert "nosuchthing" in view.summary


def test_front_table_lists_the_front_by_x() -> None:
    view = frontier_view(sample_points(), options(mode=TableMode.FRONT, slo=NONE))
    speeds = [r.value(Axis.TOK_S_USER) for r in view.rows]
    assert speeds == sorted(speeds, reverse=True)
    drawn = {p for s in view.fronts for p in s.points}
    assert {r.point for r in view.rows} == drawn


@pytest.mark.parametrize("by", list(ColourBy))
def test_every_front_point_is_in_exactly_one_group(by: ColourBy) -> None:
    points = sample_points()
    base = frontier_view(points, options(slo=NONE))
    view = frontier_view(points, options(slo=NONE, colour_by=by))
    count = [p for s in view.fronts for p in s.points]
    assert sorted(count) == sorted(p for s in base.fronts for p in s.points)
    assert all(s.label == view.groups[s.group] for s in view.fronts)
    if by is ColourBy.PROVENANCE:
        assert view.cloud == ()
        assert set(view.groups) <= {"fitted", "operator-table"}
    else:
        # the same value keeps its colour when a filter hides others
        few = frontier_view(points, options(slo=NONE, colour_by=by, filter="dbo"))
        assert few.groups == view.groups


def test_intervals_contain_their_point() -> None:
    points = sample_points()
    for y in (Axis.RATE, Axis.COST, Axis.TTFT, Axis.TPOT):
        view = frontier_view(points, options(slo=NONE, y=y, intervals=True))
        assert view.bands
        for band in view.bands:
            value = points.values(y, np.array([band.point]))[0]
            assert band.low <= value <= band.high
    assert frontier_view(points, options(slo=NONE, y=Axis.CONCURRENCY, intervals=True)).bands == ()


def test_log_axes_draw_logarithms_and_keep_labels_in_the_unit() -> None:
    points = sample_points()
    linear = frontier_view(points, options(slo=NONE))
    log = frontier_view(points, options(slo=NONE, log_x=True, log_y=True))
    for a, b in zip(linear.fronts, log.fronts, strict=True):
        np.testing.assert_allclose(np.log10(a.x), b.x)
        np.testing.assert_allclose(np.log10(a.y), b.y)
    for at, label in log.x_axis.ticks:
        assert float(label.replace(",", "")) == pytest.approx(10.0**at)
        assert log.x_axis.low <= at <= log.x_axis.high


def test_targets_are_drawn_where_they_bind() -> None:
    view = frontier_view(sample_points(), options(x=Axis.TTFT, y=Axis.TPOT))
    lines = {(s.vertical, s.at) for s in view.slo_lines}
    assert lines == {(True, 2000.0), (False, 50.0)}
    speed = frontier_view(sample_points(), options())
    assert [(s.vertical, s.at) for s in speed.slo_lines] == [(True, 20.0)]


def test_staircase_only_turns_at_right_angles_and_passes_every_front_point() -> None:
    view = frontier_view(sample_points(), options(slo=NONE))
    for (x0, y0), (x1, y1) in zip(view.staircase, view.staircase[1:], strict=False):
        assert x0 == x1 or y0 == y1
    on_front = {view.drawn_at(r) for r in frontier_view(sample_points(), options(slo=NONE, mode=TableMode.FRONT)).rows
                if r.on_front}  # fmt: skip
    assert on_front <= set(view.staircase)


def test_a_cost_without_a_price_is_not_a_number() -> None:
    points = sample_points(price=None)
    assert np.isnan(points.values(Axis.COST)).all()
    assert frontier_view(points, options(y=Axis.COST)).fronts == ()


def test_cloud_is_thinned_and_inside_the_axes() -> None:
    view = frontier_view(sample_points(repeat=400), options(slo=NONE))
    assert view.total == 400 * 56
    assert sum(len(s.x) for s in view.cloud) <= 3000
    for s in view.cloud:
        assert min(s.x) >= view.x_axis.low
        assert max(s.x) <= view.x_axis.high


def test_same_input_same_view() -> None:
    wanted = options(intervals=True, colour_by=ColourBy.EP)
    assert frontier_view(sample_points(), wanted) == frontier_view(sample_points(), wanted)


# --- filters ---


def test_filter_mistakes_are_named_together() -> None:
    with pytest.raises(InputError) as caught:
        parse_filter("tfft<2000 rate>fast ok")
    assert [i.code for i in caught.value.issues] == ["filter.field", "filter.number"]
    assert "'ttft'" in caught.value.issues[0].fix


@pytest.mark.parametrize(("text", "wanted"), [("gpus=32", 32), ("gpus<32", 24)])
def test_numbers_in_filters_compare(text: str, wanted: int) -> None:
    points = sample_points()
    assert set(points.gpus[passes(points, parse_filter(text))].tolist()) == {wanted}


def test_an_empty_filter_lets_everything_pass() -> None:
    points = sample_points()
    assert passes(points, parse_filter("  ")).all()
    assert frontier_view(points, replace(options(), filter="")).shown == len(points)
