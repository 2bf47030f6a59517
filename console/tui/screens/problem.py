"""The problem screen: edit the question with validation as one types, and ask it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.suggester import SuggestFromList
from textual.timer import Timer
from textual.widgets import Input, Label, Static
from textual.worker import get_current_worker

from console.tui.screens.base import MainScreen
from console.tui.screens.texts import issue_text
from console.tui.session import Phase, Session
from console.views.problem_form import FIELDS, FormState, check_form, suggestions, values_of
from planner.search.ask import Request

TYPING_PAUSE_S = 0.2


class ProblemScreen(MainScreen):
    """See the module."""

    NAME = "problem"
    TITLE = "Problem"
    help_text = (
        "The planning question. Every field is an option of planner recommend; empty fields take the default named in "
        "them. Right arrow takes over a suggestion. ctrl+r (or enter in a field) asks the question."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "recommend", "Recommend", id="problem.recommend", priority=True),
        Binding("ctrl+l", "recipe", "Recipe", id="problem.recipe"),
        Binding("escape", "back", "Leave field, back", id="problem.back"),
        Binding("down", "app.focus_next", "Next", show=False, id="problem.next"),
        Binding("up", "app.focus_previous", "Previous", show=False, id="problem.previous"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._state: FormState | None = None
        self._base: Request | None = None
        self._timer: Timer | None = None
        self._session_request: Request | None = None

    def compose_body(self) -> Iterator[Any]:
        """Fields by group on the left, what follows from them on the right."""
        with Container(id="problem-body"):
            with VerticalScroll(id="problem-form", classes="panel", can_focus=False) as form:
                form.border_title = "Problem"
                for group, members in groupby(FIELDS, key=lambda f: f.group):
                    yield Label(group, classes="group")
                    for spec in members:
                        with Horizontal(classes="field", id=f"line-{spec.key}"):
                            yield Label(spec.label)
                            yield Input(placeholder=spec.hint, id=f"field-{spec.key}", compact=True)
                            yield Static("", classes="note", markup=False)
            with VerticalScroll(id="problem-side", classes="panel") as side:
                side.border_title = "Check"
                yield Static("", id="problem-check")

    def on_mount(self) -> None:
        """Follow the session; the catalogue's names arrive as suggestions."""
        self.watch(self.app, "session", self._session_changed)
        self._load_suggestions()
        self._check_soon()
        self.query_one("#field-model", Input).focus()

    @work(thread=True, group="suggestions")
    def _load_suggestions(self) -> None:
        found = suggestions()
        self.app.call_from_thread(self._suggest, found)

    def _suggest(self, found: dict[str, Sequence[str]]) -> None:
        for key, names in found.items():
            self.query_one(f"#field-{key}", Input).suggester = SuggestFromList(names, case_sensitive=False)

    def _session_changed(self, session: Session) -> None:
        self.say(
            busy=f"pricing every legal plan: {session.origin} …" if session.phase is Phase.SOLVING else ""
        )
        request = session.request
        if request is None or request == self._session_request:
            return
        self._session_request = self._base = request
        for key, text in values_of(request).items():
            self.query_one(f"#field-{key}", Input).value = text
        self._check_soon()

    @on(Input.Changed)
    def _changed(self) -> None:
        self._check_soon()

    def _check_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_PAUSE_S, self._check_now)

    def _values(self) -> dict[str, str]:
        return {f.key: self.query_one(f"#field-{f.key}", Input).value for f in FIELDS}

    def _check_now(self) -> None:
        self._check(self._values(), self._base)

    @work(thread=True, exclusive=True, group="check")
    def _check(self, values: dict[str, str], base: Request | None) -> None:
        worker = get_current_worker()
        state = check_form(values, base=base)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, state)

    def _show(self, state: FormState) -> None:
        self._state = state
        for field in state.fields:
            line = self.query_one(f"#line-{field.spec.key}")
            line.set_class(bool(field.issues), "-wrong")
            note = "; ".join(f"✗ {i.what}: {i.why}" for i in field.issues)
            line.query_one(".note", Static).update(note)
        side = self.query_one("#problem-side")
        text = Text()
        if state.ready:
            side.border_title = "✓ ready: ctrl+r asks"
            text.append(f"{state.summary}\n\n", "bold")
            text.append("Assumed\n", "bold")
            text.append("".join(f"· {a}\n" for a in state.assumptions))
            text.append("\nThe same on the command line\n", "bold")
            text.append(state.command)
        else:
            count = len(state.issues)
            side.border_title = f"✗ {count} thing{'s' if count != 1 else ''} to mend"
            text.append_text(issue_text(state.issues))
        self.query_one("#problem-check", Static).update(text)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_recommend()

    def action_back(self) -> None:
        """Leave the field, so that single keys work again; then back."""
        if isinstance(self.focused, Input):
            self.set_focus(None)
        else:
            super().action_back()

    def action_recommend(self) -> None:
        """Ask the question; what is wrong is named instead."""
        state = check_form(self._values(), base=self._base)
        self._show(state)
        if not state.ready or state.request is None:
            self.notify(f"{len(state.issues)} to mend first", severity="error")
            return
        self._session_request = self._base = state.request
        self.planner.action_show("frontier")
        self.planner.ask(state.request, "the problem screen")

    def action_recipe(self) -> None:
        """Fill the form from a recipe."""
        self.planner.choose_recipe()
