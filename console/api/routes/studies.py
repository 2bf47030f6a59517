"""Searches: start, watch, stop, resume. Their state is in the store, so a reload or a restart loses nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from console.api.audit import note
from console.api.documents import tagged
from console.api.problems import request_of
from console.api.queries import QuestionQuery, State
from console.api.state import ConsoleState
from console.api.study_data import RECENT, is_quiet, overview_of
from console.api.wire import Wire, finite
from planner.domain.errors import InputError, Issue
from planner.domain.study import Study, StudyLevel, StudyState, StudySummary, Trial
from planner.storage.trial_figures import TrialFigures

router = APIRouter(prefix="/api/v1", tags=["studies"])
Name = Annotated[str, Path(max_length=200)]


class StudyOut(Wire):
    """A study in the list."""

    name: str
    state: str
    level: str
    sampler: str
    seed: int
    parent: str | None
    trials: dict[str, int]
    finished: int
    budget: int | None
    created_at: datetime | None
    updated_at: datetime | None
    ours: bool


class StudiesOut(Wire):
    """One page of studies, newest first."""

    studies: tuple[StudyOut, ...]
    total: int


class TrialOut(Wire):
    """A trial."""

    number: int
    state: str
    feasible: bool
    plan: str
    plan_hash: str | None
    output_tok_s_per_gpu: float | None
    tok_s_user: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    error: str | None


class StudyPageOut(Wire):
    """A study with its figures and one page of trials."""

    study: StudyOut
    question: str
    objectives: tuple[str, ...]
    quiet: bool
    best: TrialOut | None
    trials_figure: dict[str, Any]
    history_figure: dict[str, Any]
    trials: tuple[TrialOut, ...]
    trials_total: int
    offset: int
    excluded: dict[str, int]


class NewStudy(BaseModel):
    """What to search."""

    model_config = ConfigDict(extra="forbid")

    question: QuestionQuery
    trials: Annotated[int, Field(ge=1, le=100_000)] = 200
    level: StudyLevel = StudyLevel.SIMULATED
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9._-]*$")] = ""


class MoreTrials(BaseModel):
    """How far to continue; nothing means to the study's own budget."""

    model_config = ConfigDict(extra="forbid")

    trials: Annotated[int, Field(ge=1, le=100_000)] | None = None


@router.get("/studies")
async def studies(
    state: State,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> StudiesOut:
    """All studies, newest first."""
    return await state.answers.run(list_studies, state, limit, offset)


def list_studies(state: ConsoleState, limit: int, offset: int) -> StudiesOut:
    """One page of studies."""
    summaries = state.store.studies.list()
    shown = summaries[offset : offset + limit]
    return StudiesOut(studies=tuple(_study(state, s) for s in shown), total=len(summaries))


def _study(state: ConsoleState, s: StudySummary) -> StudyOut:
    budget = s.study.settings.get("trials")
    return StudyOut(
        name=s.study.name,
        state=s.study.state.value,
        level=s.study.level.value,
        sampler=s.study.sampler,
        seed=s.study.seed,
        parent=s.study.parent,
        trials={k.value: n for k, n in s.trials.items()},
        finished=s.finished,
        budget=budget if isinstance(budget, int) else None,
        created_at=s.study.created_at,
        updated_at=s.study.updated_at,
        ours=state.children.runs(s.study.name),
    )


@router.post("/studies", status_code=201)
async def start(state: State, request: Request, body: NewStudy) -> StudyOut:
    """Store a new study and search in a process of its own."""
    summary = await state.answers.run(_create, state, body)
    await state.children.start_study(summary.study.name)
    await state.answers.run(note, state, request, "study.start", summary.study.name)
    return _study(state, summary)


def _create(state: ConsoleState, body: NewStudy) -> StudySummary:
    from planner.search.ask import build_problem
    from planner.search.studies.runner import Settings, create_study

    if body.level is StudyLevel.MEASURED:
        raise InputError(
            Issue(
                code="study.level",
                what="level measured",
                why="measured trials come from benchmark runs",
                fix="choose analytic or simulated",
            )
        )
    asked = request_of(
        body.question.question(state), profiles=state.settings.profiles, uploads=state.settings.uploads
    )
    problem, _ = build_problem(asked)
    settings = Settings(level=body.level, seed=body.seed, trials=body.trials)
    study = create_study(state.store, problem, settings, name=body.name or None)
    return StudySummary(study=study, trials={})


@router.post("/studies/{name}/stop", status_code=202)
async def stop(state: State, request: Request, name: Name) -> StudyOut:
    """Ask whoever runs the study to stop; every finished trial is kept."""
    await state.answers.run(_set_interrupted, state, name)
    await state.answers.run(note, state, request, "study.stop", name)
    return await state.answers.run(_one, state, name)


def _set_interrupted(state: ConsoleState, name: str) -> None:
    study = state.store.studies.get(name)
    if study.parent is not None:  # long runs are made by whoever runs the study they belong to
        study = state.store.studies.get(study.parent)
    if study.state is StudyState.RUNNING:
        state.store.studies.set_state(study.name, StudyState.INTERRUPTED)


@router.post("/studies/{name}/resume", status_code=202)
async def resume(state: State, request: Request, name: Name, body: MoreTrials) -> StudyOut:
    """Continue a study; finished trials are not repeated."""
    await state.answers.run(_resumable, state, name)
    await state.children.start_study(name, trials=body.trials)
    await state.answers.run(note, state, request, "study.resume", name)
    return await state.answers.run(_one, state, name)


def _resumable(state: ConsoleState, name: str) -> None:
    study = state.store.studies.get(name)
    if state.children.runs(name):
        raise InputError(
            Issue(
                code="study.runs",
                what=f"study '{name}'",
                why="it is running already",
                fix="stop it first, or wait",
            )
        )
    if study.parent is not None:
        raise InputError(
            Issue(
                code="study.child",
                what=f"study '{name}'",
                why=f"it holds the long runs of '{study.parent}'",
                fix=f"resume {study.parent}",
            )
        )
    state.store.studies.set_state(name, StudyState.RUNNING)


def _one(state: ConsoleState, name: str) -> StudyOut:
    summary = next((s for s in state.store.studies.list() if s.study.name == name), None)
    return _study(state, summary or StudySummary(study=state.store.studies.get(name), trials={}))


@router.get("/studies/{name}", response_model=StudyPageOut)
async def study(
    state: State,
    request: Request,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """Figures and trials, newest first."""
    found, trials = await state.answers.run(_read, state, name)
    finished = sum(t.state.finished for t in trials[-RECENT:])
    seen = (name, found.state, found.updated_at, len(trials), finished)
    last = await state.answers.run(state.store.studies.last_finished, name)
    quiet = is_quiet(found, last, state.settings.clock())
    key = ("study", seen, quiet, limit, offset, state.children.runs(name))
    made = await state.answers.text(
        key, partial(_page, state, StudySummary(study=found, trials={}), trials, quiet, limit, offset)
    )
    return tagged(request, made)


def _read(state: ConsoleState, name: str) -> tuple[Study, tuple[TrialFigures, ...]]:
    return state.store.studies.get(name), state.studies.trials(name)


def _page(
    state: ConsoleState,
    summary: StudySummary,
    trials: tuple[TrialFigures, ...],
    quiet: bool,
    limit: int,
    offset: int,
) -> bytes:
    from console.figures.study import history_figure, trials_figure
    from planner.search.recommend import question

    seen = overview_of(trials)
    newest = [t.number for t in trials[max(0, len(trials) - offset - limit) : max(len(trials) - offset, 0)]]
    wanted = newest if seen.best is None else [*newest, seen.best]
    full = {t.number: t for t in state.store.studies.trials(summary.study.name, numbers=wanted)}
    best = None if seen.best is None else full.get(seen.best)
    out = StudyPageOut(
        study=_study(state, replace(summary, trials=seen.counts)),
        question=question(state.store.problems.get(summary.study.problem_hash)),
        objectives=tuple(o.name for o in summary.study.objectives),
        quiet=quiet,
        best=None if best is None else _trial(best),
        trials_figure=trials_figure(seen.columns),
        history_figure=history_figure(seen.columns),
        trials=tuple(_trial(full[n]) for n in reversed(newest) if n in full),
        trials_total=len(trials),
        offset=offset,
        excluded=dict(seen.excluded),
    )
    return out.model_dump_json().encode()


def _trial(t: Trial) -> TrialOut:
    def number(name: str) -> float | None:
        value = t.outcome.attributes.get(name)
        return finite(float(value)) if isinstance(value, int | float) else None

    tpot = number("tpot_ms")
    return TrialOut(
        number=t.number,
        state=t.state.value,
        feasible=t.feasible,
        plan=str(t.outcome.attributes.get("plan", "")),
        plan_hash=t.outcome.plan_hash,
        output_tok_s_per_gpu=number("output_tok_s_per_gpu"),
        tok_s_user=finite(1000.0 / tpot) if tpot else None,
        ttft_ms=number("ttft_ms"),
        tpot_ms=tpot,
        error=t.outcome.error,
    )
