"""Scrapes engine and picker metrics in rounds and writes them to the state.

The way is chosen once there is a target: Prometheus when its address is given; pod addresses inside the cluster; else the
API server's proxy, and pod addresses when RBAC denies the proxy. More pods than the proxy should carry: a Prometheus service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from console.cluster.api import Api, ApiError
from console.cluster.metrics.epp import parse_picker
from console.cluster.metrics.exposition import NotMetrics, parse_exposition
from console.cluster.metrics.samples import RankSample
from console.cluster.metrics.ways import (
    PROXY_MAX_PODS,
    DirectWay,
    Page,
    PrometheusWay,
    ProxyWay,
    Target,
    Way,
    find_prometheus,
)
from console.cluster.objects import PodView
from console.cluster.state import ClusterState, MetricsChange, PickerChange, ScrapeChange, Snapshot
from console.cluster.topology import topology

PICKER_PORT = 9090


@dataclass(slots=True)
class Scraper:
    """One scraper per source. `wall` is wall-clock seconds, `clock` monotonic ones."""

    api: Api
    state: ClusterState
    wall: Callable[[], float]
    clock: Callable[[], float]
    in_cluster: bool = False
    prometheus: str | None = None
    period_s: float = 10.0
    way: Way | None = None
    _next_pod: int = field(default=0, init=False)
    _note: str = field(default="", init=False)
    _looked: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Scrape until cancelled, one round per period."""
        while True:
            await asyncio.sleep(await self.round())

    async def round(self) -> float:
        """One round over all ready engine pods. Returns the seconds to wait before the next."""
        started = self.clock()
        snapshot = self.state.snapshot(self.wall())
        targets = scrape_targets(snapshot)
        if targets:
            way = await self._choose(targets)
            targets, rounds, note = self._sample(targets, way)
            failed = denied = 0
            async for page in way.scrape(targets):
                failed += not self._take(page)
                denied += page.denied
            if denied and isinstance(way, ProxyWay):
                await self._leave(way)
            await self._pickers(snapshot)
            self._report(
                way, len(targets), failed, started, rounds, "; ".join(n for n in (note, self._note) if n)
            )
        elif self.state.snapshot(self.wall()).metrics is None:
            self.state.apply(
                MetricsChange(
                    at=self.wall(), way="none yet", period_s=self.period_s, note="no engine pod is running"
                )
            )
        return max(self.period_s - (self.clock() - started), self.period_s * 0.1)

    async def _choose(self, targets: list[Target]) -> Way:
        if self.way is None:
            if self.prometheus:
                self.way = PrometheusWay(self.prometheus)
            else:
                self.way = DirectWay() if self.in_cluster else ProxyWay(self.api)
        many = len({(t.namespace, t.pod) for t in targets}) > PROXY_MAX_PODS
        if many and isinstance(self.way, ProxyWay) and not self._looked:
            self._looked = True  # once: services do not come and go
            self.way = await find_prometheus(self.api, targets) or self.way
        return self.way

    async def _leave(self, way: Way) -> None:
        await way.close()
        self.way = DirectWay()
        self._note = "pods/proxy is denied; trying pod addresses"

    def _sample(self, targets: list[Target], way: Way) -> tuple[list[Target], int, str]:
        """At most `max_pods` pods per round, in turn; also how many rounds it takes to see every pod."""
        pods = sorted({(t.namespace, t.pod) for t in targets})
        if not way.max_pods or len(pods) <= way.max_pods:
            return targets, 1, ""
        start = self._next_pod % len(pods)
        chosen = {pods[(start + i) % len(pods)] for i in range(way.max_pods)}
        self._next_pod = start + way.max_pods
        return (
            [t for t in targets if (t.namespace, t.pod) in chosen],
            -(-len(pods) // way.max_pods),
            f"{way.max_pods} of {len(pods)} pods per round",
        )

    def _take(self, page: Page) -> bool:
        target, failed = page.target, page.failed
        samples: tuple[RankSample, ...] = ()
        if not failed:
            try:
                samples = parse_exposition(page.text)
            except NotMetrics as error:
                failed = str(error)
        self.state.apply(
            ScrapeChange(
                at=self.wall(),
                namespace=target.namespace,
                pod=target.pod,
                port=target.port,
                samples=samples,
                failed=failed,
            )
        )
        return not failed

    async def _pickers(self, snapshot: Snapshot) -> None:
        for pod, pool in picker_pods(snapshot):
            path = f"/api/v1/namespaces/{pod.meta.namespace}/pods/{pod.meta.name}:{PICKER_PORT}/proxy/metrics"
            failed, sample = "", None
            try:
                sample = parse_picker(await self.api.text(path, timeout_s=3.0))
            except ApiError as error:
                failed = f"HTTP {error.status}" if error.status else error.message
            self.state.apply(PickerChange(at=self.wall(), name=pool, sample=sample, failed=failed))

    def _report(self, way: Way, targets: int, failed: int, started: float, rounds: int, note: str) -> None:
        self.state.apply(
            MetricsChange(
                at=self.wall(),
                way=way.name,
                period_s=self.period_s * rounds,  # a rank's own interval: what decides whether it is stale
                targets=targets,
                failed=failed,
                took_s=self.clock() - started,
                note=note,
            )
        )


def scrape_targets(snapshot: Snapshot) -> list[Target]:
    """Endpoints worth scraping: of running pods that have an address."""
    return [
        Target(e.pod.meta.namespace, e.pod.meta.name, e.port, e.pod.ip)
        for e in topology(snapshot).endpoints
        if e.pod.phase == "Running" and e.pod.ip and not e.pod.meta.deleting
    ]


def picker_pods(snapshot: Snapshot) -> list[tuple[PodView, str]]:
    """A running pod of each endpoint picker, with the picker's name."""
    out = []
    for deployment in snapshot.deployments.values():
        if not deployment.picker_for or not deployment.selector:
            continue
        for pod in snapshot.pods.values():
            if (
                pod.meta.namespace == deployment.meta.namespace
                and deployment.selector.items() <= pod.meta.labels.items()
                and pod.phase == "Running"
            ):
                out.append((pod, deployment.meta.key))
                break
    return out
