"""A label that a report prints means the same plan when it is typed back."""

from __future__ import annotations

import pytest

from planner.domain.deployment import Role
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.notation import parse_role
from planner.search.solve import solve


@pytest.fixture(scope="module")
def solved():
    problem, engine = build_problem(with_recipe("deepseek-r1-h200x16-aggregated", Request()))
    return problem, solve(problem, engine)


def test_every_label_of_the_space_reads_back_as_its_own_widths(solved) -> None:
    problem, solution = solved
    roles = [r for s in solution.strategies for r in (*s.first, *s.second)]
    assert {r.parallelism.expert_parallel for r in roles} == {True, False}
    for role in roles:
        read = parse_role(
            role.label(), role.role, model=problem.model, pool=problem.decode_pool, flag="--aggregated"
        )
        assert read.parallelism == role.parallelism, role.label()


@pytest.mark.parametrize(
    ("text", "ep"), [("1x(tp8)", 1), ("1x(tp8,dp1,ep8)", 8), ("1x(tp1,dp8)", 8), ("1x(tp4,dp2,noep)", 1)]
)
def test_expert_parallel_is_the_default_of_several_data_parallel_ranks(text: str, ep: int, solved) -> None:
    problem, _ = solved
    role = parse_role(
        text, Role.AGGREGATED, model=problem.model, pool=problem.decode_pool, flag="--aggregated"
    )
    assert role.parallelism.ep == ep
