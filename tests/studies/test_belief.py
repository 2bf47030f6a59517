"""The belief finds factors that the analytic model gets wrong, and the proposer looks where they lead."""

from __future__ import annotations

import numpy as np
import pytest

from planner.search.studies.belief import Belief, FactorPrior
from planner.search.studies.hypervolume import Front
from planner.search.studies.model import FACTORS, STEP, FactorModel
from planner.search.studies.proposer import MOVES, Proposer
from planner.search.studies.space import SearchSpace
from planner.search.studies.synthetic import Truth, synthetic_truth

HIDDEN = {"compute": -0.6, "weights": 0.3, "attention": -0.2, "communication": 0.2}


@pytest.fixture(scope="module")
def truth(space: SearchSpace) -> Truth:
    return synthetic_truth(space, HIDDEN, noise_sd=0.0, rng=np.random.default_rng(0))


def search(space: SearchSpace, truth: Truth, trials: int) -> tuple[Proposer, list[int]]:
    proposer = Proposer(space, seed=0)
    tried: list[int] = []
    for _ in range(trials):
        index = proposer.propose()
        assert index is not None
        proposer.observe(index, truth.observe(space.base(index)))
        tried.append(space.base(index))
    return proposer, tried


def test_sensitivities_are_taken_at_the_centre(space: SearchSpace) -> None:
    base = np.arange(0, space.base_size, max(space.base_size // 50, 1))
    model = FactorModel(space)
    plain, slope = model.linearise(base, HIDDEN)
    assert np.allclose(plain, model.solve(base, HIDDEN).logs())
    stepped = dict(HIDDEN) | {"compute": HIDDEN["compute"] + STEP}
    expected = model.solve(base, stepped).logs()
    assert np.allclose(plain + STEP * slope[:, :, FACTORS.index("compute")], expected)


def test_a_belief_that_is_told_the_factors_predicts_the_truth(space: SearchSpace, truth: Truth) -> None:
    domain = np.arange(0, space.base_size, 7)
    belief = Belief(space, domain, seed=0, prior=FactorPrior(mean=HIDDEN, sd=0.01))
    logs = belief.baseline(domain) + belief.mean(domain)
    assert np.allclose(logs[:, 1], np.log(truth.tpot_ms[domain]), atol=5e-3)  # loads are solved side by side
    assert {n: round(m, 3) for n, (m, _) in belief.factors().items() if n in HIDDEN} == HIDDEN


def test_moving_keeps_what_was_observed(space: SearchSpace, truth: Truth) -> None:
    domain = np.arange(space.base_size)
    belief = Belief(space, domain[::2], seed=0)
    for base in range(0, 40, 2):
        o = truth.observe(base)
        belief.observe(base, np.log([o.output_tok_s_per_gpu, o.tpot_ms, o.ttft_ms]), np.zeros(3))
    assert belief.observations == 20
    belief.move(domain[::4], {"compute": -0.3})
    assert belief.observations == 10  # the others lie outside the domain
    belief.move(domain, {"compute": -0.3})
    assert belief.observations == 20
    assert belief.centre == {"compute": -0.3}


def test_a_search_recognises_wrong_factors_and_covers_the_true_front(
    space: SearchSpace, truth: Truth
) -> None:
    proposer, tried = search(space, truth, 50)
    objectives = truth.objectives(space)
    reference = proposer.reference
    best = Front.of(objectives, reference).hypervolume
    assert Front.of(objectives[tried], reference).hypervolume > 0.97 * best
    # it left the analytic model behind, and knows that computing takes less and reading weights longer
    assert proposer.belief.centre
    found = proposer.belief.factors()
    assert found["weights"][0] > 0.1
    assert found["compute"][0] < -0.1
    # and it does not take a wrong value for certain: near saturation a straight line says little
    for name, hidden in HIDDEN.items():
        mean, sd = found[name]
        assert abs(mean - hidden) < max(4.0 * sd, 0.35)


def test_proposals_depend_on_what_was_told_only(space: SearchSpace, truth: Truth) -> None:
    first, tried = search(space, truth, MOVES[0] + 3)
    _, again = search(space, truth, MOVES[0] + 3)
    assert tried == again
    assert len(set(tried)) == len(tried)
    assert first.belief.observations == len(tried)
