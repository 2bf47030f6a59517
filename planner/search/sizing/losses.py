"""What is left of a plan when nodes fail: groups are placed on nodes, and a lost node takes every group on it.

Engine groups run in lockstep, so a group that loses one GPU serves nothing. Placement: groups of several nodes take
whole nodes; smaller ones are packed, the larger kind first, prefill before decode, each node filled before the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """GPUs of one group of the first role (prefill or aggregated), of the second (decode, 0 = none), and of a node."""

    first: int
    second: int
    node: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Groups of the first and of the second role."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class NodeKind:
    """`nodes` nodes, each of which takes `first` and `second` groups with it when it is lost."""

    nodes: int
    first: int
    second: int


def node_kinds(shape: Shape, counts: Counts) -> tuple[NodeKind, ...]:
    """Used nodes by what is lost with each. Of a group of several nodes one counts: losing two changes nothing more."""
    kinds: list[NodeKind] = []
    small: list[tuple[int, int, int]] = []  # GPUs per group, groups, role
    for role, (gpus, groups) in enumerate(((shape.first, counts.first), (shape.second, counts.second))):
        if gpus == 0 or groups == 0:
            continue
        if gpus >= shape.node:
            kinds.append(NodeKind(groups, *_lost(role, 1)))
        else:
            small.append((gpus, groups, role))
    small.sort(key=lambda s: (-s[0], s[2]))
    carried: tuple[int, int, int] | None = None  # the open node: free GPUs, first groups, second groups
    for gpus, groups, role in small:
        left = groups
        if carried is not None:
            room, first, second = carried
            put = min(left, room // gpus)
            a, b = _lost(role, put)
            kinds.append(NodeKind(1, first + a, second + b))
            left -= put
        per_node = shape.node // gpus
        if left // per_node:
            kinds.append(NodeKind(left // per_node, *_lost(role, per_node)))
        rest = left % per_node
        carried = (shape.node - rest * gpus, *_lost(role, rest)) if rest else None
    if carried is not None:
        kinds.append(NodeKind(1, carried[1], carried[2]))
    return tuple(kinds)


def nodes_used(shape: Shape, counts: Counts) -> int:
    """Nodes that hold at least one group."""
    total = shape.first * counts.first + shape.second * counts.second
    return -(-total // shape.node)


def domains_needed(shape: Shape, counts: Counts, domain_gpus: int) -> int:
    """Scale-up domains of `domain_gpus` GPUs that hold the groups, none split that fits into one; larger kind first."""
    free: list[int] = []
    whole = 0
    sizes = [shape.first] * counts.first + [shape.second] * counts.second
    for gpus in sorted(sizes, reverse=True):
        if gpus > domain_gpus:
            whole += -(-gpus // domain_gpus)
            continue
        place = next((i for i, room in enumerate(free) if room >= gpus), None)
        if place is None:
            free.append(domain_gpus - gpus)
        else:
            free[place] -= gpus
    return whole + len(free)


def survivors(shape: Shape, counts: Counts, lost_nodes: int) -> frozenset[Counts]:
    """Every pair of group counts that can be left after `lost_nodes` nodes fail, whichever they are."""
    kinds = node_kinds(shape, counts)
    failed = min(lost_nodes, sum(k.nodes for k in kinds))
    return frozenset(Counts(counts.first - a, counts.second - b) for a, b in _takings(kinds, failed))


def _takings(kinds: tuple[NodeKind, ...], lost: int) -> Iterator[tuple[int, int]]:
    """Groups lost for every way of spreading `lost` failed nodes over the kinds."""
    if not kinds:
        yield 0, 0
        return
    head, rest = kinds[0], kinds[1:]
    elsewhere = sum(k.nodes for k in rest)
    for here in range(max(0, lost - elsewhere), min(lost, head.nodes) + 1):
        for a, b in _takings(rest, lost - here):
            yield here * head.first + a, here * head.second + b


def refits(shape: Shape, counts: Counts, nodes_left: int) -> tuple[Counts, ...]:
    """Group counts of the plan that fit on `nodes_left` healthy nodes once lost groups have started again.

    Per number of decode groups the most prefill groups that fit beside them.
    """
    gpus = nodes_left * shape.node
    found = []
    for second in range(min(counts.second, 1), counts.second + 1):
        first = min(counts.first, (gpus - second * shape.second) // shape.first)
        if first < 1:
            break
        found.append(Counts(first, second))
    return tuple(found)


def one_group_down(counts: Counts) -> tuple[Counts, ...]:
    """What serves while one group is replaced in its place."""
    if counts.second == 0:
        return (Counts(counts.first - 1, 0),)
    return Counts(counts.first - 1, counts.second), Counts(counts.first, counts.second - 1)


def _lost(role: int, groups: int) -> tuple[int, int]:
    return (groups, 0) if role == 0 else (0, groups)
