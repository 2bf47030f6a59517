"""The application: screens by number, the ``:`` prompt, themes, the shared session and its workers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import get_current_worker

from console.tui.commands import COMMANDS, find
from console.tui.screens.base import MainScreen
from console.tui.screens.help import HelpScreen, JumpScreen
from console.tui.screens.texts import PromptScreen
from console.tui.services import ClusterChoice, Services, Solved
from console.tui.session import Phase, Session
from console.tui.settings import Settings
from console.tui.themes import DARK, THEMES
from planner.domain.errors import Issue, PlannerError, did_you_mean
from planner.search.ask import Request

if TYPE_CHECKING:
    from console.tui.records import OpenedStudy

FOLLOW_S: Final = 2.0  # between looks at a running study


@dataclass(frozen=True, slots=True)
class Entry:
    """A main screen; its module is imported when it is first shown."""

    name: str
    title: str
    module: str
    cls: str

    def load(self) -> type[MainScreen]:
        """The screen's class."""
        found: type[MainScreen] = getattr(import_module(f"console.tui.screens.{self.module}"), self.cls)
        return found

    def make(self) -> MainScreen:
        """A new screen."""
        return self.load()()


MAIN_SCREENS: Final = (
    Entry("frontier", "Frontier", "frontier", "FrontierScreen"),
    Entry("problem", "Problem", "problem", "ProblemScreen"),
    Entry("simulation", "Simulation", "simulation", "SimulationScreen"),
    Entry("cluster", "Cluster", "cluster", "ClusterScreen"),
    Entry("studies", "Studies", "studies", "StudiesScreen"),
    Entry("measurements", "Measurements", "measurements", "MeasurementsScreen"),
)


class PlannerApp(App[None]):
    """`planner tui`. Nothing here changes a cluster; files are written only where the user says."""

    TITLE = "wideplan"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {s.name: s.make for s in MAIN_SCREENS}
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"show('{s.name}')", s.title, show=False, id=f"app.{s.name}")
            for n, s in enumerate(MAIN_SCREENS, start=1)
        ),
        Binding("colon", "prompt", "Command", key_display=":", id="app.command"),
        Binding("question_mark", "help", "Help", key_display="?", id="app.help"),
        Binding("ctrl+o", "jump", "Jump", show=False, id="app.jump"),
        Binding("minus", "previous", "Last screen", show=False, id="app.previous"),
        Binding("q", "quit", "Quit", id="app.quit"),
    ]
    session: reactive[Session] = reactive(Session(), init=False)

    def __init__(
        self,
        services: Services,
        *,
        request: Request | None = None,
        origin: str = "",
        settings: Settings | None = None,
        cluster: ClusterChoice | None = None,
        study: str = "",
    ) -> None:
        super().__init__()
        self.services = services
        self._settings = settings or Settings()
        self._first = (request, origin)
        self._study = study
        self._history: list[str] = []
        self._best: int | None = None
        self._following = ""  # the study that the frontier follows
        self.cluster = cluster or ClusterChoice()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._settings.theme or DARK

    @property
    def tabs(self) -> tuple[tuple[str, str, str], ...]:
        """(key, name, title) of the main screens."""
        return tuple((str(n), s.name, s.title) for n, s in enumerate(MAIN_SCREENS, start=1))

    def on_mount(self) -> None:
        """Show the first screen at once; the answer follows."""
        if self._settings.keys:
            self.set_keymap(dict(self._settings.keys))
        if not self.is_headless:
            self._obey_signals()
        request, origin = self._first
        self.action_show("frontier" if request is not None or self._study else "problem")
        if self._study:
            self.open_study(self._study)
        elif request is not None:
            self.ask(request, origin)

    def _obey_signals(self) -> None:
        """A terminating signal ends the app like a key does, so that the terminal is restored."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(name, partial(self.exit, return_code=128 + name))

    @property
    def computing(self) -> bool:
        """Whether a thread still works on an answer nobody waits for any more."""
        return any(w.is_running for w in self.workers)

    # --- the question ---

    def ask(self, request: Request, origin: str) -> None:
        """Solve `request` in a thread; screens follow `session`."""
        self._following = ""
        self.session = replace(self.session, phase=Phase.SOLVING, request=request, origin=origin, issues=())
        self.run_worker(
            lambda: self._solve(request, origin),
            thread=True,
            exclusive=True,
            group="solve",
            exit_on_error=False,
        )

    def _solve(self, request: Request, origin: str) -> None:
        worker = get_current_worker()
        try:
            solved = self.services.solve(request, origin)
        except PlannerError as error:
            if not worker.is_cancelled:
                self.call_from_thread(self._failed, error.issues)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._solved, solved)

    def _solved(self, solved: Solved) -> None:
        self.session = Session(
            phase=Phase.READY, request=solved.request, origin=solved.origin, solved=solved, pinned=()
        )

    def _failed(self, issues: tuple[Issue, ...]) -> None:
        self.session = replace(self.session, phase=Phase.FAILED, issues=issues)

    def open_study(self, name: str) -> None:
        """Show a study on the frontier screen, and follow it while it runs."""
        self.session = replace(self.session, phase=Phase.SOLVING, origin=f"study {name}", issues=())
        self._following = name
        self.action_show("frontier")
        self._read_study(name)

    def _read_study(self, name: str) -> None:
        self.run_worker(
            lambda: self._load_study(name), thread=True, exclusive=True, group="solve", exit_on_error=False
        )

    def _load_study(self, name: str) -> None:
        worker = get_current_worker()
        try:
            opened = self.services.records.open_study(name)
        except PlannerError as error:
            if not worker.is_cancelled:
                self.call_from_thread(self._failed, error.issues)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._study_read, name, opened)

    def _study_read(self, name: str, opened: OpenedStudy) -> None:
        if self._following != name:
            return  # another question was asked meanwhile
        session, before = self.session, self.session.solved
        progress = f"{opened.finished} trials, {'running' if opened.running else 'ended'}"
        same = before is not None and before.origin == opened.solved.origin
        news = progress != session.progress
        if not same or news or session.phase is not Phase.READY:
            # trials only ever follow those before, so pinned points stay what they are
            self.session = Session(
                phase=Phase.READY,
                request=opened.solved.request,
                origin=opened.solved.origin,
                solved=opened.solved,
                pinned=session.pinned if same else (),
                progress=progress,
            )
        if opened.running:
            self.set_timer(FOLLOW_S, lambda: self._read_study(name) if self._following == name else None)

    def toggle_pin(self, point: int) -> None:
        """Pin `point`, or release it."""
        changed = self.session.toggled(point)
        if changed is self.session:
            self.notify("Six plans are pinned; release one with space", severity="warning")
        self.session = changed

    def best_point(self) -> int | None:
        """The best plan under the targets that the frontier screen shows, once it was shown."""
        return self._best

    def set_best(self, point: int | None) -> None:
        """The frontier screen says which plan is best."""
        self._best = point

    # --- navigation ---

    def action_show(self, name: str) -> None:
        """Show the main screen `name`."""
        current = self.current_mode
        if current == name:
            return
        if current in self.MODES:
            self._history.append(current)
        self.switch_mode(name)

    def action_previous(self) -> None:
        """The main screen shown before."""
        self.show_previous()

    def show_previous(self) -> None:
        """Go back one main screen; nothing happens at the first."""
        if self._history:
            self.switch_mode(self._history.pop())

    def action_help(self) -> None:
        """Help on what has the focus."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.focused, self.screen))

    def action_jump(self) -> None:
        """A letter on every widget."""
        if isinstance(self.screen, JumpScreen):
            return
        targets = [w for w in self.screen.focus_chain if w.region.area]

        def go(widget: Widget | None) -> None:
            if widget is not None:
                widget.focus()

        self.push_screen(JumpScreen(targets), go)

    # --- the prompt ---

    def action_prompt(self) -> None:
        """Ask for a command."""
        if isinstance(self.screen, PromptScreen):
            return
        known = [(f"{c.name} {c.argument}".strip(), c.help) for c in COMMANDS]
        self.push_screen(PromptScreen(":", hint="a command; tab completes", known=known), self._run_command)

    def _run_command(self, text: str | None) -> None:
        word, _, argument = (text or "").strip().partition(" ")
        if not word:
            return
        command = find(word.lower())
        if command is None:
            self.notify(
                f"'{word}' is no command: {did_you_mean(word, [c.name for c in COMMANDS])}", severity="error"
            )
            return
        argument = argument.strip().removeprefix(command.argument).strip() if command.argument else ""
        if command.name in self.MODES:
            self.action_show(command.name)
        elif command.name == "recipe":
            self.choose_recipe(argument)
        elif command.name == "study" and argument:
            self.open_study(argument)
        elif command.name == "study":
            self.action_show("studies")
        elif command.name == "theme":
            self._set_theme(argument)
        elif command.name in {"context", "namespace", "replay"}:
            self._choose_cluster(command.name, argument)
        elif command.name == "keys":
            self.push_screen(HelpScreen(self.focused, self.screen, ids=True))
        elif command.name == "jump":
            self.action_jump()
        elif command.name == "help":
            self.action_help()
        else:
            self.exit()

    def choose_recipe(self, name: str = "") -> None:
        """Open the recipe `name`, or ask which."""
        from planner.catalog.recipes import list_recipes

        if name:
            self.open_recipe(name)
            return
        known = [(r, "") for r in list_recipes()]

        def chosen(text: str | None) -> None:
            if text:
                self.open_recipe(text)

        self.push_screen(PromptScreen("Recipe", hint="name or path", known=known), chosen)

    def open_recipe(self, name: str) -> None:
        """Load the recipe `name` and ask its question."""
        from planner.search.from_recipe import with_recipe

        try:
            request = with_recipe(name, Request())
        except PlannerError as error:
            self.session = replace(self.session, phase=Phase.FAILED, issues=error.issues)
            self.action_show("frontier")
            return
        self.action_show("frontier")
        self.ask(request, f"recipe {name}")

    def _choose_cluster(self, what: str, value: str) -> None:
        """Follow another cluster, namespace or recording."""
        if what == "replay" and not value:
            self.notify("name a recording: :replay FILE", severity="warning")
            return
        self.cluster = self.cluster.changed(what, value)
        shown = self.current_mode == "cluster"
        self.action_show("cluster")
        if shown or getattr(self.screen, "connected", False):
            self.screen.connect()  # type: ignore[attr-defined]

    def _set_theme(self, name: str) -> None:
        names = [t.name for t in THEMES]
        if name in names:
            self.theme = name
        elif name:
            self.notify(f"'{name}' is no theme: {did_you_mean(name, names)}", severity="error")
        else:
            self.push_screen(
                PromptScreen("Theme", known=[(n, "") for n in names]),
                lambda t: self._set_theme(t) if t else None,
            )


def owners() -> tuple[tuple[str, type[Any]], ...]:
    """Everything that has keys, with a title for lists of them."""
    from console.tui.screens import compare, objects, slo, texts
    from console.tui.screens import help as help_screens
    from console.tui.widgets.grid import Grid

    return (
        ("Everywhere", PlannerApp),
        ("Main screens", MainScreen),
        ("Tables", Grid),
        *((entry.title, entry.load()) for entry in MAIN_SCREENS),
        ("Compare", compare.CompareScreen),
        ("Targets", slo.SloScreen),
        ("Objects", objects.ObjectsScreen),
        ("Texts", texts.TextScreen),
        ("Prompts", texts.PromptScreen),
        ("Messages", texts.IssueScreen),
        ("Help", help_screens.HelpScreen),
        ("Jump mode", help_screens.JumpScreen),
    )


def action_ids() -> frozenset[str]:
    """Ids of every action whose keys can be changed."""
    return frozenset(b.id for _, o in owners() for b in o.BINDINGS if isinstance(b, Binding) and b.id)
