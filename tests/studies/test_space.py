"""Points by index and by parameters name the same thing, and everything in the space is legal."""

from __future__ import annotations

import numpy as np
import pytest

from planner.domain.deployment import Strategy
from planner.domain.engine import EngineProfile
from planner.domain.legality import check_plan
from planner.domain.problem import PlanningProblem
from planner.search.studies.space import LOAD, STRATEGY, SearchSpace

Question = tuple[PlanningProblem, EngineProfile]


def test_parameters_name_every_point_once(routed_space: SearchSpace) -> None:
    rng = np.random.default_rng(3)
    for index in map(int, rng.choice(len(routed_space), 200, replace=False)):
        parameters = routed_space.parameters(index)
        assert routed_space.index_of(parameters) == index
        assert routed_space.nearest(parameters) == index


def test_made_up_parameters_name_no_point_but_have_a_nearest(space: SearchSpace) -> None:
    wrong = {**space.parameters(0), STRATEGY: Strategy.AGGREGATED.value, "aggregated_groups": 7, LOAD: 5}
    assert space.index_of(wrong) is None
    near = space.nearest(wrong)
    assert space.parameters(near)[STRATEGY] == Strategy.AGGREGATED.value
    assert space.index_of({STRATEGY: "nonsense"}) is None


def test_sampled_plans_are_legal(question: Question, routed_space: SearchSpace) -> None:
    problem, engine = question
    rng = np.random.default_rng(5)
    for index in map(int, rng.choice(len(routed_space), 40, replace=False)):
        plan = routed_space.plan(index)
        pools = {
            r.role: problem.prefill_pool if r.role.value == "prefill" else problem.decode_pool
            for r in plan.roles
        }
        assert not check_plan(problem.model, plan, pools, engine)
        assert plan.gpus_used <= problem.gpus
        assert plan.concurrency == int(routed_space.concurrency[routed_space.base(index)])


def test_routers_differ_in_their_plans_only(routed_space: SearchSpace) -> None:
    plans = [routed_space.plan(i) for i in range(len(routed_space.routers))]
    assert len({str(p.router) for p in plans}) > 1
    assert len({p.roles for p in plans}) == 1


@pytest.mark.parametrize("count", [0, 1])
def test_loads_of_a_configuration_ascend(space: SearchSpace, count: int) -> None:
    config = int(space.config[count])
    loads = space.batch[space.config == config]
    assert np.all(np.diff(loads) > 0)
