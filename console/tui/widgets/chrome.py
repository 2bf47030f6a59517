"""The line on top: which program, which screen, which question, and that nothing is ever changed."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget


class Header(Widget):
    """One line; what does not fit is left out from the right of the middle."""

    DEFAULT_CSS = """
    Header { dock: top; height: 1; background: $panel; color: $foreground; }
    """
    subject: reactive[str] = reactive("")
    busy: reactive[str] = reactive("")

    def __init__(self, tabs: tuple[tuple[str, str, str], ...], current: str) -> None:
        super().__init__()
        self._tabs = tabs
        self._current = current

    def render(self) -> Text:
        """Tabs, subject, and the read-only badge at the right end."""
        width = self.size.width
        text = Text(no_wrap=True, end="")
        for key, name, title in self._tabs:
            here = name == self._current
            shown = title if here or width >= 100 else ""
            text.append(f" {key}", "bold" if here else "dim")
            text.append(f" {shown} " if shown else " ", "bold reverse" if here else "dim")
        right = Text(" READ-ONLY ", "bold")
        middle = self.busy or self.subject
        space = width - text.cell_len - right.cell_len - 2
        if len(middle) > space:
            middle = middle[: max(space - 1, 0)] + "…" if space > 0 else ""
        text.append(f" {middle} ", "italic" if self.busy else "")
        text.append(" " * max(width - text.cell_len - right.cell_len, 0))
        return text + right
