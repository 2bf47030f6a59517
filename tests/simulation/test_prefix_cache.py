"""Runs along a radix tree against a block-by-block LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import builders as b
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from planner.domain.deployment import RouterKind
from planner.simulation.cluster import HostTier
from planner.simulation.engine import play, simulate
from planner.simulation.traffic import Shape, Traffic, Turn, make_traffic

BLOCK = 16


class BlockCache:
    """vLLM's cache for one request at a time: full blocks by content, free ones in LRU order, suffixes go first."""

    def __init__(self, blocks: int) -> None:
        self.empty = blocks
        self.cached: OrderedDict[object, None] = OrderedDict()  # unused but findable, oldest first

    def request(self, names: list[object], prompt: int, total_tokens: int) -> int:
        limit = (prompt - 1) // BLOCK
        hits = 0
        while hits < limit and names[hits] in self.cached:
            hits += 1
        for name in names[:hits]:
            del self.cached[name]
        need = -(-total_tokens // BLOCK) - hits
        while self.empty < need:
            self.cached.popitem(last=False)
            self.empty += 1
        self.empty -= need
        full = total_tokens // BLOCK
        kept = names[:full]
        self.empty += need - (full - hits)
        for name in reversed(kept):
            if name in self.cached:  # a copy was computed although the last block was cached
                self.cached.move_to_end(name)
                self.empty += 1
            else:
                self.cached[name] = None
        return hits * BLOCK


def names_of(traffic: Traffic, shape: Shape, r: int) -> list[object]:
    system = shape.system_tokens // BLOCK
    session = int(traffic.session[r])
    total = -(-int(traffic.isl[r] + traffic.osl[r]) // BLOCK)
    return [
        ("system", session % shape.system_prompts, i) if i < system else (session, i) for i in range(total)
    ]


@settings(max_examples=60, deadline=None)
@given(
    turns=some.lists(some.tuples(some.integers(1, 120), some.integers(1, 60)), min_size=1, max_size=4),
    system=some.sampled_from([0, 16, 100]),
    blocks=some.integers(60, 160),
    sessions=some.integers(1, 12),
    seed=some.integers(0, 50),
)
def test_hits_equal_a_block_wise_lru(
    turns: list[tuple[int, int]], system: int, blocks: int, sessions: int, seed: int
) -> None:
    shape = Shape(
        label="x",
        turns=tuple(Turn(new_tokens=n, answer_tokens=a) for n, a in turns),
        system_tokens=system,
        system_prompts=2,
    )
    traffic = make_traffic(shape, sessions=sessions, seed=seed, concurrency=1)
    if int((traffic.isl + traffic.osl).max()) > blocks * BLOCK:
        return
    # visit the sessions in turn rather than one after the other: chain turn t of every session
    order = np.arange(traffic.requests).reshape(sessions, len(turns)).T.ravel()
    traffic.follow[order[:-1]] = order[1:]
    traffic.follow[order[-1]] = -1
    traffic = replace(traffic, pool=traffic.pool[:0])
    cluster = b.aggregated(b.policy(RouterKind.RANDOM), ranks=1, kv_blocks=blocks, block_size=BLOCK)
    state = play(cluster, traffic, seed=0).state
    oracle = BlockCache(blocks)
    for r in order:
        # the last token is never computed
        expected = oracle.request(
            names_of(traffic, shape, r), int(traffic.isl[r]), int(traffic.isl[r] + traffic.osl[r]) - 1
        )
        assert state.req[r].hit == expected, f"request {r} of {order}"


def talk(sessions: int, *, concurrency: int) -> Traffic:
    shape = Shape(
        label="talk",
        turns=(
            Turn(new_tokens=2000, answer_tokens=200),
            *(Turn(new_tokens=100, answer_tokens=200) for _ in range(3)),
        ),
    )
    return make_traffic(shape, sessions=sessions, seed=1, concurrency=concurrency)


def test_decode_ranks_know_the_answers_and_prefill_ranks_only_the_prompts() -> None:
    traffic = talk(8, concurrency=2)
    state = play(b.disaggregated(), traffic, seed=0).state
    later = np.flatnonzero(traffic.isl > 2000)
    before = later - 1
    np.testing.assert_array_equal(state.req.hit_prefill[later], traffic.isl[before] // 64 * 64)
    same = state.req.serve[later] == state.req.serve[before]
    assert same.all()
    moved = np.isfinite(state.req.moved_to)
    assert moved.all()


def test_host_tier_serves_what_the_gpu_evicted() -> None:
    traffic = talk(60, concurrency=30)
    plain, offloaded = (
        simulate(b.aggregated(ranks=1, kv_blocks=500, host_tier=h, kv_bytes_per_token=70e3), traffic)
        for h in (None, HostTier(blocks=20_000, gbps=50.0))
    )
    assert offloaded.roles[0].host_hit_rate > 0.2
    assert offloaded.output_tok_s.value > plain.output_tok_s.value
    slow = simulate(
        b.aggregated(
            ranks=1, kv_blocks=500, host_tier=HostTier(blocks=20_000, gbps=0.05), kv_bytes_per_token=70e3
        ),
        traffic,
    )
    assert slow.ttft_ms.p50.value > offloaded.ttft_ms.p50.value


def test_without_caching_nothing_hits() -> None:
    assert simulate(b.aggregated(prefix_caching=False), talk(10, concurrency=2)).prefix_hit_rate == 0.0
