"""Evaluations that leave the machine: shards cover every specification once, and results complete what was submitted."""

from __future__ import annotations

from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from planner.analytic.evaluate import MODEL_VERSION
from planner.domain.engine import EngineProfile
from planner.domain.problem import PlanningProblem
from planner.domain.study import StudyLevel
from planner.search.campaigns.jobs import ShardOptions
from planner.search.campaigns.shards import KubernetesJobExecutor, gather_results, nearest_points, work
from planner.search.studies.evaluate import SHORT, Observation
from planner.search.studies.evaluators import AnalyticEvaluator
from planner.search.studies.executors import InlineExecutor
from planner.search.studies.runner import Settings, create_study
from planner.search.studies.space import SearchSpace
from planner.search.studies.specs import EvalResult, EvalSpec
from planner.storage.store import Store

Question = tuple[PlanningProblem, EngineProfile]


def specs_of(space: SearchSpace, problem_hash: str, count: int) -> list[EvalSpec]:
    return [
        EvalSpec(
            problem_hash=problem_hash, plan=space.plan(i), level=StudyLevel.ANALYTIC, version=MODEL_VERSION, fidelity=SHORT, seed=0
        )
        for i in nearest_points(space, count)
    ]  # fmt: skip


def mounted(executor: KubernetesJobExecutor, folder: Path) -> dict[str, object]:
    """The ConfigMaps as the pods see them; returns the Job."""
    job: dict[str, object] = {}
    for manifest in executor.render():
        if manifest.kind == "Job":
            job = manifest.plain()
            continue
        target = folder / manifest.metadata.name
        target.mkdir(parents=True)
        for name, text in manifest.plain()["data"].items():  # type: ignore[union-attr]
            (target / name).write_text(text)
    return job


def test_specifications_survive_json(space: SearchSpace) -> None:
    spec = specs_of(space, "p", 1)[0]
    again = EvalSpec.from_json(spec.to_json())
    assert again == spec
    assert again.hash == spec.hash
    failed = EvalResult(spec_hash="x", observation=Observation(error="simulation.capacity: no room"))
    assert EvalResult.from_json(failed.to_json()).observation.error == "simulation.capacity: no room"


def test_shards_do_the_work_of_one_process(question: Question, space: SearchSpace, tmp_path: Path) -> None:
    problem, engine = question
    executor = KubernetesJobExecutor(
        problem, ShardOptions(name="s", image="i", claim="c", shards=3, queue="q")
    )
    specs = specs_of(space, "p", 7)
    futures = [executor.submit(s) for s in [*specs, specs[0]]]
    assert futures[0] is futures[-1]
    job = mounted(executor, tmp_path / "in")
    assert job["spec"]["completionMode"] == "Indexed"  # type: ignore[index]
    assert job["spec"]["completions"] == 3  # type: ignore[index]
    counts = [work(tmp_path / "in", index=i, shards=3, out=tmp_path / "out") for i in range(3)]
    assert sum(done for done, _ in counts) == 7
    assert executor.collect(tmp_path / "out") == 0
    inline = InlineExecutor(AnalyticEvaluator(problem, engine))
    for spec, future in zip(specs, futures, strict=False):
        assert future.result(0).observation == inline.submit(spec).result().observation


def test_a_killed_shard_goes_on_where_it_was(question: Question, space: SearchSpace, tmp_path: Path) -> None:
    problem, _ = question
    executor = KubernetesJobExecutor(problem, ShardOptions(name="s", image="i", claim="c", shards=1))
    futures = [executor.submit(s) for s in specs_of(space, "p", 4)]
    mounted(executor, tmp_path / "in")
    work(tmp_path / "in", index=0, shards=1, out=tmp_path / "out")
    file = tmp_path / "out" / "results-00000.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]) + lines[2][:40])
    assert executor.collect(tmp_path / "out") == 2
    assert work(tmp_path / "in", index=0, shards=1, out=tmp_path / "out") == (2, 2)
    assert sorted(file.read_text().splitlines()) == sorted("".join(lines).splitlines())
    assert executor.collect(tmp_path / "out") == 0
    executor.close()
    assert all(f.done() for f in futures)


def test_closing_cancels_what_has_no_result(question: Question, space: SearchSpace) -> None:
    executor = KubernetesJobExecutor(question[0], ShardOptions(name="s", image="i", claim="c", shards=1))
    future = executor.submit(specs_of(space, "p", 1)[0])
    executor.close()
    with pytest.raises(CancelledError):
        future.result(0)


def test_gathered_results_are_trials_once(
    question: Question, space: SearchSpace, store: Store, tmp_path: Path
) -> None:
    problem, _ = question
    study = create_study(store, problem, Settings(level=StudyLevel.ANALYTIC), name="far")
    executor = KubernetesJobExecutor(problem, ShardOptions(name="s", image="i", claim="c", shards=1))
    for spec in specs_of(space, study.problem_hash, 5):
        executor.submit(spec)
    mounted(executor, tmp_path / "in")
    work(tmp_path / "in", index=0, shards=1, out=tmp_path / "out")
    assert gather_results(store, "far", tmp_path / "out") == (5, 0)
    assert gather_results(store, "far", tmp_path / "out") == (0, 5)
    assert len(store.studies.trials("far")) == 5
