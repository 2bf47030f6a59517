"""Tables and JSON of the live cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner.cli.output import print_lines, print_table, stderr, stdout

if TYPE_CHECKING:
    from console.cluster.profile import FoundHardware
    from console.views.cluster import ClusterOverview, KindRow, RankRow

UNKNOWN = "–"


def number(value: float | None, *, digits: int = 0) -> str:
    """A number, or a dash when it is not known."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share of 1 as a percentage."""
    return UNKNOWN if value is None else f"{value * 100:.0f} %"


def age(seconds: float | None) -> str:
    """A short age."""
    if seconds is None:
        return UNKNOWN
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def print_overview(view: ClusterOverview, *, wide: bool = False, advice: bool = True) -> None:
    """Roles, what is wrong with what to do about it (`advice`), groups and ranks; `wide` adds endpoints, every rank."""
    out = stdout()
    scope = f"namespace {view.namespace}" if view.namespace else "all namespaces"
    out.print(f"{view.source}: {view.context}, {scope}", markup=False)
    if view.roles:
        print_table(
            [
                "role",
                "groups ready",
                "pods",
                "GPUs",
                "nodes",
                "ranks",
                "running",
                "queued",
                "KV",
                "out tok/s",
            ],
            [
                [
                    f"{r.deployment} {r.role}" + ("" if r.health == "ready" else f" ({r.health})"),
                    f"{r.ready}/{r.wanted if r.wanted is not None else r.groups}",
                    str(r.pods),
                    str(r.gpus),
                    str(r.nodes),
                    f"{r.fresh}/{r.ranks}",
                    number(r.running),
                    number(r.waiting),
                    percent(r.kv_usage),
                    number(r.output_tok_s),
                ]
                for r in view.roles
            ],
            right=range(1, 10),
        )
        out.print(f"{view.endpoints_ready} of {len(view.endpoints)} endpoints ready", markup=False)
    else:
        out.print("no model server found here", markup=False)
    if advice:
        print_advice(view)
    _print_groups(view, wide=wide)
    if wide:
        _print_endpoints(view)
    print_ranks(view.ranks if wide else _worth_showing(view.ranks), total=len(view.ranks))
    if view.metrics is not None:
        m = view.metrics
        note = f"; {m.note}" if m.note else ""
        cost = f", {m.targets} targets in {m.took_s:.1f} s, {m.failed} failed" if m.targets else ""
        stderr().print(f"metrics: {m.way} every {m.period_s:.0f} s{cost}{note}", markup=False)
    print_permissions(view.problems)


def print_advice(view: ClusterOverview) -> None:
    """What to do about what is wrong; nothing when nothing is."""
    from console.views.cluster_advice import advise

    for one in advise(view):
        print_lines(f"! {one.what}", indent=0)
        print_lines(f"why: {one.why}", indent=2)
        print_lines(f"fix: {one.fix}", indent=2)


def _worth_showing(ranks: Sequence[RankRow], most: int = 32) -> Sequence[RankRow]:
    """Few ranks as they are; of many the fullest queues and the silent ones first."""
    if len(ranks) <= most:
        return ranks
    order = sorted(ranks, key=lambda r: (not r.hot, not r.silent, -(r.waiting or 0.0), -(r.kv_usage or 0.0)))
    return order[:most]


def print_ranks(ranks: Sequence[RankRow], *, total: int) -> None:
    """The rank table."""
    if not ranks:
        return
    title = f"{len(ranks)} of {total} ranks; --output wide shows all" if len(ranks) < total else "ranks"
    print_table(
        [
            "group.pod:port",
            "rank",
            "running",
            "queued",
            "KV",
            "hit",
            "out tok/s",
            "TTFT p99",
            "ITL",
            "age",
        ],
        [
            [
                r.label,
                r.engine or UNKNOWN,
                number(r.running),
                number(r.waiting) + (" !" if r.hot else ""),
                percent(r.kv_usage),
                percent(r.prefix_hit),
                number(r.output_tok_s),
                UNKNOWN if r.ttft is None else _seconds(r.ttft.value, exceeded=r.ttft.high is None),
                UNKNOWN if r.itl_mean_s is None else f"{r.itl_mean_s * 1000:.1f} ms",
                age(r.age_s) if not r.silent else r.silent,
            ]
            for r in ranks
        ],
        title=title,
        right=range(1, 9),
    )


def _seconds(value: float, *, exceeded: bool) -> str:
    text = f"{value * 1000:.0f} ms" if value < 10 else f"{value:.0f} s"
    return f">{text}" if exceeded else text


def _print_groups(view: ClusterOverview, *, wide: bool) -> None:
    rows = view.groups if wide else [g for g in view.groups if not g.ready or g.restarts]
    if rows:
        print_table(
            ["group", "role", "ready", "pods", "GPUs", "restarts", "revision", "nodes"],
            [
                [
                    g.id.group,
                    g.id.role,
                    "yes" if g.ready else "no",
                    f"{g.pods_ready}/{g.size}",
                    str(g.gpus),
                    str(g.restarts),
                    g.revision[:10],
                    ", ".join(g.nodes[:4]) + (", …" if len(g.nodes) > 4 else ""),
                ]
                for g in rows
            ],
            title="groups" if wide else "groups that are down or restarted",
            right=(3, 4, 5),
        )


def _print_endpoints(view: ClusterOverview) -> None:
    print_table(
        ["endpoint", "role", "ready", "pool", "node", "metrics"],
        [
            [f"{e.pod}:{e.port}", e.role, "yes" if e.ready else "no", e.pool or UNKNOWN, e.node, e.state]
            for e in view.endpoints
        ],
        title="endpoints",
    )


def print_permissions(kinds: Sequence[KindRow]) -> None:
    """What cannot be read, why, and what is lost (stderr)."""
    if not kinds:
        return
    out = stderr()
    out.print("not everything could be read:", markup=False)
    for k in kinds:
        out.print(f"  {k.kind}: {k.trust}; {k.why or 'no answer yet'} (missing: {k.purpose})", markup=False)
    if any(k.trust == "denied" for k in kinds):
        out.print("  planner cluster rbac prints the read-only role that allows it", markup=False)


def overview_json(view: ClusterOverview) -> Mapping[str, object]:
    """The overview as the payload of ``wideplan.cluster-status/v1``; unknown numbers are null."""
    from console.views.cluster_advice import advise
    from planner.catalog.wire import unstructure

    payload: dict[str, object] = unstructure(view)
    payload["blockers"] = [
        {"stage": b.stage.name.lower(), "what": b.what, "why": b.why, "role": b.role, "count": b.count}
        for b in view.blockers
    ]
    payload["endpoints_ready"] = view.endpoints_ready
    payload["advice"] = unstructure(advise(view))
    return payload


def print_hardware(found: FoundHardware) -> None:
    """Pools with what was assumed, and the command that plans for them."""
    out = stdout()
    print_table(
        ["GPU", "nodes", "GPUs", "free", "per node", "network", "node shape", "pods ask for"],
        [
            [
                f.pool.gpu.id,
                str(len(f.nodes)),
                str(f.pool.gpus),
                "–" if f.free_gpus is None else str(f.free_gpus),
                str(f.pool.gpus_per_node),
                f.pool.fabric.id,
                f.pool.node.id,
                ", ".join(f.rdma) or "no RDMA",
            ]
            for f in found.pools
        ],
        right=(1, 2, 3, 4),
    )
    for f in found.pools:
        for note in f.notes:
            stderr().print(f"{f.pool.gpu.id}: {note}", markup=False)
    for name, why in sorted(found.left_out.items()):
        stderr().print(f"left out: {name}: {why}", markup=False)
    best = found.pools[0]
    out.print(
        f"plan for it: planner recommend --gpu {best.pool.gpu.id} --cluster {best.pool.node.id} "
        f"--fabric {best.pool.fabric.id} --gpus {best.pool.gpus}",
        markup=False,
    )


def hardware_json(found: FoundHardware) -> Mapping[str, object]:
    """Payload of ``wideplan.cluster-profile/v1``: pools with the allocatable amounts of their smallest node."""
    return {
        "pools": [
            {
                "gpu": f.pool.gpu.id,
                "fabric": f.pool.fabric.id,
                "node": f.pool.node.id,
                "gpus": f.pool.gpus,
                "free_gpus": f.free_gpus,
                "gpus_per_node": f.pool.gpus_per_node,
                "nodes": list(f.nodes),
                "rdma": list(f.rdma),
                "cpu_allocatable": f.pool.node.cpu_allocatable,
                "memory_gib_allocatable": f.pool.node.memory_gib_allocatable,
                "notes": list(f.notes),
            }
            for f in found.pools
        ],
        "left_out": dict(found.left_out),
    }
