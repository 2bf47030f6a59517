"""Samples of a table to a `Surface`, and the held-out error of doing so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.perf.operators.base import BoolArray, FloatArray
from planner.perf.operators.fitted import grid_residual
from planner.perf.operators.surface import Surface, TableSource, kriging_weights, quantise

SEED: Final = 20260829
HELD_OUT: Final = 0.2
_WHOLE_SHAPES: Final = 10  # families with fewer shapes hold out single rows instead
_FILL_REACH: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Rows of one family: shape `features` [n, d], `loads` [n, 1 or 2], measured and reference us.

    `offset_us`: part of the measured time that is not the operator (projections around an attention core).
    """

    key: str
    features: FloatArray
    loads: FloatArray
    measured_us: FloatArray
    reference_us: FloatArray
    offset_us: FloatArray
    source: TableSource
    axes: tuple[FloatArray, ...]

    def take(self, rows: BoolArray) -> Samples:
        """Return the chosen rows."""
        return replace(
            self,
            features=self.features[rows],
            loads=self.loads[rows],
            measured_us=self.measured_us[rows],
            reference_us=self.reference_us[rows],
            offset_us=self.offset_us[rows],
        )

    @property
    def residual(self) -> FloatArray:
        """Log of operator time over reference; times are at least a fifth of the reference floor."""
        own = np.maximum(self.measured_us - self.offset_us, 0.05 * self.measured_us)
        return np.log(own / self.reference_us)


def _line(x: FloatArray, y: FloatArray, at: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Interpolate medians of equal loads at `at`; held beyond the ends, where the mask is False."""
    xs, inverse = np.unique(x, return_inverse=True)
    ys = np.bincount(inverse, weights=y) / np.bincount(inverse)
    covered = (at >= xs[0] - 1e-6) & (at <= xs[-1] + 1e-6)
    return np.interp(at, xs, ys), covered


def _one_shape(
    loads: FloatArray, r: FloatArray, axes: tuple[FloatArray, ...]
) -> tuple[FloatArray, BoolArray]:
    logs = np.log2(loads)
    grids = [np.log2(a) for a in axes]
    if len(axes) == 1:
        return _line(logs[:, 0], r, grids[0])
    batches = np.unique(logs[:, 0])
    rows = np.empty((batches.size, axes[1].size))
    known = np.empty((batches.size, axes[1].size), dtype=np.bool_)
    for i, b in enumerate(batches):
        at = logs[:, 0] == b
        rows[i], known[i] = _line(logs[at, 1], r[at], grids[1])
    values = np.empty((axes[0].size, axes[1].size))
    covered = np.empty(values.shape, dtype=np.bool_)
    for j in range(axes[1].size):
        good = known[:, j]
        if good.any():
            values[:, j], covered[:, j] = _line(batches[good], rows[good, j], grids[0])
        else:
            values[:, j], _ = _line(batches, rows[:, j], grids[0])
            covered[:, j] = False
    return values, covered


def fit_surface(samples: Samples) -> Surface:
    """Grid every shape and fill what a shape lacks from its neighbours."""
    shapes, inverse = np.unique(np.round(samples.features, 6), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(shapes) + 1))
    r = samples.residual
    grid = tuple(a.size for a in samples.axes)
    values = np.empty((len(shapes), *grid))
    covered = np.empty((len(shapes), *grid), dtype=np.bool_)
    for s in range(len(shapes)):
        rows = order[bounds[s] : bounds[s + 1]]
        values[s], covered[s] = _one_shape(samples.loads[rows], r[rows], samples.axes)
    _fill(shapes, values, covered)
    return Surface(shapes, samples.axes, quantise(values), covered, samples.source)


def _fill(shapes: FloatArray, values: FloatArray, covered: BoolArray) -> None:
    """Replace held-over cells by the neighbours' covered values, where at least two are near."""
    original = values.copy()
    for s in np.flatnonzero(~covered.reshape(len(shapes), -1).all(axis=1)):
        gaps = np.sqrt(((shapes - shapes[s]) ** 2).sum(axis=1))
        near = np.flatnonzero((gaps <= _FILL_REACH) & (gaps > 0))
        near = near[np.argsort(gaps[near], kind="stable")][:12]
        if near.size < 2:
            continue
        for cell in zip(*np.nonzero(~covered[s]), strict=True):
            have = near[covered[(near, *cell)]]
            if have.size >= 2:
                w = kriging_weights(shapes[have], shapes[s])
                values[(s, *cell)] = float(w @ original[(have, *cell)])


def predict_us(surface: Surface, samples: Samples) -> FloatArray:
    """Measured quantity as the surface predicts it for every row of `samples`."""
    out = np.empty(len(samples.measured_us))
    shapes, inverse = np.unique(np.round(samples.features, 6), axis=0, return_inverse=True)
    for s, point in enumerate(shapes):
        rows = np.flatnonzero(inverse.ravel() == s)
        loads = tuple(samples.loads[rows, i] for i in range(samples.loads.shape[1]))
        out[rows] = samples.reference_us[rows] * np.exp(
            grid_residual(surface, surface.residual(point), loads)
        )
    return out + samples.offset_us


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Absolute relative errors on rows that were not fitted; `unit` is what was held out."""

    errors: FloatArray
    unit: str


def held_out(samples: Samples) -> HeldOut:
    """Fit on a random four fifths (seeded) and predict the rest."""
    rng = np.random.default_rng(SEED)
    shapes, inverse = np.unique(np.round(samples.features, 6), axis=0, return_inverse=True)
    if len(shapes) >= _WHOLE_SHAPES:
        out = (rng.random(len(shapes)) < HELD_OUT)[inverse.ravel()]
        unit = "shapes"
    else:
        out = rng.random(len(samples.measured_us)) < HELD_OUT
        unit = "rows"
    if not out.any() or out.all():
        return HeldOut(np.empty(0), unit)
    test = samples.take(out)
    predicted = predict_us(fit_surface(samples.take(~out)), test)
    return HeldOut(np.abs(predicted / test.measured_us - 1.0), unit)
