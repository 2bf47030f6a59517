"""Who works on a study: what is shown after a process died, and who may say that it is over."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from planner.domain.study import Study, StudyLevel, StudyObjective, StudyState
from planner.storage.runs import STARTING, UNSEEN, is_gone, this_process
from planner.storage.store import Store

ELSEWHERE = "another-machine:12:34"


@pytest.fixture(autouse=True)
def _one_study(store: Store) -> None:
    store.studies.create(
        Study(
            name="s", problem_hash="0" * 64, level=StudyLevel.ANALYTIC, sampler="candidates", seed=0,
            objectives=(StudyObjective(name="x"),),
        )
    )  # fmt: skip


def dead_process() -> str:
    """Owner name of a process that has ended."""
    code = "from planner.storage.runs import this_process; print(this_process())"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout.strip()


def state(store: Store) -> StudyState:
    (listed,) = store.studies.list()
    assert store.studies.get("s").state is listed.study.state
    return listed.study.state


def test_this_process_is_there_and_one_that_ended_is_gone() -> None:
    me = this_process()
    assert not is_gone(me)
    assert is_gone(dead_process())
    host, pid, started = me.rsplit(":", 2)
    assert is_gone(f"{host}:{pid}:{int(started) + 1}")  # another process had this id before
    for unknown in (ELSEWHERE, "someone", f"{socket.gethostname()}:x:1", ""):
        assert not is_gone(unknown)


def test_a_study_whose_process_died_is_interrupted(store: Store) -> None:
    store.studies.enter("s", owner=dead_process())
    assert state(store) is StudyState.INTERRUPTED
    store.studies.enter("s", owner=this_process())
    assert state(store) is StudyState.RUNNING


def test_one_elsewhere_counts_as_long_as_it_is_heard_of(store: Store, clock: Any) -> None:
    store.studies.enter("s", owner=ELSEWHERE)
    clock.now += UNSEEN / 2
    assert store.studies.beat("s", owner=ELSEWHERE)
    clock.now += UNSEEN / 2 + timedelta(seconds=20)
    assert state(store) is StudyState.RUNNING
    clock.now += UNSEEN
    assert state(store) is StudyState.INTERRUPTED


def test_a_study_that_is_about_to_start_is_given_time(store: Store, clock: Any) -> None:
    assert state(store) is StudyState.RUNNING
    clock.now += STARTING
    assert state(store) is StudyState.INTERRUPTED


def test_the_last_one_out_says_how_it_ended(store: Store) -> None:
    store.studies.enter("s", owner=this_process())
    store.studies.enter("s", owner=ELSEWHERE)
    store.studies.leave("s", owner=this_process(), state=StudyState.INTERRUPTED)
    assert state(store) is StudyState.RUNNING
    store.studies.leave("s", owner=ELSEWHERE, state=StudyState.FINISHED)
    assert state(store) is StudyState.FINISHED


def test_a_request_to_stop_reaches_everybody_and_stays(store: Store) -> None:
    for owner in (this_process(), ELSEWHERE):
        store.studies.enter("s", owner=owner)
    store.studies.set_state("s", StudyState.INTERRUPTED)
    for owner in (this_process(), ELSEWHERE):
        assert not store.studies.beat("s", owner=owner)
        store.studies.leave("s", owner=owner, state=StudyState.INTERRUPTED)
        assert state(store) is StudyState.INTERRUPTED


def test_a_deleted_study_stops_its_process(store: Store) -> None:
    store.studies.enter("s", owner=this_process())
    store.studies.delete("s")
    assert not store.studies.beat("s", owner=this_process())
    store.studies.leave("s", owner=this_process(), state=StudyState.FINISHED)
    assert store.studies.list() == ()


def test_the_claim_of_a_dead_process_is_free_at_once(store: Store) -> None:
    first = store.studies.claim("s", "a", parameters={}, owner=dead_process())
    assert first is not None
    again = store.studies.claim("s", "a", parameters={}, owner=this_process())
    assert again is not None
    assert again.number == first.number
    assert store.studies.claim("s", "a", parameters={}, owner=ELSEWHERE) is None
