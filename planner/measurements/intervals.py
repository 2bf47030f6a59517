"""Honest intervals: leave-one-out conformal bands with their finite-sample limits, and where they hold."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.domain.calibration import Band, BandKind, Metric, Region
from planner.measurements.predictor import FloatArray

LEVELS: Final = (0.80, 0.90, 0.95)
WIDENING: Final = 2.0  # of a band outside the calibrated region
_EPSILON: Final = 1e-9
_MARGIN: Final = 0.1  # of the range, in each feature, that still counts as inside
_RADIUS_FACTOR: Final = 1.5
_MIN_SCALE: Final = 0.25  # of a log feature that (nearly) never varied


def points_needed(level: float) -> int:
    """Smallest n for which a conformal band of `level` is finite: 4 for 80 %, 9 for 90 %, 19 for 95 %."""
    return math.ceil(level / (1.0 - level) - _EPSILON)


def conformal_half_width(scores: FloatArray, level: float) -> float | None:
    """The ceil((n + 1) level)-th smallest absolute leave-one-out score; None when n is too small for `level`."""
    n = len(scores)
    rank = math.ceil((n + 1) * level - _EPSILON)
    if rank > n:
        return None
    return float(np.sort(np.abs(scores))[rank - 1])


def band(metric: Metric, level: float, *, scores: FloatArray, prior_log_sd: float) -> Band:
    """Conformal band where the sample allows it, else a band of the prior spread, which says so."""
    half = conformal_half_width(scores, level)
    if half is not None:
        return Band(
            metric=metric,
            level=level,
            kind=BandKind.CONFORMAL,
            log_half_width=half,
            needed=points_needed(level),
        )
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    return Band(
        metric=metric,
        level=level,
        kind=BandKind.PRIOR,
        log_half_width=z * prior_log_sd,
        needed=points_needed(level),
    )


def leave_one_out(covariance: FloatArray, targets: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Residual of each group of a Gaussian model when that group is left out.

    `covariance` ``[N, N]`` of the targets ``[N]`` (prior of all effects plus noise); `groups` ``[N]``: the measurement
    an entry belongs to. Exact for linear models: r_i = ([K^-1]_ii)^-1 [K^-1 y]_i with blocks i.
    """
    inverse = np.linalg.inv(covariance)
    weighted = inverse @ targets
    result = np.empty_like(targets)
    for group in np.unique(groups):
        index = np.flatnonzero(groups == group)
        result[index] = np.linalg.solve(inverse[np.ix_(index, index)], weighted[index])
    return result


def region_of(names: tuple[str, ...], features: FloatArray) -> Region:
    """The region measurements with these features ``[n, d]`` speak for."""
    centre = features.mean(axis=0)
    scale = np.maximum(features.std(axis=0), _MIN_SCALE)
    points = (features - centre) / scale
    distances = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))
    np.fill_diagonal(distances, np.inf)
    nearest = distances.min(axis=1)
    radius = _RADIUS_FACTOR * float(nearest.max()) if len(points) > 1 else 1.0
    return Region(
        names=names,
        centre=tuple(map(float, centre)),
        scale=tuple(map(float, scale)),
        points=tuple(tuple(map(float, p)) for p in points),
        low=tuple(map(float, features.min(axis=0))),
        high=tuple(map(float, features.max(axis=0))),
        radius=max(radius, _MIN_SCALE),
    )


def standardised(region: Region, features: FloatArray) -> FloatArray:
    """Features in the region's units."""
    result: FloatArray = (features - np.array(region.centre)) / np.array(region.scale)
    return result


def extrapolates(region: Region, features: FloatArray) -> tuple[tuple[str, ...], ...]:
    """Per configuration the features in which it leaves the region; empty = interpolates.

    A feature counts when it is outside the measured range (with a margin of a tenth of it). A point inside all ranges but far
    from every measurement names the features in which it is furthest from the nearest one.
    """
    low, high = np.array(region.low), np.array(region.high)
    margin = np.maximum(_MARGIN * (high - low), _MARGIN * np.array(region.scale))
    points = np.array(region.points)
    answers: list[tuple[str, ...]] = []
    for raw, x in zip(features, standardised(region, features), strict=True):
        outside = (raw < low - margin) | (raw > high + margin)
        if not outside.any():
            apart = np.abs(points - x)
            distances = np.sqrt((apart**2).sum(axis=1))
            nearest = int(distances.argmin())
            if distances[nearest] > region.radius:
                outside = apart[nearest] >= 0.99 * apart[nearest].max()
        answers.append(tuple(n for n, o in zip(region.names, outside, strict=True) if o))
    return tuple(answers)
