"""What is left when nodes fail, against placement by hand and by brute force."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.search.sizing.losses import (
    Counts,
    Shape,
    domains_needed,
    node_kinds,
    nodes_used,
    one_group_down,
    refits,
    survivors,
)


def _placed(shape: Shape, counts: Counts) -> list[set[tuple[int, int]]]:
    """Node by node, which groups (role, number) lie on it; an independent placement of the stated rule."""
    groups = [(shape.first, 0, i) for i in range(counts.first)]
    groups += [(shape.second, 1, i) for i in range(counts.second)]
    nodes: list[set[tuple[int, int]]] = []
    room: list[int] = []
    for gpus, role, number in sorted(groups, key=lambda g: (-g[0], g[1], g[2])):
        if gpus >= shape.node:
            for _ in range(gpus // shape.node):
                nodes.append({(role, number)})
                room.append(0)
            continue
        if not room or room[-1] < gpus:
            nodes.append(set())
            room.append(shape.node)
        nodes[-1].add((role, number))
        room[-1] -= gpus
    return nodes


def _survivors_by_force(shape: Shape, counts: Counts, lost: int) -> set[Counts]:
    nodes = _placed(shape, counts)
    found = set()
    for failed in combinations(nodes, min(lost, len(nodes))):
        dead = set().union(*failed)
        found.add(
            Counts(
                counts.first - sum(role == 0 for role, _ in dead),
                counts.second - sum(role == 1 for role, _ in dead),
            )
        )
    return found


SIZES = st.sampled_from([1, 2, 4, 8, 16, 24])


@given(
    SIZES,
    SIZES | st.just(0),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_survivors_are_those_of_every_set_of_failed_nodes(
    first: int, second: int, p: int, d: int, lost: int
) -> None:
    shape = Shape(first, second, 8)
    counts = Counts(p, d if second else 0)
    forced = _survivors_by_force(shape, counts, lost)
    found = survivors(shape, counts, lost)
    # a group of several nodes can absorb several failures, which leaves more than the worst; the worst is exact
    assert found <= forced
    for state in forced:
        assert any(f.first <= state.first and f.second <= state.second for f in found)


@given(SIZES, SIZES, st.integers(1, 7), st.integers(1, 7))
def test_every_used_node_is_counted_once(first: int, second: int, p: int, d: int) -> None:
    shape, counts = Shape(first, second, 8), Counts(p, d)
    nodes = _placed(shape, counts)
    assert nodes_used(shape, counts) == len(nodes)
    kinds = node_kinds(shape, counts)
    small = sum(k.nodes for k in kinds) - sum(
        groups for gpus, groups in ((first, p), (second, d)) if gpus >= 8
    )
    wide = sum(groups * gpus // 8 for gpus, groups in ((first, p), (second, d)) if gpus >= 8)
    assert small + wide == len(nodes)


def test_a_wide_group_dies_with_one_of_its_nodes() -> None:
    assert survivors(Shape(8, 32, 8), Counts(2, 1), 1) == {Counts(1, 1), Counts(2, 0)}


def test_a_shared_node_takes_groups_of_both_roles() -> None:
    assert survivors(Shape(2, 4, 8), Counts(2, 1), 1) == {Counts(0, 0)}


def test_lost_groups_start_again_on_what_is_left() -> None:
    # 2 x 8 + 1 x 16 on 5 nodes: with four left everything fits again, with three it does not
    assert refits(Shape(8, 16, 8), Counts(2, 1), 4)[-1] == Counts(2, 1)
    assert refits(Shape(8, 16, 8), Counts(2, 1), 3) == (Counts(1, 1),)
    assert refits(Shape(8, 16, 8), Counts(2, 1), 2) == ()


@pytest.mark.parametrize(
    ("counts", "expected"),
    [(Counts(3, 0), {Counts(2, 0)}), (Counts(2, 1), {Counts(1, 1), Counts(2, 0)})],
)
def test_one_group_in_turn(counts: Counts, expected: set[Counts]) -> None:
    assert set(one_group_down(counts)) == expected


@pytest.mark.parametrize(
    ("shape", "counts", "domains"),
    [
        (Shape(12, 8, 4), Counts(1, 1), 1),
        (Shape(48, 0, 4), Counts(3, 0), 3),  # 144 GPUs are two racks, but 48 fit only once into each
        (Shape(48, 24, 4), Counts(2, 2), 2),
        (Shape(144, 8, 4), Counts(1, 1), 3),
        (Shape(8, 8, 4), Counts(9, 1), 2),
    ],
)
def test_groups_are_not_split_over_scale_up_domains(shape: Shape, counts: Counts, domains: int) -> None:
    assert domains_needed(shape, counts, 72) == domains
