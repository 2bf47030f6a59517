"""Limits with known answers: M/D/1, M/M/c and a second implementation of the scheduler in simpy."""

from __future__ import annotations

import math

import builders as b
import numpy as np
import pytest
import simpy

from planner.domain.deployment import RouterKind
from planner.simulation.engine import play
from planner.simulation.traffic import Arrival, make_traffic, single


def test_single_server_with_fixed_service_is_m_d_1() -> None:
    """One sequence at a time, one step per request: mean wait = rho s / (2 (1 - rho))."""
    step_s, rho = 0.010, 0.8
    cluster = b.aggregated(
        b.policy(RouterKind.RANDOM),
        ranks=1,
        max_num_seqs=1,
        tables=b.constant_tables(step_s * 1e3),
        block_size=16,
    )
    traffic = make_traffic(
        single(8, 1), sessions=200_000, seed=11, arrival=Arrival.POISSON, rate_per_s=rho / step_s
    )
    state = play(cluster, traffic, seed=0).state
    wait = (state.req.first - state.req.arrival).mean() - step_s
    assert wait == pytest.approx(rho * step_s / (2 * (1 - rho)), rel=0.03)


def erlang_c_wait(*, servers: int, rate: float, service_s: float) -> float:
    """Mean wait of M/M/c."""
    a = rate * service_s
    terms = sum(a**k / math.factorial(k) for k in range(servers))
    tail = a**servers / math.factorial(servers) / (1 - a / servers)
    return tail / (terms + tail) * service_s / (servers - a)


def test_many_slots_with_geometric_answers_approach_m_m_c() -> None:
    """c sequences in one rank, constant short steps, exponential answer lengths: the wait is Erlang's."""
    servers, step_s, mean_tokens = 4, 0.001, 100
    service_s = step_s * mean_tokens
    rate = 0.8 * servers / service_s
    traffic = make_traffic(
        single(1, mean_tokens), sessions=300_000, seed=0, arrival=Arrival.POISSON, rate_per_s=rate
    )
    rng = np.random.default_rng(8)
    traffic.osl[:] = np.maximum(np.rint(rng.exponential(mean_tokens, traffic.requests)), 1)
    cluster = b.aggregated(
        b.policy(RouterKind.RANDOM), ranks=1, max_num_seqs=servers, tables=b.constant_tables(step_s * 1e3)
    )
    state = play(cluster, traffic, seed=0).state
    # service = osl steps; admission waits on average half a step for the boundary
    wait = (state.req.finish - state.req.arrival - state.req.osl * step_s).mean()
    assert wait == pytest.approx(erlang_c_wait(servers=servers, rate=rate, service_s=service_s), rel=0.03)


class Oracle:
    """One aggregated rank in simpy: chunked prefill, block pool without reuse, preemption of the youngest."""

    def __init__(
        self, *, step_ms: float, per_token_ms: float, budget: int, seqs: int, blocks: int, block: int
    ) -> None:
        self.env = simpy.Environment()
        self.step_ms, self.per_token_ms = step_ms, per_token_ms
        self.budget, self.seqs, self.free, self.block = budget, seqs, blocks, block
        self.waiting: list[dict[str, float]] = []
        self.running: list[dict[str, float]] = []
        self.work = self.env.event()
        self.preemptions = 0

    def arrive(self, at: float, isl: int, osl: int) -> dict[str, float]:
        job = {"arrival": at, "tokens": isl, "computed": 0, "stop": isl + osl, "blocks": 0, "n": 0}

        def process():  # type: ignore[no-untyped-def]
            yield self.env.timeout(at)
            self.waiting.append(job)
            if not self.work.triggered:
                self.work.succeed()

        self.env.process(process())
        return job

    def grow(self, job: dict[str, float], tokens: float) -> bool:
        need = math.ceil(tokens / self.block) - job["blocks"]
        if need > self.free:
            return False
        self.free -= max(need, 0)
        job["blocks"] += max(need, 0)
        return True

    def schedule(self) -> float:
        budget, preempted, i = self.budget, False, 0
        while i < len(self.running):
            job = self.running[i]
            n = min(job["tokens"] - job["computed"], budget)
            alive = True
            while n > 0 and not self.grow(job, job["computed"] + n):
                victim = self.running.pop()
                self.free += victim["blocks"]
                victim.update(blocks=0, computed=0, n=0)
                self.waiting.insert(0, victim)
                self.preemptions += 1
                preempted = True
                if victim is job:
                    alive = False
                    break
            if not alive:
                break
            job["n"] = n
            budget -= n
            i += 1
        while not preempted and self.waiting and len(self.running) < self.seqs and budget > 0:
            job = self.waiting[0]
            n = min(job["tokens"], budget)
            if math.ceil(job["tokens"] / self.block) > self.free:
                break
            self.waiting.pop(0)
            self.grow(job, n)
            job["n"] = n
            budget -= n
            self.running.append(job)
        return self.budget - budget

    def serve(self):  # type: ignore[no-untyped-def]
        while True:
            tokens = self.schedule()
            if tokens == 0:
                self.work = self.env.event()
                yield self.work
                continue
            yield self.env.timeout((self.step_ms + self.per_token_ms * tokens) / 1e3)
            for job in list(self.running):
                if job["n"] == 0:
                    continue
                job["computed"] += job["n"]
                job["n"] = 0
                if job["computed"] >= job["tokens"]:
                    job.setdefault("first", self.env.now)
                    job["tokens"] += 1
                    if job["tokens"] >= job["stop"]:
                        job["finish"] = self.env.now
                        self.free += job["blocks"]
                        self.running.remove(job)


@pytest.mark.parametrize(
    ("blocks", "seqs", "budget"), [(4000, 64, 8192), (60, 16, 256), (45, 8, 64), (400, 4, 100)]
)
def test_agrees_with_an_independent_simulator(blocks: int, seqs: int, budget: int) -> None:
    traffic = make_traffic(
        single(180, 60, cv=0.6), sessions=300, seed=blocks, arrival=Arrival.GAMMA, rate_per_s=6.0, cv=2.0
    )
    traffic.isl[:] = np.minimum(traffic.isl, 400)
    traffic.osl[:] = np.minimum(traffic.osl, 200)
    # linear in tokens: exact under any interpolation only between grid points, so use a table that is
    tables = b.constant_tables(7.0)
    cluster = b.aggregated(
        b.policy(RouterKind.RANDOM), ranks=1, kv_blocks=blocks, block_size=16, max_num_seqs=seqs,
        max_num_batched_tokens=budget, tables=tables,
    )  # fmt: skip
    state = play(cluster, traffic, seed=0).state
    oracle = Oracle(step_ms=7.0, per_token_ms=0.0, budget=budget, seqs=seqs, blocks=blocks, block=16)
    jobs = [
        oracle.arrive(t, int(i), int(o))
        for t, i, o in zip(traffic.arrival_s, traffic.isl, traffic.osl, strict=True)
    ]
    oracle.env.process(oracle.serve())
    oracle.env.run(until=float(state.req.finish.max()) + 10.0)
    np.testing.assert_allclose([j["first"] for j in jobs], state.req.first, rtol=1e-9)
    np.testing.assert_allclose([j["finish"] for j in jobs], state.req.finish, rtol=1e-9)
    assert oracle.preemptions == state.rank[0].preemptions
    if blocks < 100:
        assert oracle.preemptions > 0
