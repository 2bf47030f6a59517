"""The frontier screen: plot, ranked table, details of the plan under the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import get_current_worker

from console.tui.screens.base import MainScreen
from console.tui.screens.compare import CompareScreen
from console.tui.screens.detail import detail_text, figures_text
from console.tui.screens.slo import SloScreen
from console.tui.screens.texts import IssueScreen, PromptScreen, TextScreen, issue_text, yaml_text
from console.tui.session import Phase, Session
from console.tui.widgets.bars import bar_lines
from console.tui.widgets.grid import Column, Grid, Row
from console.tui.widgets.plot import FrontierPlot, Spot
from console.views.filters import EXAMPLE, parse_filter
from console.views.frontier import frontier_view, targets_text
from console.views.frontier_model import ColourBy, FrontierOptions, FrontierView, PlanRow, TableMode
from console.views.metrics import Axis, figure
from console.views.plan_detail import PlanDetail, plan_detail
from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, PlannerError
from planner.domain.workload import SloTargets

if TYPE_CHECKING:
    from console.views.manifests import ManifestView

COLUMNS: Final = (
    Column(title=" ", width=2, rank=9),
    Column(title="#", width=4, right=True, rank=8),
    Column(title="tok/s/GPU", width=9, right=True, rank=7),
    Column(title="tok/s/user", width=10, right=True, rank=6),
    Column(title="TTFT ms", width=7, right=True, rank=5),
    Column(title="plan", width=0, least=26, rank=9),
    Column(title="TPOT ms", width=7, right=True, rank=2),
    Column(title="$/Mtok", width=7, right=True, rank=4),
    Column(title="GPUs", width=7, right=True, rank=3),
    Column(title="conc.", width=6, right=True, rank=1),
    Column(title="switches", width=34, rank=0),
)
DETAIL_DELAY_S: Final = 0.08
X_AXES: Final = (Axis.TOK_S_USER, Axis.TTFT, Axis.TPOT, Axis.CONCURRENCY)
Y_AXES: Final = (Axis.RATE, Axis.COST, Axis.TTFT, Axis.TPOT)


class FrontierScreen(MainScreen):
    """See the module."""

    NAME = "frontier"
    TITLE = "Frontier"
    help_text = (
        "Every point is a plan at a load. Left: interactivity against throughput, the frontier as a staircase. "
        "Right: each configuration at its best load under the targets. Move in the table with j and k; the plot's "
        "marker follows. space pins a plan, c compares the pinned ones, e exports the manifests."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pin", "Pin", key_display="spc", id="frontier.pin"),
        Binding("c", "compare", "Compare", id="frontier.compare"),
        Binding("s", "targets", "Targets", id="frontier.targets"),
        Binding("slash", "filter", "Filter", key_display="/", id="frontier.filter"),
        Binding("e", "export", "Export", id="frontier.export"),
        Binding("d", "describe", "Describe", show=False, id="frontier.describe"),
        Binding("y", "manifest", "YAML", show=False, id="frontier.manifest"),
        Binding("w", "why_not", "Why not", id="frontier.why-not"),
        Binding("t", "table", "Table", show=False, id="frontier.table"),
        Binding("o", "dominated", "Dominated", show=False, id="frontier.dominated"),
        Binding("x", "axis_x", "x axis", show=False, id="frontier.x-axis"),
        Binding("v", "axis_y", "y axis", show=False, id="frontier.y-axis"),
        Binding("l", "log_x", "log x", show=False, id="frontier.log-x"),
        Binding("L", "log_y", "log y", show=False, id="frontier.log-y"),
        Binding("g", "colour", "Colour", show=False, id="frontier.colour"),
        Binding("i", "intervals", "Intervals", show=False, id="frontier.intervals"),
        Binding("b", "best", "Best", show=False, id="frontier.best"),
        Binding("C", "command", "Copy command", show=False, id="frontier.command"),
        Binding("escape", "clear", "Back", show=False, id="frontier.clear"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._options: FrontierOptions | None = None
        self._view: FrontierView | None = None
        self._solved: object = None
        self._origin = ""
        self._timer: Timer | None = None
        self._picked: int | None = None

    def compose_body(self) -> Iterator[Any]:
        """Plot and table above, details below; a message instead of them while there is nothing to show."""
        yield Static("", id="frontier-state")
        yield Static("", id="frontier-summary", markup=False)
        with Container(id="frontier-top"):
            with Container(id="plot-panel", classes="panel"):
                yield FrontierPlot(id="plot-widget")
            with Container(id="table-panel", classes="panel"):
                yield Grid(COLUMNS, id="plans", empty="no plan meets the targets: s edits them, w asks why")
        with Container(id="detail-panel", classes="panel"), Horizontal(id="detail-columns"):
            yield Static("", id="detail-figures")
            yield Static("", id="detail-steps")
            yield Static("", id="detail-memory")

    def on_mount(self) -> None:
        """Follow the session and the theme."""
        self.watch(self.app, "session", self._session_changed)
        self.watch(self.app, "theme", self._theme_changed, init=False)
        self.query_one(Grid).focus()

    # --- session ---

    def _session_changed(self, session: Session) -> None:
        self.set_class(session.solved is None, "-message")
        if session.phase is Phase.SOLVING:
            what = (
                session.origin
                if session.origin.startswith("study ")
                else f"every legal plan: {session.origin}"
            )
            self.say(busy=f"pricing {what} …")
            if session.solved is None:
                self._state(Text(f"Pricing {what} …"))
            return
        self.say(busy="")
        if session.phase is Phase.FAILED:
            if session.solved is None:
                text = Text("There is no answer to show.\n\n", "bold")
                text.append_text(issue_text(session.issues))
                text.append("\n\n2 edits the problem, :recipe opens another.")
                self._state(text)
            elif self.is_current:
                self.app.push_screen(IssueScreen("Not solved", session.issues))
            return
        if session.solved is None:
            self._state(Text("No question yet. 2 edits the problem, :recipe opens one."))
            return
        if session.solved is not self._solved:
            self._solved = session.solved
            self._picked = None
            before = self._options
            slo = session.solved.points.slo
            if before is None:
                self._options = FrontierOptions(slo=slo)
            elif session.origin != self._origin:
                self._options = replace(before, slo=slo)
            self._origin = session.origin
            first = f"{session.origin}, {session.progress}: " if session.progress else ""
            self.say(subject=f"{first}{session.solved.points.question}")
            self._refresh_view()
        elif self._view is not None:
            self._fill_table(self._view)
            self._mark()

    def _state(self, text: Text) -> None:
        self.query_one("#frontier-state", Static).update(text)

    def _theme_changed(self) -> None:
        if self._view is not None:
            self._show(self._view)

    # --- view ---

    def _change(self, **changes: Any) -> None:
        if self._options is not None:
            self._options = replace(self._options, **changes)
            self._refresh_view()

    def _refresh_view(self) -> None:
        if self._options is not None:
            self._build_view(self._options)

    @work(thread=True, exclusive=True, group="view")
    def _build_view(self, options: FrontierOptions) -> None:
        worker = get_current_worker()
        solved = self.planner.session.solved
        if solved is None:
            return
        view = frontier_view(solved.points, options)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, view)

    def _show(self, view: FrontierView) -> None:
        self._view = view
        self.planner.set_best(view.best.point if view.best is not None else None)
        self.query_one("#frontier-summary", Static).update(view.summary)
        self.query_one(FrontierPlot).show_view(view, self.palette)
        plot = self.query_one("#plot-panel")
        plot.border_title = f"{view.y_axis.label} ↑  against {view.x_axis.label} →"
        plot.border_subtitle = self._legend(view)
        table = self.query_one("#table-panel")
        how = f" · filter {view.options.filter}" if view.options.filter else ""
        table.border_title = f"{len(view.rows):,} plans, {view.options.mode.value}{how}"
        table.border_subtitle = targets_text(view.options.slo)
        self._fill_table(view)
        self._mark()
        self._detail_soon()

    def _legend(self, view: FrontierView) -> Text:
        palette = self.palette
        text = Text()
        if view.options.colour_by is not ColourBy.KIND:
            text.append(f"{view.options.colour_by.value}: ", "bold")
        for series in view.fronts:
            text.append(f"{palette.marker(series.group)} ", palette.style(series.group))
            text.append(f"{series.label}  ")
        for line in view.slo_lines:
            text.append("┊ " if palette.markers[0] == "●" else "| ", palette.target)
            text.append(f"{line.label}  ")
        if view.cloud:
            text.append("⠂ dominated" if palette.markers[0] == "●" else ". dominated")
        return text

    def _fill_table(self, view: FrontierView) -> None:
        pinned = self.planner.session.pinned
        names = {name: n for n, name in enumerate(view.groups)}
        palette = self.palette
        rows = []
        for row in view.rows:
            pin = str(pinned.index(row.point) + 1) if row.point in pinned else " "
            group = names.get(row.group, 0)
            mark = palette.marker(group) if row.on_front else " "
            style = "" if row.meets else palette.muted
            rows.append(
                Row(
                    key=str(row.point),
                    cells=(
                        pin + mark, str(row.rank), figure(row.value(Axis.RATE)), figure(row.value(Axis.TOK_S_USER)),
                        figure(row.value(Axis.TTFT)), row.short, figure(row.value(Axis.TPOT)),
                        figure(row.value(Axis.COST)), row.gpus, f"{row.value(Axis.CONCURRENCY):,.0f}", row.extras,
                    ),
                    styles=(palette.style(group), *([style] * 10)),
                )
            )  # fmt: skip
        grid = self.query_one(Grid)
        grid.set_rows(rows)

    def _row(self, point: int | None) -> PlanRow | None:
        if self._view is None or point is None:
            return None
        return next((r for r in self._view.rows if r.point == point), None)

    @property
    def _current(self) -> int | None:
        """The plan that actions are about: a point picked in the plot, else the row under the cursor."""
        if self._picked is not None:
            return self._picked
        key = self.query_one(Grid).cursor_key
        return int(key) if key else None

    def _mark(self) -> None:
        view, solved = self._view, self.planner.session.solved
        if view is None or solved is None:
            return
        palette = self.palette
        spots = []
        if view.best is not None:
            spots.append(
                Spot(*view.drawn_at(view.best), "◎" if palette.markers[0] == "●" else "B", palette.good)
            )
        for n, point in enumerate(self.planner.session.pinned, start=1):
            spots.append(Spot(*self._at(point), str(n), palette.cursor))
        current = self._current
        if current is not None:
            spots.append(Spot(*self._at(current), "╋" if palette.markers[0] == "●" else "X", palette.cursor))
        self.query_one(FrontierPlot).mark(spots)

    def _at(self, point: int) -> tuple[float, float]:
        view, solved = self._view, self.planner.session.solved
        if view is None or solved is None:
            return 0.0, 0.0
        return view.drawn_point(solved.points, point)

    # --- details ---

    @on(Grid.Moved)
    def _moved(self) -> None:
        self._picked = None
        self._mark()
        self._detail_soon()

    @on(FrontierPlot.Picked)
    def _point_picked(self, event: FrontierPlot.Picked) -> None:
        if not self.query_one(Grid).select(str(event.point)):
            self._picked = event.point
        self._mark()
        self._detail_soon()

    def _detail_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(DETAIL_DELAY_S, self._detail_now)

    def _detail_now(self) -> None:
        current = self._current
        if current is None:
            self.query_one("#detail-panel").border_title = "no plan"
            for part in ("figures", "steps", "memory"):
                self.query_one(f"#detail-{part}", Static).update("")
        else:
            self._build_detail(current)

    @work(thread=True, exclusive=True, group="detail")
    def _build_detail(self, point: int) -> None:
        worker = get_current_worker()
        found = self._priced(point)
        if found is not None and not worker.is_cancelled:
            self.app.call_from_thread(self._show_detail, found[1])

    def _priced(self, point: int) -> tuple[DeploymentPlan, PlanDetail] | None:
        solved = self.planner.session.solved
        if solved is None or point >= len(solved.points):
            return None
        plan = solved.points.plan_at(point)
        return plan, plan_detail(plan, solved.points.evaluation_at(point))

    def _show_detail(self, detail: PlanDetail) -> None:
        panel = self.query_one("#detail-panel")
        panel.border_title = detail.label
        panel.border_subtitle = detail.basis if self.size.width >= 110 else ""
        figures = self.query_one("#detail-figures", Static)
        small = self.has_class("-narrow") or self.has_class("-low")
        figures.update(figures_text(detail, short=small))
        if small:
            return
        for part, bars in (("steps", detail.steps), ("memory", detail.memory)):
            widget = self.query_one(f"#detail-{part}", Static)
            width = max(widget.size.width - 2, 20)
            legend = len(bars) == 1 or self.has_class("-huge") or self.has_class("-high")
            text = Text("\n").join(
                [bar_lines(b, self.palette, width, legend=legend or b is bars[-1]) for b in bars]
            )
            widget.update(text)

    def on_resize(self) -> None:
        """Bars depend on the width."""
        self._detail_soon()

    # --- actions ---

    def action_pin(self) -> None:
        """Pin the plan, or release it."""
        if self._current is not None:
            self.planner.toggle_pin(self._current)

    def action_clear(self) -> None:
        """Escape: first the filter, then the pins, then back."""
        if self._options is not None and self._options.filter:
            self._change(filter="")
        elif self.planner.session.pinned:
            self.planner.session = replace(self.planner.session, pinned=())
        else:
            self.planner.show_previous()

    def action_best(self) -> None:
        """Go to the best plan under the targets."""
        if self._view is not None and self._view.best is not None:
            self.query_one(Grid).select(str(self._view.best.point))

    def action_compare(self) -> None:
        """Compare the pinned plans; with one pinned, it and the current one; with none, the best and the current one."""
        solved, current = self.planner.session.solved, self._current
        if solved is None or current is None:
            return
        chosen = list(self.planner.session.pinned)
        if len(chosen) < 2 and current not in chosen:
            chosen.append(current)
        if len(chosen) < 2 and self._view is not None:
            rows = [r.point for r in self._view.rows[:2] if r.point not in chosen]
            chosen = rows[:1] + chosen
        if len(chosen) < 2:
            self.notify("Pin two plans with space first", severity="warning")
            return
        self.app.push_screen(CompareScreen(solved.points, tuple(chosen)))

    def action_targets(self) -> None:
        """Edit the targets and see what still passes."""
        solved = self.planner.session.solved
        if solved is None or self._options is None:
            return

        def apply(slo: SloTargets | None) -> None:
            if slo is not None:
                self._change(slo=slo)

        self.app.push_screen(SloScreen(solved.points, self._options.slo), apply)

    def action_filter(self) -> None:
        """Ask for a filter."""
        if self._options is None:
            return

        def apply(text: str | None) -> None:
            if text is None:
                return
            try:
                parse_filter(text)
            except InputError as error:
                self.app.push_screen(IssueScreen("Filter", error.issues))
                return
            self._change(filter=text)

        self.app.push_screen(
            PromptScreen("Filter", value=self._options.filter, hint=f"e.g. {EXAMPLE}; empty shows all"), apply
        )

    def action_table(self) -> None:
        """Ranked plans, or the frontier."""
        if self._options is not None:
            other = TableMode.FRONT if self._options.mode is TableMode.RANKED else TableMode.RANKED
            self._change(mode=other)

    def action_dominated(self) -> None:
        """Show or hide dominated points."""
        if self._options is not None:
            self._change(dominated=not self._options.dominated)

    def action_intervals(self) -> None:
        """Show or hide 80 % intervals of the front."""
        if self._options is not None:
            self._change(intervals=not self._options.intervals)

    def action_log_x(self) -> None:
        """Logarithmic x axis, or not."""
        if self._options is not None:
            self._change(log_x=not self._options.log_x)

    def action_log_y(self) -> None:
        """Logarithmic y axis, or not."""
        if self._options is not None:
            self._change(log_y=not self._options.log_y)

    def action_axis_x(self) -> None:
        """The next quantity on x."""
        if self._options is not None:
            self._change(x=self._next(X_AXES, self._options.x, self._options.y))

    def action_axis_y(self) -> None:
        """The next quantity on y."""
        if self._options is not None:
            self._change(y=self._next(Y_AXES, self._options.y, self._options.x))

    def _next(self, axes: tuple[Axis, ...], current: Axis, other: Axis) -> Axis:
        solved = self.planner.session.solved
        priced = solved is not None and solved.points.usd_per_gpu_hour is not None
        usable = [a for a in axes if a is not other and (a is not Axis.COST or priced)]
        return usable[(usable.index(current) + 1) % len(usable)]

    def action_colour(self) -> None:
        """The next thing that colour and marker tell apart."""
        if self._options is not None:
            kinds = list(ColourBy)
            following = kinds[(kinds.index(self._options.colour_by) + 1) % len(kinds)]
            self._change(colour_by=following)

    def action_command(self) -> None:
        """Copy the command line that asks the same question."""
        from console.views.problem_form import command_of

        solved = self.planner.session.solved
        if solved is not None:
            self.app.copy_to_clipboard(command_of(solved.request))
            self.notify(command_of(solved.request), title="Copied", timeout=6)

    @on(Grid.Chosen)
    def _chosen(self) -> None:
        self.action_describe()

    def action_describe(self) -> None:
        """Everything about the plan."""
        current = self._current
        found = self._priced(current) if current is not None else None
        if found is not None:
            plan, detail = found
            text = detail_text(detail, self.palette, min(self.size.width - 12, 100))
            self.app.push_screen(TextScreen(plan.label(), text, plain=text.plain))

    def action_manifest(self) -> None:
        """The manifests of the plan, to read, copy or write."""
        if self._current is not None:
            self._build_manifest(self._current, to_file=False)

    def action_export(self) -> None:
        """Write the manifests to a folder."""
        if self._current is not None:
            self._build_manifest(self._current, to_file=True)

    @work(thread=True, exclusive=True, group="manifest")
    def _build_manifest(self, point: int, *, to_file: bool) -> None:
        found = self._priced(point)
        if found is None:
            return
        try:
            view = self.planner.services.manifest(found[0])
        except PlannerError as error:
            self.app.call_from_thread(self.app.push_screen, IssueScreen("Not exported", error.issues))
            return
        self.app.call_from_thread(self._manifest_ready, found[0], view, to_file)

    def _manifest_ready(self, plan: DeploymentPlan, view: ManifestView, to_file: bool) -> None:
        dark = self.app.current_theme.dark
        screen = TextScreen(
            view.title,
            yaml_text(view.text, dark=dark),
            plain=view.text,
            save_as=self.planner.services.folder / plan.name,
            write=lambda folder: _write(plan, view, folder),
        )
        self.app.push_screen(screen)
        for note in view.notes:
            self.notify(note, timeout=8)
        if to_file:
            screen.call_after_refresh(screen.action_save)

    def action_why_not(self) -> None:
        """Ask why a configuration is not on the frontier."""
        solved, current = self.planner.session.solved, self._current
        if solved is None:
            return
        value = solved.points.label(current) if current is not None else ""

        def ask(text: str | None) -> None:
            if text:
                self._answer_why_not(text)

        self.app.push_screen(
            PromptScreen("Why not", value=value, hint="2x(tp1,dp16) or P 2x(tp1,dp8) D 1x(tp1,dp16,dbo)"), ask
        )

    @work(thread=True, exclusive=True, group="why-not")
    def _answer_why_not(self, text: str) -> None:
        from console.views.why_not import why_not_view

        solved = self.planner.session.solved
        if solved is None:
            return
        self.app.call_from_thread(self.say, busy=f"asking why not {text} …")
        try:
            view = why_not_view(self.planner.services.why_not(solved, text))
        except PlannerError as error:
            self.app.call_from_thread(self.say, busy="")
            self.app.call_from_thread(self.app.push_screen, IssueScreen("Why not", error.issues))
            return
        self.app.call_from_thread(self.say, busy="")
        body = Text()
        body.append(f"{view.label}\n", "bold")
        body.append(f"{view.verdict}\n\n", self.palette.good if view.good else self.palette.bad)
        body.append("\n".join(view.lines))
        if view.better:
            body.append(f"\n\nbetter: {view.better}", "bold")
        self.app.call_from_thread(self.app.push_screen, TextScreen("Why not", body, plain=body.plain))


def _write(plan: DeploymentPlan, view: ManifestView, folder: Path) -> list[str]:
    """Write manifests and the plan itself, so that every other command can go on from here."""
    from planner.catalog.plans import save_plan
    from planner.export.folder import write_folder

    written = [str(p) for p in write_folder(view.files, folder)]
    save_plan(plan, folder / "plan.json")
    return [*written, str(folder / "plan.json")]
