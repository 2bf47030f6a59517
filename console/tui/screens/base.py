"""What all screens share: header, footer, back, help on the focused widget, jump mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from console.tui.themes import PALETTES, Palette
from console.tui.widgets.chrome import Header

if TYPE_CHECKING:
    from console.tui.app import PlannerApp


class MainScreen(Screen[None]):
    """A screen reached by a number key. Subclasses give `NAME`, `TITLE` and `compose_body`."""

    NAME: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (170, "-huge")]  # noqa: RUF012 - textual's own attribute
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-tall"), (44, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, id="screen.back"),
    ]
    help_text: ClassVar[str] = ""

    @property
    def planner(self) -> PlannerApp:
        """The app, with its type."""
        return cast("PlannerApp", self.app)

    @property
    def palette(self) -> Palette:
        """Chart colours of the theme in use."""
        return PALETTES.get(self.app.theme, next(iter(PALETTES.values())))

    def compose(self) -> ComposeResult:
        """Header, body, footer."""
        yield Header(self.planner.tabs, self.NAME)
        yield from self.compose_body()
        yield Footer(show_command_palette=False, compact=True)

    def compose_body(self) -> Iterator[Any]:
        """The screen's own widgets."""
        raise NotImplementedError

    def say(self, *, subject: str | None = None, busy: str | None = None) -> None:
        """Set the header's subject or what is going on."""
        header = self.query_one(Header)
        if subject is not None:
            header.subject = subject
        if busy is not None:
            header.busy = busy

    def action_back(self) -> None:
        """The screen shown before this one."""
        self.planner.show_previous()
