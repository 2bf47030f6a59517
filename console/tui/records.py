"""What the app reads from and writes to the store. Each call opens it anew, so that other processes may write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from console.tui.services import Solved
from console.views.studies import StudyBest, best_of, study_points, usable_trials
from planner.domain.problem import PlanningProblem
from planner.domain.study import StudyState, StudySummary
from planner.search.ask import Request

if TYPE_CHECKING:  # the database is loaded when it is first read
    from planner.storage.measured import StoredMeasurement
    from planner.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStudy:
    """A study as an answer, with how far it is."""

    solved: Solved
    finished: int
    running: bool


class Records:
    """The store at the user's usual place, or at `url`. Every method raises StoreError for an unusable store."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url

    def studies(self) -> tuple[StudySummary, ...]:
        """All studies, newest first."""
        with self._open() as store:
            return store.studies.list()

    def open_study(self, name: str) -> OpenedStudy:
        """The study's trials as points, priced for details by the analytic model."""
        from planner.catalog.engines import load_engine
        from planner.search.solve import make_pricer

        with self._open() as store:
            study = store.studies.get(name)
            problem = store.problems.get(study.problem_hash)
            trials = store.studies.trials(name)
            plans = {
                t.outcome.plan_hash or "": store.plans.get(t.outcome.plan_hash or "")
                for t in usable_trials(trials)
            }
        engine = load_engine(problem.engine, problem.engine_version)
        # a pricer reads every operator curve: only when a plan's details are asked for
        pricer = cache(lambda: make_pricer(problem, engine))
        points = study_points(study, problem, trials, plans, lambda plan: pricer().evaluate(plan))
        solved = Solved(
            request=request_of(problem),
            problem=problem,
            engine=engine,
            points=points,
            origin=f"study {name}",
        )
        done = sum(t.state.finished for t in trials)
        return OpenedStudy(solved=solved, finished=done, running=study.state is StudyState.RUNNING)

    def compare(self, names: Sequence[str]) -> tuple[bool, tuple[StudyBest, ...]]:
        """Whether the studies answer one problem, and the best of each."""
        with self._open() as store:
            hashes = {store.studies.get(n).problem_hash for n in names}
            return len(hashes) == 1, tuple(best_of(n, store.studies.trials(n)) for n in names)

    def measurements(self) -> tuple[StoredMeasurement, ...]:
        """All measurements, oldest first."""
        with self._open() as store:
            return store.measurements.list()

    def import_measurements(self, paths: Sequence[Path]) -> str:
        """Import result files; returns what happened. Raises InputError with every issue of every file."""
        from planner.measurements.importing import import_files
        from planner.measurements.names import CatalogueNames

        with self._open() as store:
            report = import_files(store, paths, names=CatalogueNames())
        return f"{report.new} new, {report.duplicates} already known"

    def _open(self) -> _Opened:
        return _Opened(self._url)


class _Opened:
    """The store for the length of one call."""

    def __init__(self, url: str | None) -> None:
        from planner.storage.database import parse_url
        from planner.storage.store import open_store

        self._context = open_store(parse_url(url) if url is not None else None)

    def __enter__(self) -> Store:
        return self._context.__enter__()

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)  # type: ignore[arg-type]


def request_of(problem: PlanningProblem) -> Request:
    """The request that asks a stored problem's question."""
    w, slo, pool = problem.workload, problem.slo, problem.decode_pool
    split = problem.heterogeneous
    one = problem.bounds.strategies
    return Request(
        name=problem.name, model=problem.model.id, fabric=pool.fabric.id, isl=w.isl, osl=w.osl, prefix_hit=w.prefix_hit, prefix_shared=w.prefix_shared,
        gpu=None if split else pool.gpu.id, gpus=None if split else pool.gpus,
        prefill_gpu=problem.prefill_pool.gpu.id if split else None,
        prefill_gpus=problem.prefill_pool.gpus if split else None,
        decode_gpu=pool.gpu.id if split else None, decode_gpus=pool.gpus if split else None,
        ttft_ms=slo.ttft_ms, tpot_ms=slo.tpot_ms, tok_s_user=slo.tok_s_user, engine_version=problem.engine_version,
        usd_per_gpu_hour=problem.usd_per_gpu_hour, strategy=one[0] if len(one) == 1 else None,
    )  # fmt: skip
