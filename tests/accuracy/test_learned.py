"""The learned residual: exact leave-out formulas, honest closeness, a file that reads back the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.measurements.factor_fit import Linearised
from planner.measurements.fit_pack import METRIC_NOISE, METRIC_SCALE, cross_validate
from planner.perf.calibration import FACTORS
from planner.perf.learned import (
    CIRCLES,
    FEATURES,
    NOISE,
    Learned,
    Places,
    covariance,
    load_learned,
    save_learned,
)

ROWS = 40


def places(rng: np.random.Generator, n: int = ROWS) -> Places:
    labels = {c: np.array([f"{c}{i % 3}" for i in range(n)]) for c in CIRCLES}
    return Places(rng.normal(size=(n, len(FEATURES))), labels)


def test_covariance_is_a_covariance() -> None:
    p = places(np.random.default_rng(1))
    k = covariance(p, p)
    np.testing.assert_allclose(k, k.T, atol=1e-12)
    assert np.linalg.eigvalsh(k).min() > -1e-9


def test_left_out_predictions_equal_refits() -> None:
    rng = np.random.default_rng(2)
    p = places(rng)
    y = rng.normal(scale=0.2, size=(ROWS, 3))
    k = covariance(p, p)
    folds = np.array([str(i % 4) for i in range(ROWS)])
    nodes = np.zeros((1, len(FACTORS)))
    at = Linearised(
        y,
        np.zeros((ROWS, 3, len(FACTORS))),
        np.zeros((ROWS, 3), dtype=np.intp),
        np.ones(ROWS),
        np.zeros(1, dtype=np.intp),
    )
    cv = cross_validate(at, nodes, k, np.ones(ROWS, dtype=bool), folds)
    for m in range(3):
        noise = NOISE * METRIC_NOISE[m] / METRIC_SCALE[m]
        for fold in np.unique(folds):
            held, rest = folds == fold, folds != fold
            mean = k[np.ix_(held, rest)] @ np.linalg.solve(
                k[np.ix_(rest, rest)] + noise * np.eye(rest.sum()), y[rest, m]
            )
            np.testing.assert_allclose(cv.residual[held, m], y[held, m] - mean, atol=1e-9)


def test_closeness_is_one_on_a_measured_row_and_small_far_away() -> None:
    rng = np.random.default_rng(3)
    p = places(rng)
    learned = Learned(p, np.zeros((ROWS, 3)))
    assert learned.at(p)[1] == pytest.approx(np.ones(ROWS))
    far = Places(p.numbers[:1] + 50.0, {c: np.array(["elsewhere"]) for c in CIRCLES})
    mean, close = learned.at(far)
    assert close[0] < 1e-6
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)


def test_file_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    learned = Learned(places(rng), rng.normal(size=(ROWS, 3)))
    path = tmp_path / "learned.npz"
    save_learned(path, learned)
    again = load_learned(path)
    assert again is not None
    a, b = learned.at(learned.places), again.at(learned.places)
    np.testing.assert_allclose(a[0], b[0], atol=1e-4)
    np.testing.assert_allclose(a[1], b[1], atol=1e-5)
    assert load_learned(tmp_path / "absent.npz") is None
