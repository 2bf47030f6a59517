"""Searches: started here, seen and stopped anywhere, resumed, and nothing lost when a process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from console_client import make_console

from planner.domain.study import StudyState, TrialState

QUESTION = {"recipe": "gpt-oss-120b-h200x8"}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Any]:
    yield from make_console(tmp_path)


def _wait(
    console: Any, name: str, until: Callable[[dict[str, Any]], bool], timeout: float = 60.0
) -> dict[str, Any]:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        listed = console.get("/api/v1/studies").json()["studies"]
        found = next((s for s in listed if s["name"] == name), None)
        if found is not None and until(found):
            return found
        console.run(lambda: __import__("asyncio").sleep(0.1))
    pytest.fail(f"study {name} did not get there: {listed}")


def _start(console: Any, trials: int, **more: Any) -> str:
    answer = console.ask(
        "POST", "/api/v1/studies", json={"question": QUESTION, "trials": trials, "level": "analytic", **more}
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["name"])


def test_a_search_runs_to_its_budget_and_shows_figures(fresh: Any) -> None:
    name = _start(fresh, 12)
    done = _wait(fresh, name, lambda s: s["state"] == "finished")
    assert done["finished"] == 12
    page = fresh.get(f"/api/v1/studies/{name}").json()
    assert page["trials_total"] == 12
    assert page["best"]["feasible"]
    assert page["best"]["output_tok_s_per_gpu"] == max(
        t["output_tok_s_per_gpu"] for t in page["trials"] if t["feasible"]
    )
    assert len(page["trials"]) == 12
    saved = fresh.get("/api/v1/plan", saved=page["best"]["plan_hash"]).json()
    assert saved["label"] == page["best"]["plan"]
    assert [e["action"] for e in fresh.get("/api/v1/audit").json()["entries"]] == ["study.start"]


def test_stopped_resumed_and_no_trial_twice(fresh: Any) -> None:
    name = _start(fresh, 4000)
    _wait(fresh, name, lambda s: s["finished"] >= 3)
    assert fresh.ask("POST", f"/api/v1/studies/{name}/stop", json={}).status_code == 202
    stopped = _wait(fresh, name, lambda s: s["state"] == "interrupted" and not s["ours"])
    before = stopped["finished"]
    assert 3 <= before < 4000
    answer = fresh.ask("POST", f"/api/v1/studies/{name}/resume", json={"trials": before + 5})
    assert answer.status_code == 202, answer.text
    done = _wait(fresh, name, lambda s: s["state"] == "finished")
    assert done["finished"] == before + 5
    store = fresh.app.inner.state.console.store
    specs = [t.spec_hash for t in store.studies.trials(name)]
    assert len(specs) == len(set(specs))


def test_stopped_from_a_terminal(fresh: Any) -> None:
    name = _start(fresh, 4000)
    _wait(fresh, name, lambda s: s["finished"] >= 2)
    code = (
        "import sys; from planner.storage.store import open_store; from planner.domain.study import StudyState\n"
        "with open_store() as s: s.studies.set_state(sys.argv[1], StudyState.INTERRUPTED)"
    )
    url = fresh.settings.store.render_as_string(hide_password=False)
    subprocess.run(
        [sys.executable, "-c", code, name], check=True, env={**os.environ, "WIDEPLAN_DATABASE_URL": url}
    )
    _wait(fresh, name, lambda s: s["state"] == "interrupted" and not s["ours"])


def test_a_search_in_a_terminal_is_stopped_from_the_browser(fresh: Any) -> None:
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe
    from planner.search.studies.runner import Settings, create_study
    from planner.storage.runs import this_process

    studies = fresh.app.inner.state.console.store.studies
    problem, _ = build_problem(with_recipe(QUESTION["recipe"], Request()))
    study = create_study(fresh.app.inner.state.console.store, problem, Settings(trials=9), name="terminal")
    studies.create(replace(study, name="terminal.long", parent="terminal", created_at=None))
    me = this_process()  # stands for the process in the terminal
    for asked in ("terminal", "terminal.long"):
        studies.enter("terminal", owner=me)
        assert studies.beat("terminal", owner=me)
        assert fresh.get("/api/v1/studies/terminal").json()["study"]["state"] == "running"
        assert fresh.ask("POST", f"/api/v1/studies/{asked}/stop", json={}).status_code == 202
        assert not studies.beat("terminal", owner=me)
        studies.leave("terminal", owner=me, state=StudyState.INTERRUPTED)
        assert fresh.get("/api/v1/studies/terminal").json()["study"]["state"] == "interrupted"


def test_killed_in_the_middle_nothing_is_lost(fresh: Any) -> None:
    name = _start(fresh, 4000)
    _wait(fresh, name, lambda s: s["finished"] >= 3)
    state = fresh.app.inner.state.console
    process = state.children._studies[name]
    os.kill(process.pid, signal.SIGKILL)
    _wait(fresh, name, lambda s: not s["ours"])
    kept = [t for t in state.store.studies.trials(name) if t.state.finished]
    assert len(kept) >= 3
    assert state.store.studies.get(name).state is StudyState.INTERRUPTED  # nobody had to say so
    answer = fresh.ask("POST", f"/api/v1/studies/{name}/resume", json={"trials": len(kept) + 4})
    assert answer.status_code == 202
    _wait(fresh, name, lambda s: s["state"] == "finished")
    after = {t.number: t for t in state.store.studies.trials(name)}
    for trial in kept:
        assert after[trial.number].outcome == trial.outcome
    assert sum(t.state is TrialState.COMPLETE for t in after.values()) >= len(kept) + 4


def test_a_restarted_console_knows_its_studies_and_stops_what_it_started(tmp_path: Path) -> None:
    first = make_console(tmp_path)
    console = next(first)
    name = _start(console, 4000)
    _wait(console, name, lambda s: s["finished"] >= 2)
    process = console.app.inner.state.console.children._studies[name]
    first.close()
    assert process.returncode is not None
    second = make_console(tmp_path)
    console = next(second)
    found = console.get("/api/v1/studies").json()["studies"][0]
    assert found["name"] == name
    assert found["state"] == "interrupted"
    assert found["finished"] >= 2
    console.ask("POST", f"/api/v1/studies/{name}/resume", json={"trials": found["finished"] + 3})
    _wait(console, name, lambda s: s["state"] == "finished")
    second.close()


def test_mistakes_are_refused(fresh: Any) -> None:
    post = lambda body: fresh.ask("POST", "/api/v1/studies", json=body)  # noqa: E731
    assert post({"question": QUESTION, "trials": 0}).status_code == 422
    assert post({"question": QUESTION, "level": "measured"}).json()["issues"][0]["code"] == "study.level"
    assert post({"question": {"model": "nope/nope", "gpu": "h100-sxm", "gpus": "8"}}).status_code == 422
    assert post({"question": QUESTION, "name": "../x"}).status_code == 422
    assert post({"question": QUESTION, "optuna_storage": "sqlite:////tmp/x"}).status_code == 422
    assert fresh.get("/api/v1/studies/none-such").status_code == 404
    assert fresh.ask("POST", "/api/v1/studies/none-such/resume", json={}).status_code == 404
    assert fresh.get("/api/v1/studies").json() == {"studies": [], "total": 0}


def test_fifty_thousand_trials_open_within_two_seconds(fresh: Any) -> None:
    from planner.domain.study import TrialOutcome
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe
    from planner.search.studies.runner import Settings, create_study
    from planner.storage.studies import FinishedTrial

    store = fresh.app.inner.state.console.store
    problem, _ = build_problem(with_recipe(QUESTION["recipe"], Request()))
    name = create_study(store, problem, Settings(trials=50_000)).name
    trials = [
        FinishedTrial(
            spec_hash=f"{i:064x}",
            parameters={"strategy": "aggregated", "tp": 1 + i % 8},
            outcome=TrialOutcome(
                state=TrialState.COMPLETE,
                values=(float(i % 997), float(i % 101)),
                constraints={"ttft_ms": -0.1 if i % 3 else 0.2},
                attributes={"plan": f"plan {i}", "output_tok_s_per_gpu": float(i % 997), "tpot_ms": 5.0 + i % 101, "ttft_ms": 9.0},
            ),
        )
        for i in range(50_000)
    ]  # fmt: skip
    store.studies.record(name, trials, owner="test")
    started = time.perf_counter()
    page = fresh.get(f"/api/v1/studies/{name}")
    first_s = time.perf_counter() - started
    assert page.status_code == 200
    assert page.json()["trials_total"] == 50_000
    assert len(page.content) < 600_000
    started = time.perf_counter()
    fresh.get(f"/api/v1/studies/{name}", offset=100)
    again_s = time.perf_counter() - started
    print(f"50,000 trials: first {first_s:.2f} s, again {again_s:.2f} s, {len(page.content) / 1e3:.0f} kB")
