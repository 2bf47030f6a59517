"""Run a simulation to its end and hand back the figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from planner.domain.errors import Issue, NotFeasibleError
from planner.domain.workload import SloTargets
from planner.simulation.build import build_state, entry_margin, grown
from planner.simulation.cluster import Cluster
from planner.simulation.collect import collect
from planner.simulation.kernels import jit
from planner.simulation.kernels import state as st
from planner.simulation.kernels.run import run
from planner.simulation.result import SimulationResult
from planner.simulation.traffic import Traffic

Progress = Callable[[int, int], None]  # finished, all
_SLICE_EVENTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """End state of a run and what it cost."""

    state: st.State
    wall_s: float


def play(cluster: Cluster, traffic: Traffic, *, seed: int, progress: Progress | None = None) -> Finished:
    """Simulate until every request has left. Raises `InputError` before, `NotFeasibleError` when it cannot end."""
    state = build_state(cluster, traffic, seed=seed)
    margin = entry_margin(cluster, traffic)
    began = time.perf_counter()
    while True:
        status = run(state, _SLICE_EVENTS, margin)
        world = state.world[0]
        if progress is not None:
            progress(int(world.done + world.failed), traffic.requests)
        if status == st.FINISHED:
            return Finished(state=state, wall_s=time.perf_counter() - began)
        if status == st.NEED_ENTRIES:
            state = grown(state)
        elif status != st.RUNNING_ON:
            raise NotFeasibleError(stuck(state, status))


def stuck(state: st.State, status: int) -> Issue:
    """Why a run cannot end."""
    w = state.world[0]
    left = int(w.requests - w.done - w.failed)
    rank = state.rank
    where = (
        f"{int(rank.waiting.sum())} waiting, {int(rank.running.sum())} running, {int(rank.loading.sum())} loading, "
        f"{int(rank.pinned.sum())} blocks pinned"
    )
    if status == st.LIVELOCK:
        return Issue(
            code="simulation.livelock",
            what=f"no token in {int(w.quiet_steps)} engine steps, {left} requests left at {w.now:.1f} s",
            why=f"requests preempt each other without finishing a prompt: {where}",
            fix="lower max_num_seqs or the concurrency, or give a rank more KV memory",
        )
    return Issue(
        code="simulation.stalled",
        what=f"nothing left to happen at {w.now:.1f} s with {left} requests unfinished",
        why=f"every rank waits for memory that nobody will free: {where}",
        fix="lower the concurrency, or give decode ranks more KV memory",
    )


def announce_compilation() -> None:
    """Say on stderr what the first run waits for."""
    if not jit.is_compiled():
        sys.stderr.write("Compiling the simulator for this machine, once; this takes about half a minute.\n")
        sys.stderr.flush()


def simulate(
    cluster: Cluster,
    traffic: Traffic | Sequence[Traffic],
    *,
    seed: int = 0,
    slo: SloTargets | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Simulate `traffic` on `cluster`; several traffics are replications, run in threads and pooled.

    Figures leave out the warm-up requests at the start and, in a closed loop, the run-down at the end.
    """
    replications = [traffic] if isinstance(traffic, Traffic) else list(traffic)
    done = [0] * len(replications)
    total = sum(t.requests for t in replications)

    def one(i: int) -> Finished:
        def report(count: int, _: int) -> None:
            done[i] = count
            if progress is not None:
                progress(sum(done), total)

        return play(cluster, replications[i], seed=seed + i, progress=report)

    if len(replications) == 1:
        finished = [one(0)]
    else:
        with ThreadPoolExecutor(max_workers=2) as pool:
            finished = list(pool.map(one, range(len(replications))))
    return collect(
        cluster, replications, [f.state for f in finished], slo=slo, wall_s=sum(f.wall_s for f in finished)
    )
