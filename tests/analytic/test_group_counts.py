"""Numbers of groups: all of them where the pool is small, a bounded sample that is said where it is large."""

from __future__ import annotations

import pytest

from planner.analytic.points import MAX_POINTS, Pairing, _counts_by_size, _thin, group_counts


def pairing(gpus: int) -> Pairing:
    return Pairing(
        legal=lambda p, d: True,
        transfer_ms=lambda p, d: 0.0,
        prefill_gpus=gpus,
        decode_gpus=gpus,
        shared=True,
    )


def test_small_pools_keep_every_pair_of_counts() -> None:
    counts, sampled = _counts_by_size([(8, 8), (8, 16)] * 100, pairing(32), loads=40)
    assert not sampled
    assert counts[8, 8] == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)]
    assert counts[8, 16] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("gpus", [256, 1000, 10_000])
def test_large_pools_stay_within_the_bound_and_say_so(gpus: int) -> None:
    sizes = [(p, d) for p in (8, 16, 32) for d in (8, 16, 64)] * 400
    counts, sampled = _counts_by_size(sizes, pairing(gpus), loads=40)
    assert sampled
    assert sum(len(counts[s]) for s in sizes) * 40 <= MAX_POINTS
    for (p, d), kept in counts.items():
        assert kept
        assert all(a * p + b * d <= gpus for a, b in kept)
        assert any(gpus - a * p - b * d < p for a, b in kept), "one plan at least fills the pool"


def test_a_coarse_sample_is_mostly_plans_that_fill_the_pool() -> None:
    full = group_counts(8, 8, pairing(256))
    kept = _thin(full, 12)
    assert len(kept) <= 12
    filling = [c for c in kept if 8 * sum(c) == 256]
    assert 2 * len(filling) >= len(kept)
    assert {(31, 1), (1, 31)} <= set(filling), "from nearly all prefill to nearly all decode"
