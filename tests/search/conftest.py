"""One solved problem per hardware setting, shared by the tests of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from planner.search.ask import Request, build_problem
from planner.search.solve import Solution, solve

Solve = Callable[..., Solution]


@lru_cache(maxsize=16)
def _solved(request: Request) -> Solution:
    problem, engine = build_problem(request)
    return solve(problem, engine)


@pytest.fixture(scope="session")
def solved() -> Solve:
    """Solve a request given as keywords; R1 on 16 H200 unless said otherwise."""

    def run(**overrides: object) -> Solution:
        base: dict[str, object] = {
            "model": "deepseek-ai/DeepSeek-R1",
            "gpu": "h200-sxm",
            "fabric": "ib-ndr400",
            "gpus": 16,
            "isl": 4000,
            "osl": 1000,
        }
        return _solved(Request(**{**base, **overrides}))  # type: ignore[arg-type]

    return run
