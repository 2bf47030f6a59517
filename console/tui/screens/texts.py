"""Modal screens of text: read, copy, write to a file; a one-line prompt; a message with reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.console import RenderableType
from rich.syntax import Syntax
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static

from planner.domain.errors import Issue, PlannerError


class TextScreen(ModalScreen[None]):
    """A text to read. `plain` is what is copied and written; `save_as` proposes a file name (None: not to be saved)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="text.back"),
        Binding("c", "copy", "Copy", id="text.copy"),
        Binding("e", "save", "Write file", id="text.save"),
        Binding("j", "scroll(1)", "Down", show=False, id="text.down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="text.up"),
    ]
    help_text: ClassVar[str] = "A text. c copies it to the clipboard, e writes it to a file, esc goes back."

    def __init__(
        self,
        title: str,
        body: RenderableType,
        *,
        plain: str,
        save_as: Path | None = None,
        write: Callable[[Path], Sequence[str]] | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._body = body
        self._plain = plain
        self._save_as = save_as
        self._write = write

    def compose(self) -> ComposeResult:
        """A scrolling panel."""
        with Vertical(classes="panel modal") as panel:
            panel.border_title = self._title
            with VerticalScroll(id="text-scroll"):
                yield Static(self._body, id="text")
        yield Footer(show_command_palette=False, compact=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Writing is offered for what can be written."""
        del parameters
        return self._save_as is not None or action != "save"

    def action_scroll(self, lines: int) -> None:
        """Scroll by `lines`."""
        self.query_one("#text-scroll").scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        """Copy to the terminal's clipboard (OSC 52)."""
        self.app.copy_to_clipboard(self._plain)
        self.notify(f"{len(self._plain.splitlines())} lines copied", timeout=3)

    def action_save(self) -> None:
        """Ask where to, and write."""
        if self._save_as is not None:
            self.app.push_screen(
                PromptScreen("Write to", value=str(self._save_as), hint="a file or folder"), self._save_to
            )

    def _save_to(self, answer: str | None) -> None:
        if not answer:
            return
        path = Path(answer).expanduser()
        try:
            written = self._write(path) if self._write is not None else self._write_text(path)
        except PlannerError as error:
            self.app.push_screen(IssueScreen("Not written", error.issues))
            return
        except OSError as error:
            self.notify(f"{path}: {error.strerror}", title="Not written", severity="error")
            return
        self.notify("\n".join(written), title="Written")

    def _write_text(self, path: Path) -> list[str]:
        path.write_text(self._plain, encoding="utf-8")
        return [str(path)]


def yaml_text(text: str, *, dark: bool) -> Text:
    """Highlighted YAML on the panel's own background."""
    return Syntax("", "yaml", theme="ansi_dark" if dark else "ansi_light").highlight(text)


class PromptScreen(ModalScreen[str | None]):
    """One line to type, with suggestions; dismisses with the text, or None on escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="prompt.cancel"),
        Binding("tab", "complete", "Complete", id="prompt.complete"),
        Binding("down", "next(1)", "Next", show=False, id="prompt.next"),
        Binding("up", "next(-1)", "Previous", show=False, id="prompt.previous"),
    ]
    help_text: ClassVar[str] = "Type, enter accepts, tab completes, esc cancels."

    def __init__(
        self, title: str, *, value: str = "", hint: str = "", known: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint
        self._known = tuple(known)

    def compose(self) -> ComposeResult:
        """The line, and what it could be."""
        with Vertical(classes="panel prompt") as panel:
            panel.border_title = self._title
            yield Input(value=self._value, placeholder=self._hint, select_on_focus=False, compact=True)
            if self._known:
                options = OptionList(id="known", compact=True)
                options.can_focus = False
                yield options
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Everything known, until something is typed."""
        self._suggest(self._value)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._suggest(event.value)

    def _matches(self, text: str) -> list[tuple[str, str]]:
        words = text.lower().split()
        starts = [k for k in self._known if text and k[0].startswith(text.lower())]
        rest = [
            k for k in self._known if k not in starts and all(w in f"{k[0]} {k[1]}".lower() for w in words)
        ]
        return starts + rest

    def _suggest(self, text: str) -> None:
        if not self._known:
            return
        options = self.query_one("#known", OptionList)
        options.clear_options()
        for name, what in self._matches(text)[:10]:
            options.add_option(Text.assemble((f"{name:<22} ", "bold"), what))
        if options.option_count:
            options.highlighted = 0

    def action_next(self, step: int) -> None:
        """Move through the suggestions."""
        if self._known:
            options = self.query_one("#known", OptionList)
            if step > 0:
                options.action_cursor_down()
            else:
                options.action_cursor_up()

    def _chosen(self) -> str | None:
        if not self._known:
            return None
        line = self.query_one("#known", OptionList).highlighted
        matches = self._matches(self.query_one(Input).value)
        return matches[line][0] if line is not None and line < len(matches) else None

    def action_complete(self) -> None:
        """Take over the highlighted suggestion."""
        found = self._chosen()
        if found is not None:
            line = self.query_one(Input)
            line.value = found + " "
            line.cursor_position = len(line.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        names = {k[0].split(" ")[0] for k in self._known}
        if self._known and text.split(" ")[0] not in names:
            text = self._chosen() or text
        self.dismiss(text)


class IssueScreen(ModalScreen[None]):
    """What is wrong, why, and how to mend it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back", id="issue.back")]

    def __init__(self, title: str, issues: Sequence[Issue]) -> None:
        super().__init__()
        self._title = title
        self._issues = tuple(issues)

    def compose(self) -> ComposeResult:
        """One paragraph per issue."""
        with Vertical(classes="panel prompt") as panel:
            panel.border_title = self._title
            with VerticalScroll():
                yield Static(issue_text(self._issues))
        yield Footer(show_command_palette=False, compact=True)


def issue_text(issues: Sequence[Issue]) -> Text:
    """Issues as what / why / fix."""
    text = Text()
    for n, issue in enumerate(issues):
        if n:
            text.append("\n\n")
        text.append(f"{issue.what}", "bold")
        where = f"  ({issue.where})" if issue.where else ""
        text.append(f"{where}  [{issue.code}]\n", "dim")
        text.append("why  ", "bold")
        text.append(f"{issue.why}\n")
        text.append("fix  ", "bold")
        text.append(issue.fix)
    return text
