"""Where evaluations run: in this process, or in processes of this machine. Jobs on Kubernetes are in `shards`.

The numbers do not depend on where they are computed: a specification carries plan, fidelity and seed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Protocol

from planner.domain.engine import EngineProfile
from planner.domain.errors import PlannerError
from planner.domain.problem import PlanningProblem
from planner.domain.study import StudyLevel
from planner.search.studies.evaluate import Evaluator, Observation
from planner.search.studies.specs import EvalResult, EvalSpec

EvaluatorFactory = Callable[[PlanningProblem, EngineProfile], Evaluator]


class Executor(Protocol):
    """Runs specifications. Same specification, same result; submitting twice is harmless."""

    def submit(self, spec: EvalSpec) -> Future[EvalResult]:
        """Start (or queue) one evaluation."""
        ...

    def close(self) -> None:
        """Finish what runs, drop what is queued."""
        ...


def run_spec(evaluator: Evaluator, spec: EvalSpec) -> EvalResult:
    """Evaluate one specification here; a plan that is refused gives a result with an error, not an exception."""
    try:
        observation = evaluator.observe(spec.plan, fidelity=spec.fidelity, seed=spec.seed)
    except PlannerError as error:
        observation = Observation(error="; ".join(f"{i.code}: {i.what}" for i in error.issues))
    return EvalResult(spec_hash=spec.hash, observation=observation)


class InlineExecutor:
    """Evaluates in the calling thread."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def submit(self, spec: EvalSpec) -> Future[EvalResult]:
        """See `Executor.submit`; the future is done on return."""
        future: Future[EvalResult] = Future()
        future.set_result(run_spec(self._evaluator, spec))
        return future

    def close(self) -> None:
        """Nothing to close."""


class ProcessExecutor:
    """Evaluates in `workers` processes of this machine, each with one thread and its own evaluator."""

    def __init__(
        self, problem: PlanningProblem, engine: EngineProfile, *, level: StudyLevel, workers: int
    ) -> None:
        self._pool = ProcessPoolExecutor(
            max_workers=workers,
            mp_context=get_context("spawn"),  # forking a process with threads may deadlock
            initializer=_start_worker,
            initargs=(problem, engine, level, problem.prefill_pool is problem.decode_pool),
        )

    def submit(self, spec: EvalSpec) -> Future[EvalResult]:
        """See `Executor.submit`."""
        return self._pool.submit(_run_in_worker, spec)

    def close(self) -> None:
        """See `Executor.close`."""
        self._pool.shutdown(wait=True, cancel_futures=True)


_worker_evaluator: Evaluator | None = None


def _start_worker(problem: PlanningProblem, engine: EngineProfile, level: StudyLevel, shared: bool) -> None:
    global _worker_evaluator  # noqa: PLW0603 - one evaluator per process, built once
    # stopping is the coordinator's to handle: it lets running evaluations finish
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    if shared:
        # pickling keeps the identity of a shared pool only inside one object graph; say it again
        object.__setattr__(problem, "prefill_pool", problem.decode_pool)
    from planner.search.studies.evaluators import make_evaluator

    _worker_evaluator = make_evaluator(level, problem, engine)


def _end_with_parent() -> None:
    """A worker whose coordinator was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run_in_worker(spec: EvalSpec) -> EvalResult:
    if _worker_evaluator is None:
        msg = "the worker was not started"
        raise RuntimeError(msg)
    return run_spec(_worker_evaluator, spec)
