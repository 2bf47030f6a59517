"""The front is exact: nothing on it is beaten, nothing off it is unbeaten, and order does not matter."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from planner.analytic.front import pareto_indexes, undominated_rows

values = st.integers(0, 12).map(float)
clouds = st.integers(1, 60).flatmap(
    lambda n: st.tuples(arrays(np.float64, n, elements=values), arrays(np.float64, n, elements=values))
)


def dominates(x, y, i, j) -> bool:
    return x[i] >= x[j] and y[i] >= y[j] and (x[i] > x[j] or y[i] > y[j])


@given(clouds)
def test_front_members_are_exactly_the_undominated_values(cloud) -> None:
    x, y = cloud
    front = pareto_indexes(x, y)
    chosen = {(x[i], y[i]) for i in front}
    unbeaten = {(x[j], y[j]) for j in range(x.size) if not any(dominates(x, y, i, j) for i in range(x.size))}
    assert chosen == unbeaten
    assert len(chosen) == len(front)


@given(clouds, st.randoms(use_true_random=False))
def test_a_dominated_point_never_changes_the_front(cloud, random) -> None:
    x, y = cloud
    before = {(x[i], y[i]) for i in pareto_indexes(x, y)}
    victim = random.randrange(x.size)
    worse_x = np.append(x, x[victim] - random.randint(0, 3))
    worse_y = np.append(y, y[victim] - random.randint(1, 3))
    assert {(worse_x[i], worse_y[i]) for i in pareto_indexes(worse_x, worse_y)} == before


def test_no_points_no_front() -> None:
    assert pareto_indexes(np.empty(0), np.empty(0)).size == 0


@given(st.integers(1, 25).flatmap(lambda n: arrays(np.float64, (n, 3), elements=values)))
def test_pruned_rows_are_beaten_by_a_kept_one(costs) -> None:
    kept = undominated_rows(costs)
    for j in set(range(len(costs))) - set(kept.tolist()):
        assert any((costs[i] <= costs[j]).all() for i in kept)
    for i in kept:
        others = [k for k in kept if k != i]
        assert not any((costs[k] <= costs[i]).all() for k in others)
