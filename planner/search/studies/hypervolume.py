"""Two maximised objectives: front, hypervolume, what a point would add, and how far it is from the front."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.analytic.front import pareto_indexes
from planner.perf.operators.base import FloatArray

_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class Front:
    """Non-dominated points above a reference point, by ascending x (so descending y), with cumulated areas.

    `area[i]` is the dominated area left of ``x[i - 1]`` (0 for i = 0), measured from `reference`.
    """

    x: FloatArray
    y: FloatArray
    area: FloatArray
    reference: tuple[float, float]

    @staticmethod
    def of(points: FloatArray, reference: tuple[float, float]) -> Front:
        """Front of `points` ``[n, 2]``; points not above `reference` in both coordinates add nothing and are left out."""
        above = points[(points[:, 0] > reference[0]) & (points[:, 1] > reference[1])]
        chosen = above[pareto_indexes(above[:, 0], above[:, 1])][::-1]
        x, y = chosen[:, 0].copy(), chosen[:, 1].copy()
        widths = np.diff(np.concatenate([[reference[0]], x]))
        area = np.concatenate([[0.0], np.cumsum(widths * (y - reference[1]))])
        return Front(x=x, y=y, area=area, reference=reference)

    @property
    def hypervolume(self) -> float:
        """Area dominated by the front above the reference point."""
        return float(self.area[-1])

    def __len__(self) -> int:
        return len(self.x)

    def gains(self, points: FloatArray) -> FloatArray:
        """Area each point of ``[..., 2]`` would add on its own; O(log n) per point.

        A point adds (py - r)(px - x*) less what lies below the staircase between x* and px, where x* is the x at which the
        staircase falls below py.
        """
        rx, ry = self.reference
        px, py = points[..., 0], points[..., 1]
        left = np.concatenate([[rx], self.x])
        height = np.concatenate([self.y, [ry]])
        falls = left[np.searchsorted(-self.y, -py, side="right")]
        k = np.searchsorted(self.x, px, side="left")
        below = self.area[k] + (px - left[k]) * (height[k] - ry)
        j = np.searchsorted(self.x, falls, side="left")
        before = self.area[j] + (falls - left[j]) * (height[j] - ry)
        gain = (py - ry) * (px - falls) - (below - before)
        result: FloatArray = np.where((px > falls) & (py > ry), np.maximum(gain, 0.0), 0.0)
        return result

    def log_distance(self, points: FloatArray) -> FloatArray:
        """Log factor by which both coordinates of each point ``[n, 2]`` must grow to reach the front; 0 on or beyond it."""
        if len(self) == 0:
            return np.zeros(len(points))
        fx, fy = np.log(self.x), np.log(self.y)
        result = np.empty(len(points))
        for start in range(0, len(points), _CHUNK):
            part = np.log(np.maximum(points[start : start + _CHUNK], 1e-300))
            gap = np.minimum(fx[None, :] - part[:, :1], fy[None, :] - part[:, 1:])
            result[start : start + _CHUNK] = gap.max(axis=1)
        return np.maximum(result, 0.0)


def hypervolume(points: FloatArray, reference: tuple[float, float]) -> float:
    """Area that `points` ``[n, 2]`` dominate above `reference`."""
    return Front.of(points, reference).hypervolume
