"""Pinned plans side by side: parameters, metrics, manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from console.tui.themes import PALETTES, Palette
from console.views.comparison import CompareRow, Comparison, comparison, manifest_diff
from console.views.points import PlanPoints
from planner.domain.errors import PlannerError

if TYPE_CHECKING:
    from console.tui.app import PlannerApp


class CompareScreen(ModalScreen[None]):
    """The first plan is the base of all differences; `x` makes the next one the base."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="compare.back"),
        Binding("x", "swap", "Swap base", id="compare.swap"),
        Binding("a", "all", "All parameters", id="compare.all"),
        Binding("c", "copy", "Copy", id="compare.copy"),
        Binding("j", "scroll(1)", "Down", show=False, id="compare.down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="compare.up"),
    ]
    help_text: ClassVar[str] = (
        "Differences are against the first plan. ▲ is better, ▼ worse. Only parameters that differ are shown; a shows all."
    )

    def __init__(self, points: PlanPoints, chosen: tuple[int, ...]) -> None:
        super().__init__()
        self._points = points
        self._chosen = chosen
        self._all = False
        self._plain = ""

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with Vertical(classes="panel modal") as panel:
            panel.border_title = f"Compare {len(self._chosen)} plans"
            with VerticalScroll(id="compare-scroll"):
                yield Static("pricing …", id="compare-body")
                yield Static("", id="compare-diff")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Price the plans in a thread."""
        self._build(self._chosen)

    @work(thread=True, exclusive=True, group="compare")
    def _build(self, chosen: tuple[int, ...]) -> None:
        plans = [(self._points.plan_at(p), self._points.evaluation_at(p)) for p in chosen]
        self.app.call_from_thread(self._show, comparison(plans))
        app = cast("PlannerApp", self.app)
        try:
            texts = [app.services.manifest(plan).text for plan, _ in plans[:2]]
        except PlannerError as error:
            self.app.call_from_thread(
                self._show_diff, (), f"manifests: {error.issues[0].what}: {error.issues[0].why}"
            )
            return
        self.app.call_from_thread(
            self._show_diff, manifest_diff(texts[0], texts[1], names=("plan 1", "plan 2")), ""
        )

    def _show(self, view: Comparison) -> None:
        palette = PALETTES.get(self.app.theme, next(iter(PALETTES.values())))
        body = self.query_one("#compare-body", Static)
        body.update(_Page(view, palette, everything=self._all))
        self._plain = "\n".join([*view.labels, *view.verdict])

    def _show_diff(self, lines: tuple[str, ...], problem: str) -> None:
        palette = PALETTES.get(self.app.theme, next(iter(PALETTES.values())))
        text = Text("\nManifests, plan 1 against plan 2\n", "bold")
        if problem:
            text.append(problem)
        elif not lines:
            text.append("the same")
        for line in lines:
            style = palette.good if line.startswith("+") else palette.bad if line.startswith("-") else "dim"
            text.append(line + "\n", style)
        self.query_one("#compare-diff", Static).update(text)

    def action_swap(self) -> None:
        """Make the next plan the base."""
        self._chosen = (*self._chosen[1:], self._chosen[0])
        self._build(self._chosen)

    def action_all(self) -> None:
        """Show parameters that do not differ too, or not."""
        self._all = not self._all
        self._build(self._chosen)

    def action_copy(self) -> None:
        """Copy the verdict."""
        self.app.copy_to_clipboard(self._plain)
        self.notify("copied", timeout=2)

    def action_scroll(self, lines: int) -> None:
        """Scroll by `lines`."""
        self.query_one("#compare-scroll").scroll_relative(y=lines, animate=False)


class _Page:
    """Rich renderable of a comparison."""

    def __init__(self, view: Comparison, palette: Palette, *, everything: bool) -> None:
        self._view = view
        self._palette = palette
        self._everything = everything

    def __rich__(self) -> Table:
        page = Table.grid(padding=(0, 0))
        page.add_column()
        heads = Text()
        for n, label in enumerate(self._view.labels, start=1):
            heads.append(f"{n} ", "bold")
            heads.append(f"{label}\n")
        page.add_row(heads)
        page.add_row(self._table("Parameters that differ" if not self._everything else "Parameters",
                                 [r for r in self._view.parameters if r.differs or self._everything]))  # fmt: skip
        page.add_row("")
        page.add_row(self._table("Metrics", list(self._view.metrics)))
        page.add_row("")
        page.add_row(Text("\n".join(self._view.verdict), "bold"))
        return page

    def _table(self, title: str, rows: list[CompareRow]) -> Table:
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            title=title,
            title_justify="left",
            title_style="bold",
        )
        table.add_column("", style="dim")
        for n in range(len(self._view.labels)):
            table.add_column(f"plan {n + 1}", justify="right")
        for row in rows:
            cells = []
            for cell in row.cells:
                text = Text(cell.text)
                if cell.change:
                    mark = {True: " ▲", False: " ▼", None: ""}[cell.better]
                    style = {True: self._palette.good, False: self._palette.bad, None: "dim"}[cell.better]
                    text.append(f"  {cell.change}{mark}", style)
                cells.append(text)
            table.add_row(row.name, *cells)
        if not rows:
            table.add_row("none")
        return table
