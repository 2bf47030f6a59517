"""A live server as a source: one reflector per kind on offer, one scraper, discovery repeated for kinds still missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random

from console.cluster.api import Api, ApiError, refused, unreachable
from console.cluster.discovery import discover
from console.cluster.kinds import KINDS, Kind, Served
from console.cluster.metrics.readings import WINDOW_S
from console.cluster.metrics.scraper import Scraper
from console.cluster.objects import View
from console.cluster.reflector import Reflector, Timing
from console.cluster.state import Change, ClusterState, Identity, ObjectChange, Op, Snapshot, Trust

REDISCOVER_S = 60.0
_SETTLED = (Trust.LIVE, Trust.DENIED, Trust.ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What to follow. `namespace` None = all; `metrics` False leaves the engines alone."""

    namespace: str | None
    kinds: tuple[Kind, ...] = tuple(Kind)
    metrics: bool = True
    prometheus: str | None = None
    period_s: float = 10.0
    window_s: float = WINDOW_S  # of rates and percentiles
    in_cluster: bool = False
    timing: Timing = field(default_factory=Timing)


@dataclass(slots=True)
class _KindSink:
    """Writes one kind to the state; remembers the last trust so that it is told once."""

    state: ClusterState
    kind: Kind
    wall: Callable[[], float]

    def listed(self, views: list[View]) -> None:
        self.state.apply(ObjectChange(at=self.wall(), kind=self.kind, op=Op.LISTED, views=tuple(views)))

    def upsert(self, view: View) -> None:
        self.state.apply(ObjectChange(at=self.wall(), kind=self.kind, op=Op.UPSERT, views=(view,)))

    def delete(self, key: str) -> None:
        self.state.apply(ObjectChange(at=self.wall(), kind=self.kind, op=Op.DELETE, key=key))

    def contact(self) -> None:
        if self.state.trust(self.kind) is not Trust.LIVE:
            self.trust(Trust.LIVE, "")
        self.state.contact(self.kind, self.wall())

    def failed(self, error: ApiError) -> None:
        if error.denied:
            why = "credentials expired" if error.status == 401 else error.message
            self.trust(Trust.DENIED if error.status == 403 else Trust.RECONNECTING, why)
        elif error.status == 404:
            self.trust(Trust.ABSENT, "not served any more")
        else:
            self.trust(Trust.RECONNECTING, error.message)

    def trust(self, trust: Trust, why: str) -> None:
        if self.state.trust(self.kind) is not trust:
            last = self.state.last_contact(self.kind)
            at = self.wall() if trust is Trust.LIVE else last
            self.state.apply(ObjectChange(at=at, kind=self.kind, op=Op.TRUST, trust=trust, why=why))


class LiveSource:
    """Follows a live server until closed."""

    def __init__(
        self,
        api: Api,
        options: LiveOptions,
        *,
        identity: Identity,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._api = api
        self._options = options
        self._wall, self._clock = wall, clock
        self._random = random or Random()  # noqa: S311 - jitter
        self.state = ClusterState(identity, window_s=options.window_s)
        self.state.subscribe(self._note_change)
        self._change = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._served: dict[Kind, Served] = {}

    @property
    def api(self) -> Api:
        """The server."""
        return self._api

    def _note_change(self, change: Change) -> None:
        del change
        self._change.set()

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each change."""
        self.state.subscribe(listener)

    async def start(self) -> None:
        """Discover and begin to follow. Raises ClusterError."""
        await self._discover(first=True)
        self._spawn("rediscovery", self._rediscover())
        if self._options.metrics:
            self._spawn("metrics", self._scrape())

    async def _discover(self, *, first: bool = False) -> None:
        try:
            found = await discover(self._api, self._options.kinds)
        except ApiError as error:
            if not first:
                return
            if error.denied:
                raise refused(self._api.server, error, "API discovery") from None
            raise unreachable(self._api.server, error.message) from None
        failed_groups = {p.split("/")[2] if p.startswith("/apis/") else "" for p in found.failed}
        for kind in Kind:
            served = found.served.get(kind)
            if served is not None and f"watch {kind}" not in self._tasks:
                self._follow(served)
            elif served is None and first:
                unknown = KINDS[kind].group in failed_groups
                why = "discovery of its group failed" if unknown else "not installed"
                if kind not in self._options.kinds:
                    why = "not asked for"
                sink = _KindSink(self.state, kind, self._wall)
                sink.trust(Trust.ABSENT, why)

    def _follow(self, served: Served) -> None:
        kind = served.info.kind
        self._served[kind] = served
        sink = _KindSink(self.state, kind, self._wall)
        sink.trust(Trust.LOADING, "")
        reflector = Reflector(
            api=self._api,
            served=served,
            namespace=self._options.namespace,
            sink=sink,
            clock=self._clock,
            random=self._random,
            timing=self._options.timing,
        )
        self._spawn(f"watch {kind}", reflector.run())

    async def _rediscover(self) -> None:
        """Kinds installed later are picked up; a reflector whose kind vanished keeps asking by itself."""
        while True:
            await asyncio.sleep(REDISCOVER_S * self._random.uniform(0.75, 1.25))
            await self._discover()

    async def _scrape(self) -> None:
        scraper = Scraper(
            api=self._api,
            state=self.state,
            wall=self._wall,
            clock=self._clock,
            in_cluster=self._options.in_cluster,
            prometheus=self._options.prometheus,
            period_s=self._options.period_s,
        )
        while Trust.LOADING in (self.state.trust(Kind.PODS), self.state.trust(Kind.POOLS)):
            await asyncio.sleep(0.05)
        try:
            await scraper.run()
        finally:
            if scraper.way is not None:
                await scraper.way.close()

    def _spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    def _check(self) -> None:
        """A task that died is a bug of ours: raise it here instead of showing old state for ever."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def ready(self, timeout_s: float) -> bool:
        """Wait until every kind is settled. Raises ClusterError when nothing at all could be read."""
        deadline = self._clock() + timeout_s
        while True:
            self._check()
            if all(self.state.trust(k) in _SETTLED for k in self._options.kinds):
                self._raise_if_blind()
                return True
            left = deadline - self._clock()
            if left <= 0:
                self._raise_if_blind()
                return False
            self._change.clear()
            await _wait(self._change, min(left, 0.5))

    def _raise_if_blind(self) -> None:
        trusts = {k: self.state.trust(k) for k in self._served}
        if not trusts or any(t not in (Trust.DENIED, Trust.RECONNECTING) for t in trusts.values()):
            return
        snapshot = self.snapshot()
        kind, trust = next(iter(trusts.items()))
        why = snapshot.kinds[kind].why
        if trust is Trust.DENIED:
            raise refused(self._api.server, ApiError(403, "Forbidden", why), f"reading {len(trusts)} kinds")
        if "credentials" in why:
            raise refused(self._api.server, ApiError(401, "Unauthorized", why), "every request")
        raise unreachable(self._api.server, why)

    async def changed(self, timeout_s: float) -> bool:
        """Wait for a change since the last snapshot."""
        self._check()
        return await _wait(self._change, timeout_s)

    def snapshot(self) -> Snapshot:
        """The state now."""
        self._change.clear()
        return self.state.snapshot(self._wall())

    async def close(self) -> None:
        """Stop everything."""
        tasks: Iterable[asyncio.Task[None]] = self._tasks.values()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._api.close()


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True
