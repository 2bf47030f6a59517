"""A table that draws only the lines in sight, so that 5,000 rows cost what 20 do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `width` 0 takes what is left, at least `least`. Of too many columns those with the lowest `rank` are hidden."""

    title: str
    width: int
    least: int = 12
    right: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of cells. `key` identifies it across updates; `styles` are Rich styles per cell, empty for default."""

    key: str
    cells: tuple[str, ...]
    styles: tuple[str, ...] = ()


class Grid(ScrollView, can_focus=True):
    """A selectable table. The cursor follows its row's key when rows change."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--head", "grid--cursor", "grid--stripe"}
    DEFAULT_CSS = """
    Grid {
        background: $surface;
        height: 1fr;
        & > .grid--head { color: $secondary; text-style: bold; background: $panel; }
        & > .grid--cursor { background: $panel; text-style: bold; }
        &:focus > .grid--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page-down"),
        Binding("home", "move(-1000000000)", "First", show=False, id="table.first"),
        Binding("end,G", "move(1000000000)", "Last", show=False, id="table.last"),
        Binding("enter", "choose", "Open", show=False, id="table.open"),
    ]
    help_text: ClassVar[str] = "A table. j and k or the arrows move, enter opens the row, a click selects it."

    class Moved(Message):
        """The cursor is on another row; `key` is empty when there is none."""

        def __init__(self, grid: Grid, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            """The table that sent it."""
            return self.grid

    class Chosen(Message):
        """Enter or a second click on a row."""

        def __init__(self, grid: Grid, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            """The table that sent it."""
            return self.grid

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        id: str | None = None,  # noqa: A002 - textual's own name
        empty: str = "",
        keep_styles: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._keep_styles = keep_styles  # cells keep their own colours under the cursor
        self._columns = tuple(columns)
        self._rows: tuple[Row, ...] = ()
        self._cursor = 0
        self._empty = empty

    @property
    def cursor_key(self) -> str:
        """Key of the row under the cursor, empty when there are no rows."""
        return self._rows[self._cursor].key if self._rows else ""

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows."""
        return self._rows

    def set_rows(
        self, rows: Sequence[Row], *, columns: Sequence[Column] | None = None, empty: str | None = None
    ) -> None:
        """Replace the rows; the cursor stays on its key, or at its place when the key is gone."""
        key = self.cursor_key
        if columns is not None:
            self._columns = tuple(columns)
        if empty is not None:
            self._empty = empty
        self._rows = tuple(rows)
        self._cursor = self._find(key, min(self._cursor, max(len(self._rows) - 1, 0)))
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self.refresh()
        self.call_after_refresh(self._show_cursor)
        if self.cursor_key != key:
            self.post_message(self.Moved(self, self.cursor_key))

    def _find(self, key: str, fallback: int) -> int:
        return next((i for i, r in enumerate(self._rows) if r.key == key), fallback) if key else fallback

    def select(self, key: str) -> bool:
        """Move the cursor to the row `key`; False when there is no such row."""
        found = self._find(key, -1)
        if found < 0:
            return False
        self._move_to(found)
        return True

    def _move_to(self, line: int) -> None:
        if not self._rows:
            return
        line = min(max(line, 0), len(self._rows) - 1)
        if line != self._cursor:
            self._cursor = line
            self.refresh()
            self.post_message(self.Moved(self, self.cursor_key))
        self._show_cursor()

    def _show_cursor(self) -> None:
        height = max(self.scrollable_content_region.height - 1, 1)
        top = round(self.scroll_offset.y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, immediate=True)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False, immediate=True)

    def action_move(self, lines: int) -> None:
        """Move the cursor by `lines`."""
        self._move_to(self._cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move the cursor by whole pages."""
        self._move_to(self._cursor + pages * max(self.size.height - 2, 1))

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self._rows:
            self.post_message(self.Chosen(self, self.cursor_key))

    def on_click(self, event: events.Click) -> None:
        """Select the row; a second click opens it."""
        line = event.y - 1 + round(self.scroll_offset.y)
        if event.y < 1 or line >= len(self._rows):
            return
        if line == self._cursor and event.chain > 1:
            self.action_choose()
        self._move_to(line)

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self._show_cursor()

    def widths(self, total: int) -> tuple[int, ...]:
        """Width per column for `total` cells; 0 hides a column, the lowest ranks first."""
        chosen = set(range(len(self._columns)))
        flexible = {i for i in chosen if self._columns[i].width == 0}

        def needed() -> int:
            return sum(self._columns[i].width or self._columns[i].least for i in chosen) + len(chosen) - 1

        while needed() > total and len(chosen) > 1:
            chosen.remove(min(chosen, key=lambda i: (self._columns[i].rank, -i)))
            flexible &= chosen
        left = total - needed() + sum(self._columns[i].least for i in flexible)
        share = left // len(flexible) if flexible else 0
        return tuple(
            0 if i not in chosen else (share if i in flexible else c.width)
            for i, c in enumerate(self._columns)
        )

    def render_line(self, y: int) -> Strip:
        """Line `y` of the visible area: the head stays in sight."""
        width = self.scrollable_content_region.width
        widths = self.widths(width)
        if y == 0:
            cells = tuple(c.title for c in self._columns)
            return self._strip(cells, (), widths, self.get_component_rich_style("grid--head"), width)
        line = y - 1 + round(self.scroll_offset.y)
        if line >= len(self._rows):
            text = self._empty if not self._rows and y == 2 else ""
            return Strip([Segment(set_cell_size(f" {text}", width), self.rich_style)], width)
        row = self._rows[line]
        if line == self._cursor:
            styles = row.styles if self._keep_styles else ()
            return self._strip(
                row.cells, styles, widths, self.get_component_rich_style("grid--cursor"), width
            )
        return self._strip(row.cells, row.styles, widths, self.rich_style, width)

    def _strip(
        self, cells: Sequence[str], styles: Sequence[str], widths: Sequence[int], base: Style, total: int
    ) -> Strip:
        segments: list[Segment] = []
        for i, (text, width) in enumerate(zip(cells, widths, strict=True)):
            if width == 0:
                continue
            if segments:
                segments.append(Segment(" ", base))
            style = base + Style.parse(styles[i]) if i < len(styles) and styles[i] else base
            segments.append(Segment(_fit(text, width, right=self._columns[i].right), style))
        used = sum(cell_len(s.text) for s in segments)
        if used < total:
            segments.append(Segment(" " * (total - used), base))
        return Strip(segments, total)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw: the head does not scroll with the rows."""
        super().watch_scroll_y(old_value, new_value)
        self.refresh(Region(0, 0, self.size.width, self.size.height))


def _fit(text: str, width: int, *, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(width - 1, 0)) + "…" if width > 0 else ""
    pad = " " * (width - length)
    return pad + text if right else text + pad
