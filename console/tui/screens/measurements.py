"""The measurements screen: list, import, describe, compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from console.tui.screens.base import MainScreen
from console.tui.screens.texts import IssueScreen, PromptScreen, TextScreen, issue_text
from console.tui.widgets.grid import Column, Grid, Row
from console.views.measurements import compared_lines, measurement_lines, measurement_rows
from planner.domain.errors import PlannerError
from planner.storage.measured import StoredMeasurement

COLUMNS: Final = (
    Column(title=" ", width=1, rank=20),
    Column(title="model", width=22, rank=15),
    Column(title="GPUs", width=14, rank=12),
    Column(title="plan", width=0, least=18, rank=20),
    Column(title="in/out", width=11, right=True, rank=11),
    Column(title="load", width=7, right=True, rank=14),
    Column(title="tok/s/GPU", width=9, right=True, rank=19),
    Column(title="TPOT ms", width=7, right=True, rank=17),
    Column(title="TTFT ms", width=8, right=True, rank=16),
    Column(title="engine", width=13, rank=9),
    Column(title="flags", width=24, rank=5),
)


class MeasurementsScreen(MainScreen):
    """See the module."""

    NAME = "measurements"
    TITLE = "Measurements"
    help_text = (
        "Imported benchmark results. I imports a file or folder (vllm bench, guidellm, aiperf, inference-perf, llm-d "
        "report, InferenceX, CSV); what a file does not say is stated with flags of planner measurements import. "
        "space marks one, c compares it with the one under the cursor."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,d", "describe", "Describe", key_display="d", id="measurements.describe"),
        Binding("I", "import_file", "Import", id="measurements.import"),
        Binding("space", "mark", "Mark", key_display="spc", id="measurements.mark"),
        Binding("c", "compare", "Compare", id="measurements.compare"),
        Binding("slash", "filter", "Filter", key_display="/", id="measurements.filter"),
        Binding("r", "reload", "Reload", show=False, id="measurements.reload"),
        Binding("escape", "clear", "Back", show=False, id="measurements.clear"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._stored: tuple[StoredMeasurement, ...] = ()
        self._marked = ""
        self._filter = ""

    def compose_body(self) -> Iterator[Any]:
        """The list."""
        yield Static("", id="measurements-state")
        with Container(id="measurements-panel", classes="panel"):
            yield Grid(COLUMNS, id="measurements", empty="no measurement yet: I imports benchmark results")

    def on_mount(self) -> None:
        """Read the store."""
        self.query_one(Grid).focus()
        self.query_one("#measurements-panel").border_title = "Measurements"
        self._load()

    @work(thread=True, exclusive=True, group="measurements")
    def _load(self) -> None:
        try:
            found = self.planner.services.records.measurements()
        except PlannerError as error:
            self.app.call_from_thread(self._unusable, error)
            return
        self.app.call_from_thread(self._take, found)

    def _unusable(self, error: PlannerError) -> None:
        text = Text("The store cannot be used.\n\n", "bold")
        text.append_text(issue_text(error.issues))
        self.query_one("#measurements-state", Static).update(text)
        self.set_class(True, "-message")

    def _take(self, found: tuple[StoredMeasurement, ...]) -> None:
        self._stored = found
        self.set_class(False, "-message")
        self._show()

    def _show(self) -> None:
        rows = measurement_rows(self._stored, filter_text=self._filter)
        panel = self.query_one("#measurements-panel")
        how = f" · filter {self._filter}" if self._filter else ""
        panel.border_title = f"{len(rows):,} of {len(self._stored):,} measurements{how}"
        self.query_one(Grid).set_rows(
            [
                Row(
                    key=r.key,
                    cells=(
                        "●" if r.key == self._marked else " ", r.model, r.gpu, r.plan, r.shape, r.load, r.rate, r.tpot,
                        r.ttft, r.engine, r.flags,
                    ),
                )
                for r in rows
            ]
        )  # fmt: skip

    def _current(self) -> StoredMeasurement | None:
        return self._by_key(self.query_one(Grid).cursor_key)

    def _by_key(self, key: str) -> StoredMeasurement | None:
        return next((s for s in self._stored if s.hash == key), None)

    # --- actions ---

    @on(Grid.Chosen)
    def action_describe(self) -> None:
        """Everything the source said."""
        current = self._current()
        if current is not None:
            body = "\n".join(measurement_lines(current.measurement))
            self.app.push_screen(TextScreen(current.hash[:12], Text(body), plain=body))

    def action_mark(self) -> None:
        """Mark the base of a comparison."""
        key = self.query_one(Grid).cursor_key
        self._marked = "" if key == self._marked else key
        self._show()

    def action_compare(self) -> None:
        """Compare the marked one with the one under the cursor."""
        first, second = self._by_key(self._marked), self._current()
        if first is None or second is None or first is second:
            self.notify("Mark one with space, then move to another", severity="warning")
            return
        body = "\n".join(compared_lines(first.measurement, second.measurement))
        self.app.push_screen(TextScreen("Measured against measured", Text(body), plain=body))

    def action_filter(self) -> None:
        """Ask for words."""

        def apply(text: str | None) -> None:
            if text is not None:
                self._filter = text
                self._show()

        self.app.push_screen(PromptScreen("Filter", value=self._filter, hint="h200 !flags"), apply)

    def action_clear(self) -> None:
        """Escape: first the filter, then back."""
        if self._filter:
            self._filter = ""
            self._show()
        else:
            self.planner.show_previous()

    def action_reload(self) -> None:
        """Read the store again."""
        self._load()

    def action_import_file(self) -> None:
        """Ask for a file or folder."""

        def chosen(text: str | None) -> None:
            if text:
                self._import(Path(text).expanduser())

        self.app.push_screen(PromptScreen("Import", hint="a result file or a folder of them"), chosen)

    @work(thread=True, exclusive=True, group="import")
    def _import(self, path: Path) -> None:
        self.app.call_from_thread(self.say, busy=f"importing {path} …")
        try:
            words = self.planner.services.records.import_measurements([path])
        except PlannerError as error:
            self.app.call_from_thread(self.say, busy="")
            self.app.call_from_thread(self.app.push_screen, IssueScreen("Not imported", error.issues))
            return
        self.app.call_from_thread(self.say, busy="")
        self.app.call_from_thread(self.notify, words, title="Imported", timeout=6)
        self.app.call_from_thread(self._load)
