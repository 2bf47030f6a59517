"""The smallest fleet that carries a load, and the best plan of a fleet of given size: exact over all rows and counts.

Nothing is assumed about how a plan's load grows with its groups: fleets are tried node by node from a lower bound, and
at each size every combination of group counts that was not tried before. Bounds only leave out what cannot carry it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.perf.operators.base import FloatArray
from planner.search.sizing.curves import IndexArray, Operating, at_load, greatest_load
from planner.search.sizing.families import Family
from planner.search.sizing.load import Load, Reserve, Rollout, Targets
from planner.search.sizing.losses import Counts, Shape, one_group_down, survivors

CHUNK_ROWS = 4096  # bounds the memory of the curves
KEPT = 4  # best plans of a size that are handed back
LOOKED_INTO = 64  # cells whose states after a loss are priced together
CLOSE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A row with its group counts. `carries`: load within the targets; `worst`: the least of all states that must hold."""

    family: Family
    row: int
    counts: Counts
    used: int
    carries: float
    worst: float
    binding: str
    ttft_ms: float
    tpot_ms: float
    batch: float  # decode batch per rank when it carries most


class FleetSearch:
    """Searches the rows of all families for one load on nodes of `node` GPUs."""

    def __init__(
        self, families: Sequence[Family], *, node: int, load: Load, reserve: Reserve, max_gpus: int
    ) -> None:
        self.families = tuple(families)
        self.node = node
        self.load = load
        self.reserve = reserve
        self.max_gpus = max_gpus // node * node
        self._known: dict[tuple[Targets, Load], list[_Bounds]] = {}

    # --- public ---

    def smallest(self, targets: Targets, *, above: int = 0, limit: int | None = None) -> Fleet | None:
        """A fleet that carries the load on the fewest GPUs owned, in whole nodes and more than `above`; None beyond the limit."""
        bounds = self._bounds(targets, self.load)
        start = min((b.least_owned for b in bounds), default=self.max_gpus + self.node)
        most = self.max_gpus if limit is None else min(limit // self.node * self.node, self.max_gpus)
        for owned in range(max(start, above + self.node), most + 1, self.node):
            for family in bounds:
                found = self._carried(family, owned, targets)
                if found is not None:
                    return found
        return None

    def owned(self, fleet: Fleet) -> int:
        """GPUs of the whole nodes that `fleet` needs, the room for its rollout included."""
        sizes = (int(fleet.family.first_gpus[fleet.row]), int(fleet.family.second_gpus[fleet.row]))
        beside = max(sizes) if self.reserve.rollout is Rollout.SURGE else 0
        return -(-(fleet.used + beside) // self.node) * self.node

    def best(self, owned: int, targets: Targets, *, enough: bool = True, count: int = KEPT) -> list[Fleet]:
        """The `count` plans of `owned` GPUs that carry most, the weakest state that must hold counting; most first.

        `enough`: only plans that could carry the load; otherwise those that carry less, too.
        """
        found: list[Fleet] = []
        for bounds in self._bounds(targets, self.load if enough else Load(self.load.kind, 0.0)):
            self._best_of(bounds, owned, targets, found, count)
        return found

    def operating(self, fleet: Fleet, load: float, targets: Targets) -> Operating:
        """The state of `fleet` at `load`."""
        rows = np.array([fleet.row])
        first, second = np.array([fleet.counts.first]), np.array([fleet.counts.second])
        return at_load(fleet.family.curve(rows, first, second, self.load.kind, targets), load)

    def carried_by(self, fleet: Fleet, counts: Counts, targets: Targets) -> Operating:
        """What is carried within the targets when only `counts` groups of `fleet` serve."""
        return self._greatest(fleet.family, np.array([fleet.row]), [counts], targets)

    # --- one size ---

    def _bounds(self, targets: Targets, load: Load) -> list[_Bounds]:
        if (targets, load) not in self._known:
            self._known[targets, load] = [
                _Bounds(f, load, self.reserve, targets, self.node) for f in self.families
            ]
        return self._known[targets, load]

    def _carried(self, bounds: _Bounds, owned: int, targets: Targets) -> Fleet | None:
        enough = self.load.amount * (1.0 - CLOSE)
        for rows, cells in _batched(bounds.cells(owned)):
            whole = self._greatest(bounds.family, rows, cells, targets).load
            able = np.flatnonzero(whole >= enough)
            able = able[np.argsort(-whole[able], kind="stable")]
            for first in range(0, len(able), LOOKED_INTO):
                some = able[first : first + LOOKED_INTO]
                chosen = [cells[i] for i in some]
                worst = self._worst(bounds.family, rows[some], chosen, whole[some], targets)
                best = int(np.argmax(worst))
                if worst[best] >= enough:
                    row = int(rows[some[best]])
                    return self._fleet(bounds.family, row, chosen[best], float(worst[best]), targets)
        return None

    def _fleet(self, family: Family, row: int, counts: Counts, worst: float, targets: Targets) -> Fleet:
        full = self._greatest(family, np.array([row]), [counts], targets)
        return Fleet(
            family=family,
            row=row,
            counts=counts,
            used=counts.first * int(family.first_gpus[row]) + counts.second * int(family.second_gpus[row]),
            carries=float(full.load[0]),
            worst=worst,
            binding=full.binding[0],
            ttft_ms=float(full.ttft_ms[0]),
            tpot_ms=float(full.tpot_ms[0]),
            batch=float(full.batch[0]),
        )

    def _best_of(self, bounds: _Bounds, owned: int, targets: Targets, found: list[Fleet], count: int) -> None:
        order, most = bounds.by_most(owned)
        for start in range(0, len(order), 256):
            part = order[start : start + 256]
            floor = _floor(found, count)
            part = part[most[part] > floor * (1.0 + CLOSE)]
            if not len(part):
                return
            for rows, cells in _batched(bounds.full_cells(part, owned, floor)):
                whole = self._greatest(bounds.family, rows, cells, targets).load
                falling = np.argsort(-whole, kind="stable")
                for first in range(0, len(falling), LOOKED_INTO):
                    some = falling[first : first + LOOKED_INTO]
                    if whole[some[0]] <= _floor(found, count):
                        break
                    chosen = [cells[i] for i in some]
                    worst = self._worst(bounds.family, rows[some], chosen, whole[some], targets)
                    for i in np.argsort(-worst, kind="stable")[:count]:
                        if worst[i] > _floor(found, count):
                            fleet = self._fleet(
                                bounds.family, int(rows[some[i]]), chosen[i], float(worst[i]), targets
                            )
                            _keep(found, fleet, count)

    # --- many cells ---

    def _worst(
        self,
        family: Family,
        rows: IndexArray,
        cells: Sequence[Counts],
        whole: FloatArray,
        targets: Targets,
    ) -> FloatArray:
        """Per cell, the least load within the targets over the states that must hold; `whole`: with nothing lost."""
        if self.reserve.spare_nodes == 0 and self.reserve.rollout is not Rollout.IN_PLACE:
            return whole
        result = whole.copy()
        states: list[Counts] = []
        owners: list[int] = []
        for i, (row, counts) in enumerate(zip(rows, cells, strict=True)):
            two = int(family.second_gpus[row])
            shape = Shape(int(family.first_gpus[row]), two, self.node)
            left = states_to_hold(shape, counts, self.reserve)
            if any(s.first < 1 or (two and s.second < 1) for s in left):
                result[i] = 0.0
                continue
            states.extend(left)
            owners.extend([i] * len(left))
        if states:
            of = np.array(owners, dtype=np.intp)
            np.minimum.at(result, of, self._greatest(family, rows[of], states, targets).load)
        return result

    def _greatest(
        self, family: Family, rows: IndexArray, cells: Sequence[Counts], targets: Targets
    ) -> Operating:
        first = np.array([c.first for c in cells], dtype=np.intp)
        second = np.array([c.second for c in cells], dtype=np.intp)
        parts = [
            greatest_load(family.curve(rows[s], first[s], second[s], self.load.kind, targets))
            for s in (slice(i, i + CHUNK_ROWS) for i in range(0, len(rows), CHUNK_ROWS))
        ]
        if len(parts) == 1:
            return parts[0]
        return Operating(
            **{n: np.concatenate([getattr(p, n) for p in parts]) for n in _ARRAYS},
            binding=tuple(b for p in parts for b in p.binding),
        )


_ARRAYS = ("load", "batch", "ttft_ms", "tpot_ms", "rate_per_s", "in_flight")


def states_to_hold(shape: Shape, counts: Counts, reserve: Reserve) -> frozenset[Counts]:
    """Group counts in which the load must still be carried, the whole plan included."""
    states = {counts}
    for lost in range(1, reserve.spare_nodes + 1):
        states |= survivors(shape, counts, lost)
    if reserve.rollout is Rollout.IN_PLACE:
        states |= set(one_group_down(counts))
    return frozenset(states)


class _Bounds:
    """Least group counts of every row of a family that could carry the load, and the cells of a fleet size."""

    def __init__(self, family: Family, load: Load, reserve: Reserve, targets: Targets, node: int) -> None:
        self.family = family
        self.node = node
        self.first_gpus, self.second_gpus = family.first_gpus, family.second_gpus
        self._per_first, self._per_second = family.bounds(load.kind, targets)
        possible = (self._per_first > 0.0) & (self._per_second > 0.0)
        # whoever loses nodes or a group has at least as many groups more
        more = max(reserve.spare_nodes, 1 if reserve.rollout is Rollout.IN_PLACE else 0)
        two = self.second_gpus > 0
        need_first = np.ceil(load.amount / np.where(possible, self._per_first, np.inf) * (1.0 - CLOSE))
        need_second = np.ceil(load.amount / np.where(possible, self._per_second, np.inf) * (1.0 - CLOSE))
        self._first = np.maximum(need_first, 1.0) + more
        self._second = np.where(two, np.maximum(need_second, 1.0) + more, 0.0)
        # a surge starts the new group of one role beside the old ones
        surge = reserve.rollout is Rollout.SURGE
        self._surge = np.maximum(self.first_gpus, self.second_gpus) * int(surge)
        used = self._first * self.first_gpus + self._second * self.second_gpus + self._surge
        owned = np.ceil(used / node) * node
        self._owned = np.where(possible, owned, np.inf)
        self._order = np.argsort(self._owned, kind="stable")
        self.least_owned = int(self._owned.min()) if possible.any() else np.iinfo(np.int32).max

    def cells(self, owned: int) -> Iterator[tuple[int, Counts]]:
        """Rows and counts whose GPUs, in whole nodes, are exactly `owned`."""
        last = int(np.searchsorted(self._owned[self._order], owned, side="right"))
        for row in self._order[:last]:
            a, b = int(self.first_gpus[row]), int(self.second_gpus[row])
            first, second = int(self._first[row]), int(self._second[row])
            top = owned - int(self._surge[row])
            low = top - self.node  # one node less would be enough for these and fewer
            for d in range(second, (top - first * a) // b + 1) if b else (0,):
                room = top - d * b
                for p in range(max(first, (low - d * b) // a + 1), room // a + 1):
                    yield int(row), Counts(p, d)

    def by_most(self, owned: int) -> tuple[IndexArray, FloatArray]:
        """Rows by the most that `owned` GPUs could carry, and that bound per row."""
        with np.errstate(divide="ignore"):
            per_load = self.first_gpus / self._per_first + self.second_gpus / self._per_second
        most = np.where(self._owned <= owned, (owned - self._surge) / per_load, 0.0)
        order = np.argsort(-most, kind="stable")
        return order[most[order] > 0.0], most

    def full_cells(self, rows: IndexArray, owned: int, floor: float) -> Iterator[tuple[int, Counts]]:
        """Cells that leave no room for another group of the first role and could carry more than `floor`."""
        for row in rows:
            a, b = int(self.first_gpus[row]), int(self.second_gpus[row])
            top = owned - int(self._surge[row])
            for d in range(int(self._second[row]), (top - a) // b + 1) if b else (0,):
                p = (top - d * b) // a
                if p < 1:
                    continue
                bound = min(p * self._per_first[row], d * self._per_second[row] if b else np.inf)
                if bound > floor * (1.0 + CLOSE):
                    yield int(row), Counts(p, d)


def _floor(found: Sequence[Fleet], count: int) -> float:
    """What a plan must surpass to be among the best `count`."""
    return found[-1].worst if len(found) == count else 0.0


def _keep(found: list[Fleet], fleet: Fleet, count: int) -> None:
    """Add `fleet` in its place; equal loads (limited by prefill, say) differ in the last digits only: fewer GPUs, faster."""
    found.append(fleet)
    found.sort(
        key=lambda f: (
            -float(f"{f.worst:.7g}"), f.used, round(f.ttft_ms, 3), round(f.tpot_ms, 4),
            f.family.strategy.value, f.row, f.counts.second,
        )
    )  # fmt: skip
    del found[count:]


def _batched(cells: Iterator[tuple[int, Counts]]) -> Iterator[tuple[IndexArray, list[Counts]]]:
    rows: list[int] = []
    counts: list[Counts] = []
    for row, count in cells:
        rows.append(row)
        counts.append(count)
        if len(rows) == CHUNK_ROWS:
            yield np.array(rows, dtype=np.intp), counts
            rows, counts = [], []
    if rows:
        yield np.array(rows, dtype=np.intp), counts
