"""Objects of one kind: list, describe, YAML."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from console.cluster.kinds import Kind
from console.tui.feed import Picture
from console.tui.screens.texts import PromptScreen, TextScreen, yaml_text
from console.tui.themes import PALETTES
from console.tui.widgets.grid import Column, Grid, Row
from console.views.objects import find_kind, object_table, object_yaml, related_events, unknown_kind

COLUMNS = (
    Column(title="name", width=0, least=20, rank=9),
    Column(title="state", width=20, rank=8),
    Column(title="", width=60, rank=1),
)
REFRESH_S = 1.0


class ObjectsScreen(ModalScreen[None]):
    """Follows the picture the caller gives; `k` changes the kind."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="objects.back"),
        Binding("K", "kind", "Kind", id="objects.kind"),
        Binding("z,ctrl+z", "faults", "Faults only", key_display="z", id="objects.faults"),
        Binding("d,enter", "describe", "Describe", key_display="d", id="objects.describe"),
        Binding("y", "yaml", "YAML", id="objects.yaml"),
    ]
    help_text: ClassVar[str] = (
        "Objects of one kind, faults first. K chooses another kind, d describes, y shows YAML."
    )

    def __init__(self, picture: Callable[[], Picture | None], kind: Kind) -> None:
        super().__init__()
        self._picture = picture
        self._kind = kind
        self._faults = False

    def compose(self) -> ComposeResult:
        """One table."""
        with Vertical(classes="panel modal", id="objects-panel"):
            yield Grid(COLUMNS, id="objects", empty="none")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Fill, and refresh while shown."""
        self._fill()
        self.set_interval(REFRESH_S, self._fill)
        self.query_one(Grid).focus()

    def _fill(self) -> None:
        picture = self._picture()
        if picture is None:
            return
        table = object_table(picture.snapshot, self._kind, faults_only=self._faults)
        palette = PALETTES.get(self.app.theme, next(iter(PALETTES.values())))
        panel = self.query_one("#objects-panel")
        panel.border_title = f"{len(table.rows):,} {table.kind.value}" + (
            " with faults" if self._faults else ""
        )
        panel.border_subtitle = table.note
        self.query_one(Grid).set_rows(
            [
                Row(
                    key=r.key,
                    cells=(r.name, r.state, r.detail),
                    styles=("", palette.bad if r.bad else "", ""),
                )
                for r in table.rows
            ]
        )

    def action_faults(self) -> None:
        """Only objects with a fault, or all."""
        self._faults = not self._faults
        self._fill()

    def action_kind(self) -> None:
        """Ask for another kind."""

        def chosen(text: str | None) -> None:
            kind = find_kind(text) if text else None
            if kind is not None:
                self._kind = kind
                self._fill()
            elif text:
                self.notify(unknown_kind(text), severity="error")

        self.app.push_screen(PromptScreen("Kind", known=[(k.value, "") for k in Kind]), chosen)

    @on(Grid.Chosen)
    def _chosen(self) -> None:
        self.action_describe()

    def action_describe(self) -> None:
        """What is held of the object, and events about it."""
        self._show(events=True)

    def action_yaml(self) -> None:
        """What is held of the object, as YAML."""
        self._show(events=False)

    def _show(self, *, events: bool) -> None:
        picture, key = self._picture(), self.query_one(Grid).cursor_key
        if picture is None or not key:
            return
        text = object_yaml(picture.snapshot, self._kind, key)
        if text is None:
            self.notify(f"{key} is gone", severity="warning")
            return
        body = yaml_text(text, dark=self.app.current_theme.dark)
        if events:
            found = related_events(picture.snapshot, key.rpartition("/")[2])
            body = Text("\n").join([body, Text("events", "bold"), *(Text(e) for e in found or ("none",))])
        self.app.push_screen(TextScreen(key, body, plain=body.plain))
