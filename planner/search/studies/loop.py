"""Run a study: ask a source for points, evaluate them elsewhere, and commit each outcome to the store at once.

One process coordinates: it alone asks, tells and writes. Outcomes are told in the order they were asked, so with the same
seed and queue depth the trials are the same whatever the machine; several processes on one study share it through claims.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from planner.domain.errors import ExitCode, Issue, PlannerError
from planner.domain.study import Objective, Scalar, StudyLevel, TrialOutcome, TrialState
from planner.search.studies.evaluate import Fidelity, Observation
from planner.search.studies.executors import Executor
from planner.search.studies.hypervolume import hypervolume
from planner.search.studies.mirror import OptunaMirror
from planner.search.studies.progress import Progress, Report
from planner.search.studies.sampler import LOG_SE, OBSERVED, objective_values
from planner.search.studies.sources import Source
from planner.search.studies.space import SearchSpace
from planner.search.studies.specs import EvalResult, EvalSpec
from planner.storage.store import Store

Monotonic = Callable[[], float]
Wanted = Callable[[], bool]
ASK_EVERY_S: Final = 2.0


class StudyStoppedError(PlannerError):
    """A study ended before its budget; what was finished is kept."""

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_EARLY


class Stop(StrEnum):
    """Why a run of a study ended."""

    BUDGET = "budget used"
    TIME = "time used"
    EXHAUSTED = "no further point"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Trials and seconds of this run; `whole`: finished trials of the study, whoever makes them. None: no limit of that kind."""

    trials: int | None = None
    seconds: float | None = None
    whole: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the trials of a study have in common."""

    study: str
    problem_hash: str
    level: StudyLevel
    version: str
    fidelity: Fidelity
    seed: int
    objectives: tuple[Objective, ...]


@dataclass(slots=True)
class _Running:
    index: int
    number: int
    spec: EvalSpec
    future: Future[EvalResult]


@dataclass(slots=True)
class Tally:
    """What a run saw, for its progress line and its end."""

    done: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    values: list[tuple[float, float]] = field(default_factory=list)
    best_index: int | None = None
    best_rate: float | None = None


class StudyLoop:
    """Evaluates points from `source` until the budget is used or the user stops it."""

    def __init__(
        self,
        space: SearchSpace,
        source: Source,
        executor: Executor,
        *,
        store: Store,
        assignment: Assignment,
        owner: str,
        depth: int,
        report: Report,
        mirror: OptunaMirror | None = None,
        wanted: Wanted = lambda: True,
        clock: Monotonic = time.monotonic,
    ) -> None:
        self.space = space
        self.tally = Tally()
        self._source, self._executor, self._store = source, executor, store
        self._a, self._owner, self._depth = assignment, owner, depth
        self._report, self._mirror, self._clock = report, mirror, clock
        self._wanted, self._asked_at = wanted, -math.inf
        self._running: deque[_Running] = deque()
        self._started = clock()
        self._reference = (0.0, _user_floor(space))

    def run(self, budget: Budget, *, stage: str) -> Stop:
        """Run to the end of `budget`.

        The first interrupt, or that the run is not `wanted` any more, lets running evaluations finish and records them;
        a second interrupt drops them.
        """
        self._started = self._clock()
        asked = 0
        stop: Stop | None = None
        try:
            while True:
                if stop is not Stop.INTERRUPTED and not self._still_wanted():
                    stop = Stop.INTERRUPTED
                while stop is None and len(self._running) < self._depth:
                    if budget.trials is not None and asked >= budget.trials:
                        stop = Stop.BUDGET
                    elif budget.seconds is not None and self._elapsed() >= budget.seconds:
                        stop = Stop.TIME
                    elif budget.whole is not None and self._made() >= budget.whole:
                        stop = Stop.BUDGET
                    elif self._start_one():
                        asked += 1
                    else:
                        stop = Stop.EXHAUSTED
                if not self._running:
                    return stop or Stop.EXHAUSTED
                self._finish_oldest()
                self._say(stage, budget)
        except KeyboardInterrupt:
            self._drain(stage, budget)
            return Stop.INTERRUPTED
        finally:
            self._running.clear()
            self._store.studies.release(self._a.study, owner=self._owner)

    # --- inside ---

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _still_wanted(self) -> bool:
        """Ask now and then: it is a write to the store, which tells others that this process is alive."""
        now = self._clock()
        if now - self._asked_at < ASK_EVERY_S:
            return True
        self._asked_at = now
        return self._wanted()

    def _made(self) -> int:
        """Trials of the study that are finished, by whatever process, or that run here."""
        return self._store.studies.count(self._a.study, finished=True) + len(self._running)

    def _start_one(self) -> bool:
        """Claim and start the next point; points that another process has are skipped."""
        while (index := self._source.next()) is not None:
            plan = self.space.plan(index)
            spec = EvalSpec(
                problem_hash=self._a.problem_hash,
                plan=plan,
                level=self._a.level,
                version=self._a.version,
                fidelity=self._a.fidelity,
                seed=self._a.seed,
            )
            claimed = self._store.studies.claim(
                self._a.study, spec.hash, parameters=self.space.parameters(index), owner=self._owner
            )
            if claimed is None:
                self.tally.excluded["evaluated by another process"] += 1
                other = self._store.studies.find_outcome(spec.hash)
                if other is None:
                    self._source.skip(index)
                else:
                    self._source.tell(index, observation_of_outcome(other), other)
                continue
            future = self._known(spec) or self._executor.submit(spec)
            self._running.append(_Running(index, claimed.number, spec, future))
            return True
        return False

    def _known(self, spec: EvalSpec) -> Future[EvalResult] | None:
        """The result of the same evaluation in any other study: asking again is free."""
        found = self._store.studies.find_outcome(spec.hash)
        if found is None:
            return None
        future: Future[EvalResult] = Future()
        future.set_result(EvalResult(spec_hash=spec.hash, observation=observation_of_outcome(found)))
        return future

    def _finish_oldest(self) -> None:
        run = self._running[0]
        while not wait([run.future], timeout=ASK_EVERY_S).done:
            self._wanted()  # a long evaluation: say that we are alive; whether to stop is asked again when it ends
            self._asked_at = -math.inf
        try:
            result = run.future.result()
        except BrokenExecutor as error:
            raise StudyStoppedError(_worker_died(self._a.study)) from error
        self._running.popleft()
        self._record(run, result.observation)

    def _record(self, run: _Running, observation: Observation) -> None:
        plan_hash = None
        if observation.usable:
            plan_hash = self._store.plans.save(run.spec.plan, problem_hash=self._a.problem_hash)
        outcome = outcome_of(
            observation, self._a.objectives, self.space, plan_hash=plan_hash, label=run.spec.plan.label()
        )
        self._store.studies.finish(self._a.study, run.number, outcome)
        self._source.tell(run.index, observation, outcome)
        if self._mirror is not None:
            self._mirror.add(run.index, observation, outcome, spec_hash=run.spec.hash)
        self.tally.done += 1
        self.count(run.index, observation, outcome)

    def count(self, index: int, observation: Observation, outcome: TrialOutcome) -> None:
        """Take a trial into the running best and hypervolume (also used for trials of earlier runs)."""
        if not observation.usable:
            self.tally.excluded[f"failed: {(outcome.error or 'no figures').split(':')[0]}"] += 1
            return
        missed = [n for n, v in outcome.constraints.items() if v > 0.0]
        for name in missed:
            self.tally.excluded[f"misses {name.removesuffix('_ms').upper()} target"] += 1
        if missed:
            return
        self.tally.values.append((observation.output_tok_s_per_gpu, observation.tok_s_user))
        if self.tally.best_rate is None or observation.output_tok_s_per_gpu > self.tally.best_rate:
            self.tally.best_rate, self.tally.best_index = observation.output_tok_s_per_gpu, index

    def _say(self, stage: str, budget: Budget) -> None:
        best = self.tally.best_index
        self._report(
            Progress(
                stage=stage,
                done=self.tally.done,
                total=budget.trials,
                running=len(self._running),
                elapsed_s=self._elapsed(),
                limit_s=budget.seconds,
                best=None if best is None else self.space.plan(best).label(),
                best_rate=self.tally.best_rate,
                hypervolume=hypervolume_of(self.tally.values, self._reference),
                excluded={**self.tally.excluded, **self._source.rejected},
            )
        )

    def _drain(self, stage: str, budget: Budget) -> None:
        try:
            while self._running:
                self._finish_oldest()
                self._say(stage, budget)
        except KeyboardInterrupt:
            for run in self._running:
                run.future.cancel()


def _worker_died(study: str) -> Issue:
    return Issue(
        code="study.worker_died",
        what=f"a process that evaluated trials of '{study}' ended abruptly",
        why="the system stopped it, most likely for want of memory; every finished trial is kept",
        fix=f"planner studies resume {study} --workers 1",
    )


def _user_floor(space: SearchSpace) -> float:
    limit = space.problem.slo.tpot_limit_ms
    return 1000.0 / limit if limit is not None else 0.0


def hypervolume_of(values: Sequence[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Hypervolume of (tok/s/GPU, tok/s/user) pairs."""
    import numpy as np

    return hypervolume(np.array(values, dtype=np.float64).reshape(-1, 2), reference)


def outcome_of(
    observation: Observation,
    objectives: Sequence[Objective],
    space: SearchSpace,
    *,
    plan_hash: str | None,
    label: str,
) -> TrialOutcome:
    """The stored outcome of an observation; constraints are relative excesses over the targets."""
    if not observation.usable:
        return TrialOutcome(
            state=TrialState.FAILED, error=observation.error or "no figures", attributes={"plan": label}
        )
    attributes: dict[str, Scalar] = {"plan": label, **observation.attributes}
    attributes |= {name: getattr(observation, name) for name in OBSERVED}
    attributes |= {f"{LOG_SE}_{n}": v for n, v in zip(OBSERVED, observation.log_se, strict=True)}
    if observation.usd_per_m_output_tokens is not None:
        attributes[Objective.COST.value] = observation.usd_per_m_output_tokens
    return TrialOutcome(
        state=TrialState.COMPLETE,
        values=objective_values(observation, objectives),
        constraints=observation.constraints(space.problem.slo),
        attributes=attributes,
        plan_hash=plan_hash,
    )


def observation_of_outcome(outcome: TrialOutcome) -> Observation:
    """The observation that a stored outcome holds."""
    a = outcome.attributes
    if outcome.state is not TrialState.COMPLETE or any(
        not isinstance(a.get(n), int | float) for n in OBSERVED
    ):
        return Observation(error=outcome.error or "no figures")
    rate, tpot, ttft = (float(str(a[n])) for n in OBSERVED)
    se = tuple(float(str(a.get(f"{LOG_SE}_{n}", 0.0))) for n in OBSERVED)
    cost = a.get(Objective.COST.value)
    known = {*OBSERVED, "plan", Objective.COST.value, *(f"{LOG_SE}_{n}" for n in OBSERVED)}
    return Observation(
        output_tok_s_per_gpu=rate,
        tpot_ms=tpot,
        ttft_ms=ttft,
        log_se=(se[0], se[1], se[2]),
        usd_per_m_output_tokens=None if cost is None else float(str(cost)),
        attributes={k: v for k, v in a.items() if k not in known},
    )
