"""What can go wrong between a console and a cluster: the state recovers, and nothing old is shown as live."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from worlds import FAST, World, engine_pod, world

from console.cluster.api import ApiError
from console.cluster.connect import connect
from console.cluster.fake.access import Access
from console.cluster.fake.resources import BUILTINS
from console.cluster.fake.server import FakeServer
from console.cluster.fake.status import StatusError
from console.cluster.fake.store import Store
from console.cluster.kinds import KINDS, Kind, Served
from console.cluster.live import LiveOptions, LiveSource
from console.cluster.recording import to_plain
from console.cluster.state import SILENT_AFTER_S, Identity, Trust
from console.views.cluster import overview
from planner.domain.errors import ClusterError, ExitCode

Scenario = Callable[[World], Awaitable[None]]


def play(tmp_path: Path, scenario: Scenario, **options: object) -> None:
    async def run() -> None:
        async with world(tmp_path, **options) as w:  # type: ignore[arg-type]
            await scenario(w)

    asyncio.run(run())


def watches(w: World, plural: str = "pods") -> int:
    return sum(f"/{plural}?" in p and "watch=true" in p for _, p in w.server.requests)


def lists(w: World, plural: str = "pods") -> int:
    return sum(f"/{plural}?" in p and "limit=" in p for _, p in w.server.requests)


def test_follows_additions_changes_and_deletions(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        w.put(engine_pod("lws-1", group=1))
        await w.until(lambda s: len(s.pods) == 2)
        w.put(engine_pod("lws-1", group=1, phase="Failed"))
        await w.until(lambda s: s.pods["default/lws-1"].phase == "Failed")
        w.server.remove("v1", "pods", "default", "lws-1")
        await w.until(lambda s: list(s.pods) == ["default/lws-0"])
        assert lists(w) == 1

    play(tmp_path, scenario)


def test_a_stream_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """Half an event must never be applied, and the watch goes on from the last whole one."""

    async def run() -> None:
        seen: list[str] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            seen.append(request.path_qs)
            if "watch" not in request.query:
                return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
            response = web.StreamResponse()
            await response.prepare(request)
            pod = {
                **engine_pod("whole"),
                "metadata": {**engine_pod("whole")["metadata"], "resourceVersion": "6"},
            }
            if request.query["resourceVersion"] == "5":
                await response.write(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
                await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"half"')
                assert request.transport is not None
                request.transport.close()
            else:
                await asyncio.sleep(5)
            return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        fake = FakeServer()
        fake.port = port
        (tmp_path / "k").write_text(fake.kubeconfig(), encoding="utf-8")
        api = connect(kubeconfig=str(tmp_path / "k"))
        identity = Identity(source="live", context="c", server="", namespace="default")
        source = LiveSource(
            api, LiveOptions(namespace="default", timing=FAST, kinds=(Kind.PODS,)), identity=identity
        )
        source._follow(Served(KINDS[Kind.PODS], "v1"))
        deadline = time.monotonic() + 5
        while sum("resourceVersion=6" in p for p in seen) == 0 and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert list(source.snapshot().pods) == ["default/whole"]
        assert sum("resourceVersion=6" in p for p in seen) == 1
        await source.close()
        await runner.cleanup()

    asyncio.run(run())


def test_expired_history_is_listed_again(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        before = lists(w)
        w.server.store.compact(watches=True)
        w.server.store.close_watches()
        w.put(engine_pod("lws-1", group=1))
        w.server.store.compact(watches=True)
        await w.until(lambda s: len(s.pods) == 2 and s.kinds[Kind.PODS].trust is Trust.LIVE)
        assert lists(w) <= before + 2

    play(tmp_path, scenario)


def test_a_server_restart_shows_reconnecting_then_the_new_truth(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        port = w.server.port
        await w.server.stop()
        down = await w.until(lambda s: s.kinds[Kind.PODS].trust is Trust.RECONNECTING)
        assert list(down.pods) == ["default/lws-0"]  # still shown, marked as old
        assert any(k.kind == "pods" for k in overview(down).problems)
        again = FakeServer(store=Store(first_version=1000))
        again.put("v1", "pods", engine_pod("lws-9", group=9))
        await again.start(port=port)
        up = await w.until(lambda s: s.kinds[Kind.PODS].trust is Trust.LIVE and "default/lws-9" in s.pods)
        assert list(up.pods) == ["default/lws-9"]
        await again.stop()

    play(tmp_path, scenario)


def test_a_slow_server_is_waited_for(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        held = w.server._route

        async def slow(request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(0.3)
            return await held(request)

        w.server._route = slow  # type: ignore[method-assign]
        await w.source.start()
        assert not await w.source.ready(0.1)
        assert await w.source.ready(5.0)
        assert list(w.source.snapshot().pods) == ["default/lws-0"]

    play(tmp_path, scenario, start=False)


def test_silence_is_not_shown_as_live(tmp_path: Path) -> None:
    """A connection that died without a word: after a while the kind is stale, whatever it holds."""
    offset = 0.0

    async def scenario(w: World) -> None:
        nonlocal offset
        assert w.source.snapshot().kinds[Kind.PODS].trust is Trust.LIVE
        w.server.store._of(("", "pods")).watchers.clear()
        for task in w.source._tasks.values():
            task.cancel()
        await asyncio.sleep(0.05)
        offset = SILENT_AFTER_S + 1
        assert w.source.state.snapshot(w.wall()).kinds[Kind.PODS].trust is Trust.STALE

    play(tmp_path, scenario, wall=lambda: time.time() + offset)


def test_a_clock_that_jumps_back_breaks_nothing(tmp_path: Path) -> None:
    offset = 0.0

    async def scenario(w: World) -> None:
        nonlocal offset
        await w.until(lambda s: any(r.window_s > 0 for r in s.readings.values()))
        offset = -3600.0
        fresh = await w.until(
            lambda s: bool(s.readings) and all(r.at < time.time() - 3000 for r in s.readings.values())
        )
        view = overview(fresh)
        assert all(r.output_tok_s is None or r.output_tok_s >= 0 for r in fresh.readings.values())
        assert all(k.age_s is None or k.age_s >= 0 for k in view.kinds)

    play(tmp_path, scenario, metrics=True, wall=lambda: time.time() + offset)


def test_an_expired_token_is_read_again(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        w.server.access.tokens = {"second": "alice"}
        w.server.store.close_watches()
        expired = await w.until(lambda s: s.kinds[Kind.PODS].trust is Trust.RECONNECTING)
        assert "expired" in expired.kinds[Kind.PODS].why
        w.kubeconfig.write_text(w.server.kubeconfig(token="second"), encoding="utf-8")
        w.put(engine_pod("lws-1", group=1))
        await w.until(lambda s: len(s.pods) == 2 and s.kinds[Kind.PODS].trust is Trust.LIVE)

    play(tmp_path, scenario, access=Access(tokens={"first": "alice"}), token="first")


def test_wrong_credentials_end_with_one_clear_error(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        with pytest.raises(ClusterError) as error:
            await w.source.start()
        assert error.value.issues[0].code == "cluster.unauthorized"
        assert error.value.exit_code is ExitCode.CLUSTER
        assert "nonsense" not in str(error.value)

    play(tmp_path, scenario, access=Access(tokens={"right": "alice"}), token="nonsense", start=False)


def test_missing_kinds_are_normal(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        snapshot = w.source.snapshot()
        for kind in (Kind.DISAGGREGATED_SETS, Kind.POOLS, Kind.QUEUED_WORKLOADS, Kind.SCALED_OBJECTS):
            assert snapshot.kinds[kind].trust is Trust.ABSENT
        assert snapshot.kinds[Kind.PODS].trust is Trust.LIVE
        assert overview(snapshot).problems == ()

    play(tmp_path, scenario, builtins=BUILTINS)


@pytest.mark.parametrize("kind", [k for k in Kind if k not in (Kind.QUEUED_WORKLOADS, Kind.SCALED_OBJECTS)])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_denied_kind_is_named_and_the_others_go_on(tmp_path: Path, kind: Kind, verb: str) -> None:
    async def scenario(w: World) -> None:
        snapshot = await w.until(lambda s: s.kinds[kind].trust is Trust.DENIED)
        assert kind.value in snapshot.kinds[kind].why
        assert snapshot.kinds[kind].objects == {}
        others = [k for k in Kind if k is not kind]
        assert all(snapshot.kinds[k].trust in (Trust.LIVE, Trust.ABSENT) for k in others)
        assert [p.kind for p in overview(snapshot).problems] == [kind.value]

    play(tmp_path, scenario, access=Access(denied={(verb, kind.value)}))


def test_a_permission_given_later_is_noticed(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        assert w.source.snapshot().kinds[Kind.PODS].trust is Trust.DENIED
        w.server.access.denied.clear()
        await w.until(lambda s: s.kinds[Kind.PODS].trust is Trust.LIVE and bool(s.pods))

    play(tmp_path, scenario, access=Access(denied={("list", "pods")}))


def test_nothing_readable_at_all_is_an_error(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        await w.source.start()
        with pytest.raises(ClusterError) as error:
            await w.source.ready(5.0)
        assert error.value.issues[0].code == "cluster.forbidden"

    denied = {("*", k.value) for k in Kind}
    play(tmp_path, scenario, access=Access(denied=denied), start=False)


def test_an_unreachable_server_is_an_error(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        await w.server.stop()
        with pytest.raises(ClusterError) as error:
            await w.source.start()
        assert error.value.issues[0].code == "cluster.unreachable"
        assert str(w.server.port) in error.value.issues[0].what

    play(tmp_path, scenario, start=False)


def test_a_reconnect_storm_does_not_hammer_the_server(tmp_path: Path) -> None:
    """Fourteen watches fail at once, for a second: each asks a few times, not hundreds."""

    async def scenario(w: World) -> None:
        w.server.fault = lambda request: StatusError(503, "ServiceUnavailable", "starting")
        w.server.store.close_watches()
        before = len(w.server.requests)
        await asyncio.sleep(1.0)
        asked = len(w.server.requests) - before
        w.server.fault = None
        await w.until(lambda s: all(k.trust in (Trust.LIVE, Trust.ABSENT) for k in s.kinds.values()))
        # 0.02, 0.04, … 0.2 s and then every 0.1 to 0.2 s: at most fifteen tries each.
        assert 12 <= asked <= 12 * 15

    play(tmp_path, scenario)


# --- metrics ---


def test_metrics_of_ranks_through_the_proxy(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        w.engines.queued["lws-0", 8001] = 17
        snapshot = await w.until(
            lambda s: len(s.readings) == 2 and all(r.window_s > 0.3 for r in s.readings.values())
        )
        view = overview(snapshot)
        assert [r.waiting for r in view.ranks] == [0.0, 17.0]
        assert [r.hot for r in view.ranks] == [False, True]
        assert view.ranks[0].output_tok_s == pytest.approx(1000.0, rel=0.1)
        assert view.metrics is not None
        assert view.metrics.way == "API server proxy"

    play(tmp_path, scenario, metrics=True)


def test_a_pod_that_falls_silent_shows_no_number(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        await w.until(lambda s: len(s.readings) == 2)
        w.engines.silent.add("lws-0")
        snapshot = await w.until(lambda s: len(s.silent) == 2)
        for rank in overview(snapshot).ranks:
            assert rank.silent
            assert rank.running is None
            assert rank.output_tok_s is None
        w.engines.silent.clear()
        await w.until(lambda s: not s.silent and len(s.readings) == 2)

    play(tmp_path, scenario, metrics=True)


def test_garbage_instead_of_metrics(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        w.engines.garbage.add("lws-0")
        snapshot = await w.until(lambda s: len(s.silent) == 2)
        assert all("no vllm: metric" in why for why in snapshot.silent.values())
        assert all(r.waiting is None for r in overview(snapshot).ranks)

    play(tmp_path, scenario, metrics=True)


def test_a_pod_that_vanishes_during_a_scrape_leaves_no_rank(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        held = w.server.proxy
        assert held is not None

        def vanishing(namespace: str, pod: str, port: int, path: str) -> tuple[int, str] | None:
            answer = held(namespace, pod, port, path)
            if pod == "lws-1" and w.server.store.get(("", "pods"), ("default", pod)):
                w.server.remove("v1", "pods", "default", pod)
            return answer

        await w.until(lambda s: len(s.readings) == 2)
        w.server.proxy = vanishing
        w.put(engine_pod("lws-1", group=1))
        await w.until(lambda s: "default/lws-1" in s.pods)
        snapshot = await w.until(lambda s: "default/lws-1" not in s.pods)
        await asyncio.sleep(0.5)
        snapshot = w.source.snapshot()
        assert {k.pod for k in snapshot.readings} == {"lws-0"}
        assert not any("lws-1" in t for t in snapshot.silent)

    play(tmp_path, scenario, metrics=True)


def test_a_denied_proxy_falls_back_and_says_so(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        snapshot = await w.until(lambda s: s.metrics is not None and s.metrics.way == "pod addresses")
        assert snapshot.metrics is not None
        assert "denied" in snapshot.metrics.note

    # the pod's address answers nobody here: what matters is that the way is changed and shown
    play(tmp_path, scenario, metrics=True, access=Access(denied={("get", "pods/proxy")}))


def test_a_recreated_pod_does_not_inherit_readings(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        await w.until(lambda s: len(s.readings) == 2)
        w.engines.silent.add("lws-0")
        w.server.remove("v1", "pods", "default", "lws-0")
        w.put(engine_pod("lws-0"))
        snapshot = await w.until(lambda s: len(s.pods) == 1 and not s.readings)
        assert all(r.running is None for r in overview(snapshot).ranks)

    play(tmp_path, scenario, metrics=True)


def test_no_secret_is_kept_shown_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    held: list[str] = []

    async def scenario(w: World) -> None:
        await w.until(lambda s: len(s.readings) == 2)
        snapshot = w.source.snapshot()
        held.append(json.dumps([to_plain(v) for k in snapshot.kinds.values() for v in k.objects.values()]))
        w.server.access.tokens = {"other": "x"}
        w.server.store.close_watches()
        failed = await w.until(lambda s: s.kinds[Kind.PODS].trust is Trust.RECONNECTING)
        held.append(failed.kinds[Kind.PODS].why)
        with pytest.raises(ApiError) as error:
            await w.source.api.get("/api/v1/pods")
        held.append(repr(error.value))

    play(
        tmp_path,
        scenario,
        metrics=True,
        access=Access(tokens={"canary-bearer": "alice"}),
        token="canary-bearer",
    )
    everything = "".join(held) + caplog.text
    for secret in ("canary-bearer", "canary-token", "hunter2"):
        assert secret not in everything


def test_more_pods_than_the_proxy_should_carry_are_taken_in_turn_and_none_goes_stale(tmp_path: Path) -> None:
    async def scenario(w: World) -> None:
        for i in range(1, 130):
            w.put(engine_pod(f"lws-{i}", group=i, ports=1))
        snapshot = await w.until(lambda s: len({k.pod for k in s.readings}) == 130, timeout_s=20.0)
        assert snapshot.metrics is not None
        assert "64 of 130 pods per round" in snapshot.metrics.note
        assert snapshot.metrics.period_s == pytest.approx(3 * 0.2)
        await asyncio.sleep(0.5)
        assert not w.source.snapshot().silent

    play(tmp_path, scenario, metrics=True)
