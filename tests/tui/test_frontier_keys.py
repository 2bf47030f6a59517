"""The frontier screen by key presses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.tui.app import PlannerApp
from console.tui.screens.frontier import FrontierScreen
from console.tui.widgets.grid import Grid
from console.tui.widgets.plot import FrontierPlot
from console.views.frontier_model import ColourBy, FrontierView, TableMode
from console.views.metrics import Axis
from planner.domain.errors import Issue, NotFeasibleError
from planner.domain.workload import SloTargets
from tests.tui.harness import SIZES, drive, press, sample_app, sample_services, settle, text_of

P = Pilot[Any]


def view_of(pilot: P) -> FrontierView:
    screen = frontier(pilot)
    assert screen._view is not None
    return screen._view


def frontier(pilot: P) -> FrontierScreen:
    found = next(s for s in pilot.app.screen_stack if isinstance(s, FrontierScreen))
    assert isinstance(found, FrontierScreen)
    return found


def planner(pilot: P) -> PlannerApp:
    assert isinstance(pilot.app, PlannerApp)
    return pilot.app


@pytest.mark.parametrize("size", SIZES)
def test_the_first_screen_shows_plot_table_and_details(size: tuple[int, int]) -> None:
    async def script(pilot: P) -> None:
        text = text_of(planner(pilot))
        assert "READ-ONLY" in text
        assert "ranked under the targets" in text
        assert view_of(pilot).rows[0].short[:10] in text
        assert "TTFT p50, ms" in text
        plot = frontier(pilot).query_one(FrontierPlot)
        assert plot.size.height >= 6
        assert plot.size.width >= 40

    drive(sample_app(), script, size=size)


def test_the_cursor_in_the_table_moves_the_marker_in_the_plot() -> None:
    async def script(pilot: P) -> None:
        plot = frontier(pilot).query_one(FrontierPlot)
        first = plot._spots[-1]
        await press(pilot, "j", "j", "j")
        assert plot._spots[-1] != first
        view = view_of(pilot)
        key = frontier(pilot).query_one(Grid).cursor_key
        row = next(r for r in view.rows if str(r.point) == key)
        assert (plot._spots[-1].x, plot._spots[-1].y) == view.drawn_at(row)
        assert frontier(pilot).query_one("#detail-panel").border_title == row.plan
        await press(pilot, "k", "k", "k")
        assert plot._spots[-1] == first

    drive(sample_app(), script)


def test_pinning_and_releasing_up_to_six() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "space", "j", "space")
        assert len(planner(pilot).session.pinned) == 2
        await press(pilot, "space")
        assert len(planner(pilot).session.pinned) == 1
        for _ in range(5):
            await press(pilot, "j", "space")
        assert len(planner(pilot).session.pinned) == 6
        await press(pilot, "home", "j", "space")
        assert len(planner(pilot).session.pinned) == 6, "a seventh is refused"
        await press(pilot, "escape")
        assert planner(pilot).session.pinned == ()

    drive(sample_app(), script)


def test_compare_shows_percentages_against_the_first_and_swaps() -> None:
    async def script(pilot: P) -> None:
        rows = view_of(pilot).rows
        await press(pilot, "space", "j", "space", "c")
        text = text_of(planner(pilot))
        assert f"1 {rows[0].plan}" in text
        assert f"2 {rows[1].plan}" in text
        change = 100.0 * (rows[1].value(Axis.RATE) / rows[0].value(Axis.RATE) - 1.0)
        assert f"{change:+.1f} %" in text or f"{change:+.0f} %" in text
        await press(pilot, "x")
        assert f"1 {rows[1].plan}" in text_of(planner(pilot))
        await press(pilot, "escape")
        assert "ranked under" in text_of(planner(pilot))

    drive(sample_app(), script)


def test_targets_show_what_passes_while_typing_and_apply_on_enter() -> None:
    async def script(pilot: P) -> None:
        before = view_of(pilot).meeting
        await press(pilot, "s", "end", "backspace", "backspace", "backspace", "backspace", "'500")
        text = text_of(planner(pilot))
        solved = planner(pilot).session.solved
        assert solved is not None
        wanted = SloTargets(ttft_ms=500.0, tpot_ms=50.0)
        count = int(solved.points.meets(wanted).sum())
        assert f"{count} of {len(solved.points)} points meet TTFT ≤ 500 ms" in text
        await press(pilot, "enter")
        assert view_of(pilot).options.slo == wanted
        assert view_of(pilot).meeting == count < before

    drive(sample_app(), script)


def test_a_target_that_cannot_be_read_is_not_applied() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "s", "end", "'x", "enter")
        assert "cannot be read" in text_of(planner(pilot))
        await press(pilot, "escape")
        assert view_of(pilot).options.slo.ttft_ms == 2000.0

    drive(sample_app(), script)


def test_filter_narrows_plot_and_table_and_escape_clears_it() -> None:
    async def script(pilot: P) -> None:
        everything = view_of(pilot).shown
        await press(pilot, "slash", "'disagg !dbo", "enter")
        assert view_of(pilot).shown < everything
        assert all(r.kind == "disaggregated" for r in view_of(pilot).rows)
        await press(pilot, "escape")
        assert view_of(pilot).shown == everything

    drive(sample_app(), script)


def test_a_wrong_filter_says_what_to_write() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "slash", "'tfft<3", "enter")
        text = text_of(planner(pilot))
        assert "filter.field" in text
        assert "'ttft'" in text

    drive(sample_app(), script)


def test_every_switch_of_the_plot() -> None:
    async def script(pilot: P) -> None:
        assert view_of(pilot).cloud
        await press(pilot, "o")
        assert not view_of(pilot).cloud
        await press(pilot, "i")
        assert view_of(pilot).bands
        await press(pilot, "l", "L")
        assert view_of(pilot).x_axis.log
        assert view_of(pilot).y_axis.log
        await press(pilot, "t")
        assert view_of(pilot).options.mode is TableMode.FRONT
        seen = set()
        for _ in ColourBy:
            await press(pilot, "g")
            seen.add(view_of(pilot).options.colour_by)
        assert seen == set(ColourBy)
        pairs = set()
        for _ in range(4):
            await press(pilot, "x")
            pairs.add(view_of(pilot).options.x)
        for _ in range(4):
            await press(pilot, "v")
            assert view_of(pilot).options.y is not view_of(pilot).options.x
        assert {Axis.TTFT, Axis.TPOT, Axis.CONCURRENCY, Axis.TOK_S_USER} == pairs

    drive(sample_app(), script)


def test_zooming_is_kept_when_other_things_change_and_reset_by_r() -> None:
    async def script(pilot: P) -> None:
        plot = frontier(pilot).query_one(FrontierPlot)
        plot.focus()
        full = (plot._x_min, plot._x_max)
        await press(pilot, "plus", "plus")
        zoomed = (plot._x_min, plot._x_max)
        assert zoomed[1] - zoomed[0] < full[1] - full[0]
        await press(pilot, "o")
        assert (plot._x_min, plot._x_max) == zoomed
        await press(pilot, "r")
        assert (plot._x_min, plot._x_max) == full

    drive(sample_app(), script)


def test_a_click_in_the_plot_picks_the_nearest_plan() -> None:
    async def script(pilot: P) -> None:
        plot = frontier(pilot).query_one(FrontierPlot)
        series = view_of(pilot).fronts[0]
        x, y = plot.get_pixel_from_coordinate(series.x[0], series.y[0])
        assert await pilot.click("#plot", offset=(x, y))
        await settle(pilot)
        solved = planner(pilot).session.solved
        assert solved is not None
        assert frontier(pilot)._current in series.points
        assert frontier(pilot).query_one("#detail-panel").border_title == solved.points.label(
            series.points[0]
        )

    drive(sample_app(), script)


def test_the_manifest_is_shown_and_written_with_the_plan(tmp_path: Path) -> None:
    from planner.catalog.plans import load_plan

    async def script(pilot: P) -> None:
        plan_name = view_of(pilot).rows[0].plan
        await press(pilot, "e")
        await press(pilot, "enter")
        folder = tmp_path / "sample"
        assert load_plan(folder / "plan.json").label() == plan_name
        assert list(folder.rglob("*.yaml"))
        await press(pilot, "escape")
        await press(pilot, "y")
        assert "apiVersion" in text_of(planner(pilot))

    drive(sample_app(services=sample_services(tmp_path)), script)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    async def script(pilot: P) -> None:
        await press(pilot, "e", "enter")
        assert "Not written" in text_of(planner(pilot))

    drive(sample_app(services=sample_services(blocked)), script)


def test_describe_holds_every_figure() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "d")
        text = text_of(planner(pilot))
        assert "GPUs" in text
        assert "attention" in text
        assert "intervals are 80 %" in text

    drive(sample_app(), script, size=(120, 60))


def test_an_impossible_question_shows_why_and_the_way_out() -> None:
    issue = Issue(code="memory.model-too-big", what="R1 on 1 GPU", why="it is larger", fix="use 16")

    def refuse(*_: Any) -> Any:
        raise NotFeasibleError(issue)

    async def script(pilot: P) -> None:
        text = text_of(planner(pilot))
        for part in ("R1 on 1 GPU", "it is larger", "use 16", "2 edits the problem"):
            assert part in text
        await press(pilot, "space", "c", "s", "e", "y", "w", "x", "j")  # nothing to act on, nothing breaks
        await press(pilot, "2")
        assert planner(pilot).current_mode == "problem"

    drive(sample_app(services=sample_services(solve=refuse)), script)


def test_no_targets_met_still_shows_the_front() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "s", "tab", "end", "backspace", "backspace", "'1", "enter")
        assert view_of(pilot).best is None
        assert "no plan meets the targets" in text_of(planner(pilot))
        await press(pilot, "t")
        assert frontier(pilot).query_one(Grid).rows

    drive(sample_app(), script)


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (200, 50), (300, 80)])
def test_any_terminal_size_is_survived(size: tuple[int, int]) -> None:
    async def script(pilot: P) -> None:
        await pilot.resize_terminal(*size)
        await settle(pilot)
        await press(pilot, "j", "l", "space")
        await pilot.resize_terminal(120, 36)
        await settle(pilot)
        assert "ranked under the targets" in text_of(planner(pilot))

    drive(sample_app(), script)
