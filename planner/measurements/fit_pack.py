"""Fit the shipped calibration pack: ``python -m planner.measurements.fit_pack POINTS.csv``.

Three layers, each judged with whole (model, GPU, engine) groups left out: physical factors per engine and GPU family, a
Gaussian process on what they leave, and interval widths that follow from how far a row lies from measured ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.measurements.factor_fit import METRICS, FactorFit, Linearised, shifted, solve
from planner.measurements.points import Point, PointMode, read_points
from planner.measurements.pricing import PointPricer, RawPrediction
from planner.measurements.territory import place_of
from planner.perf.calibration import FACTORS, TRANSFER_STRENGTH, pack_folder
from planner.perf.learned import (
    FEATURES,
    NOISE,
    TOTAL_AMPLITUDE,
    Learned,
    Places,
    covariance,
    places_of,
    save_learned,
)
from planner.perf.operators.base import FloatArray

METRIC_SCALE: Final = (1.0, 1.0, 4.0)  # variance of TTFT residuals relative to TPOT's
METRIC_NOISE: Final = (1.0, 1.0, 6.0)
LARGEST_RESIDUAL: Final = 1.2  # in the logarithm; beyond it a row is mislabelled rather than informative
RANDOM_FOLDS: Final = 10
SEED: Final = 20261129
LEVEL: Final = 0.8
BAND_BINS: Final = 8
SMALLEST_BIN: Final = 10
COVERAGE_FOLDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidated:
    """Predictions of left-out rows: log residuals ``[n, 3]`` after all layers and after factors only; closeness ``[n]``."""

    residual: FloatArray
    factors_only: FloatArray
    closeness: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFit:
    """Everything a fit gives."""

    points: tuple[Point, ...]
    keep: NDArray[np.bool_]
    nodes: FloatArray
    fit: FactorFit
    at: Linearised
    places: Places
    learned: Learned
    grouped: CrossValidated
    random: CrossValidated
    strict: CrossValidated
    uncalibrated: FloatArray

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Rows that count in accuracy figures."""
        return np.array([p.scored and not p.doubtful for p in self.points]) & self.keep

    @property
    def phase(self) -> NDArray[np.str_]:
        """Each row's phase."""
        return np.array([p.config.mode.value for p in self.points])

    @property
    def below_saturation(self) -> NDArray[np.bool_]:
        """Rows whose load the model admits in full."""
        return np.asarray(self.places.numbers[:, FEATURES.index("surplus")] <= 0.05)


def group_of(point: Point) -> str:
    """What grouped cross-validation leaves out together."""
    return f"{point.config.model}|{point.config.gpu}|{point.config.dialect}"


def fit_pack(path: Path, *, log: bool = True) -> PackFit:
    """Fit all layers on the rows of `path`."""
    pricer = PointPricer()
    points = read_points(path).points
    answers = pricer.price(points)
    priced = [
        (p, a)
        for p, a in zip(points, answers, strict=True)
        if isinstance(a, RawPrediction) and p.config.decode
    ]
    rows = unique_rows([p for p, _ in priced])
    fit = FactorFit(pricer, rows)
    whole = {PointMode.AGGREGATED, PointMode.DISAGGREGATED}
    keep = np.array([p.scored and p.config.mode in whole for p in rows])
    started = time.monotonic()
    nodes, at = fit.run()
    if log:
        _say(f"{len(rows)} distinct rows, factors in {time.monotonic() - started:.0f} s")
    answers_at = fit.predict(nodes)
    subjects = [pricer.prepare(p.config).subject for p in rows]
    places = places_of([place_of(p, a, s) for p, a, s in zip(rows, answers_at, subjects, strict=True)])
    kernel = covariance(places, places)
    names = np.array([group_of(p) for p in rows])
    widths = [[w.group_gpus for w in (p.config.prefill, p.config.decode) if w is not None] for p in rows]
    reach = Reach(
        places.labels["family"], places.labels["checkpoint"], np.array([float(max(w)) for w in widths])
    )
    grouped = cross_validate(at, nodes, kernel, keep, names, reach)
    folds = np.random.default_rng(SEED).integers(0, RANDOM_FOLDS, len(rows)).astype(np.str_)
    random = cross_validate(at, nodes, kernel, keep, folds, reach)
    twins = np.array(
        [
            f"{c}|{p.config.gpu}|{p.config.dialect}"
            for c, p in zip(places.labels["checkpoint"], rows, strict=True)
        ]
    )
    strict = cross_validate(at, nodes, kernel, keep, twins, reach)
    learned = _learn(places, kernel, at.residual, keep)
    base = fit.linearise_base()
    return PackFit(
        points=tuple(rows), keep=keep, nodes=nodes, fit=fit, at=at, places=places, learned=learned,
        grouped=grouped, random=random, strict=strict, uncalibrated=base,
    )  # fmt: skip


def unique_rows(points: Sequence[Point]) -> list[Point]:
    """Rows without repetitions: sources overlap, and a row next to its own copy would flatter every score."""
    seen: set[object] = set()
    found: list[Point] = []
    for p in points:
        key = (p.config, p.load, tuple(round(v, 3) for _, v in sorted(p.measured.items()) if v))
        short = (
            p.config,
            p.load,
            round(p.measured.get(METRICS[0], 0.0), 2),
            round(p.measured.get(METRICS[2], 0.0), 1),
        )
        if key in seen or short in seen:
            continue
        seen |= {key, short}
        found.append(p)
    return found


@dataclass(frozen=True, slots=True)
class Reach:
    """What decides how far factors are believed for each row: engine and GPU family, checkpoint, widest group."""

    place: NDArray[np.str_]
    checkpoint: NDArray[np.str_]
    width: FloatArray

    def strength(self, held: NDArray[np.bool_], known: NDArray[np.bool_]) -> FloatArray:
        """Share of the factors that `FactorPack.cell` grants the `held` rows when only `known` ones were measured."""
        out = np.full(int(held.sum()), TRANSFER_STRENGTH)
        for n, i in enumerate(np.flatnonzero(held)):
            here = known & (self.place == self.place[i])
            seen = here.any() and (self.checkpoint[here] == self.checkpoint[i]).any()
            if seen and self.width[i] <= self.width[here].max():
                out[n] = 1.0
        return out


def cross_validate(
    at: Linearised,
    nodes: FloatArray,
    kernel: FloatArray,
    keep: NDArray[np.bool_],
    folds: NDArray[np.str_],
    reach: Reach | None = None,
) -> CrossValidated:
    """Predict every fold from the others, factors re-solved without it. One matrix inverse serves all folds.

    With `reach`, factors of left-out rows fade as the pack would fade them.
    """
    n = len(folds)
    out = np.full((n, 3), np.nan)
    factors_only = np.full((n, 3), np.nan)
    closeness = np.zeros(n)
    inverses = [_inverse(kernel, keep & np.isfinite(at.residual[:, m]), m) for m in range(3)]
    for fold in np.unique(folds[keep]):
        left = folds == fold
        other_nodes = solve(at, nodes, use=~left)
        without = shifted(at, nodes, other_nodes)
        if reach is not None:
            lost = 1.0 - reach.strength(left, (at.weight > 0) & ~left)
            total = other_nodes[at.rows[left]].sum(axis=1)
            without[left] += np.einsum("nmk,nk->nm", at.jacobian[left], total * lost[:, None])
        factors_only[left] = without[left]
        out[left] = without[left]
        for m, (rows, inverse) in enumerate(inverses):
            y = np.clip(
                np.where(np.isfinite(without[rows, m]), without[rows, m], 0.0),
                -LARGEST_RESIDUAL,
                LARGEST_RESIDUAL,
            )
            held = np.flatnonzero(left[rows])
            if not held.size:
                continue
            other = np.flatnonzero(~left[rows])
            # block inverse: the mean of the held rows given the others
            mean = -np.linalg.solve(inverse[np.ix_(held, held)], inverse[np.ix_(held, other)] @ y[other])
            out[rows[held], m] -= mean
        use = np.flatnonzero(keep & ~left)
        closeness[left] = kernel[np.ix_(np.flatnonzero(left), use)].max(axis=1) / TOTAL_AMPLITUDE
    return CrossValidated(residual=out, factors_only=factors_only, closeness=closeness)


def _inverse(kernel: FloatArray, use: NDArray[np.bool_], metric: int) -> tuple[NDArray[np.intp], FloatArray]:
    rows = np.flatnonzero(use)
    noise = NOISE * METRIC_NOISE[metric] / METRIC_SCALE[metric]
    inverse = np.linalg.inv(kernel[np.ix_(rows, rows)] + noise * np.eye(len(rows)))
    return rows, np.asarray(inverse, dtype=np.float64)


def _learn(places: Places, kernel: FloatArray, residual: FloatArray, keep: NDArray[np.bool_]) -> Learned:
    weights = np.zeros((len(places), 3))
    for m in range(3):
        rows, inverse = _inverse(kernel, keep & np.isfinite(residual[:, m]), m)
        weights[rows, m] = inverse @ np.clip(residual[rows, m], -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
    return Learned(places.take(keep), weights[keep])


PHASES: Final = ("agg", "disagg")
BANDS: Final = tuple(f"{metric.value}/{phase}" for metric in METRICS for phase in PHASES)

Bands = dict[str, list[list[float]]]


def bands(result: PackFit, use: NDArray[np.bool_] | None = None) -> Bands:
    """Half-widths of the 80 % interval by closeness: ``{metric/phase: [[closeness, log half-width], …]}``.

    Scores of left-out rows, both by group and at random, sorted by how close the remaining rows are: the conformal
    quantile of each bin, made monotone so that a closer row never gets a wider interval. `use` restricts the rows.
    """
    found: Bands = {}
    rows = result.scored if use is None else result.scored & use
    for m, metric in enumerate(METRICS):
        for phase in PHASES:
            part = np.tile(rows & (result.phase == phase), 2)
            close = np.concatenate([result.grouped.closeness, result.random.closeness])
            score = np.abs(np.concatenate([result.grouped.residual[:, m], result.random.residual[:, m]]))
            ok = np.isfinite(score) & part
            found[f"{metric.value}/{phase}"] = _band(close[ok], score[ok])
    return found


def _band(close: FloatArray, score: FloatArray) -> list[list[float]]:
    edges = np.quantile(close, np.linspace(0.0, 1.0, BAND_BINS + 1))
    centres, widths = [], []
    for low, high in pairwise(edges):
        inside = (close >= low) & (close <= high)
        count = int(inside.sum())
        if count < SMALLEST_BIN:
            continue
        level = min(np.ceil((count + 1) * LEVEL) / count, 1.0)
        centres.append(float(np.median(close[inside])))
        widths.append(float(np.quantile(score[inside], level)))
    falling = np.maximum.accumulate(np.array(widths)[::-1])[::-1]
    return [[round(c, 4), round(float(w), 4)] for c, w in zip(centres, falling, strict=True)]


def half_widths(found: Bands, result: PackFit, closeness: FloatArray, metric: int) -> FloatArray:
    """Log half-width of every row at its closeness."""
    out = np.empty(len(closeness))
    for phase in PHASES:
        grid = np.array(found[f"{METRICS[metric].value}/{phase}"])
        own = result.phase == phase
        out[own] = np.interp(closeness[own], grid[:, 0], grid[:, 1])
    return out


def coverage(result: PackFit) -> dict[str, tuple[float, float]]:
    """Share of left-out rows inside their interval, (grouped, random), with the bands fitted on other groups."""
    names = np.unique([group_of(p) for p in result.points], return_inverse=True)[1].reshape(-1)
    fold = np.random.default_rng(SEED).permutation(names.max() + 1)[names] % COVERAGE_FOLDS
    found: dict[str, tuple[float, float]] = {}
    for m, metric in enumerate(METRICS):
        shares = []
        for cv in (result.grouped, result.random):
            inside = np.zeros(len(fold), dtype=np.bool_)
            for k in range(COVERAGE_FOLDS):
                held = fold == k
                width = half_widths(bands(result, ~held), result, cv.closeness, m)
                inside[held] = (np.abs(cv.residual[:, m]) <= width)[held]
            known = result.scored & np.isfinite(cv.residual[:, m])
            shares.append(float(inside[known].mean()))
        found[metric.value] = (shares[0], shares[1])
    return found


def write_pack(result: PackFit, folder: Path, source: Path) -> None:
    """Write the pack: factors.json, learned.npz, intervals.json."""
    folder.mkdir(parents=True, exist_ok=True)
    pack = result.fit.pack(result.nodes)
    versions = sorted({str(p.date)[:7] for p in result.points if p.date is not None})
    territory: dict[str, int] = {}
    for p in result.points:
        if p.scored:
            key = f"{p.config.dialect}/{p.config.gpu}"
            territory[key] = territory.get(key, 0) + 1
    reach: dict[str, tuple[set[str], int]] = {}
    for i in np.flatnonzero(result.fit.weight > 0):
        place = str(result.places.labels["family"][i])
        config = result.points[i].config
        widest = max(w.group_gpus for w in (config.prefill, config.decode) if w is not None)
        known, before = reach.get(place, (set(), 1))
        reach[place] = (known | {str(result.places.labels["checkpoint"][i])}, max(before, widest))
    head = {
        "source": source.name,
        "method": "hierarchical robust Gauss-Newton on log residuals; see docs/accuracy.md",
        "fitted_rows": int(result.keep.sum()),
        "measured_between": [versions[0], versions[-1]] if versions else [],
        "factors": {name: {"prior_log_sd": f.prior_log_sd, "scales": f.where} for name, f in FACTORS.items()},
        "nodes": {k: dict(v) for k, v in sorted(pack.nodes.items())},
        "rows": dict(sorted(pack.rows.items())),
        "territory": {
            place: {"checkpoints": sorted(known), "widest_group": widest}
            for place, (known, widest) in sorted(reach.items())
        },
        "measured_on": dict(sorted(territory.items())),
    }
    (folder / "factors.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
    save_learned(folder / "learned.npz", result.learned)
    (folder / "intervals.json").write_text(
        json.dumps({"level": LEVEL, "bands": bands(result)}, indent=1) + "\n", encoding="utf-8"
    )


def summary(result: PackFit) -> str:
    """Cross-validated errors as text: median / p90 absolute percentage error per metric."""
    lines = []
    for name, phase in (("aggregated", "agg"), ("P/D", "disagg")):
        part = result.scored & (result.phase == phase)
        for label, residual in (
            ("physics", result.uncalibrated),
            ("factors, grouped", result.grouped.factors_only),
            ("all, grouped", result.grouped.residual),
            ("all, checkpoint out", result.strict.residual),
            ("all, random", result.random.residual),
        ):
            cells = [_cell(residual[part, m]) for m in range(3)] + [
                _cell(residual[part & result.below_saturation, 2])
            ]
            lines.append(
                f"{name:11} {label:20} TPOT {cells[0]}  output {cells[1]}  TTFT {cells[2]}  unsaturated {cells[3]}"
            )
    lines += [f"80 % interval {m}: grouped {g:.0%}, random {r:.0%}" for m, (g, r) in coverage(result).items()]
    return "\n".join(lines)


def _cell(residual: FloatArray) -> str:
    error = np.abs(np.exp(-residual[np.isfinite(residual)]) - 1.0) * 100.0
    return f"{np.median(error):5.1f} /{np.quantile(error, 0.9):5.0f}" if error.size else "-"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(arguments: Sequence[str]) -> None:
    """Fit the pack from the CSV named first and write it to profiles/calibration (or the folder named second)."""
    source = Path(arguments[0])
    folder = Path(arguments[1]) if len(arguments) > 1 else pack_folder()
    result = fit_pack(source)
    write_pack(result, folder, source)
    _say(summary(result))


if __name__ == "__main__":
    main(sys.argv[1:])
