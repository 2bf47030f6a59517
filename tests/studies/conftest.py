"""A small space and a store, shared by the tests of studies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.engine import URL

from planner.domain.dtypes import KvDtype
from planner.domain.engine import EngineProfile
from planner.domain.problem import PlanningProblem
from planner.search.ask import Request, build_problem
from planner.search.solve import solve
from planner.search.studies.evaluate import Fidelity, Observation
from planner.search.studies.routers import DEFAULT_ONLY, router_variants
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))  # helpers beside the tests

QUESTION = Request(
    model="openai/gpt-oss-120b", gpu="h200-sxm", gpus=4, isl=4096, osl=512, ttft_ms=1500.0, tpot_ms=40.0, kv_dtype=KvDtype.FP8, dbo=False,
    eplb=False, name="small",
)  # fmt: skip


@lru_cache(maxsize=4)
def _problem(request: Request) -> tuple[PlanningProblem, EngineProfile]:
    return build_problem(request)


@lru_cache(maxsize=4)
def _space(request: Request, many: bool) -> SearchSpace:
    problem, engine = _problem(request)
    return SearchSpace(solve(problem, engine), router_variants(problem.workload) if many else DEFAULT_ONLY)


@pytest.fixture(scope="session")
def question() -> tuple[PlanningProblem, EngineProfile]:
    return _problem(QUESTION)


@pytest.fixture(scope="session")
def space() -> SearchSpace:
    return _space(QUESTION, many=False)


@pytest.fixture(scope="session")
def routed_space() -> SearchSpace:
    return _space(QUESTION, many=True)


@pytest.fixture
def store_url(tmp_path: Path) -> URL:
    return URL.create("sqlite", database=str(tmp_path / "wideplan.db"))


@pytest.fixture
def store(store_url: URL) -> Iterator[Store]:
    with open_store(store_url) as opened:
        yield opened


class NoisyModel:
    """An evaluator with a known answer: the analytic figures of a plan's point, off by a fixed amount per plan."""

    def __init__(self, inner: object, *, fail_every: int = 0) -> None:
        self._inner = inner
        self._fail_every = fail_every
        self.level = inner.level  # type: ignore[attr-defined]
        self.version = "test"
        self.calls: list[str] = []
        self.before: Callable[[int], None] = lambda _: None

    def observe(self, plan: object, *, fidelity: Fidelity, seed: int) -> Observation:
        self.before(len(self.calls))
        self.calls.append(plan.label())  # type: ignore[attr-defined]
        if self._fail_every and len(self.calls) % self._fail_every == 0:
            return Observation(error="test.refused: every so often")
        seen: Observation = self._inner.observe(plan, fidelity=fidelity, seed=seed)  # type: ignore[attr-defined]
        rng = np.random.default_rng(len(plan.label()))  # type: ignore[attr-defined]
        off = np.exp(0.05 * rng.standard_normal(3))
        return Observation(
            output_tok_s_per_gpu=seen.output_tok_s_per_gpu * off[0],
            tpot_ms=seen.tpot_ms * off[1],
            ttft_ms=seen.ttft_ms * off[2],
            usd_per_m_output_tokens=seen.usd_per_m_output_tokens,
        )


@pytest.fixture
def noisy(question: tuple[PlanningProblem, EngineProfile]) -> NoisyModel:
    from planner.search.studies.evaluators import AnalyticEvaluator

    return NoisyModel(AnalyticEvaluator(*question))
