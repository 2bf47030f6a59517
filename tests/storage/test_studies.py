"""Studies and trials: nothing is done twice, nothing finished is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import URL

from planner.domain.errors import ExitCode, InputError, MissingDataError
from planner.domain.study import (
    Study,
    StudyLevel,
    StudyObjective,
    StudyState,
    TrialOutcome,
    TrialState,
)
from planner.storage.canonical import content_hash
from planner.storage.errors import StoreFullError
from planner.storage.store import Store, open_store
from planner.storage.studies import FinishedTrial

REPOSITORY = Path(__file__).parents[2]

WORKER = """
import sys
from planner.domain.study import TrialOutcome, TrialState
from planner.storage.canonical import content_hash
from planner.storage.database import parse_url
from planner.storage.store import open_store

url, owner, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_store(parse_url(url)) as store:
    for i in range(count):
        spec = content_hash({"i": i})
        trial = store.studies.claim("s", spec, parameters={"i": i}, owner=owner)
        if trial is None:
            continue
        store.studies.finish(
            "s", trial.number, TrialOutcome(state=TrialState.COMPLETE, values=(float(i),), attributes={"by": owner})
        )
        print(trial.number, i, flush=True)
"""


def study(name: str = "s") -> Study:
    return Study(
        name=name,
        problem_hash="p" * 64,
        level=StudyLevel.SIMULATED,
        sampler="candidates",
        seed=7,
        objectives=(StudyObjective(name="output_tok_s_per_gpu"), StudyObjective(name="tok_s_user")),
        settings={"horizon_requests": 200, "confirm": True},
    )


def complete(value: float, **constraints: float) -> TrialOutcome:
    return TrialOutcome(state=TrialState.COMPLETE, values=(value,), constraints=constraints)


def finished(count: int) -> list[FinishedTrial]:
    return [
        FinishedTrial(
            spec_hash=content_hash({"i": i}),
            parameters={"i": i, "decode_dp": 16, "dbo": True, "backend": "deepep_low_latency"},
            outcome=TrialOutcome(
                state=TrialState.COMPLETE,
                values=(1000.0 + i, 20.5),
                constraints={"ttft_ms": -3.5},
                attributes={"label": f"plan {i}", "se": 0.01},
            ),
        )
        for i in range(count)
    ]


def worker(url: URL, owner: str, count: int) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-c", WORKER, url.render_as_string(hide_password=False), owner, str(count),
    ]  # fmt: skip
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def test_a_study_comes_back_as_it_was(store: Store) -> None:
    created = store.studies.create(study())
    assert store.studies.get("s") == created
    assert created.settings == {"horizon_requests": 200, "confirm": True}
    store.studies.set_state("s", StudyState.INTERRUPTED)
    assert store.studies.get("s").state is StudyState.INTERRUPTED


def test_names_are_unique_and_unknown_ones_get_a_hint(store: Store) -> None:
    store.studies.create(study("r1-decode"))
    with pytest.raises(InputError) as taken:
        store.studies.create(study("r1-decode"))
    assert taken.value.issues[0].code == "study.exists"
    with pytest.raises(MissingDataError) as unknown:
        store.studies.get("r1-decod")
    assert "r1-decode" in unknown.value.issues[0].fix


def test_a_point_is_claimed_once(store: Store) -> None:
    store.studies.create(study())
    first = store.studies.claim("s", "a" * 64, parameters={"tp": 8}, owner="one")
    assert first is not None
    assert (first.number, first.state, first.parameters) == (0, TrialState.RUNNING, {"tp": 8})
    assert store.studies.claim("s", "a" * 64, parameters={"tp": 8}, owner="two") is None
    store.studies.finish("s", 0, complete(1.0))
    assert store.studies.claim("s", "a" * 64, parameters={"tp": 8}, owner="one") is None
    second = store.studies.claim("s", "b" * 64, parameters={}, owner="two")
    assert second is not None
    assert second.number == 1


def test_claim_of_a_dead_process_is_taken_over_after_its_lease(store: Store) -> None:
    store.studies.create(study())
    lease = timedelta(seconds=5)
    store.studies.claim("s", "a" * 64, parameters={}, owner="dead", lease=lease)
    assert store.studies.claim("s", "a" * 64, parameters={}, owner="alive", lease=lease) is None
    clock = store.database.clock
    for _ in range(6):
        clock()
    again = store.studies.claim("s", "a" * 64, parameters={}, owner="alive", lease=lease)
    assert again is not None
    assert again.number == 0


def test_first_outcome_stays(store: Store) -> None:
    store.studies.create(study())
    store.studies.claim("s", "a" * 64, parameters={}, owner="one")
    store.studies.finish("s", 0, complete(1.0))
    assert store.studies.finish("s", 0, complete(2.0)).outcome.values == (1.0,)
    with pytest.raises(MissingDataError):
        store.studies.finish("s", 9, complete(2.0))


def test_outcomes_come_back_with_every_field(store: Store) -> None:
    store.studies.create(study())
    outcome = TrialOutcome(
        state=TrialState.FAILED,
        values=(1.5,),
        constraints={"ttft_ms": 2.0},
        attributes={"seed": 3, "note": "ü", "none": None},
        plan_hash="c" * 64,
        evaluation_hash="d" * 64,
        error="engine stopped",
    )
    store.studies.record(
        "s", [FinishedTrial(spec_hash="a" * 64, parameters={"x": 0.5}, outcome=outcome)], owner="o"
    )
    (trial,) = store.studies.trials("s")
    assert trial.outcome == outcome
    assert trial.parameters == {"x": 0.5}
    assert trial.finished_at is not None
    assert not trial.feasible


def test_feasibility_follows_the_constraints(store: Store) -> None:
    store.studies.create(study())
    store.studies.record(
        "s",
        [
            FinishedTrial(spec_hash="a" * 64, parameters={}, outcome=complete(1.0, ttft_ms=0.0)),
            FinishedTrial(spec_hash="b" * 64, parameters={}, outcome=complete(1.0, ttft_ms=0.1)),
        ],
        owner="o",
    )
    assert [t.feasible for t in store.studies.trials("s")] == [True, False]


def test_recording_again_adds_nothing(store: Store) -> None:
    store.studies.create(study())
    assert store.studies.record("s", finished(10), owner="o") == 10
    assert store.studies.record("s", finished(12), owner="o") == 2
    assert [t.number for t in store.studies.trials("s")] == list(range(12))
    assert len(store.studies.known_specs("s")) == 12


def test_recording_completes_own_and_dead_claims_but_not_those_of_others(store: Store) -> None:
    store.studies.create(study())
    points = finished(3)
    lease = timedelta(seconds=5)
    for point, owner in zip(points, ("me", "dead", "other"), strict=True):
        store.studies.claim("s", point.spec_hash, parameters={}, owner=owner, lease=lease)
    for _ in range(6):
        store.database.clock()
    # the last claim is fresh again
    assert (
        store.studies.claim("s", points[2].spec_hash, parameters={}, owner="other", lease=lease) is not None
    )
    assert store.studies.record("s", points, owner="me") == 2
    states = [t.state for t in store.studies.trials("s")]
    assert states == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.RUNNING]
    assert [t.number for t in store.studies.trials("s")] == [0, 1, 2]


def test_release_gives_up_only_own_unfinished_claims(store: Store) -> None:
    store.studies.create(study())
    store.studies.record("s", finished(2), owner="me")
    store.studies.claim("s", "a" * 64, parameters={}, owner="me")
    store.studies.claim("s", "b" * 64, parameters={}, owner="you")
    assert store.studies.release("s", owner="me") == 1
    (summary,) = store.studies.list()
    assert summary.trials == {TrialState.COMPLETE: 2, TrialState.RUNNING: 1}
    assert summary.finished == 2


def test_delete_takes_the_trials_along(store: Store) -> None:
    store.studies.create(study())
    store.studies.create(study("other"))
    store.studies.record("s", finished(3), owner="o")
    store.studies.record("other", finished(2), owner="o")
    assert store.studies.delete("s") == 3
    assert [s.study.name for s in store.studies.list()] == ["other"]
    assert len(store.studies.trials("other")) == 2


def test_two_processes_on_one_study_share_the_work(any_url: URL) -> None:
    with open_store(any_url) as store:
        store.studies.create(study())
    workers = [worker(any_url, owner, 60) for owner in ("a", "b", "c")]
    outputs = [p.communicate(timeout=120)[0] for p in workers]
    assert [p.returncode for p in workers] == [0, 0, 0]
    with open_store(any_url) as store:
        trials = store.studies.trials("s")
    assert [t.number for t in trials] == list(range(60))
    assert sorted(int(str(t.parameters["i"])) for t in trials) == list(range(60))
    assert all(t.outcome.values == (float(str(t.parameters["i"])),) for t in trials)
    # each process reports the points it did itself; together they did each point once
    done = Counter(line.split()[1] for out in outputs for line in out.splitlines())
    assert done == Counter(str(i) for i in range(60))


@pytest.mark.parametrize("after_lines", [1, 9, 25])
def test_kill_9_loses_no_finished_trial(any_url: URL, after_lines: int) -> None:
    with open_store(any_url) as store:
        store.studies.create(study())
    process = worker(any_url, "victim", 100_000)
    assert process.stdout is not None
    reported = [process.stdout.readline().split() for _ in range(after_lines)]
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    reported += [line.split() for line in rest if line.count(" ") == 1]
    with open_store(any_url) as store:
        kept = {t.number: t for t in store.studies.trials("s", state=TrialState.COMPLETE)}
        for number, i in reported:
            assert kept[int(number)].parameters == {"i": int(i)}
        # and the study goes on
        assert store.studies.record("s", finished(len(kept) + 5), owner="next") >= 4


def test_full_disk_is_an_error_and_keeps_what_is_finished(sqlite_url: URL) -> None:
    with open_store(sqlite_url) as store:
        store.studies.create(study())
        pages = _pages(store)

        @event.listens_for(store.database.engine, "begin")
        def _limit(connection: object) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 30}")  # type: ignore[attr-defined]

        stored = 0
        trials = iter(finished(5000))
        with pytest.raises(StoreFullError) as caught:  # noqa: PT012 - each insert may be the one that fails
            for trial in trials:
                stored += store.studies.record("s", [trial], owner="o")
        assert caught.value.issues[0].code == "store.full"
        assert caught.value.exit_code is ExitCode.STOPPED_EARLY
        assert stored > 10
        assert len(store.studies.trials("s")) == stored
    with open_store(sqlite_url) as again:
        assert len(again.studies.trials("s")) == stored
        assert again.studies.record("s", finished(stored + 3), owner="o") == 3


def _pages(store: Store) -> int:
    with store.database.connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()  # other work shares the machine
    action()
    return time.process_time() - started


def test_fifty_thousand_trials_list_in_a_second(sqlite_store: Store) -> None:
    sqlite_store.studies.create(study())
    assert sqlite_store.studies.record("s", finished(50_000), owner="o") == 50_000
    (summary,) = sqlite_store.studies.list()
    assert summary.finished == 50_000
    assert min(_seconds(lambda: sqlite_store.studies.trials("s")) for _ in range(3)) < 1.0
    assert min(_seconds(sqlite_store.studies.list) for _ in range(3)) < 0.2


def test_figures_are_those_of_the_trials(store: Store) -> None:
    store.studies.create(study())
    outcomes = [
        TrialOutcome(
            state=TrialState.COMPLETE, values=(1.0,), constraints={"ttft_ms": -0.1, "tpot_ms": 0.0},
            attributes={"rate": 2.5, "tpot_ms": 7, "plan": "a"},
        ),
        TrialOutcome(
            state=TrialState.COMPLETE, constraints={"ttft_ms": 0.3, "tpot_ms": 1e-9}, attributes={"rate": 1e-7}
        ),
        TrialOutcome(state=TrialState.FAILED, error='memory.full: "it" does not fit'),
    ]  # fmt: skip
    for i, outcome in enumerate(outcomes):
        store.studies.record(
            "s", [FinishedTrial(spec_hash=str(i), parameters={}, outcome=outcome)], owner="o"
        )
    assert store.studies.claim("s", "running", parameters={}, owner="o") is not None
    read = store.studies.figures("s", ("rate", "tpot_ms"))
    assert [(f.number, f.state, f.values, set(f.missed), f.error) for f in read] == [
        (0, TrialState.COMPLETE, (2.5, 7.0), set(), None),
        (1, TrialState.COMPLETE, (1e-7, None), {"ttft_ms", "tpot_ms"}, None),
        (2, TrialState.FAILED, (None, None), set(), 'memory.full: "it" does not fit'),
        (3, TrialState.RUNNING, (None, None), set(), None),
    ]
    assert [f.feasible for f in read] == [t.feasible for t in store.studies.trials("s")]
    assert [f.number for f in store.studies.figures("s", ("rate", "tpot_ms"), after=1)] == [2, 3]
    some = store.studies.trials("s", numbers=[2, 0, 77])
    assert [t.number for t in some] == [0, 2]
    assert store.studies.last_finished("s") == max(
        t.finished_at for t in store.studies.trials("s") if t.finished_at is not None
    )
