"""Families of a small space, built once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pytest

from planner.analytic.evaluate import Pricer
from planner.domain.dtypes import KvDtype
from planner.domain.engine import EngineProfile
from planner.domain.problem import PlanningProblem
from planner.search.ask import Request, build_problem
from planner.search.sizing.families import Family, build_families
from planner.search.solve import make_pricer

SMALL = Request(
    model="openai/gpt-oss-120b",
    gpu="h200-sxm",
    fabric="ib-ndr400",
    isl=4000,
    osl=500,
    ttft_ms=700.0,
    tpot_ms=20.0,
    kv_dtype=KvDtype.FP8,
    dbo=False,
    eplb=False,
    calibration=False,
)


@dataclass(frozen=True)
class Built:
    problem: PlanningProblem
    engine: EngineProfile
    pricer: Pricer
    families: tuple[Family, ...]


@lru_cache(maxsize=4)
def build(gpus: int) -> Built:
    from dataclasses import replace

    problem, engine = build_problem(replace(SMALL, gpus=gpus))
    pricer = make_pricer(problem, engine)
    families, _ = build_families(problem, engine, pricer)
    return Built(problem, engine, pricer, families)


@pytest.fixture(scope="session")
def small() -> Built:
    """gpt-oss-120b on up to 32 H200, one KV format, no DBO, no EPLB."""
    return build(32)
