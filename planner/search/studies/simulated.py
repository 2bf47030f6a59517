"""The simulator as an evaluator: a closed loop at the plan's concurrency, with common random numbers for all plans."""

from __future__ import annotations

import math
from typing import Final

from planner.domain.deployment import DeploymentPlan
from planner.domain.engine import EngineProfile
from planner.domain.problem import PlanningProblem
from planner.domain.study import StudyLevel
from planner.domain.workload import Workload
from planner.search.solve import make_pricer
from planner.search.studies.evaluate import Fidelity, Observation
from planner.simulation.engine import simulate
from planner.simulation.from_plan import lay_out
from planner.simulation.result import Figure, SimulationResult
from planner.simulation.traffic import Arrival, Shape, Traffic, Turn, make_traffic, single

SIMULATOR_VERSION: Final = "2"
_Z95: Final = 1.96
_SYSTEM_PROMPTS: Final = 8
SINGLE_RUN_SE: Final = 0.02  # of one short run's throughput, which has no spread of its own


class SimulatedEvaluator:
    """Simulates plans of one problem. Seeds do not depend on the plan, so two plans see the same requests."""

    level = StudyLevel.SIMULATED

    def __init__(self, problem: PlanningProblem, engine: EngineProfile) -> None:
        self._problem, self._engine = problem, engine
        self._pricer = make_pricer(problem, engine)
        self._traffic: dict[tuple[int, int, int, float], Traffic] = {}

    @property
    def version(self) -> str:
        """Version of the simulator and of the step model behind it."""
        from planner.analytic.evaluate import MODEL_VERSION

        return f"{MODEL_VERSION}+sim{SIMULATOR_VERSION}"

    def observe(self, plan: DeploymentPlan, *, fidelity: Fidelity, seed: int) -> Observation:
        """See `Evaluator.observe`. Raises PlannerError for a plan that cannot run."""
        cluster = lay_out(
            plan,
            model=self._problem.model,
            engine=self._engine,
            pools=self._pricer.pools,
            components=self._pricer.components,
        )
        lasts_s = self._duration_s(plan)
        runs = [self._requests(plan, fidelity, seed + i, lasts_s) for i in range(fidelity.replications)]
        result = simulate(cluster, runs, seed=seed, slo=plan.slo)
        return self._observation(plan, result)

    def _requests(self, plan: DeploymentPlan, fidelity: Fidelity, seed: int, lasts_s: float) -> Traffic:
        count = fidelity.requests(plan.concurrency)
        key = (plan.concurrency, count, seed, lasts_s)
        if key not in self._traffic:
            if len(self._traffic) > 64:
                self._traffic.clear()
            self._traffic[key] = make_traffic(
                shape_of(plan.workload),
                sessions=count,
                seed=seed,
                arrival=Arrival.CLOSED,
                concurrency=plan.concurrency,
                # users start over one request's duration, so that the first wave is not the whole run
                spread_s=lasts_s,
                warmup_share=min(0.4, plan.concurrency / count),
            )
        return self._traffic[key]

    def _duration_s(self, plan: DeploymentPlan) -> float:
        """About how long a request takes, in coarse steps so that similar plans see the same arrivals."""
        told = self._pricer.evaluate(plan)
        seconds = (told.ttft_ms.value + told.tpot_ms.value * plan.workload.osl) / 1000.0
        return float(2.0 ** (round(2.0 * math.log2(seconds)) / 2.0))

    def _observation(self, plan: DeploymentPlan, result: SimulationResult) -> Observation:
        owned = plan.gpus_owned
        rate = result.output_tok_s.value / owned
        if result.failed or not math.isfinite(rate) or rate <= 0.0:
            return Observation(
                error=f"simulation.failed: {result.failed} of {result.requests} requests failed"
            )
        usd = self._problem.usd_per_gpu_hour
        return Observation(
            output_tok_s_per_gpu=rate,
            tpot_ms=result.tpot_ms.p50.value,
            ttft_ms=result.ttft_ms.p50.value,
            log_se=(
                log_se(result.output_tok_s) if result.replications > 1 else SINGLE_RUN_SE,
                log_se(result.tpot_ms.p50),
                log_se(result.ttft_ms.p50),
            ),
            usd_per_m_output_tokens=None if usd is None else usd / (rate * 3600.0) * 1e6,
            attributes={
                "requests": result.requests,
                "replications": result.replications,
                "ttft_p99_ms": finite(result.ttft_ms.p99.value),
                "tpot_p99_ms": finite(result.tpot_ms.p99.value),
                "prefix_hit_rate": finite(result.prefix_hit_rate),
                "preemptions": sum(r.preemptions for r in result.roles),
                "straggler_share": finite(max(r.straggler_share for r in result.roles)),
            },
        )


def shape_of(workload: Workload) -> Shape:
    """Requests of the workload; a prefix-cache hit share becomes shared system prompts of that share of the prompt."""
    shared = round(workload.isl * workload.prefix_hit)
    if shared == 0:
        return single(workload.isl, workload.osl, workload.length_cv)
    return Shape(
        label=f"{workload.isl}/{workload.osl}",
        turns=(Turn(new_tokens=workload.isl - shared, answer_tokens=workload.osl),),
        system_tokens=shared,
        system_prompts=_SYSTEM_PROMPTS,
        length_cv=workload.length_cv,
    )


def log_se(figure: Figure) -> float:
    """Standard error of the logarithm from a 95 % interval; 0 where there is none."""
    if not (0.0 < figure.low <= figure.high) or not math.isfinite(figure.high):
        return 0.0
    return (math.log(figure.high) - math.log(figure.low)) / (2.0 * _Z95)


def finite(value: float) -> float | None:
    """The value, or None for NaN and infinities, which the store cannot hold."""
    return value if math.isfinite(value) else None
