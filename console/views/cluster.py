"""The cluster as tables: roles, groups, endpoints, DP ranks, and how far each can be trusted.

Every interface shows these; none computes its own. Numbers of a silent rank are None, never the last known ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.cluster.kinds import KINDS, Kind
from console.cluster.metrics.readings import RankKey, RankReading
from console.cluster.metrics.samples import Hist, Quantile
from console.cluster.state import MetricsChange, Snapshot, Trust
from console.cluster.topology import Endpoint, Group, GroupId, Topology, short_name, topology
from console.views.cluster_blockers import Blocker, blockers

HOT_FACTOR = 2.0
HOT_LEAST = 3.0
KV_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """One role of one deployment. `wanted` None = no object says. Loads are sums over fresh ranks."""

    namespace: str
    deployment: str
    role: str
    wanted: int | None
    groups: int
    ready: int
    updated: int | None
    pods: int
    gpus: int
    nodes: int
    ranks: int
    fresh: int
    running: float | None
    waiting: float | None
    kv_usage: float | None  # mean over ranks, 0..1
    output_tok_s: float | None
    prompt_tok_s: float | None

    @property
    def health(self) -> str:
        """ready, progressing or down."""
        if self.groups == 0 or self.ready == 0:
            return "down"
        return (
            "ready"
            if self.ready >= (self.wanted if self.wanted is not None else self.groups)
            else "progressing"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One engine group."""

    id: GroupId
    ready: bool
    pods: int
    pods_ready: int
    size: int
    gpus: int
    nodes: tuple[str, ...]
    restarts: int
    revision: str
    waiting_spread: float | None  # highest over mean queue of its ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """One (pod, port) pair."""

    role: str
    group: str
    pod: str
    port: int
    ready: bool
    node: str
    pool: str
    state: str  # live, silent: why, or not scraped


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One DP rank. `age_s` since its last scrape; `hot` when it queues far above its peers."""

    label: str  # short: role, group.worker, port
    role: str
    group: str
    pod: str
    port: int
    engine: str
    age_s: float | None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    prefix_hit: float | None = None
    output_tok_s: float | None = None
    prompt_tok_s: float | None = None
    preemptions_per_min: float | None = None
    failed_per_min: float | None = None
    ttft: Quantile | None = None  # s, p99 of the window
    itl_mean_s: float | None = None
    hot: bool = False
    silent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """How far one kind can be trusted."""

    kind: str
    trust: Trust
    count: int
    age_s: float | None
    why: str
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOverview:
    """Everything `planner cluster status` shows."""

    context: str
    server: str
    source: str
    namespace: str | None
    now: float
    roles: tuple[RoleRow, ...]
    groups: tuple[GroupRow, ...]
    endpoints: tuple[EndpointRow, ...]
    ranks: tuple[RankRow, ...]
    blockers: tuple[Blocker, ...]
    kinds: tuple[KindRow, ...]
    metrics: MetricsChange | None

    @property
    def endpoints_ready(self) -> int:
        """Endpoints the router may choose."""
        return sum(e.ready for e in self.endpoints)

    @property
    def problems(self) -> tuple[KindRow, ...]:
        """Kinds that are not live, absent ones left out."""
        return tuple(k for k in self.kinds if k.trust not in (Trust.LIVE, Trust.ABSENT))


def overview(snapshot: Snapshot) -> ClusterOverview:
    """Build all tables of one snapshot."""
    top = topology(snapshot)
    by_endpoint: dict[tuple[str, str, int], list[RankReading]] = {}
    for key, reading in snapshot.readings.items():
        by_endpoint.setdefault((key.namespace, key.pod, key.port), []).append(reading)
    ranks = _rank_rows(snapshot, top, by_endpoint)
    identity = snapshot.identity
    return ClusterOverview(
        context=identity.context,
        server=identity.server,
        source=identity.source,
        namespace=identity.namespace,
        now=snapshot.now,
        roles=_role_rows(snapshot, top, by_endpoint),
        groups=_group_rows(top, ranks),
        endpoints=tuple(_endpoint_row(snapshot, e, by_endpoint) for e in top.endpoints),
        ranks=ranks,
        blockers=blockers(snapshot, top),
        kinds=_kind_rows(snapshot),
        metrics=snapshot.metrics,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


def _wanted(snapshot: Snapshot) -> Mapping[tuple[str, str, str], tuple[int, int | None]]:
    """Groups wanted and updated per (namespace, deployment, role)."""
    out: dict[tuple[str, str, str], tuple[int, int | None]] = {}
    for ds in snapshot.disaggregated_sets.values():
        for role in ds.roles:
            out[ds.meta.namespace, ds.meta.name, role.name] = (role.replicas * ds.slices, role.updated)
    for lws in snapshot.group_sets.values():
        if "disaggregatedset.x-k8s.io/name" in lws.meta.labels:
            continue
        label = lws.meta.labels.get("llm-d.ai/role", "")
        out[lws.meta.namespace, lws.meta.name, label] = (lws.replicas, lws.updated)
    for deployment in snapshot.deployments.values():
        if not deployment.picker_for:
            out[deployment.meta.namespace, deployment.meta.name, ""] = (
                deployment.replicas,
                deployment.updated,
            )
    return out


def _role_rows(
    snapshot: Snapshot, top: Topology, by_endpoint: Mapping[tuple[str, str, int], list[RankReading]]
) -> tuple[RoleRow, ...]:
    wanted = _wanted(snapshot)
    groups: dict[tuple[str, str, str], list[Group]] = {}
    for group in top.groups.values():
        groups.setdefault((group.id.namespace, group.id.deployment, group.id.role), []).append(group)
    for ds in snapshot.disaggregated_sets.values():
        for role in ds.roles:
            groups.setdefault((ds.meta.namespace, ds.meta.name, role.name), [])
    endpoints: dict[tuple[str, str, str], list[Endpoint]] = {}
    for endpoint in top.endpoints:
        g = endpoint.group
        endpoints.setdefault((g.namespace, g.deployment, g.role), []).append(endpoint)
    rows = []
    for key, members in sorted(groups.items()):
        readings = [
            r
            for e in endpoints.get(key, [])
            for r in by_endpoint.get((e.pod.meta.namespace, e.pod.meta.name, e.port), [])
        ]
        number, updated = wanted.get(key) or wanted.get((key[0], key[1], "")) or (None, None)
        rows.append(
            RoleRow(
                namespace=key[0],
                deployment=key[1],
                role=key[2],
                wanted=number,
                groups=len(members),
                ready=sum(g.ready for g in members),
                updated=updated,
                pods=sum(len(g.pods) for g in members),
                gpus=sum(g.gpus for g in members),
                nodes=len({p.node for g in members for p in g.pods if p.node}),
                ranks=max(len(endpoints.get(key, [])), len(readings)),
                fresh=len(readings),
                running=_sum([r.running for r in readings]),
                waiting=_sum([r.waiting for r in readings]),
                kv_usage=_mean([r.kv_usage for r in readings]),
                output_tok_s=_sum([r.output_tok_s for r in readings]),
                prompt_tok_s=_sum([r.prompt_tok_s for r in readings]),
            )
        )
    return tuple(rows)


def _group_rows(top: Topology, ranks: Sequence[RankRow]) -> tuple[GroupRow, ...]:
    queues: dict[str, list[float]] = {}
    for r in ranks:
        if r.waiting is not None:
            queues.setdefault(r.group, []).append(r.waiting)
    return tuple(_group_row(g, queues.get(g.id.group, [])) for g in top.groups.values())


def _group_row(group: Group, queues: Sequence[float]) -> GroupRow:
    mean = statistics.fmean(queues) if queues else 0.0
    return GroupRow(
        id=group.id,
        ready=group.ready,
        pods=len(group.pods),
        pods_ready=sum(p.ready for p in group.pods),
        size=group.size,
        gpus=group.gpus,
        nodes=tuple(dict.fromkeys(p.node for p in group.pods if p.node)),
        restarts=sum(c.restarts for p in group.pods for c in p.containers),
        revision=group.revision,
        waiting_spread=max(queues) / mean if mean > 0 else None,
    )


def _endpoint_row(
    snapshot: Snapshot, e: Endpoint, by_endpoint: Mapping[tuple[str, str, int], list[RankReading]]
) -> EndpointRow:
    where = (e.pod.meta.namespace, e.pod.meta.name, e.port)
    silent = snapshot.silent.get(f"{where[0]}/{where[1]}:{where[2]}", "")
    state = f"silent: {silent}" if silent else ("live" if where in by_endpoint else "not scraped")
    return EndpointRow(
        role=e.group.role,
        group=e.group.group,
        pod=e.pod.meta.name,
        port=e.port,
        ready=e.ready,
        node=e.pod.node,
        pool=e.pool,
        state=state,
    )


def _rank_rows(
    snapshot: Snapshot, top: Topology, by_endpoint: Mapping[tuple[str, str, int], list[RankReading]]
) -> tuple[RankRow, ...]:
    hot = _hot(top, by_endpoint)
    rows: list[RankRow] = []
    pod, short = None, ""  # endpoints of a pod follow one another
    for e in top.endpoints:
        where = (e.pod.meta.namespace, e.pod.meta.name, e.port)
        silent = snapshot.silent.get(f"{where[0]}/{where[1]}:{where[2]}", "")
        readings = [] if silent else by_endpoint.get(where, [])
        if e.pod is not pod:
            pod, short = e.pod, short_name(e.pod)
        label = f"{short}:{e.port}"
        if not readings:
            rows.append(
                RankRow(
                    label=label,
                    role=e.group.role,
                    group=e.group.group,
                    pod=where[1],
                    port=e.port,
                    engine="",
                    age_s=None,
                    silent=silent or "not scraped yet",
                )
            )
        for r in sorted(readings, key=lambda r: (len(r.key.engine), r.key.engine)):
            ttft, itl = r.histograms.get(Hist.TTFT), r.histograms.get(Hist.ITL)
            rows.append(
                RankRow(
                    label=label,
                    role=e.group.role,
                    group=e.group.group,
                    pod=where[1],
                    port=e.port,
                    engine=r.key.engine,
                    age_s=max(0.0, snapshot.now - r.at),
                    running=r.running,
                    waiting=r.waiting,
                    kv_usage=r.kv_usage,
                    prefix_hit=r.prefix_hit,
                    output_tok_s=r.output_tok_s,
                    prompt_tok_s=r.prompt_tok_s,
                    preemptions_per_min=_per_minute(r.preemptions_per_s),
                    failed_per_min=_per_minute(r.failed_per_s),
                    ttft=ttft.quantile(0.99) if ttft else None,
                    itl_mean_s=itl.mean if itl else None,
                    hot=r.key in hot,
                )
            )
    return tuple(rows)


def _per_minute(rate: float | None) -> float | None:
    return None if rate is None else rate * 60.0


def _hot(top: Topology, by_endpoint: Mapping[tuple[str, str, int], list[RankReading]]) -> set[RankKey]:
    """Ranks whose queue is far above the mean of the other ranks of their role."""
    roles: dict[tuple[str, str, str], list[RankReading]] = {}
    for e in top.endpoints:
        key = (e.group.namespace, e.group.deployment, e.group.role)
        roles.setdefault(key, []).extend(by_endpoint.get((e.pod.meta.namespace, e.pod.meta.name, e.port), []))
    out: set[RankKey] = set()
    for readings in roles.values():
        queues = [(r.key, r.waiting) for r in readings if r.waiting is not None]
        total = sum(q for _, q in queues)
        for rank, queue in queues:
            others = (total - queue) / (len(queues) - 1) if len(queues) > 1 else 0.0
            if len(queues) > 1 and queue >= HOT_LEAST and queue > HOT_FACTOR * others:
                out.add(rank)
    return out


def _kind_rows(snapshot: Snapshot) -> tuple[KindRow, ...]:
    rows = []
    for kind in Kind:
        state = snapshot.kinds[kind]
        rows.append(
            KindRow(
                kind=kind.value,
                trust=state.trust,
                count=len(state.objects),
                age_s=max(0.0, snapshot.now - state.contact) if state.contact else None,
                why=state.why,
                purpose=KINDS[kind].purpose,
            )
        )
    return tuple(rows)
