"""Play a cluster whose groups join and leave: the event loop stops where an autoscaler looks, decides and acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.domain.errors import NotFeasibleError
from planner.simulation.build import build_state, entry_margin, grown
from planner.simulation.cluster import Cluster
from planner.simulation.engine import Progress, stuck
from planner.simulation.kernels import state as st
from planner.simulation.kernels.run import run
from planner.simulation.scaling.fleet import GroupPool, Span, offer
from planner.simulation.scaling.policy import Behaviour, Metric, Reading
from planner.simulation.traffic import Traffic

_SLICE_EVENTS = 200_000
_SAMPLES_PER_SYNC = 3


class Actuator(Protocol):
    """What can be made larger and smaller while it serves."""

    name: str
    spans: list[Span]

    def open(self, state: st.State) -> None:
        """Set up what serves from the beginning."""

    @property
    def current(self) -> int:
        """Size the autoscaler counts."""

    def measure(self, state: st.State, metric: Metric) -> float:
        """The metric over what serves."""

    def scale(self, state: st.State, wanted: int, t: float) -> None:
        """Begin to become `wanted` large."""

    def next_s(self) -> float:
        """When `step` is needed next, seconds."""

    def step(self, state: st.State, t: float) -> None:
        """Do what is due at `t`."""

    def close(self, state: st.State, t: float) -> None:
        """Write open spans at the end."""


class Decider(Protocol):
    """An autoscaler."""

    def decide(self, t: float, seen: Mapping[str, Reading]) -> dict[str, int]:
        """Size wanted per role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An autoscaler, what it measures per role, and how often it looks."""

    decider: Decider
    metrics: Mapping[str, Metric]
    behaviour: Behaviour


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledRun:
    """End state of a run, the life of its groups, and what the autoscaler read: role -> (seconds, metric)."""

    state: st.State
    spans: tuple[Span, ...]
    end_s: float  # last request left
    refused: int  # answers of 503
    samples: Mapping[str, Sequence[tuple[float, float]]]


def play_scaled(
    cluster: Cluster,
    traffic: Traffic,
    actuators: Sequence[Actuator | GroupPool],
    *,
    control: Control | None,
    seed: int,
    horizon_s: float = 0.0,
    act: bool = True,
    progress: Progress | None = None,
) -> ScaledRun:
    """Simulate until every request has left and `horizon_s` has come. `cluster` has the most groups there can be; `actuators` say who serves.

    Without `control` sizes stay; with `act` False the metrics are only read. Raises `InputError` before the run,
    `NotFeasibleError` when it cannot end.
    """
    state = build_state(cluster, traffic, seed=seed)
    for a in actuators:
        a.open(state)
    offer(state, actuators)
    margin = entry_margin(cluster, traffic)
    step_s = control.behaviour.sync_s / _SAMPLES_PER_SYNC if control else float("inf")
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in control.metrics} if control else {}
    recent = max(round(control.behaviour.average_s / step_s), 1) if control else 1
    ticks = 0
    t = 0.0
    finished = False
    while True:
        due = min((ticks + 1) * step_s, *(a.next_s() for a in actuators))
        if not finished:
            state, finished = _advance(state, due, margin, progress)
        if finished and due > horizon_s:
            break
        t = due
        for a in actuators:
            a.step(state, t)
        if control is not None and t >= (ticks + 1) * step_s:
            ticks += 1
            for a in actuators:
                if a.name in control.metrics:
                    samples[a.name].append((t, a.measure(state, control.metrics[a.name])))
            if act and ticks % _SAMPLES_PER_SYNC == 0:
                seen = {
                    a.name: Reading(_mean(samples[a.name][-recent:]), a.current)
                    for a in actuators
                    if a.name in control.metrics
                }
                wanted = control.decider.decide(t, seen)
                for a in actuators:
                    if a.name in wanted:
                        a.scale(state, wanted[a.name], t)
        offer(state, actuators)
    end = float(state.world[0].now)
    for a in actuators:
        a.close(state, max(end, horizon_s))
    return ScaledRun(
        state=state,
        spans=tuple(s for a in actuators for s in sorted(a.spans, key=lambda s: (s.from_s, s.to_s))),
        end_s=end,
        refused=int(state.world[0].refused),
        samples=samples,
    )


def _mean(samples: Sequence[tuple[float, float]]) -> float:
    return sum(v for _, v in samples) / len(samples)


def _advance(
    state: st.State, until_s: float, margin: int, progress: Progress | None
) -> tuple[st.State, bool]:
    """Play all events up to `until_s`; the state (a larger one if it had to grow) and whether all requests have left."""
    state.world[0].stop_at = until_s
    while True:
        status = run(state, _SLICE_EVENTS, margin)
        w = state.world[0]
        if progress is not None:
            progress(int(w.done + w.failed), int(w.requests))
        if status == st.FINISHED:
            return state, True
        if status == st.PAUSED:
            return state, False
        if status == st.NEED_ENTRIES:
            state = grown(state)
        elif status != st.RUNNING_ON:
            raise NotFeasibleError(stuck(state, status))
