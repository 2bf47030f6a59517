"""D-optimal choice: better than chance, no repeats, aware of what was measured."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from planner.domain.errors import InputError
from planner.measurements.design import d_optimal, log_det_information
from planner.measurements.factors import Observations, fit_factors
from tests.measurements.synthetic import FACTORS, Truth, predictor, space

POINTS = space()
JACOBIAN = predictor().jacobian(POINTS, np.zeros(len(FACTORS)))


def test_finds_the_best_set_of_a_space_small_enough_to_try_all() -> None:
    small = JACOBIAN[::29]
    best = max(log_det_information(small[list(c)]) for c in combinations(range(len(small)), 3))
    assert log_det_information(small[list(d_optimal(small, 3))]) == pytest.approx(best)


def test_beats_random_choices_and_repeats_nothing() -> None:
    chosen = d_optimal(JACOBIAN, 10)
    assert len(set(chosen)) == 10
    assert chosen == d_optimal(JACOBIAN, 10)
    rng = np.random.default_rng(0)
    chance = [log_det_information(JACOBIAN[rng.choice(len(POINTS), 10, replace=False)]) for _ in range(200)]
    assert log_det_information(JACOBIAN[list(chosen)]) > max(chance)


def test_chosen_points_tell_the_factors_better_than_random_ones() -> None:
    errors: dict[str, list[float]] = {"design": [], "random": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = Truth.draw(rng, len(POINTS))
        values = truth.values(POINTS)
        for name, chosen in (
            ("design", np.array(d_optimal(JACOBIAN, 8))),
            ("random", rng.choice(len(POINTS), 8, replace=False)),
        ):
            fit = fit_factors(predictor(), [POINTS[i] for i in chosen], Observations.of(values[chosen]))
            errors[name].append(float(np.abs(fit.log_factors - truth.log_factors).mean()))
    assert np.mean(errors["design"]) < np.mean(errors["random"])


def test_what_was_measured_is_not_asked_for_again() -> None:
    first = d_optimal(JACOBIAN, 4)
    more = d_optimal(JACOBIAN, 4, measured=JACOBIAN[list(first)])
    both = log_det_information(JACOBIAN[[*first, *more]])
    assert both > log_det_information(JACOBIAN[[*first, *first]])


def test_more_runs_than_candidates_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        d_optimal(JACOBIAN[:3], 4)
    assert caught.value.issues[0].code == "campaign.too_few_candidates"
