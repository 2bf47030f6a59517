"""The studies screen: list, open on the frontier, compare; start, watch, pause and resume a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from console.tui.screens.base import MainScreen
from console.tui.screens.texts import IssueScreen, PromptScreen, TextScreen, issue_text
from console.tui.search_process import SearchProcess, search_arguments
from console.tui.widgets.grid import Column, Grid, Row
from console.views.studies import study_lines, study_rows
from planner.domain.errors import InputError, PlannerError
from planner.domain.study import StudySummary

REFRESH_S: Final = 2.0  # another process writes; the store is read, never locked
DEFAULT_TRIALS: Final = 200
COLUMNS: Final = (
    Column(title=" ", width=2, rank=9),
    Column(title="study", width=0, least=24, rank=9),
    Column(title="level", width=10, rank=4),
    Column(title="sampler", width=11, rank=3),
    Column(title="state", width=12, rank=8),
    Column(title="trials", width=9, right=True, rank=7),
    Column(title="failed", width=6, right=True, rank=2),
    Column(title="changed", width=8, right=True, rank=5),
)


class StudiesScreen(MainScreen):
    """See the module."""

    NAME = "studies"
    TITLE = "Studies"
    help_text = (
        "Searches in the store. enter opens one on the frontier screen, which follows it while it runs. S starts a search "
        "on the present problem in a process of its own, p pauses one that was started here, r resumes. space marks, c "
        "compares the marked."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="studies.open"),
        Binding("S", "search", "Search", id="studies.search"),
        Binding("p", "pause", "Pause", id="studies.pause"),
        Binding("r", "resume", "Resume", id="studies.resume"),
        Binding("space", "mark", "Mark", key_display="spc", id="studies.mark"),
        Binding("c", "compare", "Compare", id="studies.compare"),
        Binding("d", "describe", "Describe", id="studies.describe"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._studies: tuple[StudySummary, ...] = ()
        self._marked: set[str] = set()
        self._searches: dict[str, SearchProcess] = {}

    def compose_body(self) -> Iterator[Any]:
        """The list."""
        yield Static("", id="studies-state")
        with Container(id="studies-panel", classes="panel"):
            yield Grid(COLUMNS, id="studies", empty="no study yet: S searches the present problem")

    def on_mount(self) -> None:
        """Read now and every few seconds."""
        self.query_one("#studies-panel").border_title = "Studies"
        self.query_one(Grid).focus()
        self._load()
        self.set_interval(REFRESH_S, self._refresh)

    def on_unmount(self) -> None:
        """Searches that were started here end as by Ctrl-C: every finished trial is kept."""
        for search in self._searches.values():
            search.pause()

    def _refresh(self) -> None:
        if self.is_current:
            self._load()
        for name, search in list(self._searches.items()):
            if not search.running:
                del self._searches[name]
                words = search.last_words()
                self.notify(words or "finished", title=f"search {name}", timeout=8)

    @work(thread=True, exclusive=True, group="studies")
    def _load(self) -> None:
        try:
            found = self.planner.services.records.studies()
        except PlannerError as error:
            self.app.call_from_thread(self._unusable, error)
            return
        self.app.call_from_thread(self._show, found)

    def _unusable(self, error: PlannerError) -> None:
        text = Text("The store cannot be used.\n\n", "bold")
        text.append_text(issue_text(error.issues))
        self.query_one("#studies-state", Static).update(text)
        self.set_class(True, "-message")

    def _show(self, found: tuple[StudySummary, ...]) -> None:
        self._studies = found
        self.set_class(False, "-message")
        palette = self.palette
        rows = study_rows(found, now=self.planner.services.now())
        self.query_one("#studies-panel").border_title = f"{len(rows)} studies"
        self.query_one(Grid).set_rows(
            [
                Row(
                    key=r.name,
                    cells=(
                        ("●" if r.name in self._marked else " ") + ("▶" if r.name in self._searches else " "),
                        r.name, r.level, r.sampler, r.state, r.progress, str(r.failed), r.age,
                    ),
                    styles=("", "", "", "", palette.good if r.running else "", "", palette.bad if r.failed else "", ""),
                )
                for r in rows
            ]
        )  # fmt: skip

    def _current(self) -> StudySummary | None:
        key = self.query_one(Grid).cursor_key
        return next((s for s in self._studies if s.study.name == key), None)

    # --- actions ---

    @on(Grid.Chosen)
    def action_open(self) -> None:
        """Show the study on the frontier screen."""
        current = self._current()
        if current is not None:
            self.planner.open_study(current.study.name)

    def action_mark(self) -> None:
        """Mark for comparison."""
        current = self._current()
        if current is not None:
            self._marked ^= {current.study.name}
            self._show(self._studies)

    def action_compare(self) -> None:
        """Compare the marked studies."""
        known = [s.study.name for s in self._studies if s.study.name in self._marked]
        if len(known) < 2:
            self.notify("Mark two studies with space first", severity="warning")
        else:
            self._compare(known)

    @work(thread=True, exclusive=True, group="compare")
    def _compare(self, names: list[str]) -> None:
        try:
            same, bests = self.planner.services.records.compare(names)
        except PlannerError as error:
            self.app.call_from_thread(self.app.push_screen, IssueScreen("Not compared", error.issues))
            return
        lines = [f"{'study':<36}{'finished':>9}{'feasible':>9}{'tok/s/GPU':>11}  plan"]
        lines += [
            f"{b.name:<36}{b.finished:>9}{b.feasible:>9}{b.best_rate or '–':>11}  {b.best_plan or '–'}"
            for b in bests
        ]
        if not same:
            lines += ["", "These studies answer different problems: their figures do not compare."]
        body = "\n".join(lines)
        self.app.call_from_thread(self.app.push_screen, TextScreen("Studies", Text(body), plain=body))

    def action_describe(self) -> None:
        """Sampler, budget, counts, settings."""
        current = self._current()
        if current is not None:
            body = "\n".join(study_lines(current))
            self.app.push_screen(TextScreen(current.study.name, Text(body), plain=body))

    def action_search(self) -> None:
        """Ask for the number of trials and search the present problem."""
        request = self.planner.session.request
        if request is None:
            self.notify("There is no problem yet: 2 edits it", severity="warning")
            return

        def chosen(text: str | None) -> None:
            if not text:
                return
            if not text.isdigit() or int(text) < 1:
                self.notify(f"'{text}' is no number of trials", severity="error")
                return
            stamp = self.planner.services.now().strftime("%m%d-%H%M%S")
            name = f"{request.name or 'search'}-{stamp}"
            try:
                arguments = search_arguments(request, name=name, trials=int(text))
            except InputError as error:
                self.app.push_screen(IssueScreen("Not searched", error.issues))
                return
            self._begin(name, arguments)

        self.app.push_screen(PromptScreen("Trials", value=str(DEFAULT_TRIALS), hint="a number"), chosen)

    def _begin(self, name: str, arguments: list[str]) -> None:
        self._searches[name] = self.planner.services.start_search(arguments)
        self.notify(f"{name} runs in a process of its own; enter opens it", title="Search started", timeout=6)
        self._load()

    def action_pause(self) -> None:
        """Pause a search that was started here."""
        current = self._current()
        if current is None:
            return
        search = self._searches.get(current.study.name)
        if search is None:
            self.notify("It was not started here: press Ctrl-C where it runs", severity="warning")
        else:
            search.pause()
            self.notify("pausing after the trials in flight", timeout=4)

    def action_resume(self) -> None:
        """Resume the study."""
        current = self._current()
        if current is None:
            return
        name = current.study.name
        if name in self._searches and self._searches[name].running:
            self.notify("it runs", timeout=3)
        else:
            self._begin(name, ["studies", "resume", name])
