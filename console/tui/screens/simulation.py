"""The simulation screen: run a plan under routers and workloads, see queues and caches over time, compare."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static
from textual.worker import get_current_worker

from console.tui.screens.base import MainScreen
from console.tui.screens.texts import IssueScreen, PromptScreen, TextScreen
from console.tui.simulate import Wish
from console.tui.widgets.grid import Column, Grid, Row
from console.tui.widgets.lines import LinesPlot
from console.views.simulation import (
    RANK_COLUMNS,
    RUN_COLUMNS,
    SeriesMetric,
    run_detail,
    run_rows,
    time_series,
)
from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import PlannerError
from planner.simulation.presets import ROUTERS
from planner.simulation.result import SimulationResult

PROGRESS_S: Final = 0.25  # at most four updates a second
COLUMNS: Final = (
    Column(title=" ", width=2, rank=20),
    Column(title="run", width=0, least=24, rank=20),
    *(Column(title=t, width=max(len(t), 9), right=True, rank=15 - n) for n, t in enumerate(RUN_COLUMNS)),
    Column(title="Δ tok/s", width=8, right=True, rank=14),
    Column(title="Δ TTFT p50", width=10, right=True, rank=13),
)


class SimulationScreen(MainScreen):
    """See the module."""

    NAME = "simulation"
    TITLE = "Simulation"
    help_text = (
        "Event by event: router, queues, caches, transfers, lockstep ranks. r runs the pinned plans (or the best one); R "
        "compares routers on the first of them under the same traffic; w sets the workload, n the number of requests. "
        "The plot shows the run under the cursor; space adds a run to it, m changes what is drawn."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Run", id="simulation.run"),
        Binding("R", "routers", "Compare routers", id="simulation.routers"),
        Binding("w", "workload", "Workload", id="simulation.workload"),
        Binding("n", "requests", "Requests", id="simulation.requests"),
        Binding("m", "metric", "Metric", id="simulation.metric"),
        Binding("space", "mark", "Overlay", key_display="spc", id="simulation.mark"),
        Binding("d", "describe", "Describe", show=False, id="simulation.describe"),
        Binding("x", "remove", "Remove", show=False, id="simulation.remove"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[tuple[str, SimulationResult]] = []
        self._marked: set[int] = set()
        self._metric = SeriesMetric.WAITING
        self._workload: str | None = None
        self._requests: int | None = None
        self._said = 0.0

    def compose_body(self) -> Iterator[Any]:
        """What will run, the plot, the runs."""
        yield Static("", id="simulation-wish", markup=False)
        with Container(id="series-panel", classes="panel"):
            yield LinesPlot(id="series")
        with Container(id="runs-panel", classes="panel"):
            yield Grid(COLUMNS, id="runs", empty="no run yet: r simulates the plan, R compares routers on it")

    def on_mount(self) -> None:
        """Follow the pinned plans."""
        self.watch(self.app, "session", lambda _: self._show_wish())
        self.watch(self.app, "theme", self._show, init=False)
        self.query_one("#runs-panel").border_title = "Runs"
        self._show()
        self.query_one("#runs", Grid).focus()

    def _plans(self) -> list[DeploymentPlan]:
        """The pinned plans, else the best under the targets."""
        session = self.planner.session
        if session.solved is None:
            return []
        points = session.solved.points
        if session.pinned:
            return [points.plan_at(p) for p in session.pinned]
        best = self.planner.best_point()
        return [points.plan_at(best)] if best is not None else []

    def _show_wish(self) -> None:
        plans = self._plans()
        what = (
            ", ".join(p.label() for p in plans) or "no plan: solve a problem first (2), or change its targets"
        )
        own = "the plan's own workload"
        text = f"r runs: {what} · {self._workload or own} · " + (
            f"{self._requests:,} requests" if self._requests else "the usual number of requests"
        )
        self.query_one("#simulation-wish", Static).update(text)

    def _show(self) -> None:
        rows = [
            Row(
                key=str(i),
                cells=(
                    "●" if i in self._marked else " ",
                    row.name,
                    *row.cells,
                    row.changes[0],
                    row.changes[1],
                ),
                styles=(),
            )
            for i, row in enumerate(run_rows(self._runs))
        ]
        self.query_one("#runs", Grid).set_rows(rows)
        self._show_series()

    def _chosen(self) -> list[tuple[str, SimulationResult]]:
        key = self.query_one("#runs", Grid).cursor_key
        wanted = sorted(self._marked | ({int(key)} if key else set()))
        return [self._runs[i] for i in wanted if i < len(self._runs)]

    @on(Grid.Moved)
    def _show_series(self) -> None:
        series = time_series(self._chosen(), self._metric)
        self.query_one(LinesPlot).show_series(series, self.palette)
        panel = self.query_one("#series-panel")
        panel.border_title = f"{series.title} ↑ over simulated time, s →"
        legend = Text()
        for line in series.lines:
            legend.append(f"{self.palette.marker(line.group)} ", self.palette.style(line.group))
            legend.append(f"{line.label}  ")
        panel.border_subtitle = legend

    # --- running ---

    def action_run(self) -> None:
        """Simulate the pinned plans, or the best."""
        wishes = [Wish(plan=p, workload=self._workload, requests=self._requests) for p in self._plans()]
        self._start(wishes)

    def action_routers(self) -> None:
        """Ask for routers and simulate each on the first plan under the same traffic."""

        def chosen(text: str | None) -> None:
            plans = self._plans()
            names = [n.strip() for n in (text or "").split(",") if n.strip()]
            if plans and names:
                self._start(
                    [
                        Wish(plan=plans[0], router=n, workload=self._workload, requests=self._requests)
                        for n in names
                    ]
                )

        self.app.push_screen(
            PromptScreen(
                "Routers, separated by commas", value=", ".join(ROUTERS), hint="random, llm-d-default"
            ),
            chosen,
        )

    def _start(self, wishes: list[Wish]) -> None:
        if not wishes:
            self.notify("There is no plan to simulate", severity="warning")
            return
        self._simulate(wishes)

    @work(thread=True, exclusive=True, group="simulate")
    def _simulate(self, wishes: list[Wish]) -> None:
        worker = get_current_worker()
        for n, wish in enumerate(wishes, start=1):

            def report(done: int, total: int, n: int = n, wish: Wish = wish) -> None:
                now = time.monotonic()
                if now - self._said >= PROGRESS_S and not worker.is_cancelled:
                    self._said = now
                    share = 100 * done // max(total, 1)
                    text = f"simulating {n} of {len(wishes)}: {wish.name} {share} %"
                    self.app.call_from_thread(self.say, busy=text)

            self.app.call_from_thread(self.say, busy=f"simulating {n} of {len(wishes)}: {wish.name} …")
            try:
                result = self.planner.services.simulate(wish, report)
            except PlannerError as error:
                self.app.call_from_thread(self._ended, error)
                return
            if worker.is_cancelled:
                return
            self.app.call_from_thread(self._finished, wish.name, result)
        self.app.call_from_thread(self._ended, None)

    def _finished(self, name: str, result: SimulationResult) -> None:
        self._runs.append((name, result))
        self._show()
        self.query_one("#runs", Grid).select(str(len(self._runs) - 1))

    def _ended(self, error: PlannerError | None) -> None:
        self.say(busy="")
        if error is not None:
            self.app.push_screen(IssueScreen("Not simulated", error.issues))

    # --- other actions ---

    def action_workload(self) -> None:
        """Ask for a workload."""

        def chosen(text: str | None) -> None:
            if text is not None:
                self._workload = text or None
                self._show_wish()

        hint = "empty: the plan's; 8000/1000; seed-talk; a trace file"
        self.app.push_screen(PromptScreen("Workload", value=self._workload or "", hint=hint), chosen)

    def action_requests(self) -> None:
        """Ask for the number of requests."""

        def chosen(text: str | None) -> None:
            if text is None:
                return
            if text and not text.isdigit():
                self.notify(f"'{text}' is no number of requests", severity="error")
                return
            self._requests = int(text) if text and int(text) > 0 else None
            self._show_wish()

        value = str(self._requests) if self._requests else ""
        self.app.push_screen(PromptScreen("Requests", value=value, hint="empty: as many as usual"), chosen)

    def action_metric(self) -> None:
        """The next quantity over time."""
        kinds = list(SeriesMetric)
        self._metric = kinds[(kinds.index(self._metric) + 1) % len(kinds)]
        self._show_series()

    def action_mark(self) -> None:
        """Keep the run in the plot while moving on."""
        key = self.query_one("#runs", Grid).cursor_key
        if key:
            self._marked ^= {int(key)}
            self._show()

    def action_remove(self) -> None:
        """Take the run off the list."""
        key = self.query_one("#runs", Grid).cursor_key
        if key:
            del self._runs[int(key)]
            self._marked.clear()
            self._show()

    @on(Grid.Chosen)
    def _opened(self) -> None:
        self.action_describe()

    def action_describe(self) -> None:
        """Distributions, roles and every rank of the run."""
        key = self.query_one("#runs", Grid).cursor_key
        if not key:
            return
        detail = run_detail(*self._runs[int(key)])
        head = "".join(f"{t:>12}" for t in RANK_COLUMNS)
        table = [f"{'role':<12}{'rank':<8}{head}"]
        table += [f"{r.role:<12}{r.rank:<8}" + "".join(f"{c:>12}" for c in r.cells) for r in detail.ranks]
        body = "\n".join([*detail.lines, "", *table])
        self.app.push_screen(TextScreen(detail.title, Text(body), plain=body))
