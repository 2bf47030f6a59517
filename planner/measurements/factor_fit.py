"""Hierarchical fit of the calibration factors: robust damped Gauss-Newton on the logs of TPOT, output rate and TTFT.

A cell (engine, GPU family, format) adds up three nodes of a tree, each with a Gaussian prior that narrows downwards,
so that cells with few rows lean on their engine. Rows that disagree strongly (mislabelled, or speculative decoding the
source did not record) lose weight (Cauchy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.measurements.points import Metric, Point, PointMode
from planner.measurements.pricing import PointPricer, Prepared, RawPrediction
from planner.perf.calibration import FACTORS, FactorPack, cell_of
from planner.perf.operators.base import FloatArray

METRICS: Final = (Metric.TPOT, Metric.OUTPUT, Metric.TTFT)
SCALES: Final = np.array([0.12, 0.15, 0.35])  # residual size per metric at which a row starts to lose weight
LEVEL_SD: Final = (1.0, 0.6, 0.4)  # of engine, family and format nodes, times the factor's prior
STEP: Final = 0.1
LARGEST_MOVE: Final = 0.6  # per iteration and node
ROUNDS: Final = 8

Nodes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Linearised:
    """Rows around an optimum: residual logs ``[n, 3]``, Jacobian ``[n, 3, k]``, node indexes ``[n, 3]``, weights ``[n]``."""

    residual: FloatArray
    jacobian: FloatArray
    rows: Nodes
    weight: FloatArray
    levels: NDArray[np.intp]


def node_names(cell: tuple[str, str, str]) -> tuple[str, str, str]:
    """Tree nodes of a cell, from the engine down."""
    return cell[0], f"{cell[0]}/{cell[1]}", f"{cell[0]}/{cell[1]}/{cell[2]}"


def measured_logs(points: Sequence[Point]) -> FloatArray:
    """``[n, 3]`` logs in the order of `METRICS`; NaN where a row does not report one."""
    values = np.array([[p.measured.get(m, np.nan) for m in METRICS] for p in points], dtype=np.float64)
    result: FloatArray = np.log(values)
    return result


def predicted_logs(answers: Sequence[RawPrediction]) -> FloatArray:
    """``[n, 3]`` logs in the order of `METRICS`."""
    result: FloatArray = np.log(np.array([[a.value(m) for m in METRICS] for a in answers], dtype=np.float64))
    return result


def row_weight(point: Point) -> float:
    """1 for rows that decide factors; 0 when flagged, measured in one phase only, or of a source that is unsure."""
    whole = point.config.mode in {PointMode.AGGREGATED, PointMode.DISAGGREGATED}
    return float(point.scored and whole and not point.doubtful)


class FactorFit:
    """Fits factors for the rows of `points`, all of which `pricer` can price."""

    def __init__(self, pricer: PointPricer, points: Sequence[Point]) -> None:
        self.pricer = pricer
        self.points = points
        self.cells = [
            cell_of(p.subject.model, p.subject.pool.gpu, p.config.dialect) for p in self._prepared()
        ]
        self.names = sorted({n for c in self.cells for n in node_names(c)})
        index = {n: i for i, n in enumerate(self.names)}
        self.rows = np.array([[index[n] for n in node_names(c)] for c in self.cells])
        self.levels = np.array([n.count("/") for n in self.names])
        self.weight = np.array([row_weight(p) for p in points])
        self.measured = measured_logs(points)

    def _prepared(self) -> list[Prepared]:
        return [self.pricer.prepare(p.config) for p in self.points]

    def predict(self, nodes: FloatArray, bump: tuple[int, float] | None = None) -> list[RawPrediction]:
        """Prices with node values ``[nodes, k]``; `bump` adds to one factor of every cell."""
        values = nodes.copy()
        if bump is not None:
            values[self.levels == 0, bump[0]] += bump[1]
        pack = self.pack(values)
        answers = PointPricer.sharing(self.pricer, factors=pack).price(self.points)
        return [a for a in answers if isinstance(a, RawPrediction)]

    def pack(self, nodes: FloatArray) -> FactorPack:
        """Node values as a pack."""
        factors = list(FACTORS)
        counted: dict[str, int] = {}
        for cell, weight in zip(self.cells, self.weight, strict=True):
            for name in node_names(cell):
                counted[name] = counted.get(name, 0) + int(weight > 0)
        return FactorPack(
            nodes={
                n: {f: round(float(v), 4) for f, v in zip(factors, row, strict=True) if abs(v) >= 5e-5}
                for n, row in zip(self.names, nodes, strict=True)
            },
            rows=counted,
        )

    def run(self, *, rounds: int = ROUNDS, start: FloatArray | None = None) -> tuple[FloatArray, Linearised]:
        """Node values at the optimum and the rows linearised there."""
        nodes = np.zeros((len(self.names), len(FACTORS))) if start is None else start.copy()
        best: tuple[float, FloatArray, Linearised] | None = None
        for _ in range(rounds):
            at = self.linearise(nodes)
            loss = robust_loss(at)
            if best is None or loss < best[0]:
                best = (loss, nodes, at)
            move = np.clip(solve(at, nodes) - nodes, -LARGEST_MOVE, LARGEST_MOVE)
            nodes = nodes + move
            if np.abs(move).max() < 0.02:
                break
        if best is None:
            msg = "at least one round is needed"
            raise ValueError(msg)
        return best[1], best[2]

    def linearise_base(self) -> FloatArray:
        """Residual logs of the uncalibrated model."""
        answers = PointPricer.sharing(self.pricer, factors=None).price(self.points)
        result: FloatArray = self.measured - predicted_logs(
            [a for a in answers if isinstance(a, RawPrediction)]
        )
        return result

    def linearise(self, nodes: FloatArray) -> Linearised:
        """Residuals and their finite-difference Jacobian at `nodes`."""
        base = predicted_logs(self.predict(nodes))
        jacobian = np.zeros((*base.shape, len(FACTORS)))
        for k in range(len(FACTORS)):
            jacobian[:, :, k] = (predicted_logs(self.predict(nodes, (k, STEP))) - base) / STEP
        # a load that crosses the admission limit jumps; its slope says nothing about the factor
        jacobian = np.clip(np.nan_to_num(jacobian), -2.0, 2.0)
        return Linearised(self.measured - base, jacobian, self.rows, self.weight, self.levels)


def robust_loss(at: Linearised) -> float:
    """Sum of the Cauchy losses of the rows at this point."""
    scaled = np.where(np.isfinite(at.residual), at.residual, 0.0) / (2.0 * SCALES)
    return float((at.weight[:, None] * np.log1p(scaled**2)).sum())


def solve(at: Linearised, nodes: FloatArray, *, use: NDArray[np.bool_] | None = None) -> FloatArray:
    """Node values that minimise the robust penalised residuals of the linear model, using the rows of `use`."""
    count, factors = nodes.shape
    prior = np.array([f.prior_log_sd for f in FACTORS.values()])
    weight = at.weight if use is None else at.weight * use
    known = np.isfinite(at.residual)
    residual = np.where(known, at.residual, 0.0)
    found = nodes.copy()
    cells, member = np.unique(at.rows, axis=0, return_inverse=True)
    member = member.reshape(-1)
    for _ in range(10):
        left = residual - np.einsum("nmk,nk->nm", at.jacobian, (found - nodes)[at.rows].sum(axis=1))
        robust = np.where(known, weight[:, None] / (1.0 + (left / (2.0 * SCALES)) ** 2) / SCALES**2, 0.0)
        matrix = np.zeros((count, factors, count, factors))
        right = np.zeros((count, factors))
        for index, cell in enumerate(cells):
            own = member == index
            j, w = at.jacobian[own], robust[own]
            curvature = np.einsum("nm,nmk,nml->kl", w, j, j)
            target = residual[own] + np.einsum("nmk,k->nm", j, nodes[cell].sum(axis=0))
            gradient = np.einsum("nm,nmk->k", w * target, j)
            for a in cell:
                right[a] += gradient
                for b in cell:
                    matrix[a, :, b, :] += curvature
        for i in range(count):
            sd = prior * LEVEL_SD[at.levels[i]]
            matrix[i, :, i, :] += np.diag(1.0 / sd**2)
        size = count * factors
        best = np.linalg.solve(matrix.reshape(size, size), right.reshape(size))
        found = np.asarray(best, dtype=np.float64).reshape(count, factors)
    return found


def shifted(at: Linearised, nodes: FloatArray, other: FloatArray) -> FloatArray:
    """Residual logs ``[n, 3]`` with node values `other` instead of `nodes`, to first order."""
    result: FloatArray = at.residual - np.einsum(
        "nmk,nk->nm", at.jacobian, (other - nodes)[at.rows].sum(axis=1)
    )
    return result


def with_rows(at: Linearised, weight: FloatArray) -> Linearised:
    """The same rows under other weights."""
    return replace(at, weight=weight)


def logs_of(pack: FactorPack, cell: tuple[str, str, str]) -> Mapping[str, float]:
    """Log-factors of one cell."""
    return pack.cell(*cell).logs
