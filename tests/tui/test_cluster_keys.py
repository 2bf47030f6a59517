"""The cluster screen by key presses, on a still source and on one that breaks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from textual.pilot import Pilot

from console.cluster.kinds import Kind
from console.cluster.state import ObjectChange, Op
from console.tui.app import PlannerApp
from console.tui.screens.cluster import ClusterScreen
from console.tui.screens.objects import ObjectsScreen
from console.tui.services import ClusterChoice
from console.tui.widgets.grid import Grid
from console.views.heat import HeatMetric
from planner.domain.errors import ClusterError, Issue
from tests.tui.harness import drive, notes_of, press, sample_app, sample_services, settle, text_of, until
from tests.views.cluster_samples import NOW, StillSource

P = Pilot[Any]


def app_of(pilot: P) -> PlannerApp:
    assert isinstance(pilot.app, PlannerApp)
    return pilot.app


def screen_of(pilot: P) -> ClusterScreen:
    found = next(s for s in pilot.app.screen_stack if isinstance(s, ClusterScreen))
    assert isinstance(found, ClusterScreen)
    return found


async def opened(pilot: P) -> None:
    await press(pilot, "4")
    await until(pilot, lambda: "per DP rank" in text_of(app_of(pilot)))


def test_heat_map_strip_and_blockers_are_shown() -> None:
    async def script(pilot: P) -> None:
        await opened(pilot)
        text = text_of(app_of(pilot))
        for part in (
            "gateway",
            "picker",
            "1/2 groups",
            "!31",
            "decode 1.0",
            "container crashes",
            "prod-eu",
            "9 silent",
        ):
            assert part in text, part

    drive(sample_app(), script)


def test_metric_faults_filter_and_back() -> None:
    async def script(pilot: P) -> None:
        await opened(pilot)
        grid = screen_of(pilot).query_one("#ranks", Grid)
        seen = {screen_of(pilot)._metric}
        for _ in HeatMetric:
            await press(pilot, "m")
            seen.add(screen_of(pilot)._metric)
        assert seen == set(HeatMetric)
        assert len(grid.rows) == 4
        await press(pilot, "z")
        assert len(grid.rows) == 3
        await press(pilot, "slash", "'decode 1.0", "enter")
        assert [r.key for r in grid.rows] == ["r1-decode-1"]
        await press(pilot, "escape")
        assert len(grid.rows) == 4
        await press(pilot, "escape")
        assert app_of(pilot).current_mode == "frontier"

    drive(sample_app(), script)


def test_describe_yaml_objects_and_events() -> None:
    async def script(pilot: P) -> None:
        await opened(pilot)
        await press(pilot, "j", "d")
        text = text_of(app_of(pilot))
        assert "silent" in text
        await press(pilot, "end")
        await press(pilot, "escape", "y")
        assert "CrashLoopBackOff" in text_of(app_of(pilot)) or "kind: pods" in text_of(app_of(pilot))
        await press(pilot, "escape", "o")
        assert isinstance(pilot.app.screen, ObjectsScreen)
        assert "4 pods" in text_of(app_of(pilot))
        await press(pilot, "z")
        assert "1 pods with faults" in text_of(app_of(pilot))
        await press(pilot, "K", "'nodes", "enter")
        await press(pilot, "z")
        assert "2 nodes" in text_of(app_of(pilot))
        await press(pilot, "d")
        assert "nvidia.com/gpu" in text_of(app_of(pilot))
        await press(pilot, "escape", "escape", "v")
        assert "BackOff" in text_of(app_of(pilot))

    drive(sample_app(), script)


def test_drift_against_the_pinned_plan() -> None:
    async def script(pilot: P) -> None:
        await opened(pilot)
        await press(pilot, "D")
        assert "Pin the plan" in notes_of(app_of(pilot))
        await press(pilot, "1", "space", "4", "D")
        text = text_of(app_of(pilot))
        assert "planned" in text
        assert "no server" in text

    drive(sample_app(), script)


def test_new_pods_appear_and_the_cursor_stays_on_its_pod() -> None:
    source = StillSource()

    async def script(pilot: P) -> None:
        await opened(pilot)
        grid = screen_of(pilot).query_one("#ranks", Grid)
        await press(pilot, "end")
        assert grid.cursor_key == "r1-decode-1"
        gone = next(k for k in source.snapshot().pods if k.endswith("decode-0"))
        source.state.apply(ObjectChange(at=NOW, kind=Kind.PODS, op=Op.DELETE, key=gone))
        await until(pilot, lambda: len(grid.rows) == 3)
        assert grid.cursor_key == "r1-decode-1"

    drive(sample_app(services=sample_services(open_cluster=lambda _: source)), script)


def test_a_cluster_that_cannot_be_read_is_said_and_tried_again() -> None:
    back = threading.Event()

    def refuse(_: ClusterChoice) -> Any:
        if not back.is_set():
            raise ClusterError(
                Issue(
                    code="cluster.unreachable",
                    what="https://k8s",
                    why="connection refused",
                    fix="check the VPN",
                )
            )
        return StillSource()

    async def script(pilot: P) -> None:
        await press(pilot, "4")
        await until(pilot, lambda: "connection refused" in text_of(app_of(pilot)))
        assert "check the VPN" in text_of(app_of(pilot))
        await press(pilot, "m", "z", "d", "y", "o", "v", "D", "j")  # nothing to act on, nothing breaks
        back.set()
        await until(pilot, lambda: "per DP rank" in text_of(app_of(pilot)))

    drive(sample_app(services=sample_services(open_cluster=refuse)), script)


def test_what_was_known_stays_when_the_cluster_is_lost() -> None:
    class Breaking(StillSource):
        shown = 0

        def snapshot(self) -> Any:
            self.shown += 1
            if self.shown > 1:
                raise ClusterError(Issue(code="cluster.lost", what="https://k8s", why="gone", fix="wait"))
            return super().snapshot()

    sources: list[Breaking] = []

    def make(_: ClusterChoice) -> Any:
        sources.append(Breaking())
        return sources[-1]

    async def script(pilot: P) -> None:
        await opened(pilot)
        await until(pilot, lambda: "lost the cluster" in text_of(app_of(pilot)))
        assert "decode 1.0" in text_of(app_of(pilot))
        assert sources[0].closed

    drive(sample_app(services=sample_services(open_cluster=make)), script)


def test_choosing_another_context_leaves_the_first() -> None:
    sources: list[tuple[ClusterChoice, StillSource]] = []

    def make(choice: ClusterChoice) -> Any:
        sources.append((choice, StillSource()))
        return sources[-1][1]

    async def script(pilot: P) -> None:
        await opened(pilot)
        await press(pilot, "colon", "'context other", "enter")
        await until(pilot, lambda: len(sources) == 2)
        assert sources[1][0].context == "other"
        assert sources[0][1].closed
        await press(pilot, "colon", "'replay", "enter")
        assert "name a recording" in notes_of(app_of(pilot))

    drive(sample_app(services=sample_services(open_cluster=make)), script)


def test_leaving_the_app_closes_the_source() -> None:
    source = StillSource()

    async def run() -> None:
        app = sample_app(services=sample_services(open_cluster=lambda _: source))
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            await opened(pilot)

    asyncio.run(run())
    assert source.closed
