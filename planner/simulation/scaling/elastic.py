"""Elastic EP: one decode group that changes its DP width while it serves.

Facts (vLLM): ``POST /scale_elastic_ep`` with a drain timeout of 120 s by default; other routes answer 503 while scaling;
EPLB is required; DBO and pipeline parallelism are not supported with it. The number of physical experts per rank stays
what it was at launch, so a wider group holds more copies of experts, not fewer experts per rank, and its KV cache per
rank does not grow (vllm distributed/elastic_ep, read 2026-11). Since mid-2026 new ranks are prepared while the group
serves (vllm PR 47288) and CUDA graphs survive with the NIXL EP backend (PR 54985).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.deployment import Role
from planner.simulation.kernels import state as st
from planner.simulation.scaling.fleet import Phase, Span, is_empty, measure_ranks, renew
from planner.simulation.scaling.policy import Metric

DRAIN_TIMEOUT_S = 120.0  # the API's default
_POLL_S = 0.5


class Stage(StrEnum):
    """Where a change of width stands."""

    SERVING = "serving"
    PREPARING = "preparing"  # new ranks load while the old ones serve
    CLOSING = "closing"  # nobody is admitted until the requests in flight have left
    SWITCHING = "switching"  # communicators are rebuilt


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """How a change of width goes. `live`: requests stay and wait out the pause; otherwise they are drained before it.

    `prepare_s`: loading of new ranks, in the background; `pause_s`: no step can run; `drain_timeout_s`: then the change
    is given up.
    """

    prepare_s: float
    pause_s: float
    live: bool
    drain_timeout_s: float = DRAIN_TIMEOUT_S


@dataclass(slots=True, kw_only=True)
class ElasticGroup:
    """One engine group with ranks ``[first, first + width)``; its size is counted in ranks.

    `role_of`: simulated role (tables) per width; `group`: number of the kernel's group.
    """

    name: str
    kind: Role
    group: int
    first: int
    widths: tuple[int, ...]
    role_of: dict[int, int]
    gpus_per_rank: int
    how: Reconfiguration
    width: int
    stage: Stage = Stage.SERVING
    aim: int = 0
    due_s: float = float("inf")
    deadline_s: float = float("inf")
    since_s: float = 0.0
    prepared_from_s: float | None = None
    spans: list[Span] = field(default_factory=list)
    changes: int = 0
    given_up: int = 0
    downtimes_s: list[float] = field(default_factory=list)

    def open(self, state: st.State) -> None:
        """Take on the first width."""
        self._shape(state, self.width)

    @property
    def current(self) -> int:
        """Ranks there are, or soon will be."""
        return self.width if self.stage is Stage.SERVING else self.aim

    def serving_ranks(self) -> list[int]:
        """Ranks that take requests."""
        if self.stage in {Stage.SERVING, Stage.PREPARING}:
            return list(range(self.first, self.first + self.width))
        if self.how.live:
            return list(range(self.first, self.first + min(self.width, self.aim)))
        return []

    def measure(self, state: st.State, metric: Metric) -> float:
        """`metric` over the group; shares count in ranks."""
        value = measure_ranks(state, self.first, self.first + self.width, metric)
        return value * self.width if metric in {Metric.KV, Metric.UTILISATION} else value

    def scale(self, state: st.State, wanted: int, t: float) -> None:
        """Begin to take on the smallest width with `wanted` ranks; refused while another change is under way."""
        if self.stage is not Stage.SERVING:
            return
        self.aim = next((w for w in self.widths if w >= wanted), self.widths[-1])
        if self.aim > self.width:
            self.prepared_from_s = t
            self.stage, self.due_s = Stage.PREPARING, t + self.how.prepare_s
        elif self.aim < self.width:
            self._close_admission(t)
        self.step(state, t)

    def next_s(self) -> float:
        """When `step` is needed next, seconds."""
        return self.due_s

    def step(self, state: st.State, t: float) -> None:
        """Go on with the change of width as far as possible at `t`."""
        if self.stage is Stage.PREPARING and t >= self.due_s:
            self._close_admission(t)
        if self.stage is Stage.CLOSING:
            self._try_switch(state, t)
        if self.stage is Stage.SWITCHING and t >= self.due_s:
            self._commit(state, t)

    def _close_admission(self, t: float) -> None:
        if not self.how.live:
            self._end_span(t)
        self.stage, self.due_s = Stage.CLOSING, t + _POLL_S
        self.deadline_s = t + self.how.drain_timeout_s

    def _try_switch(self, state: st.State, t: float) -> None:
        # a live change waits only for the ranks that leave
        begin = self.first + min(self.width, self.aim) if self.how.live else self.first
        if is_empty(state, begin, self.first + self.width):
            if self.how.live:
                state.group[self.group].stall_until = t + self.how.pause_s
                self.downtimes_s.append(self.how.pause_s)
                self._commit(state, t)
                return
            self.downtimes_s.append(t - self.since_s + self.how.pause_s)
            self._end_span(t)
            self.stage, self.due_s = Stage.SWITCHING, t + self.how.pause_s
        elif t >= self.deadline_s:
            self.given_up += 1
            if not self.how.live:
                self.downtimes_s.append(t - self.since_s)
            self._end_preparation(t)
            self._end_span(t)
            self.stage, self.due_s = Stage.SERVING, float("inf")
        else:
            self.due_s = min(t + _POLL_S, self.deadline_s)

    def _commit(self, state: st.State, t: float) -> None:
        self._end_preparation(t)
        self._end_span(t)
        old, self.width = self.width, self.aim
        changed = range(self.first + min(old, self.width), self.first + max(old, self.width))
        self._shape(state, self.width)
        renew(state, changed.start, changed.stop)
        group = state.group[self.group]
        group.rearranged += 1  # a change of width reshuffles the experts
        group.since_eplb, group.eplb_in = 0, max(int(state.role[group.role].eplb_interval), 1)
        self.changes += 1
        self.stage, self.due_s = Stage.SERVING, float("inf")

    def _shape(self, state: st.State, width: int) -> None:
        role = self.role_of[width]
        group = state.group[self.group]
        group.role, group.first, group.end = role, self.first, self.first + width
        state.rank.role[self.first : self.first + self.widths[-1]] = role

    def _end_preparation(self, t: float) -> None:
        if self.prepared_from_s is not None:
            self._span(Phase.STARTING, self.aim - self.width, self.prepared_from_s, t)
            self.prepared_from_s = None

    def _end_span(self, t: float) -> None:
        """The ranks enter another stage at `t`: write the span that ends. In a live change they serve all the time."""
        phase = {Stage.CLOSING: Phase.DRAINING, Stage.SWITCHING: Phase.STARTING}.get(
            self.stage, Phase.SERVING
        )
        self._span(Phase.SERVING if self.how.live else phase, self.width, self.since_s, t)
        self.since_s = t

    def _span(self, phase: Phase, ranks: int, from_s: float, to_s: float) -> None:
        if to_s > from_s and ranks > 0:
            self.spans.append(
                Span(
                    role=self.name,
                    phase=phase,
                    gpus=ranks * self.gpus_per_rank,
                    groups=ranks,
                    from_s=from_s,
                    to_s=to_s,
                )
            )

    def close(self, state: st.State, t: float) -> None:
        """Write the spans that are open at the end of the run."""
        del state
        if self.prepared_from_s is not None:
            self._end_preparation(t)
        self._end_span(t)
