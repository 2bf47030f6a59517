"""Evaluators by level: the analytic model, and the simulator."""

from __future__ import annotations

from planner.analytic.evaluate import MODEL_VERSION
from planner.domain.deployment import DeploymentPlan
from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError, Issue
from planner.domain.problem import PlanningProblem
from planner.domain.study import StudyLevel
from planner.search.solve import make_pricer
from planner.search.studies.evaluate import Evaluator, Fidelity, Observation


class AnalyticEvaluator:
    """Prices plans with the analytic model: no noise, milliseconds per plan."""

    level = StudyLevel.ANALYTIC

    def __init__(self, problem: PlanningProblem, engine: EngineProfile) -> None:
        self._pricer = make_pricer(problem, engine)

    @property
    def version(self) -> str:
        """Version of the performance model."""
        return MODEL_VERSION

    def observe(self, plan: DeploymentPlan, *, fidelity: Fidelity, seed: int) -> Observation:
        """See `Evaluator.observe`; fidelity and seed make no difference."""
        del fidelity, seed
        e = self._pricer.evaluate(plan)
        return Observation(
            output_tok_s_per_gpu=e.output_tok_s_per_gpu.value,
            tpot_ms=e.tpot_ms.value,
            ttft_ms=e.ttft_ms.value,
            usd_per_m_output_tokens=e.usd_per_m_output_tokens,
            attributes={"binding": e.binding.value},
        )


def make_evaluator(level: StudyLevel, problem: PlanningProblem, engine: EngineProfile) -> Evaluator:
    """The evaluator of `level`. InputError ``study.level`` for measured, which only a benchmark can give."""
    if level is StudyLevel.ANALYTIC:
        return AnalyticEvaluator(problem, engine)
    if level is StudyLevel.SIMULATED:
        from planner.search.studies.simulated import SimulatedEvaluator

        return SimulatedEvaluator(problem, engine)
    raise InputError(
        Issue(
            code="study.level",
            what=f"evaluations of level {level.value}",
            why="measurements come from benchmark runs, not from this program",
            fix="planner campaign design, run the load, and import the results",
        )
    )
