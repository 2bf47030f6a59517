"""What to do about what the cluster shows: one line of advice per blocker stage, hot rank and silent endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from console.views.cluster import ClusterOverview, RankRow
from console.views.cluster_blockers import Blocker, Stage

_BY_STAGE: Final[Mapping[Stage, str]] = {
    Stage.QUOTA: "free quota in the queue, or ask for fewer groups",
    Stage.CREATE: "read the events of its owner: kubectl describe; is the controller running?",
    Stage.SCHEDULE: "compare what it asks for with the nodes: planner cluster profile --free",
    Stage.MOUNT: "check that the volume, the Secret or the resource claim exists in this namespace",
    Stage.IMAGE: "check the image's name and the pull secret",
    Stage.CRASH: "read its last words: kubectl logs --previous; the group restarts as a whole",
    Stage.START: "wait for weights and graph capture; its startup probe says when it is too long",
    Stage.READY: "read its log; a rank that waits for its peers points at the network between nodes",
    Stage.PICKER: "read the picker's log; planner lint checks its plugins",
    Stage.POOL: "check the pool's selector and the picker it names; planner lint finds both",
    Stage.ROUTE: "check the parent and the backend of the route; planner lint finds both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One finding: what is seen, why it matters, what to do."""

    what: str
    why: str
    fix: str


def advise(view: ClusterOverview) -> tuple[Advice, ...]:
    """Advice for everything that is wrong, blockers first, then hot ranks, then silent ones. Empty = nothing found."""
    found = [_of_blocker(b) for b in view.blockers]
    found += [_of_hot(r, view) for r in view.ranks if r.hot]
    silent = [r for r in view.ranks if r.silent]
    if silent:
        found.append(_of_silent(silent))
    return tuple(found)


def _of_blocker(blocker: Blocker) -> Advice:
    more = f" and {blocker.count - 1} more" if blocker.count > 1 else ""
    return Advice(
        what=f"{blocker.stage.words}: {blocker.what}{more}", why=blocker.why, fix=_BY_STAGE[blocker.stage]
    )


def _of_hot(rank: RankRow, view: ClusterOverview) -> Advice:
    peers = [r for r in view.ranks if r.role == rank.role and not r.hot and r.waiting is not None]
    mean = sum(r.waiting or 0.0 for r in peers) / len(peers) if peers else 0.0
    kv = "" if rank.kv_usage is None else f", KV cache {100.0 * rank.kv_usage:.0f} % full"
    return Advice(
        what=f"{rank.label} (rank {rank.engine}) queues {rank.waiting or 0.0:,.0f} requests{kv}",
        why=f"its {len(peers)} peers queue {mean:,.1f} on average; ranks of a group step together, so it slows all of them",
        fix="have the picker score queues and KV use with one port per rank (planner lint); "
        f"if its node is the slow one: kubectl delete pod {rank.pod}",
    )


def _of_silent(ranks: list[RankRow]) -> Advice:
    first = ranks[0]
    more = f" and {len(ranks) - 1} more" if len(ranks) > 1 else ""
    return Advice(
        what=f"no metrics from {first.label}{more}",
        why=first.silent,
        fix="planner doctor checks the way to the metrics; a pod that does not answer at all is in its log",
    )
