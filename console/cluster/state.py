"""Everything known of a cluster, changed only by `Change` values, so that a recording replays to the same state.

`ClusterState.apply` is the single mutator. `snapshot` freezes what is held; each kind says how far it can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from console.cluster.kinds import KINDS, Kind
from console.cluster.metrics.epp import PickerSample
from console.cluster.metrics.readings import STALE_PERIODS, WINDOW_S, RankKey, RankReading, RankWindows
from console.cluster.metrics.samples import RankSample
from console.cluster.objects import (
    AutoscalerView,
    DeploymentView,
    DisaggregatedSetView,
    EventView,
    GatewayView,
    GroupSetView,
    NodeView,
    PodView,
    PoolView,
    QueuedWorkloadView,
    RouterConfigView,
    RouteView,
    View,
)

# A quiet watch is heard from when it is opened anew: at most 75 s plus the grace of a stalled connection.
SILENT_AFTER_S = 95.0
MAX_EVENTS = 5000

V = TypeVar("V", bound=View)


class Trust(StrEnum):
    """How far a kind's objects can be trusted."""

    LOADING = "loading"
    LIVE = "live"
    RECONNECTING = "reconnecting"
    DENIED = "denied"
    ABSENT = "absent"
    STALE = "stale"


class Op(StrEnum):
    """What a change does."""

    LISTED = "listed"
    UPSERT = "upsert"
    DELETE = "delete"
    TRUST = "trust"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """Objects of one kind changed at wall time `at` (s)."""

    at: float
    kind: Kind
    op: Op
    views: tuple[View, ...] = ()
    key: str = ""
    trust: Trust = Trust.LIVE
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeChange:
    """One scrape of one endpoint; `failed` says why there is none."""

    at: float
    namespace: str
    pod: str
    port: int
    samples: tuple[RankSample, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerChange:
    """One scrape of an endpoint picker."""

    at: float
    name: str
    sample: PickerSample | None = None
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsChange:
    """How metrics are reached, and what one round cost."""

    at: float
    way: str  # e.g. "API server proxy"
    period_s: float
    targets: int = 0
    failed: int = 0
    took_s: float = 0.0
    note: str = ""


Change = ObjectChange | ScrapeChange | PickerChange | MetricsChange


@dataclass(frozen=True, slots=True)
class KindState:
    """Objects of one kind by key, how far to trust them, and when the server was last heard from (wall, s)."""

    trust: Trust
    objects: Mapping[str, View] = field(default_factory=dict)
    contact: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Where the state comes from. `namespace` None = all."""

    source: str  # live, replay of FILE, simulated
    context: str
    server: str
    namespace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A frozen state as of wall time `now` (s). `readings` hold fresh ranks only; `silent` those without a fresh one."""

    now: float
    identity: Identity
    kinds: Mapping[Kind, KindState]
    readings: Mapping[RankKey, RankReading]
    silent: Mapping[str, str]  # "namespace/pod:port" -> why
    pickers: Mapping[str, PickerSample]
    metrics: MetricsChange | None

    def of(self, kind: Kind, view: type[V]) -> dict[str, V]:
        """Objects of `kind`, typed."""
        return {k: v for k, v in self.kinds[kind].objects.items() if isinstance(v, view)}

    @property
    def pods(self) -> dict[str, PodView]:
        """Pods by key."""
        return self.of(Kind.PODS, PodView)

    @property
    def nodes(self) -> dict[str, NodeView]:
        """Nodes by name."""
        return self.of(Kind.NODES, NodeView)

    @property
    def events(self) -> dict[str, EventView]:
        """Events by key."""
        return self.of(Kind.EVENTS, EventView)

    @property
    def group_sets(self) -> dict[str, GroupSetView]:
        """LeaderWorkerSets by key."""
        return self.of(Kind.GROUP_SETS, GroupSetView)

    @property
    def disaggregated_sets(self) -> dict[str, DisaggregatedSetView]:
        """DisaggregatedSets by key."""
        return self.of(Kind.DISAGGREGATED_SETS, DisaggregatedSetView)

    @property
    def pools(self) -> dict[str, PoolView]:
        """InferencePools by key."""
        return self.of(Kind.POOLS, PoolView)

    @property
    def deployments(self) -> dict[str, DeploymentView]:
        """Deployments by key."""
        return self.of(Kind.DEPLOYMENTS, DeploymentView)

    @property
    def gateways(self) -> dict[str, GatewayView]:
        """Gateways by key."""
        return self.of(Kind.GATEWAYS, GatewayView)

    @property
    def routes(self) -> dict[str, RouteView]:
        """HTTPRoutes by key."""
        return self.of(Kind.ROUTES, RouteView)

    @property
    def router_configs(self) -> dict[str, RouterConfigView]:
        """EndpointPickerConfigs by key."""
        return self.of(Kind.ROUTER_CONFIGS, RouterConfigView)

    @property
    def queued_workloads(self) -> dict[str, QueuedWorkloadView]:
        """Kueue workloads by key."""
        return self.of(Kind.QUEUED_WORKLOADS, QueuedWorkloadView)

    @property
    def autoscalers(self) -> dict[str, AutoscalerView]:
        """Autoscalers of both kinds by key."""
        return self.of(Kind.AUTOSCALERS, AutoscalerView) | self.of(Kind.SCALED_OBJECTS, AutoscalerView)


class ClusterState:
    """Holds the state; `subscribe` is told every change after it was applied."""

    def __init__(self, identity: Identity, *, window_s: float = WINDOW_S) -> None:
        self.identity = identity
        self.windows = RankWindows(window_s=window_s)
        self.version = 0
        self._kinds: dict[Kind, dict[str, View]] = {k: {} for k in Kind}
        self._trust = dict.fromkeys(Kind, Trust.LOADING)
        self._why = dict.fromkeys(Kind, "")
        self._contact = dict.fromkeys(Kind, 0.0)
        self._silent: dict[str, str] = {}
        self._pickers: dict[str, tuple[float, PickerSample]] = {}
        self._metrics: MetricsChange | None = None
        self._listeners: list[Callable[[Change], None]] = []

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def contact(self, kind: Kind, at: float) -> None:
        """The server was heard from about `kind`."""
        self._contact[kind] = at

    def trust(self, kind: Kind) -> Trust:
        """How far `kind` is trusted now."""
        return self._trust[kind]

    def last_contact(self, kind: Kind) -> float:
        """When the server was last heard from about `kind` (wall, s)."""
        return self._contact[kind]

    def apply(self, change: Change) -> None:
        """Change the state."""
        match change:
            case ObjectChange():
                self._objects(change)
            case ScrapeChange():
                self._scrape(change)
            case PickerChange(sample=None):
                self._pickers.pop(change.name, None)
            case PickerChange(sample=sample, at=at):
                if sample is not None:
                    self._pickers[change.name] = (at, sample)
            case MetricsChange():
                self._metrics = change
        self.version += 1
        for listener in self._listeners:
            listener(change)

    def _objects(self, change: ObjectChange) -> None:
        held = self._kinds[change.kind]
        if change.op is Op.TRUST:
            self._trust[change.kind], self._why[change.kind] = change.trust, change.why
            if change.trust in (Trust.DENIED, Trust.ABSENT):
                held.clear()  # what may not be read any more is not shown any more
        elif change.op is Op.DELETE:
            gone = held.pop(change.key, None)
            if isinstance(gone, PodView):
                self._forget_pod(gone)
        else:
            if change.op is Op.LISTED:
                held.clear()
                self._trust[change.kind], self._why[change.kind] = Trust.LIVE, ""
            for view in change.views:
                old = held.get(view.meta.key)
                if isinstance(old, PodView) and old.meta.uid != view.meta.uid:
                    self._forget_pod(old)
                held[view.meta.key] = view
            if change.kind is Kind.EVENTS and len(held) > MAX_EVENTS:
                self._trim_events(held)
            if change.op is Op.LISTED and change.kind is Kind.PODS:
                self._keep_listed_pods()
        self._contact[change.kind] = change.at

    def _forget_pod(self, pod: PodView) -> None:
        key = f"{pod.meta.namespace}/{pod.meta.name}:"
        for target in [t for t in self._silent if t.startswith(key)]:
            del self._silent[target]
        self.windows.forget_pod(pod.meta.namespace, pod.meta.name)

    def _keep_listed_pods(self) -> None:
        pods = {(v.meta.namespace, v.meta.name) for v in self._kinds[Kind.PODS].values()}
        self.windows.forget(pods)
        keys = self._kinds[Kind.PODS]
        self._silent = {t: why for t, why in self._silent.items() if t.rsplit(":", 1)[0] in keys}

    @staticmethod
    def _trim_events(held: dict[str, View]) -> None:
        events = [(v.last, k) for k, v in held.items() if isinstance(v, EventView)]
        for _, key in sorted(events)[: len(held) - MAX_EVENTS * 3 // 4]:
            del held[key]

    def _scrape(self, change: ScrapeChange) -> None:
        target = f"{change.namespace}/{change.pod}:{change.port}"
        if f"{change.namespace}/{change.pod}" not in self._kinds[Kind.PODS]:
            return  # the pod vanished while it was scraped
        if change.failed:
            self._silent[target] = change.failed
            return
        self._silent.pop(target, None)
        for sample in change.samples:
            key = RankKey(change.namespace, change.pod, change.port, sample.engine)
            self.windows.add(key, sample, at=change.at)

    def snapshot(self, now: float) -> Snapshot:
        """Freeze the state as seen at wall time `now` (s)."""
        kinds = {}
        for kind in KINDS:
            trust, why = self._trust[kind], self._why[kind]
            silence = now - self._contact[kind]
            if trust is Trust.LIVE and silence > SILENT_AFTER_S:
                trust, why = Trust.STALE, f"nothing heard for {silence:.0f} s"
            kinds[kind] = KindState(trust, dict(self._kinds[kind]), self._contact[kind], why)
        period = self._metrics.period_s if self._metrics else 10.0
        oldest = now - STALE_PERIODS * period
        silent = dict(self._silent)
        readings = {}
        for reading in self.windows.readings():
            target = f"{reading.key.namespace}/{reading.key.endpoint}"
            if reading.at >= oldest:
                readings[reading.key] = reading
            elif target not in silent:
                silent[target] = f"last scraped {now - reading.at:.0f} s ago"
        return Snapshot(
            now=now,
            identity=self.identity,
            kinds=kinds,
            readings=readings,
            silent=silent,
            pickers={n: s for n, (at, s) in self._pickers.items() if at >= oldest},
            metrics=self._metrics,
        )
