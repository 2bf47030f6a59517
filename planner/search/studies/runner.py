"""Start, resume and finish studies: budget, fidelity ladder, workers, mirror, and the state a stopped study is left in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from planner.catalog.engines import load_engine
from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError, Issue, NotFeasibleError
from planner.domain.problem import PlanningProblem
from planner.domain.study import (
    Objective,
    SamplerName,
    Scalar,
    Study,
    StudyLevel,
    StudyObjective,
    StudyState,
    TrialState,
)
from planner.search.solve import solve
from planner.search.studies.evaluate import EXACT, LONG, SHORT, Evaluator, Fidelity, Observation
from planner.search.studies.evaluators import make_evaluator
from planner.search.studies.executors import Executor, InlineExecutor, ProcessExecutor
from planner.search.studies.hypervolume import Front
from planner.search.studies.loop import Assignment, Budget, Stop, StudyLoop, observation_of_outcome
from planner.search.studies.mirror import OptunaMirror
from planner.search.studies.progress import Report
from planner.search.studies.report import StudyReport, report_of
from planner.search.studies.routers import DEFAULT_ONLY, router_variants
from planner.search.studies.sampler import require_sampler
from planner.search.studies.sources import ListSource, OptunaSource, front_points
from planner.search.studies.space import SearchSpace
from planner.storage.errors import StoreFullError
from planner.storage.runs import this_process
from planner.storage.store import Store

PROMOTED_SHARE: Final = 8  # one trial in eight is a long run of a point that did well in a short one
LONG_SUFFIX: Final = ".long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a study searches; kept in `Study.settings`, so that it resumes the same way."""

    sampler: SamplerName = SamplerName.CANDIDATES
    level: StudyLevel = StudyLevel.SIMULATED
    seed: int = 0
    objectives: tuple[Objective, ...] = (Objective.RATE, Objective.USER)
    trials: int | None = 200
    seconds: float | None = None
    workers: int = 1
    ladder: bool = True
    routers: bool = True
    optuna_storage: str | None = None
    profiles: str | None = None  # folder laid over the catalogue, for the engine profile on resume

    def stored(self) -> dict[str, Scalar]:
        """As text and numbers."""
        return {
            "trials": self.trials, "seconds": self.seconds, "workers": self.workers, "ladder": self.ladder,
            "routers": self.routers, "optuna_storage": self.optuna_storage, "profiles": self.profiles,
        }  # fmt: skip

    @staticmethod
    def of(study: Study) -> Settings:
        """The settings of a stored study."""
        s: Mapping[str, Scalar] = study.settings
        trials, seconds = s.get("trials"), s.get("seconds")
        url, profiles = s.get("optuna_storage"), s.get("profiles")
        return Settings(
            sampler=SamplerName(study.sampler),
            level=study.level,
            seed=study.seed,
            objectives=tuple(Objective(o.name) for o in study.objectives),
            trials=None if trials is None else int(str(trials)),
            seconds=None if seconds is None else float(str(seconds)),
            workers=int(str(s.get("workers", 1))),
            ladder=s.get("ladder") is not False,
            routers=s.get("routers") is not False,
            optuna_storage=None if url is None else str(url),
            profiles=None if profiles is None else str(profiles),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run of a study ended."""

    stop: Stop
    report: StudyReport


def create_study(
    store: Store, problem: PlanningProblem, settings: Settings, *, name: str | None = None
) -> Study:
    """Store a new study of `problem`; without a name it is called after problem and level, numbered when taken."""
    require_sampler(settings.sampler)
    digest = store.problems.save(problem)
    base = name or f"{problem.name}-{settings.level.value}"
    taken = {s.study.name for s in store.studies.list()}
    chosen, number = base, 2
    while name is None and chosen in taken:
        chosen, number = f"{base}-{number}", number + 1
    return store.studies.create(
        Study(
            name=chosen,
            problem_hash=digest,
            level=settings.level,
            sampler=settings.sampler.value,
            seed=settings.seed,
            objectives=tuple(StudyObjective(name=o.value, maximise=o.maximise) for o in settings.objectives),
            settings=settings.stored(),
        )
    )


def build_space(problem: PlanningProblem, engine: EngineProfile, settings: Settings) -> SearchSpace:
    """The legal set of `problem`. NotFeasibleError ``search.empty`` when there is none."""
    many = settings.routers and settings.level is StudyLevel.SIMULATED
    solution = solve(problem, engine)
    if not any(len(s.points) for s in solution.strategies):
        raise NotFeasibleError(
            Issue(
                code="search.empty",
                what=f"no legal configuration of {problem.model.id} on {problem.gpus} GPUs",
                why="every role configuration breaks a rule or does not fit in memory",
                fix="planner recommend with the same flags says which rules and what would do",
            )
        )
    return SearchSpace(solution, router_variants(problem.workload) if many else DEFAULT_ONLY)


class StudyRun:
    """One run of a stored study, from its last finished trial to its budget."""

    def __init__(
        self,
        store: Store,
        study: Study,
        settings: Settings,
        *,
        problem: PlanningProblem,
        engine: EngineProfile,
        report: Report,
        evaluator: Evaluator | None = None,
        space: SearchSpace | None = None,
    ) -> None:
        if settings.level is StudyLevel.MEASURED:
            raise InputError(_not_here())
        self.store, self.study, self.settings = store, study, settings
        self.problem, self.engine = problem, engine
        self._space = space
        self._evaluator = evaluator or make_evaluator(settings.level, problem, engine)
        self._inline = evaluator is not None
        self._report = report

    @property
    def space(self) -> SearchSpace:
        """The legal set, enumerated on first use."""
        if self._space is None:
            self._space = build_space(self.problem, self.engine, self.settings)
        return self._space

    def run(self) -> Ended:
        """Run to the budget, then repeat the best points at high fidelity; the state is stored whatever happens."""
        settings = self.settings
        stop = Stop.INTERRUPTED
        with self._running(self.study.name) as left_as:
            executor = self._executor()
            try:
                long = self._long_trials()
                stop, expected = self._short(executor, long)
                if stop is not Stop.INTERRUPTED and long:
                    stop = self._promote(executor, long, stop)
            finally:
                executor.close()
            left_as.append(_state_after(stop))
        report = report_of(
            self.store, self.study.name, self.space, expected_gain=expected, settings=settings.stored()
        )
        return Ended(stop=stop, report=report)

    # --- inside ---

    @contextmanager
    def _running(self, name: str) -> Iterator[list[StudyState]]:
        """This process runs study `name` meanwhile, and leaves it in the state that is appended, or interrupted."""
        owner = this_process()
        left_as: list[StudyState] = []
        self.store.studies.enter(name, owner=owner)
        try:
            try:
                yield left_as
            finally:
                state = left_as[-1] if left_as else StudyState.INTERRUPTED
                self.store.studies.leave(name, owner=owner, state=state)
        except StoreFullError as error:
            fix = f"free some space, then planner studies resume {self.study.name}"
            raise StoreFullError(*(replace(i, fix=fix) for i in error.issues)) from error

    def _wanted(self) -> bool:
        return self.store.studies.beat(self.study.name, owner=this_process())

    def _long_trials(self) -> int:
        s = self.settings
        if not s.ladder or s.level is not StudyLevel.SIMULATED:
            return 0
        return max((s.trials or 80) // PROMOTED_SHARE, 1)

    def _executor(self) -> Executor:
        if self._inline or self.settings.workers <= 1:
            return InlineExecutor(self._evaluator)
        return ProcessExecutor(
            self.problem, self.engine, level=self.settings.level, workers=self.settings.workers
        )

    def _short(self, executor: Executor, long: int) -> tuple[Stop, float | None]:
        s = self.settings
        source = OptunaSource(self.space, sampler=s.sampler, seed=s.seed, objectives=s.objectives)
        loop = self._loop(self.study.name, source, executor, self._short_fidelity())
        done = self._restore(loop, source)
        left = None if s.trials is None else max(s.trials - long - done, 0)
        seconds = None if s.seconds is None else s.seconds * (PROMOTED_SHARE - 1) / PROMOTED_SHARE
        finished = self.store.studies.count(self.study.name, finished=True)
        budget = Budget(
            trials=left,
            seconds=seconds if long else s.seconds,
            whole=None if left is None else finished + left,
        )
        stop = loop.run(budget, stage="search")
        return stop, source.expected_gain

    def _promote(self, executor: Executor, count: int, before: Stop) -> Stop:
        """Long runs, with replications, of the short study's best points, in a study of their own."""
        name = f"{self.study.name}{LONG_SUFFIX}"
        if all(s.study.name != name for s in self.store.studies.list()):
            self.store.studies.create(
                replace(self.study, name=name, sampler="promotion", parent=self.study.name, created_at=None)
            )
        loop = self._loop(
            name, ListSource(best_points(self.store, self.study.name, self.space, count)), executor, LONG
        )
        with self._running(name) as left_as:
            stop = loop.run(Budget(trials=count), stage="long runs")
            left_as.append(_state_after(stop))
        return stop if stop is Stop.INTERRUPTED else before

    def _short_fidelity(self) -> Fidelity:
        return EXACT if self.settings.level is StudyLevel.ANALYTIC else SHORT

    def _loop(
        self, study: str, source: OptunaSource | ListSource, executor: Executor, fidelity: Fidelity
    ) -> StudyLoop:
        s = self.settings
        mirror = (
            None
            if s.optuna_storage is None
            else OptunaMirror(s.optuna_storage, name=study, objectives=s.objectives, space=self.space)
        )
        return StudyLoop(
            self.space,
            source,
            executor,
            store=self.store,
            assignment=Assignment(
                study=study,
                problem_hash=self.study.problem_hash,
                level=s.level,
                version=self._evaluator.version,
                fidelity=fidelity,
                seed=s.seed,
                objectives=s.objectives,
            ),
            owner=this_process(),
            wanted=self._wanted,
            depth=max(2, s.workers),
            report=self._report,
            mirror=mirror,
        )

    def _restore(self, loop: StudyLoop, source: OptunaSource) -> int:
        """Tell the source what was finished before; returns how many trials."""
        done = 0
        for trial in self.store.studies.trials(self.study.name):
            index = self.space.index_of(trial.parameters)
            if index is None or not trial.state.finished:
                continue
            observation = observation_of_outcome(trial.outcome)
            source.restore(index, observation, trial.outcome)
            loop.count(index, observation, trial.outcome)
            done += 1
        if done == 0:
            # the analytic pick comes first: what the search is worth is said against it
            source.enqueue(analytic_pick(self.space))
        return done


def _state_after(stop: Stop) -> StudyState:
    return StudyState.INTERRUPTED if stop is Stop.INTERRUPTED else StudyState.FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What may differ when a study is continued; None keeps what was."""

    trials: int | None = None
    seconds: float | None = None
    workers: int | None = None
    optuna_storage: str | None = None


def resume(store: Store, name: str, *, report: Report, changes: Changes | None = None) -> Ended:
    """Continue a stored study to its budget (of trials in all; the time limit counts anew)."""
    study = store.studies.get(name)
    _require_own(study)
    wanted = changes or Changes()
    before = Settings.of(study)
    settings = replace(
        before,
        trials=wanted.trials or before.trials,
        seconds=wanted.seconds or before.seconds,
        workers=wanted.workers or before.workers,
        optuna_storage=wanted.optuna_storage or before.optuna_storage,
    )
    problem, engine = question_of(store, study)
    return StudyRun(store, study, settings, problem=problem, engine=engine, report=report).run()


def question_of(store: Store, study: Study) -> tuple[PlanningProblem, EngineProfile]:
    """The problem of a stored study and its engine profile."""
    problem = store.problems.get(study.problem_hash)
    profiles = study.settings.get("profiles")
    overlay = None if profiles is None else Path(str(profiles))
    return problem, load_engine(problem.engine, problem.engine_version, overlay=overlay)


def space_of(store: Store, study: Study) -> SearchSpace:
    """The space of a stored study."""
    problem, engine = question_of(store, study)
    return build_space(problem, engine, Settings.of(study) if study.parent is None else _parent(store, study))


def _parent(store: Store, study: Study) -> Settings:
    return Settings.of(store.studies.get(study.parent or study.name))


def _require_own(study: Study) -> None:
    if study.parent is not None:
        raise InputError(
            Issue(
                code="study.child",
                what=f"study '{study.name}'",
                why=f"it holds the long runs of '{study.parent}' and is continued with it",
                fix=f"planner studies resume {study.parent}",
            )
        )


def copy_to_optuna(store: Store, study: Study, url: str) -> int:
    """Copy the finished trials of a stored study into an Optuna database; returns how many were new there."""
    space = space_of(store, study)
    objectives = tuple(Objective(o.name) for o in study.objectives)
    mirror = OptunaMirror(url, name=study.name, objectives=objectives, space=space)
    copied = 0
    for trial in store.studies.trials(study.name, state=TrialState.COMPLETE):
        index = space.index_of(trial.parameters)
        if index is not None:
            seen = observation_of_outcome(trial.outcome)
            copied += mirror.add(index, seen, trial.outcome, spec_hash=trial.spec_hash)
    return copied


def analytic_pick(space: SearchSpace) -> int:
    """The point that L1 alone would pick: the highest throughput that meets the targets (index with the default router)."""
    front = front_points(space, space.base_size)
    return max(front, key=lambda i: (float(space.rate[space.base(i)]), -i))


LEADERS: Final = 3  # one long run in so many goes to the highest throughput seen


def best_points(store: Store, study: str, space: SearchSpace, count: int) -> list[int]:
    """Up to `count` feasible trials of a study: a third of them by throughput, then by what each adds to the front.

    A short run's best points are often lucky: several must be tried again for one to hold its targets. Equal figures are
    one plan under routers that do not differ here, and count once. When the front is used up, the points nearest to it
    follow.
    """
    rows: list[tuple[int, Observation]] = []
    for trial in store.studies.trials(study, state=TrialState.COMPLETE):
        index = space.index_of(trial.parameters)
        if index is not None and trial.feasible:
            rows.append((index, observation_of_outcome(trial.outcome)))
    if not rows:
        return []
    values = np.array([(o.output_tok_s_per_gpu, o.tok_s_user) for _, o in rows])
    by_rate = np.argsort(-values[:, 0], kind="stable")
    _, first = np.unique(values[by_rate, 0], return_index=True)
    leaders = by_rate[np.sort(first)]
    chosen = [int(i) for i in leaders[: max(count // LEADERS, 1)]]
    distance = Front.of(values, (0.0, 0.0)).log_distance(values)
    while len(chosen) < min(count, len(rows)):
        gains = Front.of(values[chosen], (0.0, 0.0)).gains(values)
        rank = np.lexsort((distance, -gains))
        chosen.append(next(int(i) for i in rank if int(i) not in chosen))
    return [rows[i][0] for i in chosen]


def _not_here() -> Issue:
    return Issue(
        code="study.level",
        what="--level measured",
        why="measured trials come from benchmark runs, which this command cannot make",
        fix="planner campaign design RECIPE --runs 10, run them, then planner measurements import",
    )
