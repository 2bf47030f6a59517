"""Calibration on synthetic truths: the bias goes, the bands cover what they promise, extrapolation is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.calibration import BandKind, Calibration, CalibrationScope, Metric
from planner.domain.errors import InputError
from planner.measurements.calibration import CalibratedModel, calibrate, mape, observations, provenance_text
from planner.measurements.factors import Observations, fit_factors
from planner.measurements.intervals import conformal_half_width, leave_one_out, points_needed
from planner.measurements.predictor import METRICS, FloatArray, FunctionPredictor
from planner.measurements.residual import evaluate_process, fit_process, isotonic
from tests.measurements.synthetic import FACTORS, FEATURES, Point, Truth, features, parts, predictor, space

SCOPE = CalibrationScope(model="m", gpu="H200", engine="vllm", engine_version="0.33")
TRUTHS = 24


def fitted(points: list[Point], values: FloatArray) -> Calibration:
    return calibrate(
        predictor(),
        points,
        Observations.of(values),
        scope=SCOPE,
        measurements=tuple(f"{i:064x}" for i in range(len(points))),
    )


def sample(seed: int, n: int, **truth: float) -> tuple[list[Point], Truth, FloatArray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = space()
    reality = Truth.draw(rng, len(points), **truth)
    chosen = rng.choice(len(points), n, replace=False)
    return points, reality, reality.values(points), chosen


@pytest.mark.parametrize("n", [10, 20])
def test_few_points_remove_the_bias_and_bands_cover_what_they_say(n: int) -> None:
    before, after, covered, inside_share = [], [], [], []
    for seed in range(TRUTHS):
        points, _, values, chosen = sample(seed, n)
        calibration = fitted([points[i] for i in chosen], values[chosen])
        predicted = CalibratedModel(calibration, predictor()).predict(points)
        residual = values - predicted.log_values
        held_out = np.setdiff1d(np.arange(len(points)), chosen)
        inside = np.array([i for i in held_out if not predicted.extrapolates[i]])
        plain = values - predictor().predict(points, np.zeros(len(FACTORS)))
        before.append(mape(plain[held_out]))
        after.append(mape(residual[held_out]))
        covered.append((np.abs(residual) <= predicted.log_half_widths)[inside].mean())
        inside_share.append(len(inside) / len(held_out))
    assert 0.15 < np.mean(before) < 0.20
    assert np.mean(after) <= 0.08
    assert 0.75 <= np.mean(covered) <= 0.88
    assert np.mean(inside_share) > 0.4  # the promise is not kept by calling everything extrapolation


def test_more_noise_widens_the_bands() -> None:
    widths = []
    for noise in (0.03, 0.15):
        points, _, values, chosen = sample(3, 20, noise_sd=noise)
        calibration = fitted([points[i] for i in chosen], values[chosen])
        widths.append([b.log_half_width for b in calibration.bands if b.level == 0.80])
    assert all(narrow < wide for narrow, wide in zip(*widths, strict=True))


def test_factors_are_recovered_and_the_report_names_those_that_moved() -> None:
    points = space()
    truth = Truth(log_factors=np.array([0.0, 0.45, 0.0, -0.4, 0.0]), noise=np.zeros((len(points), 3)))
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(points), 40, replace=False)
    calibration = fitted([points[i] for i in chosen], truth.values(points)[chosen])
    assert calibration.factor("weights").log_value == pytest.approx(0.45, abs=0.05)
    assert calibration.factor("communication").log_value == pytest.approx(-0.4, abs=0.05)
    assert {f.name for f in calibration.factors if f.moved} == {"weights", "communication"}
    for i in calibration.improvements:
        assert i.n == 40
        assert i.mape_after_loo < 0.5 * i.mape_before
    assert provenance_text(calibration) == "calibrated (n=40)"


def test_uninformed_factors_stay_at_their_prior() -> None:
    points = [p for p in space() if p.batch == 8][:4]
    values = predictor().predict(points, np.zeros(5))
    values[:, [0, 2]] = np.nan  # only TPOT was measured
    calibration = fitted(points, values)
    host, kv = calibration.factor("host"), calibration.factor("kv")
    assert kv.log_value == pytest.approx(0.0, abs=1e-6)
    assert kv.log_sd > 0.28
    assert host.log_sd < 0.3
    assert not any(f.moved for f in calibration.factors)


def test_bands_below_their_sample_size_are_priors_and_say_so() -> None:
    points, _, values, chosen = sample(1, 19)
    expected = {
        3: {0.80: BandKind.PRIOR, 0.90: BandKind.PRIOR, 0.95: BandKind.PRIOR},
        4: {0.80: BandKind.CONFORMAL, 0.90: BandKind.PRIOR, 0.95: BandKind.PRIOR},
        9: {0.80: BandKind.CONFORMAL, 0.90: BandKind.CONFORMAL, 0.95: BandKind.PRIOR},
        19: {0.80: BandKind.CONFORMAL, 0.90: BandKind.CONFORMAL, 0.95: BandKind.CONFORMAL},
    }
    for n, kinds in expected.items():
        calibration = fitted([points[i] for i in chosen[:n]], values[chosen[:n]])
        got = {b.level: b.kind for b in calibration.bands if b.metric is Metric.TPOT}
        assert got == kinds
        assert all(0.0 < b.log_half_width < 1.5 for b in calibration.bands)
    assert [points_needed(x) for x in (0.8, 0.9, 0.95)] == [4, 9, 19]
    assert conformal_half_width(np.array([0.1, -0.4, 0.2]), 0.8) is None
    assert conformal_half_width(np.array([0.1, -0.4, 0.2, 0.3]), 0.8) == pytest.approx(0.4)


def test_extrapolation_is_named_and_doubles_the_band() -> None:
    points = space()
    truth = Truth.draw(np.random.default_rng(5), len(points))
    values = truth.values(points)
    narrow = [i for i, p in enumerate(points) if p.ep <= 16 and not p.disaggregated][::3]
    calibration = fitted([points[i] for i in narrow], values[narrow])
    model = CalibratedModel(calibration, predictor())
    inside, wide, apart = (
        Point(32, 4096, 1024, 16, False),
        Point(32, 4096, 1024, 64, False),
        Point(32, 4096, 1024, 16, True),
    )
    predicted = model.predict([inside, wide, apart])
    assert predicted.extrapolates == ((), ("EP width",), ("disaggregated",))
    np.testing.assert_allclose(predicted.log_half_widths[1:], 2.0 * predicted.log_half_widths[[0, 0]])


def test_a_hole_in_the_middle_of_the_region_is_extrapolation() -> None:
    corners = [
        p for p in space() if p.batch in {8, 256} and p.ep == 8 and p.isl == 1024 and not p.disaggregated
    ]
    near = [replace(p, batch=p.batch + d) for p in corners for d in (0, 1, 2, 3)]
    calibration = fitted(near, predictor().predict(near, np.zeros(5)))
    predicted = CalibratedModel(calibration, predictor()).predict([replace(near[0], batch=45), near[1]])
    assert predicted.extrapolates == (("batch per rank",), ())


def _bump(points: list[Point]) -> FloatArray:
    """A smooth effect no factor can express."""
    x = features(points)
    return 0.25 * np.sin(1.8 * x[:, 0]) * (1.0 - 0.2 * x[:, 2])


def test_residual_process_is_kept_only_when_it_helps() -> None:
    points, _, values, chosen = sample(2, 60, noise_sd=0.03)
    without = fitted([points[i] for i in chosen], values[chosen])
    assert without.processes == ()
    odd = values + _bump(points)[:, None] * np.array([1.0, -1.0, 0.0])
    few = fitted([points[i] for i in chosen[:19]], odd[chosen[:19]])
    assert few.processes == ()  # below 20 points it is not even tried
    calibration = fitted([points[i] for i in chosen], odd[chosen])
    assert Metric.TPOT in {p.metric for p in calibration.processes}
    held_out = np.setdiff1d(np.arange(len(points)), chosen)
    with_process = CalibratedModel(calibration, predictor()).predict(points)
    plain = CalibratedModel(replace(calibration, processes=()), predictor()).predict(points)
    tpot = METRICS.index(Metric.TPOT)
    gained = mape((odd - with_process.log_values)[held_out, tpot])
    assert gained < 0.8 * mape((odd - plain.log_values)[held_out, tpot])


def test_leave_one_out_equals_refitting_a_linear_model() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(12, 2, 3))
    noise = 0.1
    y = (design @ np.array([0.2, -0.1, 0.3]) + rng.normal(0, noise, (12, 2))).reshape(-1)
    flat = design.reshape(-1, 3)
    covariance = 0.09 * flat @ flat.T + noise**2 * np.eye(24)
    quick = leave_one_out(covariance, y, np.repeat(np.arange(12), 2)).reshape(12, 2)
    for i in range(12):
        keep = np.arange(12) != i
        x, t = design[keep].reshape(-1, 3), y.reshape(12, 2)[keep].reshape(-1)
        theta = np.linalg.solve(x.T @ x / noise**2 + np.eye(3) / 0.09, x.T @ t / noise**2)
        np.testing.assert_allclose(quick[i], y.reshape(12, 2)[i] - design[i] @ theta, atol=1e-8)


def test_leave_one_out_of_the_model_is_close_to_refitting_it() -> None:
    points, _, values, chosen = sample(4, 8)
    mine = [points[i] for i in chosen]
    calibration = fitted(mine, values[chosen])
    refitted = []
    for i in range(len(mine)):
        keep = [j for j in range(len(mine)) if j != i]
        fit = fit_factors(predictor(), [mine[j] for j in keep], Observations.of(values[chosen][keep]))
        refitted.append(values[chosen][i] - predictor().predict([mine[i]], fit.log_factors)[0])
    for improvement in calibration.improvements:
        exact = mape(np.array(refitted)[:, METRICS.index(improvement.metric)])
        assert improvement.mape_after_loo == pytest.approx(exact, rel=0.25)


def test_replicate_errors_weigh_the_points() -> None:
    points = [Point(64, 4096, 1024, 16, False), Point(64, 4096, 1024, 16, False)]
    base = predictor().predict(points, np.zeros(5))
    values = base + np.array([[0.0] * 3, [0.5] * 3])
    sure_of_first = Observations(log_values=values, log_se=np.array([[0.01] * 3, [1.0] * 3]))
    sure_of_second = Observations(log_values=values, log_se=np.array([[1.0] * 3, [0.01] * 3]))
    first, second = (
        predictor().predict(points[:1], fit_factors(predictor(), points, o).log_factors) - base[:1]
        for o in (sure_of_first, sure_of_second)
    )
    assert np.abs(first).max() < np.abs(second).max()


def test_exact_jacobian_equals_finite_differences() -> None:
    points = space()[::17]
    numeric = FunctionPredictor(predictor().predict, describe=features, factors=FACTORS, features=FEATURES)
    at = np.array([0.1, -0.2, 0.3, 0.0, 0.2])
    np.testing.assert_allclose(
        predictor().jacobian(points, at), numeric.jacobian(points, at), rtol=1e-4, atol=1e-7
    )
    scaled = predictor().predict(points, np.full(5, np.log(2.0)))
    plain = predictor().predict(points, np.zeros(5))
    np.testing.assert_allclose(scaled[:, 1] - plain[:, 1], np.log(2.0))  # all parts twice: TPOT twice
    assert parts(points).step_ms.shape == (len(points), len(FACTORS))


def test_calibration_of_another_model_version_is_refused() -> None:
    points, _, values, chosen = sample(0, 6)
    calibration = fitted([points[i] for i in chosen], values[chosen])
    other = FunctionPredictor(
        predictor().predict, describe=features, factors=("a", *FACTORS[1:]), features=FEATURES
    )
    with pytest.raises(InputError) as caught:
        CalibratedModel(calibration, other)
    assert caught.value.issues[0].code == "calibration.other_model"


def test_nothing_to_fit_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        fitted(space()[:3], np.full((3, 3), np.nan))
    assert caught.value.issues[0].code == "calibration.no_points"
    assert observations([]).log_values.shape == (0, 3)


def test_same_input_gives_the_same_calibration() -> None:
    points, _, values, chosen = sample(9, 25)
    mine = [points[i] for i in chosen]
    assert fitted(mine, values[chosen]) == fitted(mine, values[chosen])


def test_process_interpolates_and_returns_to_zero_far_away() -> None:
    x = np.linspace(-1.5, 1.5, 30)[:, None]
    process = fit_process(Metric.TPOT, x, 0.2 * np.sin(2 * x[:, 0]))
    mean, sd = evaluate_process(process, np.array([[0.4], [30.0]]))
    assert mean[0] == pytest.approx(0.2 * np.sin(0.8), abs=0.02)
    assert mean[1] == pytest.approx(0.0, abs=1e-6)
    assert sd[0] < sd[1] == pytest.approx(process.signal_sd)


@settings(max_examples=60)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_isotonic_is_monotone_keeps_the_mean_and_monotone_input(values: list[float]) -> None:
    array = np.array(values)
    up = isotonic(array)
    assert (np.diff(up) >= -1e-9).all()
    assert up.mean() == pytest.approx(array.mean(), abs=1e-9)
    np.testing.assert_allclose(isotonic(np.sort(array)), np.sort(array))
    np.testing.assert_allclose(isotonic(array, increasing=False), -isotonic(-array))


def test_a_metric_explained_badly_does_not_bend_the_factors() -> None:
    points = space()
    truth = Truth(log_factors=np.array([0.0, 0.4, 0.0, 0.0, 0.0]), noise=np.zeros((len(points), 3)))
    values = truth.values(points)
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(points), 20, replace=False)
    queued = values.copy()
    queued[:, METRICS.index(Metric.TTFT)] += np.abs(
        rng.normal(0.0, 1.2, len(points))
    )  # waiting nobody modelled
    calibration = fitted([points[i] for i in chosen], queued[chosen])
    assert calibration.factor("weights").log_value == pytest.approx(0.4, abs=0.08)
    tpot = next(i for i in calibration.improvements if i.metric is Metric.TPOT)
    assert tpot.mape_after_loo < 0.05


def test_one_run_that_went_wrong_hardly_matters() -> None:
    points, _, values, chosen = sample(6, 16, noise_sd=0.04)
    mine = [points[i] for i in chosen]
    spoilt = values[chosen].copy()
    spoilt[3] += np.array([-1.2, 1.2, 1.2])  # a noisy neighbour
    clean = fit_factors(predictor(), mine, Observations.of(values[chosen])).log_factors
    robust = fit_factors(predictor(), mine, Observations.of(spoilt)).log_factors
    assert np.abs(robust - clean).max() < 0.12
