"""The hypervolume against its definition: area of a union of rectangles, counted by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from planner.search.studies.hypervolume import Front, hypervolume

POINTS = some.lists(some.tuples(some.integers(0, 12), some.integers(0, 12)), min_size=0, max_size=12)


def brute(points: list[tuple[int, int]], reference: tuple[int, int]) -> int:
    """Unit cells above the reference that some point dominates."""
    rx, ry = reference
    cells = {(i, j) for x, y in points for i in range(rx, x) for j in range(ry, y)}
    return len(cells)


def array(points: list[tuple[int, int]]) -> np.ndarray:
    return np.array(points, dtype=np.float64).reshape(-1, 2)


@given(points=POINTS, reference=some.tuples(some.integers(0, 3), some.integers(0, 3)))
def test_area_equals_the_count_of_cells(points: list[tuple[int, int]], reference: tuple[int, int]) -> None:
    assert hypervolume(array(points), reference) == pytest.approx(brute(points, reference))


@given(points=POINTS, new=some.tuples(some.integers(0, 13), some.integers(0, 13)))
def test_gain_is_what_adding_the_point_changes(points: list[tuple[int, int]], new: tuple[int, int]) -> None:
    front = Front.of(array(points), (1, 1))
    gained = brute([*points, new], (1, 1)) - brute(points, (1, 1))
    assert float(front.gains(array([new]))[0]) == pytest.approx(gained)


@given(points=some.lists(some.tuples(some.integers(1, 12), some.integers(1, 12)), min_size=1, max_size=12))
def test_distance_is_the_factor_to_the_front(points: list[tuple[int, int]]) -> None:
    values = array(points)
    front = Front.of(values, (0.0, 0.0))
    distance = front.log_distance(values)
    for point, d in zip(values, distance, strict=True):
        grown = point * np.exp(d)
        # grown by the distance no front point beats it in both; grown by less, one does
        assert not np.any((front.x > grown[0] * (1 + 1e-9)) & (front.y > grown[1] * (1 + 1e-9)))
        if d > 0.0:
            less = point * np.exp(d * 0.99)
            assert np.any((front.x > less[0]) & (front.y > less[1]))


@given(points=POINTS, new=some.tuples(some.integers(1, 6), some.integers(1, 6)))
def test_a_dominated_point_never_changes_the_front(
    points: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    better = (new[0] + 1, new[1] + 1)
    with_better = Front.of(array([*points, better]), (0.0, 0.0))
    with_both = Front.of(array([*points, better, new]), (0.0, 0.0))
    assert with_better.x.tolist() == with_both.x.tolist()
    assert with_better.hypervolume == with_both.hypervolume
