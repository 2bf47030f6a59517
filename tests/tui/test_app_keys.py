"""Navigation, the prompt, help, jump mode, themes, key map and the problem screen by key presses."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from console.tui.app import MAIN_SCREENS, PlannerApp, action_ids, owners
from console.tui.screens.help import HelpScreen, JumpScreen
from console.tui.session import Phase
from console.tui.settings import Settings, load_settings
from console.tui.themes import PALETTES, THEMES
from console.tui.widgets.grid import Column, Grid, Row
from planner.domain.errors import InputError
from tests.tui.harness import drive, notes_of, press, sample_app, sample_services, text_of
from tests.views.samples import sample_solved

P = Pilot[Any]


def app_of(pilot: P) -> PlannerApp:
    assert isinstance(pilot.app, PlannerApp)
    return pilot.app


def test_number_keys_open_every_screen_and_minus_goes_back() -> None:
    async def script(pilot: P) -> None:
        for n, screen in enumerate(MAIN_SCREENS, start=1):
            await press(pilot, str(n))
            assert app_of(pilot).current_mode == screen.name
            pilot.app.set_focus(None)
        await press(pilot, "1", "2", "escape", "minus")
        assert app_of(pilot).current_mode == "frontier"

    drive(sample_app(), script)


@pytest.mark.parametrize("typed", ["problem", "pr", "p", "prob"])
def test_the_prompt_takes_names_aliases_and_beginnings(typed: str) -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "colon", f"'{typed}", "enter")
        assert app_of(pilot).current_mode == "problem"

    drive(sample_app(), script)


def test_an_unknown_word_gets_a_suggestion() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "colon", "'zzz", "enter")
        assert "'zzz' is no command" in notes_of(app_of(pilot))
        assert app_of(pilot).current_mode == "frontier"

    drive(sample_app(), script)


def test_a_recipe_is_opened_from_the_prompt() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "colon", "'recipe gpt-oss-120b-h200x8", "enter")
        request = app_of(pilot).session.request
        assert request is not None
        assert request.gpus == 8
        assert app_of(pilot).session.phase is Phase.READY
        await press(pilot, "colon", "'recipe nosuch", "enter")
        assert "recipe.unknown" in text_of(app_of(pilot))

    drive(sample_app(), script)


def test_quitting_by_key_and_by_word() -> None:
    async def by_key(pilot: P) -> None:
        await pilot.press("q")
        assert pilot.app.return_code == 0

    async def by_word(pilot: P) -> None:
        await press(pilot, "colon")
        await pilot.press("q", "enter")
        await pilot.pause()
        assert pilot.app.return_code == 0

    drive(sample_app(), by_key)
    drive(sample_app(), by_word)


def test_help_is_about_the_focused_widget() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert "Help on plans" in text_of(app_of(pilot))
        await press(pilot, "escape", "shift+tab", "question_mark")
        text = text_of(app_of(pilot))
        assert "Help on plot widget" in text
        assert "Zoom in" in text

    drive(sample_app(), script, size=(120, 60))


def test_keys_lists_every_action_of_the_screen_with_its_id() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "colon", "'keys", "enter")
        text = text_of(app_of(pilot))
        for name in ("frontier.pin", "table.down", "app.command"):
            assert name in text

    drive(sample_app(), script, size=(120, 90))


def test_jump_mode_goes_to_the_widget_whose_letter_is_typed() -> None:
    async def script(pilot: P) -> None:
        assert isinstance(pilot.app.focused, Grid)
        await press(pilot, "ctrl+o")
        screen = pilot.app.screen
        assert isinstance(screen, JumpScreen)
        letter = next(k for k, w in screen._by_letter.items() if w.id == "plot-widget")
        await press(pilot, letter)
        assert pilot.app.focused is not None
        assert pilot.app.focused.id == "plot-widget"
        await press(pilot, "ctrl+o", "escape")
        assert pilot.app.focused.id == "plot-widget"

    drive(sample_app(), script)


@pytest.mark.parametrize("theme", [t.name for t in THEMES])
def test_every_theme_has_chart_colours_and_can_be_chosen(theme: str) -> None:
    palette = PALETTES[theme]
    assert len(set(palette.markers)) == len(palette.markers) >= 6

    async def script(pilot: P) -> None:
        await press(pilot, "colon", f"'theme {theme}", "enter")
        assert pilot.app.theme == theme
        await press(pilot, "j", "space", "d")

    drive(sample_app(), script)


def test_groups_differ_by_marker_without_colour() -> None:
    plain = PALETTES["no-colour"]
    assert {plain.style(g) for g in range(4)} == {"bold"}
    assert len({plain.marker(g) for g in range(8)}) == 8


def test_the_key_map_moves_an_action_to_another_key() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "P")
        assert len(app_of(pilot).session.pinned) == 1
        await press(pilot, "space")
        assert len(app_of(pilot).session.pinned) == 1

    drive(sample_app(settings=Settings(keys={"frontier.pin": "P"})), script)


def test_action_ids_are_unique_and_named_after_their_screen() -> None:
    ids = action_ids()
    assert {"frontier.pin", "app.quit", "table.down", "problem.recommend", "compare.swap"} <= ids
    assert all(i.count(".") == 1 for i in ids)


def test_settings_are_checked_with_everything_wrong_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tui.yaml"
    themes = tuple(t.name for t in THEMES)
    assert load_settings(path, themes=themes, known_actions=action_ids) == Settings()
    path.write_text("theme: high-contrast\nkeys: {frontier.pin: p}\n", encoding="utf-8")
    loaded = load_settings(path, themes=themes, known_actions=action_ids)
    assert loaded == Settings(theme="high-contrast", keys={"frontier.pin": "p"})
    path.write_text("theme: high\nkeys: {frontier.pinn: p, app.quit: 3}\ncolour: red\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_settings(path, themes=themes, known_actions=action_ids)
    assert len(caught.value.issues) == 4
    assert any("frontier.pin" in i.fix for i in caught.value.issues)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError):
        load_settings(path, themes=themes, known_actions=action_ids)


# --- the problem screen ---


def test_validation_while_typing_names_field_and_fix() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "2")
        field = pilot.app.screen.query_one("#field-gpu", Input)
        field.focus()
        await press(pilot, "end", "'x")
        assert pilot.app.screen.query_one("#line-gpu").has_class("-wrong")
        assert "did you mean" in text_of(app_of(pilot))
        await press(pilot, "ctrl+r")
        assert app_of(pilot).current_mode == "problem", "a wrong question is not asked"
        await press(pilot, "backspace")
        assert not pilot.app.screen.query_one("#line-gpu").has_class("-wrong")

    drive(sample_app(), script)


def test_a_changed_problem_is_asked_and_keeps_the_chosen_axes() -> None:
    async def script(pilot: P) -> None:
        await press(pilot, "l", "2")
        field = pilot.app.screen.query_one("#field-gpus", Input)
        field.focus()
        field.value = "64"
        await press(pilot, "enter")
        assert app_of(pilot).current_mode == "frontier"
        session = app_of(pilot).session
        assert session.solved is not None
        assert session.solved.request.gpus == 64
        options = pilot.app.screen._options  # type: ignore[attr-defined]
        assert options.log_x

    drive(sample_app(), script)


def test_without_a_question_the_app_starts_on_the_problem() -> None:
    async def script(pilot: P) -> None:
        assert app_of(pilot).current_mode == "problem"
        assert "to mend" in text_of(app_of(pilot))
        await press(pilot, "escape", "1")
        assert "No question yet" in text_of(app_of(pilot))

    drive(sample_app(request=None), script)


def test_keys_answer_while_a_question_is_being_solved() -> None:
    release = threading.Event()

    def slow(request: Any, origin: str) -> Any:
        release.wait(10.0)
        return sample_solved(request, origin)

    async def run() -> None:
        app = sample_app(services=sample_services(solve=slow))
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            assert "pricing every legal plan" in text_of(app).lower()
            await pilot.press("2")
            await pilot.pause()
            assert app.current_mode == "problem"
            await pilot.press("escape", "1", "question_mark", "escape")
            release.set()
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert app.session.phase is Phase.READY

    import asyncio

    asyncio.run(run())


# --- the table ---


def test_five_thousand_rows_draw_only_what_is_in_sight() -> None:
    grid = Grid([Column(title="a", width=8), Column(title="b", width=0)])

    async def script(pilot: P) -> None:
        await pilot.app.push_screen(Screen())
        await pilot.app.screen.mount(grid)
        grid.set_rows([Row(key=str(i), cells=(str(i), "x")) for i in range(5000)])
        grid.focus()
        drawn: list[int] = []
        original = grid._strip
        grid._strip = lambda *a, **k: drawn.append(1) or original(*a, **k)  # type: ignore[method-assign, func-returns-value]
        await press(pilot, "end")
        assert grid.cursor_key == "4999"
        await press(pilot, "pageup", "k")
        assert len(drawn) < 40 * grid.size.height
        grid.set_rows([Row(key=str(i), cells=(str(i), "y")) for i in range(4000, 6000)])
        assert int(grid.cursor_key) > 4900, "the cursor stays on its row"

    drive(sample_app(), script)


def test_columns_give_way_by_rank() -> None:
    grid = Grid([Column(title="a", width=10, rank=1), Column(title="b", width=0, least=10, rank=3),
                 Column(title="c", width=10, rank=2)])  # fmt: skip
    assert grid.widths(60) == (10, 38, 10)
    assert grid.widths(25) == (0, 14, 10)
    assert grid.widths(15) == (0, 15, 0)


def test_the_manual_lists_every_action_with_its_keys() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "tui.md").read_text(encoding="utf-8")
    for _, owner in owners():
        for binding in owner.BINDINGS:
            if isinstance(binding, Binding) and binding.id:
                line = next((n for n in text.splitlines() if n.startswith(f"| `{binding.id}` |")), None)
                assert line is not None, binding.id
                assert all(f"`{key}`" in line for key in binding.key.split(",")), line
