"""Rows of (configuration, group counts) along the decode batch: what each carries within the targets, and at a load.

The equations are those of the search (`planner.analytic`); loads are an output of the batch, so nothing is iterated.
Between two batches of the grid every quantity is taken as linear: waits are convex, so this errs to the safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.analytic.space import LOADS
from planner.perf.operators.base import FloatArray

GRID: Final[FloatArray] = np.concatenate([np.geomspace(0.02, 0.8, 10), LOADS])
TINY: Final = 1e-12
IndexArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Quantities of r rows along the batch grid, ``[r, L]``; a load is feasible where every `excess` is at most 0.

    `load`: users in flight or requests per second, over the whole plan. `rate_per_s`: requests finished.
    `excess`: one array per limit, relative (value / limit - 1), named for what binds.
    """

    load: FloatArray
    batch: FloatArray
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    rate_per_s: FloatArray
    in_flight: FloatArray
    excess: dict[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operating:
    """State of r rows at one load each, ``[r]``. `load` is 0 where no load meets the limits; `binding` is what stops more."""

    load: FloatArray
    batch: FloatArray
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    rate_per_s: FloatArray
    in_flight: FloatArray
    binding: tuple[str, ...] = ()


def greatest_load(curve: Curve) -> Operating:
    """The greatest load of each row within all its limits."""
    worst = np.max(np.stack(list(curve.excess.values())), axis=0)
    ok = worst <= 0.0
    index = np.argmax(np.where(ok, curve.load, -1.0), axis=1)
    rows = np.arange(len(index))
    possible = ok[rows, index]
    after = np.minimum(index + 1, curve.load.shape[1] - 1)
    names = list(curve.excess)
    steps = np.empty((len(names), len(index)))
    for k, name in enumerate(names):
        here, there = curve.excess[name][rows, index], curve.excess[name][rows, after]
        rising = there > np.maximum(here, 0.0) + TINY
        steps[k] = np.where(rising, np.maximum(-here, 0.0) / np.maximum(there - here, TINY), np.inf)
    first = np.argmin(steps, axis=0)
    reach = np.minimum(steps[first, rows], 1.0)
    grows = curve.load[rows, after] > curve.load[rows, index]
    reach = np.where(grows & (after > index), reach, 0.0)
    binding = tuple(
        "" if not possible[i] else names[first[i]] if np.isfinite(steps[first[i], i]) else "batch"
        for i in range(len(index))
    )
    found = _between(curve, rows, index, after, reach, binding)
    return Operating(
        load=np.where(possible, found.load, 0.0),
        batch=found.batch,
        ttft_ms=found.ttft_ms,
        tpot_ms=found.tpot_ms,
        rate_per_s=found.rate_per_s,
        in_flight=found.in_flight,
        binding=binding,
    )


def at_load(curve: Curve, load: float) -> Operating:
    """The state of each row at `load`: the first batch that carries it, or the last of the grid."""
    load_so_far = np.maximum.accumulate(curve.load, axis=1)
    reached = load_so_far >= load
    after = np.where(reached.any(axis=1), np.argmax(reached, axis=1), curve.load.shape[1] - 1)
    index = np.maximum(after - 1, 0)
    rows = np.arange(len(index))
    low, high = curve.load[rows, index], curve.load[rows, after]
    share = np.clip((load - low) / np.maximum(high - low, TINY), 0.0, 1.0)
    return _between(curve, rows, index, after, share, ())


def _between(
    curve: Curve,
    rows: IndexArray,
    index: IndexArray,
    after: IndexArray,
    share: FloatArray,
    binding: tuple[str, ...],
) -> Operating:
    def mix(values: FloatArray) -> FloatArray:
        low = values[rows, index]
        result: FloatArray = low + share * (values[rows, after] - low)
        return result

    return Operating(
        load=mix(curve.load),
        batch=mix(np.broadcast_to(curve.batch, curve.load.shape)),
        ttft_ms=mix(curve.ttft_ms),
        tpot_ms=mix(curve.tpot_ms),
        rate_per_s=mix(curve.rate_per_s),
        in_flight=mix(curve.in_flight),
        binding=binding,
    )
