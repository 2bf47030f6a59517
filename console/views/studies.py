"""Studies as a table, as points for the frontier page, and side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

import numpy as np

from console.views.metrics import figure
from console.views.points import REMEMBERED, PlanPoints, RoleFacts, facts_of
from planner.domain.deployment import DeploymentPlan, Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.problem import PlanningProblem
from planner.domain.provenance import Estimate, Provenance
from planner.domain.study import Study, StudyLevel, StudySummary, Trial, TrialState
from planner.search.recommend import question

RATE, TPOT, TTFT = "output_tok_s_per_gpu", "tpot_ms", "ttft_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """One study. `progress` is finished trials of the budget; `age` since it last changed."""

    name: str
    level: str
    sampler: str
    state: str
    progress: str
    failed: int
    age: str
    running: bool


def study_rows(summaries: Sequence[StudySummary], *, now: datetime) -> tuple[StudyRow, ...]:
    """Studies as they were listed; long runs stand under their study."""
    rows = []
    for s in summaries:
        budget = s.study.settings.get("trials")
        rows.append(
            StudyRow(
                name=s.study.name,
                level=s.study.level.value,
                sampler=s.study.sampler,
                state=s.study.state.value,
                progress=f"{s.finished}/{budget}"
                if budget is not None and s.study.parent is None
                else str(s.finished),
                failed=s.trials.get(TrialState.FAILED, 0),
                age=_age(s.study.updated_at or s.study.created_at, now),
                running=s.study.state.value == "running",
            )
        )
    return tuple(rows)


def _age(then: datetime | None, now: datetime) -> str:
    if then is None:
        return "–"
    seconds = max((now - then).total_seconds(), 0.0)
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def study_lines(summary: StudySummary) -> tuple[str, ...]:
    """One study in words."""
    s = summary.study
    counts = ", ".join(f"{n} {state.value}" for state, n in summary.trials.items()) or "no trials"
    settings = ", ".join(f"{k} {v}" for k, v in sorted(s.settings.items()) if v is not None)
    return (
        f"{s.level.value} study by {s.sampler}, seed {s.seed}, {s.state.value}",
        f"{counts}; objectives {', '.join(o.name for o in s.objectives)}",
        settings,
        f"problem {s.problem_hash[:12]}",
    )


def usable_trials(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Trials with figures and a stored plan, by number, so that a point keeps its place while more arrive."""
    found = [
        t for t in trials
        if t.state is TrialState.COMPLETE and t.outcome.plan_hash is not None
        and all(isinstance(t.outcome.attributes.get(n), int | float) for n in (RATE, TPOT, TTFT))
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda t: t.number))


def study_points(
    study: Study,
    problem: PlanningProblem,
    trials: Sequence[Trial],
    plans: Mapping[str, DeploymentPlan],
    price: Callable[[DeploymentPlan], Evaluation],
) -> PlanPoints:
    """The trials of `study` as points with the figures it found; `plans` by hash holds every plan of `usable_trials`.

    `price` gives step times and memory by the analytic model; the figures of the study replace its own.
    """
    used = usable_trials(trials)
    chosen = [plans[t.outcome.plan_hash or ""] for t in used]
    roles: list[RoleFacts] = []
    places: dict[RoleFacts, int] = {}

    def place(facts: RoleFacts) -> int:
        if facts not in places:
            places[facts] = len(roles)
            roles.append(facts)
        return places[facts]

    strategies = tuple(Strategy)
    columns = [
        (
            strategies.index(p.strategy),
            place(facts_of(p.roles[0])),
            place(facts_of(p.roles[1])) if len(p.roles) > 1 else -1,
            p.roles[0].groups,
            p.roles[1].groups if len(p.roles) > 1 else 0,
            p.gpus_used,
        )
        for p in chosen
    ]
    table = np.array(columns, dtype=np.int32).reshape(len(used), 6)
    figures = np.array([[_figure(t, n) for n in (RATE, TPOT, TTFT)] for t in used]).reshape(len(used), 3)

    @lru_cache(maxsize=REMEMBERED)
    def evaluation_at(i: int) -> Evaluation:
        rate, tpot, ttft = (float(v) for v in figures[i])
        found = price(chosen[i])
        cost = problem.usd_per_gpu_hour
        return replace(
            found,
            output_tok_s_per_gpu=Estimate(rate, rate, rate),
            tpot_ms=Estimate(tpot, tpot, tpot),
            ttft_ms=Estimate(ttft, ttft, ttft),
            tok_s_user=1000.0 / tpot,
            requests_per_s=rate * problem.gpus / problem.workload.osl,
            total_tok_s_per_gpu=rate * problem.workload.context_at_end / problem.workload.osl,
            usd_per_m_output_tokens=None if cost is None else cost / (rate * 3600.0) * 1e6,
            provenance=Provenance.SIMULATED if study.level is StudyLevel.SIMULATED else found.provenance,
        )

    return PlanPoints(
        name=study.name,
        question=question(problem),
        slo=problem.slo,
        gpus_owned=problem.gpus,
        usd_per_gpu_hour=problem.usd_per_gpu_hour,
        strategies=strategies,
        roles=tuple(roles),
        strategy=table[:, 0],
        first=table[:, 1],
        second=table[:, 2],
        first_groups=table[:, 3],
        second_groups=table[:, 4],
        gpus=table[:, 5],
        ttft_ms=figures[:, 2],
        tpot_ms=figures[:, 1],
        rate=figures[:, 0],
        concurrency=np.array([float(p.concurrency) for p in chosen]),
        plan_at=chosen.__getitem__,
        evaluation_at=evaluation_at,
    )


def _figure(trial: Trial, name: str) -> float:
    return float(str(trial.outcome.attributes[name]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyBest:
    """What a study found so far under its targets; empty texts when nothing meets them."""

    name: str
    finished: int
    feasible: int
    best_rate: str
    best_plan: str


def best_of(name: str, trials: Sequence[Trial]) -> StudyBest:
    """The best feasible trial of a study by throughput."""
    feasible = [t for t in usable_trials(trials) if t.feasible]
    best = max(feasible, key=lambda t: (_figure(t, RATE), -t.number), default=None)
    return StudyBest(
        name=name,
        finished=sum(t.state.finished for t in trials),
        feasible=len(feasible),
        best_rate="" if best is None else figure(_figure(best, RATE)),
        best_plan="" if best is None else str(best.outcome.attributes.get("plan", "")),
    )
