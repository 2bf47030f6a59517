"""A study loses nothing: trials are committed one by one, an interrupt keeps them, and a resumed study is the same study."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError
from planner.domain.problem import PlanningProblem
from planner.domain.study import Objective, SamplerName, StudyLevel, StudyState, Trial, TrialState
from planner.search.studies.loop import Stop
from planner.search.studies.progress import Progress, silent
from planner.search.studies.runner import (
    Ended,
    Settings,
    StudyRun,
    analytic_pick,
    best_points,
    create_study,
)
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store
from planner.storage.studies import FinishedTrial

Question = tuple[PlanningProblem, EngineProfile]
SETTINGS = Settings(level=StudyLevel.ANALYTIC, trials=14, ladder=False)


def start(
    store: Store, question: Question, evaluator: object, settings: Settings = SETTINGS, name: str = "s"
) -> Ended:
    study = create_study(store, question[0], settings, name=name)
    return again(store, question, evaluator, settings, study.name)


def again(store: Store, question: Question, evaluator: object, settings: Settings, name: str) -> Ended:
    problem, engine = question
    study = store.studies.get(name)
    run = StudyRun(store, study, settings, problem=problem, engine=engine, report=silent, evaluator=evaluator)  # type: ignore[arg-type]
    return run.run()


def essence(trials: tuple[Trial, ...]) -> list[object]:
    return [
        (t.number, t.spec_hash, dict(t.parameters), t.outcome.values, dict(t.outcome.constraints))
        for t in trials
    ]


def test_a_study_runs_to_its_budget_without_repeating(
    store: Store, question: Question, noisy: object
) -> None:
    ended = start(store, question, noisy)
    trials = store.studies.trials("s")
    assert ended.stop is Stop.BUDGET
    assert len(trials) == 14
    assert len({t.spec_hash for t in trials}) == 14
    assert store.studies.get("s").state is StudyState.FINISHED
    assert all(t.outcome.plan_hash for t in trials)
    best = max((t for t in trials if t.feasible), key=lambda t: t.outcome.values[0])
    assert ended.report.pick is not None
    assert ended.report.pick.output_tok_s_per_gpu == best.outcome.values[0]


def test_the_analytic_pick_is_tried_first(
    store: Store, question: Question, noisy: object, space: SearchSpace
) -> None:
    ended = start(store, question, noisy)
    first = store.studies.trials("s")[0]
    assert space.index_of(first.parameters) == analytic_pick(space)
    assert ended.report.regret.analytic_pick_tok_s_per_gpu == first.outcome.values[0]


def test_same_seed_same_trials(store: Store, question: Question, noisy: object) -> None:
    start(store, question, noisy, name="a")
    start(store, question, noisy, name="b")
    start(store, question, noisy, replace(SETTINGS, seed=1), name="c")
    a, b, c = (store.studies.trials(n) for n in "abc")
    assert essence(a) == essence(b)
    assert [t.spec_hash for t in a[1:]] != [t.spec_hash for t in c[1:]]


def test_an_interrupt_keeps_everything_and_the_rest_is_as_if_nothing_happened(
    store: Store, question: Question, noisy: object
) -> None:
    start(store, question, noisy, name="whole")

    def interrupt(calls: int) -> None:
        if calls == 6:
            noisy.before = lambda _: None  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    noisy.calls.clear()  # type: ignore[attr-defined]
    noisy.before = interrupt  # type: ignore[attr-defined]
    # no cached outcomes: another seed of the identity, the same of the proposals
    fresh = replace(SETTINGS, seed=0)
    store.studies.delete("whole")
    stopped = start(store, question, noisy, fresh, name="cut")
    kept = store.studies.trials("cut")
    assert stopped.stop is Stop.INTERRUPTED
    assert store.studies.get("cut").state is StudyState.INTERRUPTED
    assert len(kept) == 6
    assert all(t.state is TrialState.COMPLETE for t in kept)
    resumed = again(store, question, noisy, fresh, "cut")
    trials = store.studies.trials("cut")
    assert resumed.stop is Stop.BUDGET
    assert len(trials) == 14
    assert essence(trials[:6]) == essence(kept)
    assert len({t.spec_hash for t in trials}) == 14
    assert resumed.report.pick is not None


def test_failures_are_recorded_and_not_repeated(store: Store, question: Question, noisy: object) -> None:
    noisy._fail_every = 4  # type: ignore[attr-defined]
    ended = start(store, question, noisy)
    failed = store.studies.trials("s", state=TrialState.FAILED)
    assert failed
    assert all(t.outcome.error == "test.refused: every so often" for t in failed)
    assert ended.report.excluded["failed: test.refused"] == len(failed)


def test_a_known_evaluation_is_not_repeated(store: Store, question: Question, noisy: object) -> None:
    start(store, question, noisy, name="first")
    calls = len(noisy.calls)  # type: ignore[attr-defined]
    start(store, question, noisy, name="second")
    assert len(noisy.calls) == calls  # type: ignore[attr-defined]


def test_another_process_is_not_waited_for_nor_copied(
    store: Store, question: Question, noisy: object
) -> None:
    problem, engine = question
    study = create_study(store, problem, SETTINGS, name="shared")
    run = StudyRun(store, study, SETTINGS, problem=problem, engine=engine, report=silent, evaluator=noisy)  # type: ignore[arg-type]
    pick = analytic_pick(run.space)
    from planner.search.studies.evaluate import EXACT
    from planner.search.studies.specs import EvalSpec

    spec = EvalSpec(
        problem_hash=study.problem_hash, plan=run.space.plan(pick), level=StudyLevel.ANALYTIC, version="test",
        fidelity=EXACT, seed=0,
    )  # fmt: skip
    assert store.studies.claim(
        "shared", spec.hash, parameters=run.space.parameters(pick), owner="someone else"
    )
    run.run()
    finished = store.studies.trials("shared", state=TrialState.COMPLETE)
    assert len(finished) == 14
    assert spec.hash not in {t.spec_hash for t in finished}


def test_trials_of_another_process_count_towards_the_budget(
    store: Store, question: Question, noisy: object
) -> None:
    start(store, question, noisy, name="whole")
    specs = [
        FinishedTrial(spec_hash=f"elsewhere {i}", parameters=t.parameters, outcome=t.outcome)
        for i, t in enumerate(store.studies.trials("whole")[:3])
    ]
    calls = len(noisy.calls)  # type: ignore[attr-defined]

    def another_process(made: int) -> None:
        if made == calls + 5:
            store.studies.record("shared", specs, owner="another")

    noisy.before = another_process  # type: ignore[attr-defined]
    ended = start(store, question, noisy, replace(SETTINGS, seed=5), name="shared")
    assert ended.stop is Stop.BUDGET
    assert store.studies.count("shared") == 14


@pytest.mark.parametrize(
    "sampler", [SamplerName.TPE, SamplerName.NSGA2, SamplerName.NSGA3, SamplerName.RANDOM]
)
def test_generic_samplers_run_on_the_same_space(
    store: Store, question: Question, noisy: object, sampler: SamplerName
) -> None:
    start(store, question, noisy, replace(SETTINGS, sampler=sampler, trials=30))
    trials = store.studies.trials("s")
    assert len({t.spec_hash for t in trials}) == 30


def test_cost_is_an_objective_that_needs_a_price(store: Store, question: Question, noisy: object) -> None:
    three = replace(SETTINGS, objectives=tuple(Objective), trials=5)
    start(store, question, noisy, three)
    assert all(len(t.outcome.values) == 3 for t in store.studies.trials("s"))
    problem, engine = question
    free = replace(problem, usd_per_gpu_hour=None)
    study = create_study(store, free, three, name="free")
    from planner.search.studies.evaluators import AnalyticEvaluator

    run = StudyRun(
        store,
        study,
        three,
        problem=free,
        engine=engine,
        report=silent,
        evaluator=AnalyticEvaluator(free, engine),
    )
    with pytest.raises(InputError) as caught:
        run.run()
    assert caught.value.issues[0].code == "objective.no_price"


def test_long_runs_follow_the_best_short_ones(
    store: Store, question: Question, noisy: object, space: SearchSpace
) -> None:
    start(store, question, noisy)
    values = {t.spec_hash: t.outcome.values for t in store.studies.trials("s") if t.feasible}
    chosen = best_points(store, "s", space, 4)
    assert len(set(chosen)) == min(4, len(values))
    rates = {
        space.index_of(t.parameters): t.outcome.values[0] for t in store.studies.trials("s") if t.feasible
    }
    assert rates[chosen[0]] == max(rates.values())
    # a third goes to the highest rates, since the best of short runs are often lucky
    six = best_points(store, "s", space, 6)
    assert {rates[i] for i in six[:2]} == set(sorted(set(rates.values()))[-2:])


def test_progress_counts_and_estimates(store: Store, question: Question, noisy: object) -> None:
    problem, engine = question
    seen: list[Progress] = []
    study = create_study(store, problem, SETTINGS, name="p")
    StudyRun(
        store, study, SETTINGS, problem=problem, engine=engine, report=seen.append, evaluator=noisy
    ).run()  # type: ignore[arg-type]
    assert [p.done for p in seen] == list(range(1, 15))
    assert all(b.hypervolume >= a.hypervolume for a, b in pairwise(seen))
    assert seen[-1].left_s == pytest.approx(0.0)
    assert seen[-1].best_rate is not None
