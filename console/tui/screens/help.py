"""Help on the focused widget, the list of all keys, and jump mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Footer, Label, Static

LETTERS: Final = "asdfjklghqwertyuiopzxcvbnm"


def keys_of(
    widget: Widget | None, screen: Screen[Any]
) -> Iterator[tuple[str, Sequence[tuple[str, str, str]]]]:
    """(title, (keys, what, action id)) of the focused widget, its ancestors, the screen and the app."""
    node: Any = widget if widget is not None else screen
    seen: set[str] = set()
    while node is not None:
        rows = []
        for bound in node._bindings.key_to_bindings.values():  # noqa: SLF001 - textual offers no public listing per node
            for binding in bound:
                name = binding.id or binding.action
                if name in seen or not binding.description:
                    continue
                seen.add(name)
                keys = ", ".join(
                    b.key for bs in node._bindings.key_to_bindings.values() for b in bs  # noqa: SLF001
                    if (b.id or b.action) == name
                )  # fmt: skip
                rows.append((keys, binding.description, binding.id or ""))
        if rows:
            yield type(node).__name__, rows
        node = node.parent


class HelpScreen(ModalScreen[None]):
    """What the focused widget is for, and every key that works now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Back", id="help.back"),
        Binding("j", "scroll(1)", "Down", show=False, id="help.down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="help.up"),
    ]

    def __init__(self, focused: Widget | None, screen: Screen[Any], *, ids: bool = False) -> None:
        super().__init__()
        self._focused_below = focused
        self._screen_below = screen
        self._ids = ids

    def compose(self) -> ComposeResult:
        """Help of the widget, of the screen, then keys."""
        text = Text()
        for node in (self._focused_below, self._screen_below):
            words = getattr(node, "help_text", "")
            if words:
                text.append(words.strip() + "\n\n")
        for title, rows in keys_of(self._focused_below, self._screen_below):
            text.append(f"{title}\n", "bold")
            for keys, what, name in rows:
                text.append(f"  {keys:<22} ", "bold")
                text.append(f"{what:<28}")
                text.append(f"{name}\n" if self._ids else "\n", "dim")
            text.append("\n")
        with Vertical(classes="panel modal") as panel:
            panel.border_title = (
                "Help" if self._focused_below is None else f"Help on {_name(self._focused_below)}"
            )
            with VerticalScroll(id="help-scroll"):
                yield Static(text)
        yield Footer(show_command_palette=False, compact=True)

    def action_scroll(self, lines: int) -> None:
        """Scroll by `lines`."""
        self.query_one("#help-scroll").scroll_relative(y=lines, animate=False)


def _name(widget: Widget) -> str:
    return widget.id.replace("-", " ") if widget.id else type(widget).__name__


class JumpScreen(ModalScreen[Widget | None]):
    """A letter on every widget that can have the focus; typing it goes there."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", id="jump.cancel")]

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        self._by_letter = dict(zip(LETTERS, targets, strict=False))

    def compose(self) -> ComposeResult:
        """The letters, each over its widget."""
        for letter, widget in self._by_letter.items():
            label = Label(letter, classes="jump-key")
            label.styles.offset = (widget.region.x, widget.region.y)
            yield label

    def on_key(self, event: Any) -> None:
        """Go to the widget whose letter was typed; any other key cancels."""
        if event.key != "escape":
            event.stop()
            self.dismiss(self._by_letter.get(event.key))
