"""What must hold in every simulation, over small random clusters and workloads."""

from __future__ import annotations

from dataclasses import replace

import builders as b
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from planner.domain.deployment import Eplb, RouterKind, Speculation
from planner.domain.errors import InputError
from planner.simulation.cluster import Cluster, HostTier, RouterTiming
from planner.simulation.engine import play, simulate
from planner.simulation.kernels import state as st
from planner.simulation.traffic import Arrival, Shape, Traffic, Turn, make_traffic, single

ROUTERS = [b.ACTIVE, b.SCRAPED, *(b.policy(k) for k in RouterKind)]


@some.composite
def clusters(draw: some.DrawFn) -> Cluster:
    router = draw(some.sampled_from(ROUTERS))
    common: dict[str, object] = {
        "kv_blocks": draw(some.integers(60, 400)),
        "block_size": draw(some.sampled_from([16, 64])),
        "max_num_seqs": draw(some.sampled_from([2, 8, 64])),
        "max_num_batched_tokens": draw(some.sampled_from([128, 512, 8192])),
        "reserve_full_isl": draw(some.booleans()),
        "reserve_answer": draw(some.booleans()),
        "prefix_caching": draw(some.booleans()),
        "speculation": draw(some.sampled_from([None, Speculation(draft_tokens=2, acceptance=0.6)])),
        "host_tier": draw(some.sampled_from([None, HostTier(blocks=300, gbps=20.0)])),
        "tables": replace(
            b.tables(),
            separate_prefill=draw(some.booleans()),
            balance_steps=draw(some.sampled_from([0.0, 0.0, 2.5])),
            launch_floor_ms=draw(some.sampled_from([0.0, 30.0])),
            handover_ms=draw(some.sampled_from([0.0, 40.0])),
        ),
        "eplb": draw(some.sampled_from([None, Eplb(step_interval=50, use_async=False)])),
    }
    timing = RouterTiming(scrape_ms=draw(some.sampled_from([0.0, 50.0])), precise_index=draw(some.booleans()))
    if draw(some.booleans()):
        return b.disaggregated(
            router,
            prefill={**common, "groups": draw(some.integers(1, 3)), "speculation": None},
            decode={**common, "ranks": draw(some.integers(1, 5)), "groups": draw(some.integers(1, 2))},
            timing=timing,
        )
    return b.aggregated(router, **common, ranks=draw(some.integers(1, 5)), lockstep=draw(some.booleans()))


@some.composite
def traffics(draw: some.DrawFn) -> Traffic:
    turns = draw(some.lists(some.tuples(some.integers(1, 150), some.integers(1, 40)), min_size=1, max_size=3))
    shape = Shape(
        label="random",
        turns=tuple(Turn(new_tokens=n, answer_tokens=a, think_s=0.05) for n, a in turns),
        system_tokens=draw(some.sampled_from([0, 10, 130])),
        system_prompts=2,
        length_cv=draw(some.sampled_from([0.0, 0.3])),
        shares_prefixes=draw(some.booleans()),
    )
    if draw(some.booleans()):
        return make_traffic(
            shape,
            sessions=draw(some.integers(1, 40)),
            seed=draw(some.integers(0, 99)),
            concurrency=draw(some.integers(1, 20)),
        )
    return make_traffic(
        shape,
        sessions=draw(some.integers(1, 40)),
        seed=draw(some.integers(0, 99)),
        arrival=draw(some.sampled_from([Arrival.POISSON, Arrival.GAMMA, Arrival.RAMP])),
        rate_per_s=draw(some.sampled_from([1.0, 30.0])),
        cv=2.0,
    )


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters(), traffics(), some.integers(0, 5))
def test_nothing_is_lost_and_time_runs_forward(cluster: Cluster, traffic: Traffic, seed: int) -> None:
    try:
        state = play(cluster, traffic, seed=seed).state
    except InputError as error:
        assert {i.code for i in error.issues} <= {"simulation.capacity"}  # noqa: PT017
        return
    req, rank, pool = state.req, state.rank, state.pool
    # every request finished exactly once, with all its tokens
    assert state.world[0].done == traffic.requests
    assert state.world[0].failed == 0
    assert rank.requests.sum() == traffic.requests
    serving = np.array([r.role != st.PREFILL for r in cluster_roles(state)])
    assert rank.output_tokens[serving].sum() == traffic.osl.sum()
    # causality
    assert (req.first > req.arrival).all()
    assert (req.finish >= req.first).all()
    moved = np.isfinite(req.moved_to)
    assert (req.prefilled[moved] > req.arrival[moved]).all()
    assert (req.moved_from[moved] >= req.prefilled[moved]).all()
    assert (req.moved_to[moved] >= req.moved_from[moved]).all()
    assert (req.first[moved] > req.moved_to[moved]).all()
    # queues and flows are empty, nothing is held
    for name in (
        "waiting",
        "ready",
        "running",
        "loading",
        "pinned",
        "inflight",
        "inflight_tokens",
        "out_flows",
    ):
        assert (rank[name] == 0).all(), name
    # every block is free or cached and unused
    held = np.zeros(len(pool), dtype=np.int64)
    for e in state.table[state.table >= 0]:
        entry = state.entry[e]
        assert entry.ref == 0
        assert entry.blocks > 0
        held[entry.pool] += entry.blocks
    np.testing.assert_array_equal(held, pool.evictable)
    np.testing.assert_array_equal(pool.free + pool.evictable, pool.total)
    assert (rank.peak_used <= pool.total[: len(rank)]).all()
    # a session's turns follow each other
    for r in range(traffic.requests):
        if traffic.follow[r] >= 0:
            follow = traffic.follow[r]
            assert req.arrival[follow] == pytest.approx(req.finish[r] + traffic.think_s[follow])


def cluster_roles(state: st.State) -> list[np.record]:
    return [_Kind(state.role[r.role].kind) for r in state.rank]  # type: ignore[misc]


class _Kind:
    def __init__(self, kind: int) -> None:
        self.role = kind


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters(), traffics())
def test_same_seed_gives_the_same_bytes(cluster: Cluster, traffic: Traffic) -> None:
    try:
        first, second = (play(cluster, traffic, seed=3).state for _ in range(2))
    except InputError:
        return
    assert first.req.tobytes() == second.req.tobytes()
    assert first.rank.tobytes() == second.rank.tobytes()
    assert first.gaps.tobytes() == second.gaps.tobytes()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(traffics(), some.sampled_from(ROUTERS))
def test_one_rank_in_lockstep_equals_no_data_parallelism(traffic: Traffic, router: object) -> None:
    together, alone = (
        play(b.aggregated(router, ranks=1, lockstep=lockstep), traffic, seed=1).state  # type: ignore[arg-type]
        for lockstep in (True, False)
    )
    assert together.req.tobytes() == alone.req.tobytes()
    assert together.rank.tobytes() == alone.rank.tobytes()


def test_a_rank_with_work_is_never_idle() -> None:
    """Saturated closed loop on one rank: steps follow each other without a gap from first arrival to last finish."""
    traffic = make_traffic(single(300, 50), sessions=200, seed=0, concurrency=16)
    state = play(b.aggregated(ranks=1), traffic, seed=0).state
    span = state.req.finish.max() - state.req.arrival.min()
    assert state.group[0].busy_s == pytest.approx(span, rel=1e-9)


def test_littles_law() -> None:
    """Mean number in the system, measured by sampling the queues, equals rate times mean time in the system."""
    traffic = make_traffic(
        single(200, 60), sessions=20000, seed=5, arrival=Arrival.POISSON, rate_per_s=25.0, warmup_share=0.0
    )
    state = play(b.aggregated(ranks=2), traffic, seed=0).state
    n = int(state.world[0].samples)
    sampled = state.series[:n, st.AGGREGATED, 0] + state.series[:n, st.AGGREGATED, 1]
    span = state.req.finish.max()
    expected = (state.req.finish - state.req.arrival).sum() / span
    # the integral of the number in system over all event times is exact; the sampled mean has noise
    events = np.concatenate([state.req.arrival, state.req.finish])
    change = np.concatenate([np.ones(traffic.requests), -np.ones(traffic.requests)])
    order = np.argsort(events, kind="stable")
    levels = np.cumsum(change[order])[:-1]
    assert (levels * np.diff(events[order])).sum() / span == pytest.approx(expected, rel=1e-6)
    assert sampled.mean() == pytest.approx(expected, rel=0.1)


def test_closed_loop_holds_its_concurrency() -> None:
    """Littles' law in a closed loop: throughput times mean time in system is the number of users, within 1 %."""
    traffic = make_traffic(single(200, 60), sessions=8000, seed=5, concurrency=40)
    result = simulate(b.aggregated(ranks=2), traffic)
    assert result.mean_in_flight == pytest.approx(40, rel=0.01)


def test_every_request_is_served_in_turn() -> None:
    """First come first served: on one rank first tokens come in order of arrival."""
    traffic = make_traffic(
        single(400, 30, cv=0.5), sessions=500, seed=2, arrival=Arrival.POISSON, rate_per_s=40.0
    )
    state = play(b.aggregated(ranks=1, max_num_seqs=8), traffic, seed=0).state
    order = np.argsort(state.req.arrival, kind="stable")
    assert (np.diff(state.req.first[order]) >= 0).all()
