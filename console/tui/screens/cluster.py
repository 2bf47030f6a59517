"""The cluster screen: topology strip, rank heat map, what blocks, and objects to describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widgets import Static
from textual.worker import get_current_worker

from console.cluster.kinds import Kind
from console.tui.feed import ClusterFeed, Picture
from console.tui.screens.base import MainScreen
from console.tui.screens.objects import ObjectsScreen
from console.tui.screens.texts import IssueScreen, PromptScreen, TextScreen, issue_text, yaml_text
from console.tui.widgets.grid import Column, Grid, Row
from console.views.cluster_advice import advise
from console.views.drift import drift_lines, plan_lines
from console.views.heat import HeatMap, HeatMetric, HeatRow, heat_map, rank_lines
from console.views.objects import object_yaml, related_events
from console.views.strip import Strip, strip_of
from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import Issue, PlannerError

CELL = 5
LEVEL_OF_SILENCE = 6  # a silent rank is looked at before any that answers
HEALTH_MARKS = {"ready": "✓", "progressing": "…", "down": "✗", "absent": "–"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A heat map ready to show."""

    heat: HeatMap
    rows: tuple[Row, ...]
    by_pod: Mapping[str, HeatRow]


class ClusterScreen(MainScreen):
    """See the module."""

    NAME = "cluster"
    TITLE = "Cluster"
    help_text = (
        "What runs now, read-only. Above: the way of a request with rates. Below: one row per pod, one cell per DP rank; "
        "the number is the metric, the colour how hot it is, ! marks a rank that queues far above its peers, a dot one "
        "that is silent. m changes the metric, z shows faults only, d describes the pod, o lists objects, D compares "
        "with the plan under the frontier's cursor."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "metric", "Metric", id="cluster.metric"),
        Binding("z,ctrl+z", "faults", "Faults only", key_display="z", id="cluster.faults"),
        Binding("slash", "filter", "Filter", key_display="/", id="cluster.filter"),
        Binding("d", "describe", "Describe", id="cluster.describe"),
        Binding("y", "yaml", "YAML", show=False, id="cluster.yaml"),
        Binding("o", "objects", "Objects", id="cluster.objects"),
        Binding("v", "events", "Events", show=False, id="cluster.events"),
        Binding("D", "drift", "Drift", id="cluster.drift"),
        Binding("escape", "clear", "Back", show=False, id="cluster.clear"),
    ]

    class Arrived(Message):
        """A new picture waits. Posted from the feed's thread, which must never wait for the interface."""

    class Troubled(Message):
        """The source failed."""

        def __init__(self, issues: tuple[Issue, ...]) -> None:
            super().__init__()
            self.issues = issues

    def __init__(self) -> None:
        super().__init__()
        self._pending: tuple[Picture, Drawn] | None = None
        self._feed: ClusterFeed | None = None
        self._picture: Picture | None = None
        self._heat: HeatMap | None = None
        self._by_pod: Mapping[str, HeatRow] = {}
        self._metric = HeatMetric.QUEUE
        self._faults = False
        self._filter = ""
        self._trouble: tuple[Issue, ...] = ()

    def compose_body(self) -> Iterator[Any]:
        """Strip, heat map, rank under the cursor, blockers."""
        yield Static("", id="cluster-state")
        yield Static("", id="cluster-strip")
        with Container(id="cluster-heat", classes="panel"):
            yield Grid((), id="ranks", empty="no engine pods", keep_styles=True)
        with Container(id="cluster-below"):
            with Container(id="cluster-rank", classes="panel"):
                yield Static("", id="rank-text", markup=False)
            with Container(id="cluster-blockers", classes="panel"):
                yield Static("", id="blockers-text", markup=False)

    def on_mount(self) -> None:
        """Follow the cluster from the first time the screen is shown."""
        self.watch(self.app, "theme", self._theme_changed, init=False)
        self._message(Text("Connecting …"))
        self.query_one(Grid).focus()
        self.connect()

    def on_unmount(self) -> None:
        """Stop following."""
        if self._feed is not None:
            self._feed.stop()

    @property
    def connected(self) -> bool:
        """Whether a source is followed."""
        return self._feed is not None

    def connect(self) -> None:
        """Follow the source the services name, leaving the one before."""
        if self._feed is not None:
            self._feed.stop()
        self._picture = None
        choice = self.planner.cluster
        feed = ClusterFeed(
            lambda: self.planner.services.open_cluster(choice),
            on_picture=self._arrived,
            on_trouble=self._failed,
        )
        self._feed = feed
        feed.start()

    # --- from the feed's thread ---

    def _arrived(self, picture: Picture) -> None:
        waiting, self._pending = self._pending, (picture, self._drawn(picture))
        if waiting is None:  # else the message that was posted for it will find this newer one
            self.post_message(self.Arrived())

    @on(Arrived)
    def _take(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._show(*pending)

    def _drawn(self, picture: Picture) -> Drawn:
        """The heat map as rows: tens of thousands of cells, so never in the interface's thread."""
        heat = heat_map(picture.overview, self._metric, faults_only=self._faults, filter_text=self._filter)
        return Drawn(
            heat, tuple(self._heat_row(r, heat.width) for r in heat.rows), {r.pod: r for r in heat.rows}
        )

    def _failed(self, issues: tuple[Issue, ...]) -> None:
        self.post_message(self.Troubled(issues))

    @on(Troubled)
    def _take_trouble(self, event: Troubled) -> None:
        self._show_trouble(event.issues)

    # --- showing ---

    def _message(self, text: Text | None) -> None:
        self.set_class(text is not None and self._picture is None, "-message")
        self.query_one("#cluster-state", Static).update(text if text is not None else "")

    def _show_trouble(self, issues: tuple[Issue, ...]) -> None:
        self._trouble = issues
        text = Text("The cluster cannot be read; trying again.\n\n", "bold")
        text.append_text(issue_text(issues))
        self._message(text)
        if self._picture is not None:
            self.say(busy=f"lost the cluster: {issues[0].what}; what is shown is old")

    def _show(self, picture: Picture, drawn: Drawn) -> None:
        self._picture, self._trouble = picture, ()
        self._message(None)
        view = picture.overview
        where = view.namespace if view.namespace is not None else "all namespaces"
        self.say(subject=f"{view.context or view.source}, {where}, {view.source}", busy="")
        self.query_one("#cluster-strip", Static).update(
            self._strip_text(strip_of(picture.snapshot, view, plan=self._plan()))
        )
        self._show_heat(drawn)
        self._show_blockers()

    def _redraw(self) -> None:
        """The same picture with another metric, filter or theme."""
        if self._picture is not None:
            self._draw_again(self._picture)

    @work(thread=True, exclusive=True, group="heat")
    def _draw_again(self, picture: Picture) -> None:
        worker = get_current_worker()
        drawn = self._drawn(picture)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, picture, drawn)

    def _theme_changed(self) -> None:
        self._redraw()

    def _strip_text(self, strip: Strip) -> Text:
        """Boxes side by side, four lines high."""
        palette = self.palette
        styles = {
            "ready": palette.good,
            "down": palette.bad,
            "absent": palette.muted,
            "progressing": palette.target,
        }
        columns: list[tuple[list[str], str]] = []
        roomy = self.size.width >= 110
        for box in strip.boxes:
            head = f"{HEALTH_MARKS[box.health]} {box.title}"
            columns.append(([head, *box.lines], styles[box.health]))
            if box.arrow or box is not strip.boxes[-1]:
                columns.append((["", f"─{box.arrow}→" if box.arrow and roomy else "→"], palette.muted))
        text = Text(no_wrap=True, overflow="ellipsis")
        for line in range(max(len(c[0]) for c in columns)):
            if line:
                text.append("\n")
            for lines, style in columns:
                width = max(len(x) for x in lines) + 1
                shown = lines[line] if line < len(lines) else ""
                text.append(shown.ljust(width), style if line == 0 or style == palette.muted else "")
        if strip.ratio:
            text.append(f"   {strip.ratio}", palette.muted)
        return text

    def _show_heat(self, drawn: Drawn) -> None:
        self._heat = heat = drawn.heat
        self._by_pod = drawn.by_pod
        panel = self.query_one("#cluster-heat")
        marks = " · faults only" if self._faults else ""
        marks += f" · filter {self._filter}" if self._filter else ""
        panel.border_title = f"{heat.metric.value} per DP rank, {heat.scale}{marks}"
        panel.border_subtitle = f"{heat.summary} · {self._age()}"
        columns = [
            Column(title="pod", width=16, rank=99),
            *(Column(title=str(n), width=CELL, right=True, rank=90 - n) for n in range(heat.width)),
            Column(title="max/mean", width=8, right=True, rank=95),
            Column(title="σ", width=6, right=True, rank=91),
            Column(title="", width=0, least=0, rank=100),
        ]
        empty = "no fault" if self._faults else "no engine pods in sight"
        self.query_one(Grid).set_rows(drawn.rows, columns=columns, empty=empty)
        self._show_rank()

    def _heat_row(self, row: HeatRow, width: int) -> Row:
        heat = self.palette.heat
        cells, styles = [row.label], [""]
        for n in range(width):
            cell = row.cells[n] if n < len(row.cells) else None
            cells.append("" if cell is None else f"{'!' if cell.hot else ''}{cell.text}")
            styles.append("" if cell is None or cell.level is None else heat[cell.level])
        cells += [
            "–" if row.peak is None else f"{row.peak:.1f}",
            "–" if row.spread is None else f"{row.spread:.1f}",
        ]
        cells.append("")
        styles += [self.palette.bad if row.peak is not None and row.peak >= 2.0 else "", ""]
        return Row(key=row.pod, cells=tuple(cells), styles=tuple(styles))

    def _age(self) -> str:
        if self._picture is None or self._picture.overview.metrics is None:
            return "no metrics"
        metrics = self._picture.overview.metrics
        age = max(0.0, self._picture.overview.now - metrics.at)
        stale = " (old)" if age > 3.0 * metrics.period_s else ""
        return f"by {metrics.way}, {age:.0f} s ago{stale}"

    def _current(self) -> HeatRow | None:
        return self._by_pod.get(self.query_one(Grid).cursor_key)

    @on(Grid.Moved)
    def _show_rank(self) -> None:
        row = self._current()
        panel, text = self.query_one("#cluster-rank"), self.query_one("#rank-text", Static)
        if row is None:
            panel.border_title = "no pod"
            text.update("")
            return
        panel.border_title = f"{row.label}, {row.pod}"
        worst = max(row.cells, key=lambda c: (c.hot, c.level if c.level is not None else LEVEL_OF_SILENCE))
        text.update("\n".join(rank_lines(worst.rank)))

    def _show_blockers(self) -> None:
        if self._picture is None:
            return
        view = self._picture.overview
        panel = self.query_one("#cluster-blockers")
        lines = [f"{a.what}: {a.why}\n→ {a.fix}" for a in advise(view)]
        lines += [f"{k.kind} {k.trust.value}: {k.why}" for k in view.problems]
        panel.border_title = f"{len(lines)} to look at" if lines else "nothing in the way"
        self.query_one("#blockers-text", Static).update("\n".join(lines))

    # --- actions ---

    def action_metric(self) -> None:
        """The next metric."""
        kinds = list(HeatMetric)
        self._metric = kinds[(kinds.index(self._metric) + 1) % len(kinds)]
        self._redraw()

    def action_faults(self) -> None:
        """Only pods with a hot or silent rank, or all."""
        self._faults = not self._faults
        self._redraw()

    def action_clear(self) -> None:
        """Escape: first filter and faults, then back."""
        if self._filter or self._faults:
            self._filter, self._faults = "", False
            self._redraw()
        else:
            self.planner.show_previous()

    def action_filter(self) -> None:
        """Ask for words that pods must contain."""

        def apply(text: str | None) -> None:
            if text is not None:
                self._filter = text
                self._redraw()

        self.app.push_screen(PromptScreen("Filter", value=self._filter, hint="decode 0"), apply)

    @on(Grid.Chosen)
    def _chosen(self) -> None:
        self.action_describe()

    def action_describe(self) -> None:
        """Every rank of the pod, and events about it."""
        row = self._current()
        if row is None or self._picture is None:
            return
        lines = [line for c in row.cells for line in (*rank_lines(c.rank), "")]
        events = related_events(self._picture.snapshot, row.pod)
        body = "\n".join([*lines, "events", *(events or ("none",))])
        self.app.push_screen(TextScreen(row.pod, Text(body), plain=body))

    def action_yaml(self) -> None:
        """What is held of the pod."""
        row = self._current()
        if row is None or self._picture is None:
            return
        rank = row.cells[0].rank
        snapshot = self._picture.snapshot
        key = next((k for k, p in snapshot.pods.items() if p.meta.name == rank.pod), "")
        text = object_yaml(snapshot, Kind.PODS, key)
        if text is not None:
            self.app.push_screen(
                TextScreen(row.pod, yaml_text(text, dark=self.app.current_theme.dark), plain=text)
            )

    def action_objects(self) -> None:
        """Objects of a kind, to list and describe."""
        if self._picture is not None:
            self.app.push_screen(ObjectsScreen(lambda: self._picture, Kind.PODS))

    def action_events(self) -> None:
        """Events, newest first."""
        if self._picture is not None:
            self.app.push_screen(ObjectsScreen(lambda: self._picture, Kind.EVENTS))

    def _plan(self) -> DeploymentPlan | None:
        session = self.planner.session
        return session.solved.points.plan_at(session.pinned[0]) if session.solved and session.pinned else None

    def action_drift(self) -> None:
        """Compare the first pinned plan with the cluster."""
        plan = self._plan()
        if plan is None:
            self.notify(
                "Pin the plan that was applied, on the frontier screen (1, space)", severity="warning"
            )
        elif self._picture is not None:
            self._drift(plan, self._picture)

    @work(thread=True, exclusive=True, group="drift")
    def _drift(self, plan: DeploymentPlan, picture: Picture) -> None:
        feed = self._feed
        lines = list(plan_lines(plan, picture.overview))
        api = feed.api if feed is not None else None
        if feed is None or api is None:
            lines.append("a recording has no server: objects were not compared by dry-run")
        else:
            try:
                lines += feed.ask(drift_lines(api, picture.snapshot, plan))
            except PlannerError as error:
                self.app.call_from_thread(self.app.push_screen, IssueScreen("Drift", error.issues))
                return
        body = "\n".join(lines)
        self.app.call_from_thread(
            self.app.push_screen, TextScreen(f"Drift: {plan.label()}", Text(body), plain=body)
        )
