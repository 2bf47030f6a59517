"""A small disaggregated deployment at a fixed moment: one queueing rank, one silent rank, one crashing pod."""

from __future__ import annotations

from collections.abc import Callable

from console.cluster.api import Api
from console.cluster.kinds import Kind
from console.cluster.metrics.samples import Counter, Gauge, RankSample
from console.cluster.objects import (
    Condition,
    ContainerView,
    DeploymentView,
    DisaggregatedSetView,
    EventView,
    GatewayView,
    GroupSetView,
    Meta,
    NodeView,
    PodView,
    SetRole,
    View,
)
from console.cluster.state import (
    Change,
    ClusterState,
    Identity,
    MetricsChange,
    ObjectChange,
    Op,
    ScrapeChange,
    Snapshot,
    Trust,
)

NOW = 1_790_000_000.0
PORTS = tuple(range(8000, 8008))
LWS = "leaderworkerset.sigs.k8s.io/"


def pod(role: str, group: int, *, ready: bool = True) -> PodView:
    """One pod of eight ranks."""
    container = ContainerView(
        name="vllm", image="vllm:v0.33.0", ready=ready, started=ready, restarts=0 if ready else 4,
        waiting="" if ready else "CrashLoopBackOff", exit_code=None if ready else 1,
        command=("vllm", "serve", "deepseek-ai/DeepSeek-R1"),
        ports={f"rank{i}": p for i, p in enumerate(PORTS)},
    )  # fmt: skip
    labels = {
        "llm-d.ai/role": role, LWS + "name": f"r1-{role}", LWS + "group-index": str(group), LWS + "worker-index": "0",
        "disaggregatedset.x-k8s.io/name": "r1", "disaggregatedset.x-k8s.io/role": role,
    }  # fmt: skip
    return PodView(
        meta=Meta(name=f"r1-{role}-{group}", namespace="serving", uid=f"{role}{group}", labels=labels),
        phase="Running", node=f"gpu-{group}", ready=ready, gpus=8, containers=(container,), group_size=1,
    )  # fmt: skip


def sample(role: str, group: int, rank: int, *, later: bool) -> RankSample:
    """One scrape. Decode group 1 has a rank that queues."""
    hot = role == "decode" and group == 1 and rank == 3
    seconds = 60.0 if later else 0.0
    return RankSample(
        engine=str(rank),
        model="deepseek-ai/DeepSeek-R1",
        gauges={Gauge.RUNNING: 40.0 + rank, Gauge.WAITING: 31.0 if hot else float(rank % 3), Gauge.KV_USAGE: 0.5 + 0.05 * rank},
        counters={
            Counter.GENERATION_TOKENS: seconds * (900.0 if role == "decode" else 1.0),
            Counter.PROMPT_TOKENS: seconds * (50.0 if role == "decode" else 4000.0),
            Counter.PREFIX_QUERIES: seconds * 1000.0,
            Counter.PREFIX_HITS: seconds * (200.0 + 50.0 * rank),
        },
    )  # fmt: skip


def filled(*, crashed: bool = True, pods_per_role: int = 2) -> ClusterState:
    """The state after two rounds of scrapes."""
    state = ClusterState(
        Identity(source="sample", context="prod-eu", server="https://k8s", namespace="serving")
    )
    pods = [pod(role, g, ready=not (crashed and role == "prefill" and g == 1))
            for role in ("prefill", "decode") for g in range(pods_per_role)]  # fmt: skip
    kinds: dict[Kind, tuple[View, ...]] = {
        Kind.PODS: tuple(pods),
        Kind.NODES: tuple(
            NodeView(meta=Meta(name=f"gpu-{i}"), ready=True, extended={"nvidia.com/gpu": 8}) for i in range(2)
        ),
        Kind.DISAGGREGATED_SETS: (
            DisaggregatedSetView(
                meta=Meta(name="r1", namespace="serving"), slices=1,
                roles=(SetRole(name="prefill", replicas=pods_per_role, size=1),
                       SetRole(name="decode", replicas=pods_per_role, size=1)),
            ),
        ),
        Kind.GROUP_SETS: tuple(
            GroupSetView(
                meta=Meta(name=f"r1-{role}", namespace="serving", labels={"disaggregatedset.x-k8s.io/name": "r1"}),
                replicas=pods_per_role, size=1, ready=pods_per_role - (crashed and role == "prefill"),
            )
            for role in ("prefill", "decode")
        ),
        Kind.GATEWAYS: (
            GatewayView(meta=Meta(name="inference", namespace="serving"),
                        conditions=(Condition(type="Programmed", status="True"),)),
        ),
        Kind.DEPLOYMENTS: (
            DeploymentView(meta=Meta(name="r1-epp", namespace="serving"), replicas=1, ready=1, picker_for="r1"),
        ),
        Kind.EVENTS: (
            EventView(meta=Meta(name="e1", namespace="serving"), type="Warning", reason="BackOff", count=4,
                      message="Back-off restarting failed container", last="2026-11-29T12:00:00Z",
                      about_kind="Pod", about_name="r1-prefill-1"),
            EventView(meta=Meta(name="e0", namespace="serving"), type="Normal", reason="Scheduled", count=1,
                      message="assigned", last="2026-11-29T11:00:00Z", about_kind="Pod", about_name="r1-decode-0"),
        ),
    }  # fmt: skip
    for kind in Kind:
        state.apply(ObjectChange(at=NOW, kind=kind, op=Op.LISTED, views=kinds.get(kind, ())))
    state.apply(
        ObjectChange(at=NOW, kind=Kind.QUEUED_WORKLOADS, op=Op.TRUST, trust=Trust.ABSENT, why="not installed")
    )
    for later in (False, True):
        at = NOW - (2.0 if later else 62.0)
        for p in pods:
            if p.ready:
                role, group = p.meta.labels["llm-d.ai/role"], int(p.meta.name.rsplit("-", 1)[1])
                for i, port in enumerate(PORTS):
                    if (role, group, i) == ("decode", 0, 7):
                        state.apply(ScrapeChange(at=at, namespace="serving", pod=p.meta.name, port=port,
                                                 failed="timed out"))  # fmt: skip
                    else:
                        state.apply(ScrapeChange(at=at, namespace="serving", pod=p.meta.name, port=port,
                                                 samples=(sample(role, group, i, later=later),)))  # fmt: skip
        state.apply(
            MetricsChange(at=at, way="API server proxy", period_s=10.0, targets=24, failed=1, took_s=0.4)
        )
    return state


class StillSource:
    """A source that holds one state until told otherwise."""

    def __init__(self, state: ClusterState | None = None, *, now: float = NOW) -> None:
        self.state = state or filled()
        self.now = now
        self.closed = False

    @property
    def api(self) -> Api | None:
        """There is no server."""
        return None

    async def start(self) -> None:
        """Nothing to start."""

    async def ready(self, timeout_s: float) -> bool:
        """At once."""
        del timeout_s
        return True

    async def changed(self, timeout_s: float) -> bool:
        """Never by itself."""
        import asyncio

        await asyncio.sleep(min(timeout_s, 0.05))
        return False

    def snapshot(self) -> Snapshot:
        """The state at the fixed moment."""
        return self.state.snapshot(self.now)

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """As every source."""
        self.state.subscribe(listener)

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
