"""Every (configuration, load) point of a problem as flat arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from planner.analytic.closed_loop import (
    DecodePoints,
    PrefillPoints,
    aggregated_points,
    decode_points,
    prefill_points,
)
from planner.analytic.front import undominated_rows
from planner.analytic.operating import PREFILL_SATURATION, prefill_tokens_held, prefill_ttft_ms
from planner.analytic.stack import RoleStack
from planner.domain.workload import Workload
from planner.perf.operators.base import FloatArray

IntArray = NDArray[np.int32]
SmallFloats = NDArray[np.float32] | FloatArray
CHUNK_POINTS = 150_000  # bounds the memory of the pairing's temporaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Flat arrays of equal length. `first` and `second` index configurations: (prefill, decode) or (aggregated, -1).

    `output_tok_s` is the whole plan's; `concurrency` counts requests in flight over the whole plan.
    """

    first: IntArray
    second: IntArray
    first_groups: IntArray
    second_groups: IntArray
    batch: SmallFloats
    ttft_ms: SmallFloats
    tpot_ms: SmallFloats
    output_tok_s: SmallFloats
    concurrency: SmallFloats
    utilisation: SmallFloats
    gpus: IntArray

    def __post_init__(self) -> None:
        """Store compactly: a large space has millions of points."""
        for f in fields(self):
            wanted = np.int32 if f.type == "IntArray" else np.float32
            object.__setattr__(self, f.name, getattr(self, f.name).astype(wanted, copy=False))

    def __len__(self) -> int:
        return int(self.batch.size)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Points:
        """The points at `index`."""
        return Points(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @staticmethod
    def empty() -> Points:
        """No points."""
        zero = np.empty(0, dtype=np.int32)
        none = np.empty(0, dtype=np.float64)
        return Points(
            first=zero, second=zero, first_groups=zero, second_groups=zero, batch=none, ttft_ms=none, tpot_ms=none,
            output_tok_s=none, concurrency=none, utilisation=none, gpus=zero,
        )  # fmt: skip

    @staticmethod
    def concatenate(parts: Sequence[Points]) -> Points:
        """All points of `parts`, in order."""
        return Points(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Points)})


def aggregated_plan_points(
    stack: RoleStack, workload: Workload, loads: FloatArray, gpus: int
) -> tuple[Points, int]:
    """Aggregated plans: as many groups of each configuration as the GPUs hold.

    Returns the reachable points and the number priced.
    """
    result = aggregated_points(stack, workload, loads[None, :])
    groups = np.floor(gpus / stack.group_gpus).astype(np.int32)
    shape = result.batch.shape
    ok = result.feasible & (groups > 0)
    rows = np.broadcast_to(np.arange(len(stack), dtype=np.int32)[:, None], shape)
    count = np.broadcast_to(groups, shape)
    ranks = np.broadcast_to(stack.ranks * groups, shape)
    used = np.broadcast_to((stack.group_gpus * groups).astype(np.int32), shape)
    rate = result.rate_per_ms * ranks
    points = Points(
        first=rows[ok],
        second=np.full(int(ok.sum()), -1, dtype=np.int32),
        first_groups=count[ok],
        second_groups=np.zeros(int(ok.sum()), dtype=np.int32),
        batch=result.batch[ok],
        ttft_ms=result.ttft_ms[ok],
        tpot_ms=result.tpot_ms[ok],
        output_tok_s=(rate * workload.osl * 1000.0)[ok],
        concurrency=(result.concurrency * ranks)[ok],
        utilisation=result.prefill_share[ok],
        gpus=used[ok],
    )
    return points, len(stack) * len(loads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What decides whether and how a prefill and a decode configuration combine."""

    legal: Callable[[int, int], bool]
    transfer_ms: Callable[[int, int], float]
    prefill_gpus: int  # of the prefill pool
    decode_gpus: int  # of the decode pool; the same pool when `shared`
    shared: bool


def prune_prefill(stack: RoleStack, points: PrefillPoints, keys: Sequence[object]) -> NDArray[np.intp]:
    """Prefill configurations that no other of the same key and size beats in capacity and both service times."""
    costs = np.column_stack(
        [points.idle_ms, points.busy_ms, -points.capacity_per_ms * stack.ranks, -stack.kv_tokens]
    )
    return _prune(keys, costs)


def prune_decode(points: DecodePoints, keys: Sequence[object]) -> NDArray[np.intp]:
    """Decode configurations that no other of the same key and size beats in TPOT at every load."""
    return _prune(keys, np.where(points.feasible, points.tpot_ms, np.inf))


def _prune(keys: Sequence[object], costs: FloatArray) -> NDArray[np.intp]:
    groups: dict[object, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    kept: list[int] = []
    for members in groups.values():
        rows = np.array(members)
        usable = np.where(np.isfinite(costs[rows]), costs[rows], 1e30)
        kept.extend(int(i) for i in rows[undominated_rows(usable)])
    return np.array(sorted(kept), dtype=np.intp)


def disaggregated_plan_points(
    prefill: RoleStack, decode: RoleStack, workload: Workload, loads: FloatArray, pairing: Pairing
) -> tuple[Points, int, bool]:
    """Disaggregated plans: every legal pair, every pair of group counts that the GPUs hold, every decode load.

    Returns the reachable points, the number priced, and whether the group counts of a very large pool were sampled. A
    point is not reachable where the prefill side cannot keep up (utilisation near 1) or a KV pool cannot hold the
    requests in flight.
    """
    pre = prefill_points(prefill, workload)
    dec = decode_points(decode, workload, loads[None, :])
    combos, sampled = _combinations(prefill, decode, pairing, len(loads))
    parts: list[Points] = []
    step = max(CHUNK_POINTS // len(loads), 1)
    for start in range(0, len(combos.first), step):
        part = combos.part(start, start + step)
        parts.append(_pair_points(prefill, pre, decode, dec, workload, part))
    return (Points.concatenate(parts) if parts else Points.empty()), len(combos.first) * len(loads), sampled


@dataclass(frozen=True, slots=True)
class _Combinations:
    """Configuration pairs with their group counts, as equal-length arrays."""

    first: IntArray
    second: IntArray
    n_first: IntArray
    n_second: IntArray
    transfer_ms: FloatArray

    def part(self, start: int, stop: int) -> _Combinations:
        return _Combinations(*(getattr(self, f.name)[start:stop] for f in fields(self)))


def _combinations(
    prefill: RoleStack, decode: RoleStack, pairing: Pairing, loads: int
) -> tuple[_Combinations, bool]:
    """Every legal pair with its group counts, and whether the counts of a very large pool were sampled."""
    pairs = [(p, d) for p in range(len(prefill)) for d in range(len(decode)) if pairing.legal(p, d)]
    sizes = [(int(prefill.group_gpus[p, 0]), int(decode.group_gpus[d, 0])) for p, d in pairs]
    counts, sampled = _counts_by_size(sizes, pairing, loads)
    times = np.array([len(counts[size]) for size in sizes], dtype=np.intp)
    index = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    moved = np.array([pairing.transfer_ms(p, d) for p, d in pairs], dtype=np.float64)
    groups = np.array([c for size in sizes for c in counts[size]], dtype=np.int32).reshape(-1, 2)
    return _Combinations(
        np.repeat(index[:, 0], times),
        np.repeat(index[:, 1], times),
        groups[:, 0],
        groups[:, 1],
        np.repeat(moved, times),
    ), sampled


def _counts_by_size(
    sizes: Sequence[tuple[int, int]], pairing: Pairing, loads: int
) -> tuple[dict[tuple[int, int], list[tuple[int, int]]], bool]:
    """Group counts per pair of group sizes, sampled as coarsely as keeps the space within `MAX_POINTS`."""
    often = Counter(sizes)
    full = {size: group_counts(*size, pairing) for size in often}
    counts = full
    for limit in COUNT_LIMITS:
        counts = {size: _thin(c, limit) for size, c in full.items()}
        if sum(often[size] * len(c) for size, c in counts.items()) * loads <= MAX_POINTS:
            break
    return counts, any(len(counts[size]) < len(c) for size, c in full.items())


def group_counts(prefill_gpus: int, decode_gpus: int, pairing: Pairing) -> list[tuple[int, int]]:
    """Pairs (prefill groups, decode groups) that fit, by decode groups; one shared pool is divided between them."""
    most = pairing.decode_gpus // decode_gpus
    if not pairing.shared:
        return [
            (p, d) for d in range(1, most + 1) for p in range(1, pairing.prefill_gpus // prefill_gpus + 1)
        ]
    return [
        (p, d)
        for d in range(1, most + 1)
        for p in range(1, (pairing.decode_gpus - d * decode_gpus) // prefill_gpus + 1)
    ]


MAX_POINTS = 3_500_000  # keeps a search of a very large pool below about 500 MiB
COUNT_LIMITS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # count pairs kept per pair of configurations


def _thin(counts: list[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """At most `limit` count pairs: those that leave no room for another prefill group first, the rest evenly.

    More prefill groups never raise TTFT, so the first kind holds the best plan of each decode count; the others only
    save GPUs.
    """
    if len(counts) <= limit:
        return counts
    largest: dict[int, tuple[int, int]] = {}
    for p, d in counts:
        if d not in largest or p > largest[d][0]:
            largest[d] = (p, d)
    edge = list(largest.values())
    wanted = limit // 2 if limit == COUNT_LIMITS[0] else limit
    if len(edge) > wanted:
        picks = np.unique(np.geomspace(1, len(edge), wanted).astype(int) - 1)
        edge = [edge[i] for i in picks]
    left = limit - len(edge) if wanted == limit else limit // 2
    inner = [counts[i] for i in np.unique(np.linspace(0, len(counts) - 1, left).astype(int))]
    return sorted(set(edge) | set(inner))


def _pair_points(
    prefill: RoleStack,
    pre: PrefillPoints,
    decode: RoleStack,
    dec: DecodePoints,
    workload: Workload,
    part: _Combinations,
) -> Points:
    first, second, n_first, n_second = part.first, part.second, part.n_first, part.n_second
    transfer = part.transfer_ms
    demand = dec.rate_per_ms[second] * decode.ranks[second] * n_second[:, None]
    servers = prefill.ranks[first] * n_first[:, None]
    utilisation = demand / (pre.capacity_per_ms[first] * servers)
    in_prefill_ms = prefill_ttft_ms(pre.rows(first), utilisation, servers)
    ttft = in_prefill_ms + transfer[:, None] + dec.admission_ms[second]
    concurrency = dec.batch[second] * decode.ranks[second] * n_second[:, None] + demand * ttft
    before = in_prefill_ms + transfer[:, None]
    held = prefill_tokens_held(workload, rate_per_ms=demand, before_ms=before, concurrency=concurrency)
    ok = (
        dec.feasible[second]
        & (utilisation < PREFILL_SATURATION)
        & (held <= prefill.kv_tokens[first] * servers)
    )
    shape = ok.shape
    gpus = prefill.group_gpus[first] * n_first[:, None] + decode.group_gpus[second] * n_second[:, None]
    return Points(
        first=np.broadcast_to(first[:, None], shape)[ok],
        second=np.broadcast_to(second[:, None], shape)[ok],
        first_groups=np.broadcast_to(n_first[:, None], shape)[ok],
        second_groups=np.broadcast_to(n_second[:, None], shape)[ok],
        batch=dec.batch[second][ok],
        ttft_ms=ttft[ok],
        tpot_ms=dec.tpot_ms[second][ok],
        output_tok_s=(demand * workload.osl * 1000.0)[ok],
        concurrency=concurrency[ok],
        utilisation=utilisation[ok],
        gpus=np.broadcast_to(gpus.astype(np.int32), shape)[ok],
    )
