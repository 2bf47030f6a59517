"""What is said of a search before it found anything, and before it starts."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from planner.domain.engine import EngineProfile
from planner.domain.errors import MissingDataError
from planner.domain.problem import PlanningProblem
from planner.domain.study import SamplerName
from planner.search.studies.evaluate import Observation
from planner.search.studies.proposer import Proposer
from planner.search.studies.runner import Settings, create_study
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store


def test_a_gain_is_relative_to_something_found(space: SearchSpace) -> None:
    proposer = Proposer(space, seed=0)
    first = proposer.propose()
    assert first is not None
    assert proposer.last_gain is None
    late = Observation(output_tok_s_per_gpu=900.0, tpot_ms=10.0, ttft_ms=9000.0)  # misses its target
    proposer.observe(first, late)
    second = proposer.propose()
    assert second is not None
    assert proposer.last_gain is None
    proposer.observe(second, replace(late, ttft_ms=200.0))
    assert proposer.propose() is not None
    assert proposer.last_gain is not None
    assert 0.0 <= proposer.last_gain < 100.0


@pytest.mark.skipif(find_spec("torch") is not None, reason="needs a machine without PyTorch")
def test_a_sampler_that_cannot_run_leaves_no_study(
    store: Store, question: tuple[PlanningProblem, EngineProfile]
) -> None:
    with pytest.raises(MissingDataError, match="needs_torch"):
        create_study(store, question[0], Settings(sampler=SamplerName.GP, trials=3), name="gp")
    assert store.studies.list() == ()
