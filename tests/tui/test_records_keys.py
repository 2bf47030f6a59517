"""Studies, measurements and simulation screens by key presses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from console.tui.app import PlannerApp
from console.tui.records import Records
from console.tui.search_process import search_arguments
from console.tui.simulate import Wish
from console.tui.widgets.grid import Grid
from console.tui.widgets.lines import LinesPlot
from console.views.simulation import SeriesMetric
from planner.domain.errors import Issue, NotFeasibleError
from planner.storage.database import parse_url
from planner.storage.store import open_store
from tests.tui.harness import drive, notes_of, press, sample_app, sample_services, text_of, until
from tests.views.samples import REQUEST
from tests.views.simulation_samples import sample_result
from tests.views.store_samples import add_trials, fill, results_file

P = Pilot[Any]


def app_of(pilot: P) -> PlannerApp:
    assert isinstance(pilot.app, PlannerApp)
    return pilot.app


class StillSearch:
    """A search that runs until it is paused."""

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments
        self.running = True

    def pause(self) -> None:
        self.running = False

    def last_words(self) -> str:
        return "interrupted"


# --- studies ---


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "5")
        assert "no study yet" in text_of(app_of(pilot))
        await press(pilot, "enter", "d", "c", "space", "p", "r")
        await press(pilot, "6")
        assert "no measurement yet" in text_of(app_of(pilot))
        await press(pilot, "d", "c", "space", "escape")

    services = sample_services(records=Records(f"sqlite:///{tmp_path / 'empty.db'}"))
    drive(sample_app(services=services), script)


def test_a_store_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database" * 100)

    async def script(pilot: P) -> None:
        for key in ("5", "6"):
            await press(pilot, key)
            assert "The store cannot be used" in text_of(app_of(pilot))
        await press(pilot, "1")
        assert "ranked under the targets" in text_of(app_of(pilot))

    drive(sample_app(services=sample_services(records=Records(f"sqlite:///{broken}"))), script)


def test_a_study_opens_on_the_frontier_and_is_followed_while_it_runs(
    tmp_path: Path, monkeypatch: Any
) -> None:
    from console.tui import app as app_module

    monkeypatch.setattr(app_module, "FOLLOW_S", 0.05)
    url = fill(tmp_path)

    async def script(pilot: P) -> None:
        await press(pilot, "5")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.select("search-b")
        await pilot.press("enter")
        await until(pilot, lambda: "20 trials, running" in text_of(app_of(pilot)))
        await press(pilot, "space", "l")
        with open_store(parse_url(url)) as store:
            add_trials(store, "search-b", range(20, 40))
        await until(pilot, lambda: "40 trials, running" in text_of(app_of(pilot)))
        session = app_of(pilot).session
        assert len(session.pinned) == 1, "pins survive new trials"
        assert pilot.app.screen._options.log_x, "so do the axes"  # type: ignore[attr-defined]
        await press(pilot, "2", "ctrl+r")
        assert app_of(pilot)._following == "", "another question ends the following"

    drive(sample_app(services=sample_services(records=Records(url))), script, size=(200, 50))


def test_marked_studies_are_compared(tmp_path: Path) -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "5", "c")
        assert "Mark two" in notes_of(app_of(pilot))
        await press(pilot, "space", "j", "space", "c")
        text = text_of(app_of(pilot))
        assert "feasible" in text
        assert "search-a" in text
        assert "search-b" in text
        await press(pilot, "escape", "d")
        assert "objectives" in text_of(app_of(pilot))

    drive(sample_app(services=sample_services(records=Records(fill(tmp_path)))), script)


def test_a_search_is_started_paused_and_resumed(tmp_path: Path) -> None:
    started: list[StillSearch] = []

    def start(arguments: list[str]) -> Any:
        started.append(StillSearch(arguments))
        return started[-1]

    async def script(pilot: P) -> None:
        await press(pilot, "5", "S", "end", "backspace", "backspace", "backspace", "'30", "enter")
        assert started[0].arguments[:1] == ["search"]
        assert started[0].arguments[-2:] == ["--trials", "30"]
        assert "deepseek-ai/DeepSeek-R1" in started[0].arguments
        grid = pilot.app.screen.query_one(Grid)
        grid.select("search-b")
        await press(pilot, "p")
        assert "not started here" in notes_of(app_of(pilot))
        await press(pilot, "r")
        assert started[1].arguments == ["studies", "resume", "search-b"]
        await press(pilot, "p")
        assert not started[1].running

    services = sample_services(records=Records(fill(tmp_path)), start_search=start)
    drive(sample_app(services=services), script)
    assert not started[0].running, "leaving the app pauses what it started"


def test_search_arguments_are_accepted_by_the_command_line() -> None:
    import typer.testing

    from planner.cli.main import build_app

    arguments = search_arguments(REQUEST, name="x", trials=5)
    result = typer.testing.CliRunner().invoke(build_app("search"), [*arguments, "--help"])
    assert result.exit_code == 0
    help_text = typer.testing.CliRunner().invoke(build_app("search"), ["search", "--help"]).output
    assert all(a in help_text for a in arguments if a.startswith("--"))


# --- measurements ---


def test_measurements_are_imported_compared_and_described(tmp_path: Path) -> None:
    file = results_file(tmp_path)

    async def script(pilot: P) -> None:
        await press(pilot, "6", "I", f"'{file}", "enter")
        await until(pilot, lambda: "2 of 2 measurements" in text_of(app_of(pilot)))
        assert "2 new" in notes_of(app_of(pilot))
        await press(pilot, "space", "j", "c")
        assert "tok/s/GPU" in text_of(app_of(pilot))
        assert "%" in text_of(app_of(pilot))
        await press(pilot, "escape", "d")
        assert "results.csv" in text_of(app_of(pilot))
        await press(pilot, "escape", "slash", "'c128", "enter")
        assert "1 of 2 measurements" in text_of(app_of(pilot))
        await press(pilot, "escape")
        assert "2 of 2 measurements" in text_of(app_of(pilot))

    services = sample_services(records=Records(f"sqlite:///{tmp_path / 'm.db'}"))
    drive(sample_app(services=services), script)


def test_a_file_that_cannot_be_imported_is_said(tmp_path: Path) -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "6", "I", f"'{tmp_path / 'none.json'}", "enter")
        assert "Not imported" in text_of(app_of(pilot))

    services = sample_services(records=Records(f"sqlite:///{tmp_path / 'm.db'}"))
    drive(sample_app(services=services), script)


# --- simulation ---


def test_the_best_plan_is_simulated_and_routers_are_compared() -> None:
    asked: list[Wish] = []

    def simulate(wish: Wish, progress: Any) -> Any:
        asked.append(wish)
        progress(1, 2)
        return sample_result(len(asked))

    async def script(pilot: P) -> None:
        best = app_of(pilot).session.solved
        assert best is not None
        await press(pilot, "3")
        assert "no run yet" in text_of(app_of(pilot))
        await press(pilot, "r")
        grid = pilot.app.screen.query_one("#runs", Grid)
        await until(pilot, lambda: len(grid.rows) == 1)
        point = app_of(pilot).best_point()
        assert point is not None
        assert asked[0].plan.label() == best.points.label(point)
        await press(pilot, "w", "'8000/1000", "enter", "n", "'500", "enter", "R", "home")
        await press(pilot, *["delete"] * 120)
        await press(pilot, "'random,llm-d-default", "enter")
        await until(pilot, lambda: len(grid.rows) == 3)
        assert [(w.router, w.workload, w.requests) for w in asked[1:]] == [
            ("random", "8000/1000", 500), ("llm-d-default", "8000/1000", 500),
        ]  # fmt: skip
        assert asked[1].seed == asked[2].seed, "the same traffic for every router"
        text = text_of(app_of(pilot))
        assert "tok/s/GPU" in text
        plot = pilot.app.screen.query_one(LinesPlot)
        assert len(plot._datasets) == 4  # two roles, each a line and the marker at its end
        await press(pilot, "space", "k")
        assert len(plot._datasets) == 8
        seen = set()
        for _ in SeriesMetric:
            await press(pilot, "m")
            seen.add(str(pilot.app.screen.query_one("#series-panel").border_title))
        assert len(seen) == len(SeriesMetric)
        await press(pilot, "d")
        assert "preempted" in text_of(app_of(pilot))
        await press(pilot, "escape", "x")
        assert len(grid.rows) == 2

    drive(sample_app(services=sample_services(simulate=simulate)), script)


def test_what_cannot_be_simulated_is_said() -> None:
    def refuse(*_: Any) -> Any:
        raise NotFeasibleError(
            Issue(code="simulation.stalled", what="nothing left to happen", why="memory", fix="less load")
        )

    async def script(pilot: P) -> None:
        await press(pilot, "3", "r")
        assert "nothing left to happen" in text_of(app_of(pilot))
        await press(pilot, "escape", "n", "'many", "enter")
        assert "no number" in notes_of(app_of(pilot))

    drive(sample_app(services=sample_services(simulate=refuse)), script)
