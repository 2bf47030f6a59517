"""A store with two studies of the sample's plans and two measurements."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from planner.domain.study import Study, StudyLevel, StudyObjective, StudyState, TrialOutcome, TrialState
from planner.search.ask import build_problem
from planner.storage.runs import this_process
from planner.storage.store import Store, open_store
from planner.storage.studies import FinishedTrial
from tests.measurements.samples import csv_row, csv_text
from tests.views.samples import REQUEST, sample_points

THEN = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)


def url_of(folder: Path) -> str:
    """The store's URL in `folder`."""
    return f"sqlite:///{folder / 'wideplan.db'}"


def add_trials(store: Store, study: str, numbers: range) -> None:
    """Trials with the figures of the sample's points, every seventh one without a result."""
    points = sample_points()
    trials = []
    for i in numbers:
        plan = points.plan_at(i)
        failed = i % 7 == 6
        rate, tpot, ttft = float(points.rate[i]), float(points.tpot_ms[i]), float(points.ttft_ms[i])
        outcome = TrialOutcome(
            state=TrialState.FAILED if failed else TrialState.COMPLETE,
            values=() if failed else (rate, 1000.0 / tpot),
            constraints={} if failed else {"ttft_ms": ttft - 2000.0, "tpot_ms": tpot - 50.0},
            attributes={} if failed else {
                "plan": plan.label(), "output_tok_s_per_gpu": rate, "tpot_ms": tpot, "ttft_ms": ttft,
            },
            plan_hash=None if failed else store.plans.save(plan),
            error="simulation.stalled: nothing left to happen" if failed else None,
        )  # fmt: skip
        trials.append(FinishedTrial(spec_hash=f"{study}-{i}", parameters={"i": i}, outcome=outcome))
    store.studies.record(study, trials, owner="test")


def fill(folder: Path) -> str:
    """Fill a store and return its URL: ``search-a`` finished with 56 trials, ``search-b`` running with 20."""
    from planner.storage.database import parse_url

    problem, _ = build_problem(REQUEST)
    with open_store(parse_url(url_of(folder)), clock=lambda: THEN) as store:
        digest = store.problems.save(problem)
        for name, state, count in (
            ("search-a", StudyState.FINISHED, 56),
            ("search-b", StudyState.RUNNING, 20),
        ):
            store.studies.create(
                Study(
                    name=name, problem_hash=digest, level=StudyLevel.SIMULATED, sampler="candidates", seed=0,
                    objectives=(StudyObjective(name="output_tok_s_per_gpu"), StudyObjective(name="tok_s_user")),
                    settings={"trials": 56}, state=state,
                )
            )  # fmt: skip
            add_trials(store, name, range(count))
            if state is StudyState.RUNNING:
                store.studies.enter(name, owner=this_process())  # as long as the tests run
            else:
                store.studies.set_state(name, state)
    return url_of(folder)


def results_file(folder: Path) -> Path:
    """A file with two benchmark results."""
    path = folder / "results.csv"
    path.write_text(
        csv_text(csv_row(), csv_row(id="T-2", concurrency="128", output_tok_s_per_gpu="300.0")),
        encoding="utf-8",
    )
    return path
