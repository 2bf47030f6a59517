"""Evaluations that leave the machine: specifications written as shards of an indexed Job, results read back from files.

`KubernetesJobExecutor` has the executor's interface; it collects what is submitted, renders it, and completes the futures
from the result files of the Job's pods. Results are idempotent: a pod that is restarted writes the same lines again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import numpy as np

from planner.catalog.engines import load_engine
from planner.domain.errors import InputError, Issue
from planner.domain.problem import PlanningProblem
from planner.domain.study import Objective
from planner.export.naming import slug
from planner.export.objects import Manifest
from planner.search.campaigns.jobs import ShardOptions, render_shards
from planner.search.studies.evaluate import SHORT
from planner.search.studies.evaluators import make_evaluator
from planner.search.studies.executors import run_spec
from planner.search.studies.hypervolume import Front
from planner.search.studies.loop import outcome_of
from planner.search.studies.runner import question_of, space_of
from planner.search.studies.space import SearchSpace
from planner.search.studies.specs import EvalResult, EvalSpec
from planner.storage.codec import decode, encode
from planner.storage.store import Store
from planner.storage.studies import FinishedTrial

PROBLEM: Final = "problem.json"


class KubernetesJobExecutor:
    """Collects specifications for an indexed Job; see the module."""

    def __init__(self, problem: PlanningProblem, options: ShardOptions) -> None:
        self._problem, self._options = problem, options
        self._futures: dict[str, Future[EvalResult]] = {}
        self._specs: list[EvalSpec] = []

    def submit(self, spec: EvalSpec) -> Future[EvalResult]:
        """Add a specification; the same one twice is one evaluation."""
        if spec.hash not in self._futures:
            self._futures[spec.hash] = Future()
            self._specs.append(spec)
        return self._futures[spec.hash]

    @property
    def submitted(self) -> int:
        """Different specifications so far."""
        return len(self._specs)

    def render(self) -> tuple[Manifest, ...]:
        """The ConfigMaps and the Job for everything submitted."""
        return render_shards([s.to_json() for s in self._specs], encode(self._problem), self._options)

    def collect(self, folder: Path) -> int:
        """Complete the futures whose results are in `folder`; returns how many are still open."""
        for result in read_results(folder):
            future = self._futures.get(result.spec_hash)
            if future is not None and not future.done():
                future.set_result(result)
        return sum(not f.done() for f in self._futures.values())

    def close(self) -> None:
        """Cancel what has no result."""
        for future in self._futures.values():
            future.cancel()


def shard_study(
    store: Store,
    name: str,
    *,
    image: str,
    points: int,
    per_shard: int,
    claim: str,
    queue: str | None,
    namespace: str | None,
) -> tuple[Manifest, ...]:
    """The Job for the `points` candidates of a study that are nearest to the analytic front and not tried yet."""
    study = store.studies.get(name)
    problem, engine = question_of(store, study)
    space = space_of(store, study)
    evaluator = make_evaluator(study.level, problem, engine)
    options = ShardOptions(
        name=slug(name)[:40].rstrip("-"),
        image=image,
        claim=claim,
        shards=max(-(-points // per_shard), 1),
        queue=queue,
        namespace=namespace,
    )
    executor = KubernetesJobExecutor(problem, options)
    known = store.studies.known_specs(name)
    for index in nearest_points(space, points + len(known)):
        spec = EvalSpec(
            problem_hash=study.problem_hash,
            plan=space.plan(index),
            level=study.level,
            version=evaluator.version,
            fidelity=SHORT,
            seed=study.seed,
        )
        if spec.hash not in known and executor.submitted < points:
            executor.submit(spec)
    return executor.render()


def gather_results(store: Store, name: str, folder: Path) -> tuple[int, int]:
    """Record results of shards as trials of their study; returns (new, known before)."""
    study = store.studies.get(name)
    problem, engine = question_of(store, study)
    space = space_of(store, study)
    version = make_evaluator(study.level, problem, engine).version
    results = {r.spec_hash: r for r in read_results(folder)}
    if not results:
        raise InputError(
            Issue(
                code="shards.no_results",
                what=f"no results-*.jsonl under {folder}",
                why="the pods of the Job write one such file each",
                fix="copy them from the volume first",
            )
        )
    objectives = tuple(Objective(o.name) for o in study.objectives)
    finished: list[FinishedTrial] = []
    for index in nearest_points(space, len(space)):
        if not results:
            break
        plan = space.plan(index)
        spec = EvalSpec(
            problem_hash=study.problem_hash, plan=plan, level=study.level, version=version, fidelity=SHORT, seed=study.seed
        )  # fmt: skip
        result = results.pop(spec.hash, None)
        if result is None:
            continue
        digest = None
        if result.observation.usable:
            digest = store.plans.save(plan, problem_hash=study.problem_hash)
        outcome = outcome_of(result.observation, objectives, space, plan_hash=digest, label=plan.label())
        finished.append(
            FinishedTrial(spec_hash=spec.hash, parameters=space.parameters(index), outcome=outcome)
        )
    new = store.studies.record(name, finished, owner="shards")
    return new, len(finished) - new


def nearest_points(space: SearchSpace, count: int) -> Iterator[int]:
    """Points in the order of their distance from the analytic front, every router of each, at most `count`."""
    values = np.column_stack([space.rate, space.user])
    distance = Front.of(values, (0.0, 0.0)).log_distance(values)
    routers = len(space.routers)
    for n, base in enumerate(np.argsort(distance, kind="stable")):
        for router in range(routers):
            if n * routers + router >= count:
                return
            yield int(base) * routers + router


def work(folder: Path, *, index: int, shards: int, out: Path) -> tuple[int, int]:
    """Evaluate shard `index` of the specifications under `folder`; returns (evaluated, known before).

    Each result is appended and flushed at once; those already in the shard's file are not repeated.
    """
    problem = decode(_problem_file(folder).read_text(encoding="utf-8"), PlanningProblem)
    engine = load_engine(problem.engine, problem.engine_version)
    lines = [
        x for f in sorted(folder.rglob("*.jsonl")) for x in f.read_text(encoding="utf-8").splitlines() if x
    ]
    mine = [EvalSpec.from_json(x) for i, x in enumerate(dict.fromkeys(lines)) if i % shards == index]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"results-{index:05d}.jsonl"
    known = {r.spec_hash for r in _read(path)}
    evaluators = {level: make_evaluator(level, problem, engine) for level in {s.level for s in mine}}
    done = 0
    with path.open("a", encoding="utf-8") as file:
        for spec in mine:
            if spec.hash in known:
                continue
            file.write(run_spec(evaluators[spec.level], spec).to_json() + "\n")
            file.flush()
            done += 1
    return done, len(mine) - done


def read_results(folder: Path) -> Iterable[EvalResult]:
    """Every complete result line of the shards in `folder`; a last line cut off by a kill is left out."""
    for path in sorted(folder.rglob("results-*.jsonl")):
        yield from _read(path)


def _read(path: Path) -> list[EvalResult]:
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        # a killed pod may leave half a line; cutting it keeps what is appended next readable
        path.write_text(whole, encoding="utf-8")
    return [EvalResult.from_json(x) for x in whole.splitlines() if x]


def _problem_file(folder: Path) -> Path:
    found = sorted(folder.rglob(PROBLEM))
    if not found:
        raise InputError(
            Issue(
                code="shards.no_problem",
                what=f"no {PROBLEM} under {folder}",
                why="specifications name plans of a problem that travels beside them",
                fix="mount the ConfigMaps that planner campaign shards writes",
            )
        )
    return found[0]
