"""Groups of a running simulation that start, serve, drain and go, and what they cost.

The simulator is built with the largest number of groups; who may get requests is the router's list of candidates.
A starting group holds its GPUs and serves nobody; a draining one gets no new request and holds its GPUs until its last
request has left (on a prefill rank: until its KV was pulled). A group that comes back is a new pod: its caches are cold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from planner.domain.deployment import Role
from planner.simulation.cluster import Cluster
from planner.simulation.kernels import cache
from planner.simulation.kernels import state as st
from planner.simulation.kernels.run import scrape
from planner.simulation.scaling.policy import Metric


class Phase(StrEnum):
    """Life of a group."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """GPUs held in one phase between two times, seconds."""

    role: str
    phase: Phase
    gpus: int
    groups: int
    from_s: float
    to_s: float


@dataclass(slots=True, kw_only=True)
class Slot:
    """Room for one engine group: ranks ``[first, end)``. `phase` None: not there, no GPUs held."""

    first: int
    end: int
    phase: Phase | None = None
    since_s: float = 0.0
    ready_s: float = float("inf")


def is_empty(state: st.State, first: int, end: int) -> bool:
    """Whether no request is on the ranks, on its way to them, or waits to be pulled from them."""
    ranks = state.rank[first:end]
    return not (ranks.inflight.any() or ranks.pinned.any() or ranks.loading.any())


def last_use_s(state: st.State, first: int, end: int, since_s: float) -> float:
    """When the last request left the ranks, which must be empty; `since_s` if that was before."""
    req = state.req
    served = (req.serve >= first) & (req.serve < end)
    prefilled = (req.prefill >= first) & (req.prefill < end)
    ends = np.concatenate([req.finish[served], req.prefilled[prefilled], req.moved_to[prefilled]])
    ends = ends[np.isfinite(ends)]
    return max(since_s, float(ends.max())) if len(ends) else since_s


def renew(state: st.State, first: int, end: int) -> None:
    """Make empty ranks those of a new pod: cold caches, router's prefix index forgotten, EPLB not yet balanced."""
    ranks = int(state.world[0].ranks)
    for k in range(first, end):
        for pool in (k, ranks + k, 2 * ranks + k):
            held = int(cache.available(state, pool))
            cache.take(state, pool, held)
            state.pool[pool].free += held
        state.rank[k].cold_use = 0
        scrape(state, k)
    for g in np.unique(state.rank.group[first:end]):
        group = state.group[g]
        group.rearranged = group.since_eplb = 0
        group.eplb_in = max(int(state.role[group.role].eplb_interval) // 4, 1)


@dataclass(slots=True)
class GroupPool:
    """All groups of one role, present or not. `serving` groups stand at the beginning."""

    name: str
    kind: Role
    gpus_per_group: int
    slots: list[Slot]
    cold_s: float
    spans: list[Span] = field(default_factory=list)
    started: int = 0  # groups started after the beginning
    removed: int = 0

    def begin(self, serving: int) -> None:
        """Let the first `serving` groups serve from time 0."""
        for slot in self.slots[:serving]:
            slot.phase = Phase.SERVING

    def open(self, state: st.State) -> None:
        """Nothing to set up: the simulator was built with these ranks."""

    def count(self, phase: Phase) -> int:
        """Groups in `phase`."""
        return sum(s.phase is phase for s in self.slots)

    @property
    def current(self) -> int:
        """Replicas as Kubernetes counts them: serving and starting groups."""
        return self.count(Phase.SERVING) + self.count(Phase.STARTING)

    def serving_slots(self) -> list[Slot]:
        """Slots that take requests."""
        return [s for s in self.slots if s.phase is Phase.SERVING]

    def next_s(self) -> float:
        """When the next group becomes ready, seconds."""
        return min((s.ready_s for s in self.slots if s.phase is Phase.STARTING), default=float("inf"))

    def scale(self, state: st.State, wanted: int, t: float) -> None:
        """Start or drain groups at `t` until `wanted` serve or start; free slots may run out, then fewer start."""
        self._settle(state)
        while self.current < wanted:
            free = next((s for s in self.slots if s.phase is None), None)
            if free is None:  # GPUs are still held by groups that drain: the pods stay pending
                return
            free.phase, free.since_s, free.ready_s = Phase.STARTING, t, t + self.cold_s
            self.started += 1
            self.step(state, t)
        while self.current > wanted:
            # the highest ordinal goes first, as a LeaderWorkerSet does; those still loading are the youngest
            chosen = next((s for s in reversed(self.slots) if s.phase is Phase.STARTING), None)
            if chosen is not None:
                self._enter(chosen, None, t)
            else:
                chosen = self.serving_slots()[-1]
                self._enter(chosen, Phase.DRAINING, t)
            self.removed += 1
        self._settle(state)

    def step(self, state: st.State, t: float) -> None:
        """Groups that are ready by `t` begin to serve; drained ones are gone."""
        for slot in self.slots:
            if slot.phase is Phase.STARTING and slot.ready_s <= t:
                self._enter(slot, Phase.SERVING, slot.ready_s)
        self._settle(state)

    def _settle(self, state: st.State) -> None:
        for slot in self.slots:
            if slot.phase is Phase.DRAINING and is_empty(state, slot.first, slot.end):
                self._enter(slot, None, last_use_s(state, slot.first, slot.end, slot.since_s))
                renew(state, slot.first, slot.end)

    def _enter(self, slot: Slot, phase: Phase | None, t: float) -> None:
        if slot.phase is not None and t > slot.since_s:
            self.spans.append(
                Span(
                    role=self.name,
                    phase=slot.phase,
                    gpus=self.gpus_per_group,
                    groups=1,
                    from_s=slot.since_s,
                    to_s=t,
                )
            )
        slot.phase, slot.since_s = phase, t

    def close(self, state: st.State, t: float) -> None:
        """Write the spans that are open at the end of the run."""
        self._settle(state)
        for slot in self.slots:
            if slot.phase is not None:
                self._enter(slot, None, max(t, slot.since_s))

    def measure(self, state: st.State, metric: Metric) -> float:
        """`metric` now, over the serving groups."""
        return sum(measure_ranks(state, s.first, s.end, metric) for s in self.serving_slots())

    def serving_ranks(self) -> list[int]:
        """Ranks that take requests."""
        return [k for s in self.serving_slots() for k in range(s.first, s.end)]


def measure_ranks(state: st.State, first: int, end: int, metric: Metric) -> float:
    """`metric` of one group with ranks ``[first, end)``, as a scrape would see it now."""
    ranks = state.rank[first:end]
    if metric is Metric.BACKLOG:
        return float(ranks.inflight_tokens.sum())
    if metric is Metric.KV:
        pool = state.pool[first:end]
        return float((1.0 - (pool.free + pool.evictable) / pool.total).mean())
    here = ranks.waiting + ranks.ready + ranks.loading + ranks.running
    return float((here > 0).mean()) if metric is Metric.UTILISATION else float(here.sum())


def pools_of(cluster: Cluster, *, cold_s: float) -> list[GroupPool]:
    """One pool per role of `cluster`, whose `groups` are the most there can be; nobody serves yet."""
    pools = []
    rank = 0
    for role in cluster.roles:
        slots = [
            Slot(first=rank + i * role.ranks, end=rank + (i + 1) * role.ranks) for i in range(role.groups)
        ]
        rank += role.groups * role.ranks
        pools.append(
            GroupPool(
                name=role.name,
                kind=role.role,
                gpus_per_group=role.ranks * role.gpus_per_rank,
                slots=slots,
                cold_s=cold_s,
            )
        )
    return pools


def offer(state: st.State, pools: Sequence[Any]) -> None:
    """Tell the router who takes requests now."""
    state.candidates[:] = 0
    for leg, wanted in ((0, True), (1, False)):
        ranks = sorted(k for p in pools if (p.kind is Role.PREFILL) is wanted for k in p.serving_ranks())
        state.candidates[leg, : len(ranks)] = ranks
        state.candidates[leg, -1] = len(ranks)
