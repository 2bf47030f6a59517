"""Checks of a cluster for `planner doctor`: reachable, which kinds it has, what may be read, whether metrics come through.

Everything is tried rather than asked for: what the reflectors and the scraper could do is what the console can do.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from console.cluster.connect import connect
from console.cluster.kinds import KINDS, Kind
from console.cluster.open import Opening, open_source
from console.cluster.source import ClusterSource
from console.cluster.state import KindState, Snapshot, Trust
from planner.domain.checkup import Check, fail, ok, warn
from planner.domain.errors import PlannerError

# what a deployment of ours needs; the others are optional and only said
_NEEDED: Final[tuple[tuple[Kind, str], ...]] = (
    (
        Kind.GROUP_SETS,
        "install LeaderWorkerSet (sigs.k8s.io/lws); without it only single-pod engines can run",
    ),
    (
        Kind.DISAGGREGATED_SETS,
        "install the DisaggregatedSet controller, or export with --target lws, which does without",
    ),
    (
        Kind.POOLS,
        "install the Gateway API Inference Extension (InferencePool) and its endpoint picker",
    ),
    (Kind.GATEWAYS, "install the Gateway API and a gateway that supports InferencePool"),
    (Kind.ROUTES, "install the Gateway API"),
)
_RBAC: Final = "ask for the read-only role of: planner cluster rbac"


async def check_cluster(opening: Opening, *, timeout_s: float) -> tuple[Check, ...]:
    """All checks of the cluster `opening` names, within about `timeout_s` seconds; never raises PlannerError."""
    try:
        target = connect(context=opening.context, kubeconfig=opening.kubeconfig).target
    except PlannerError as error:
        return (_no_target(error, asked=opening.context is not None or opening.kubeconfig is not None),)
    name = f"{target.context} ({target.server})"
    try:
        async with asyncio.timeout(timeout_s), open_source(opening) as source:
            settled = await source.ready(timeout_s * 0.5)
            snapshot = await _scraped(source, timeout_s * 0.3)
    except TimeoutError:
        return (
            fail(
                "cluster",
                f"{name} did not answer within {timeout_s:.0f} s",
                "check the network and the VPN; planner doctor --no-cluster leaves it out",
            ),
        )
    except PlannerError as error:
        return tuple(fail("cluster", f"{i.what}: {i.why}", i.fix) for i in error.issues)
    reached = ok("cluster", f"{name} answers, namespace {snapshot.identity.namespace or '(all)'}")
    if not settled:
        reached = warn(
            "cluster", f"{name} answers slowly: not every kind was listed in time", "try --timeout 30"
        )
    return (reached, *_kinds(snapshot), _permissions(snapshot), _metrics(snapshot))


def _no_target(error: PlannerError, *, asked: bool) -> Check:
    issue = error.issues[0]
    if issue.code == "cluster.no_config" and asked:
        return fail(
            "cluster", f"{issue.what}: {issue.why}", "name a kubeconfig that exists, or set KUBECONFIG"
        )
    if issue.code == "cluster.no_config":
        return warn(
            "cluster",
            "no kubeconfig: planning works, live state does not",
            "set KUBECONFIG, or see a recorded cluster with: planner demo",
        )
    return fail("cluster", f"{issue.what}: {issue.why}", issue.fix)


async def _scraped(source: ClusterSource, timeout_s: float) -> Snapshot:
    """A snapshot after the first round of scraping, or when there was time for one."""
    deadline = time.monotonic() + timeout_s
    snapshot = source.snapshot()
    while snapshot.metrics is None and (left := deadline - time.monotonic()) > 0.0:
        await source.changed(min(left, 0.2))
        snapshot = source.snapshot()
    return snapshot


def _kinds(snapshot: Snapshot) -> tuple[Check, ...]:
    found = []
    for kind, fix in _NEEDED:
        if snapshot.kinds[kind].trust is Trust.ABSENT:
            name = f"{kind.value}.{KINDS[kind].group}"
            what = f"{name}: {snapshot.kinds[kind].why} (for {KINDS[kind].purpose})"
            found.append(warn("kinds", what, fix))
    present = [k.value for k, _ in _NEEDED if snapshot.kinds[k].trust is not Trust.ABSENT]
    if not found:
        optional = [
            k.value
            for k in (Kind.ROLE_SCALERS, Kind.QUEUED_WORKLOADS, Kind.SCALED_OBJECTS)
            if snapshot.kinds[k].trust is not Trust.ABSENT
        ]
        also = f"; also {', '.join(optional)}" if optional else ""
        return (ok("kinds", f"{', '.join(present)} are served{also}"),)
    return tuple(found)


def _permissions(snapshot: Snapshot) -> Check:
    denied = [(k, s) for k, s in snapshot.kinds.items() if s.trust is Trust.DENIED]
    silent = [k for k, s in snapshot.kinds.items() if s.trust in (Trust.LOADING, Trust.RECONNECTING)]
    if denied:
        names = ", ".join(f"{k.value} ({KINDS[k].purpose})" for k, _ in denied)
        return warn("permissions", f"may not read {names}{_why(denied[0][1])}", _RBAC)
    if silent:
        return warn(
            "permissions", f"no answer yet about {', '.join(k.value for k in silent)}", "try --timeout 30"
        )
    readable = sum(s.trust in (Trust.LIVE, Trust.STALE) for s in snapshot.kinds.values())
    return ok("permissions", f"list and watch of all {readable} kinds that are served")


def _why(state: KindState) -> str:
    return f": {state.why}" if state.why else ""


def _metrics(snapshot: Snapshot) -> Check:
    m = snapshot.metrics
    if m is None or not m.targets:
        return ok("metrics", "no engine pod is ready here, so there was nothing to scrape")
    answered = m.targets - m.failed
    if answered == m.targets:
        return ok("metrics", f"{answered} engine endpoints answer by way of {m.way}")
    why = next(iter(sorted(set(snapshot.silent.values()))), m.note)
    state = warn if answered else fail
    return state(
        "metrics",
        f"{answered} of {m.targets} engine endpoints answer by way of {m.way}: {why}",
        f"get of pods/proxy is needed, or --prometheus ADDRESS; {_RBAC}",
    )
