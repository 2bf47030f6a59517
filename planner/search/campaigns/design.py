"""Which runs to measure next: D-optimal over the legal space for the factors that ``planner calibrate`` fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planner.domain.deployment import DeploymentPlan, Role
from planner.domain.engine import EngineName
from planner.domain.errors import InputError, Issue
from planner.domain.measurement import (
    BenchmarkFormat,
    MeasuredLoad,
    MeasuredResult,
    MeasuredRole,
    MeasuredSettings,
    Measurement,
    MeasurementOrigin,
)
from planner.measurements.design import d_optimal, log_det_information
from planner.measurements.model_predictor import ModelPredictor
from planner.measurements.predictor import FloatArray
from planner.measurements.pricing import PointPricer
from planner.perf.calibration import load_factor_pack
from planner.search.campaigns.document import Campaign, CampaignRun
from planner.search.studies.sources import front_points
from planner.search.studies.space import SearchSpace

CANDIDATES: Final = 240
_FRONT_CANDIDATES: Final = 40
_LENIENCE: Final = 3.0  # a run may miss the targets by this factor and still be worth measuring
START_MINUTES: Final = 20.0  # loading weights and capturing graphs, per deployment
WAVES: Final = 4.0  # requests per request in flight: warm-up and three more
MIN_REQUESTS: Final = 24


def design_campaign(
    space: SearchSpace,
    *,
    runs: int,
    seed: int,
    measured: Sequence[Measurement] = (),
    name: str | None = None,
    among: Sequence[int] | None = None,
) -> Campaign:
    """The `runs` most informative points of `space`, given what was `measured` before on the same model and engine.

    `among`: points to choose from; default `candidate_points`.

    Raises InputError ``campaign.too_few_candidates``.
    """
    if runs < 1:
        raise InputError(
            Issue(
                code="campaign.no_runs",
                what=f"--runs {runs}",
                why="a campaign has at least one run",
                fix="--runs 10",
                where="--runs",
            )
        )
    indexes = (
        list(among) if among is not None else candidate_points(space, max(CANDIDATES, 2 * runs), seed=seed)
    )
    plans = [space.plan(i) for i in indexes]
    predictor = ModelPredictor(PointPricer(factors=load_factor_pack()), EngineName(space.problem.engine))
    zero = np.zeros(len(predictor.factors))
    jacobian = predictor.jacobian([planned_measurement(p) for p in plans], zero)
    known = predictor.jacobian(list(measured), zero) if measured else None
    chosen = d_optimal(jacobian, runs, measured=known)
    return Campaign(
        name=name or f"{space.problem.name}-campaign",
        runs=tuple(
            _run(plans[i], number, information=gain, seed=seed)
            for number, (i, gain) in enumerate(zip(chosen, _gains(jacobian, known, chosen), strict=True), 1)
        ),
        notes=(
            f"chosen from {len(indexes)} of {len(space)} legal points for {len(predictor.factors)} factors",
            f"{len(measured)} measurements of this model, GPU and engine version were taken into account",
        ),
    )


def candidate_points(space: SearchSpace, count: int, *, seed: int) -> list[int]:
    """Points to choose from: the analytic front, and points spread over all configurations whose targets are in reach."""
    slo = space.problem.slo
    usable = np.ones(space.base_size, dtype=bool)
    if slo.ttft_ms is not None:
        usable &= space.ttft_ms <= _LENIENCE * slo.ttft_ms
    if slo.tpot_limit_ms is not None:
        usable &= space.tpot_ms <= _LENIENCE * slo.tpot_limit_ms
    rows = np.flatnonzero(usable)
    rng = np.random.default_rng([seed, 11])
    spread = rng.choice(rows, min(count, len(rows)), replace=False) if rows.size else rows
    front = front_points(space, _FRONT_CANDIDATES)
    return sorted({*front, *(int(b) * len(space.routers) for b in spread)})


def planned_measurement(plan: DeploymentPlan) -> Measurement:
    """A measurement of `plan` that has not been made: its configuration and load without a result."""
    drafts = [r.speculation for r in plan.roles if r.speculation is not None]
    return Measurement(
        model=plan.model,
        strategy=plan.strategy,
        roles=tuple(
            MeasuredRole(
                role=r.role,
                gpu=r.gpu,
                groups=r.groups,
                tp=r.parallelism.tp,
                dp=r.parallelism.dp,
                ep=r.parallelism.ep,
                dcp=r.parallelism.dcp,
            )
            for r in sorted(plan.roles, key=lambda r: r.role is not Role.PREFILL)
        ),
        engine=EngineName(plan.engine),
        engine_version=plan.engine_version,
        workload=plan.workload,
        load=MeasuredLoad(concurrency=float(plan.concurrency)),
        settings=MeasuredSettings(
            dbo=any(r.dbo for r in plan.roles),
            eplb=any(r.eplb is not None for r in plan.roles),
            mtp=bool(drafts),
            draft_tokens=drafts[0].draft_tokens if drafts else None,
        ),
        result=MeasuredResult(),
        origin=MeasurementOrigin(format=BenchmarkFormat.WIDEPLAN_CSV, file="planned", raw_sha256=""),
    )


def _gains(jacobian: FloatArray, known: FloatArray | None, chosen: Sequence[int]) -> list[float]:
    """What each run adds to the log determinant after the ones before it."""
    rows = known if known is not None else jacobian[:0]
    before = log_det_information(rows)
    gains = []
    for i in chosen:
        rows = np.concatenate([rows, jacobian[i : i + 1]])
        after = log_det_information(rows)
        gains.append(after - before)
        before = after
    return gains


def _run(plan: DeploymentPlan, number: int, *, information: float, seed: int) -> CampaignRun:
    requests = max(int(np.ceil(WAVES * plan.concurrency)), MIN_REQUESTS)
    waves = requests / plan.concurrency
    limit = plan.slo.tpot_limit_ms or 50.0
    load_minutes = waves * plan.workload.osl * limit / 60_000.0
    return CampaignRun(
        id=f"run-{number:02d}",
        plan=plan,
        requests=requests,
        seed=seed,
        information=round(information, 4),
        gpu_hours=round(plan.gpus_used * (START_MINUTES + load_minutes) / 60.0, 2),
    )
