"""What a study found, and how far it may be from the best: the document ``wideplan.study/v1``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain.study import Scalar, StudyLevel, StudyState, Trial, TrialState
from planner.search.studies.evaluate import Observation
from planner.search.studies.hypervolume import Front
from planner.search.studies.loop import observation_of_outcome
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPoint:
    """A trial with its numbers; rates are output tokens/s per owned GPU, latencies medians."""

    study: str
    trial: int
    plan: str
    plan_hash: str | None
    parameters: Mapping[str, Scalar]
    output_tok_s_per_gpu: float
    tok_s_user: float
    ttft_ms: float
    tpot_ms: float
    usd_per_m_output_tokens: float | None
    meets_slo: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """How far the study may be from the best. Shares are between 0 and 1.

    `hypervolume_l1`: part of the exact analytic front's hypervolume that the points tried do not cover, both by the analytic
    model. `pick_l1`: analytic throughput the pick gives up against the exact analytic best. `expected_gain`: relative
    hypervolume that one more trial is expected to add, by the calibrated belief.
    `analytic_pick_tok_s_per_gpu`: what the analytic pick gave at this study's own fidelity.
    """

    points_in_exact_front: int
    points_in_space: int
    hypervolume_l1: float
    pick_l1: float | None
    expected_gain: float | None
    analytic_pick_tok_s_per_gpu: float | None
    gain_over_analytic_pick: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """Result of a study; the pick and the front come from the long runs where there are any."""

    name: str
    level: StudyLevel
    sampler: str
    seed: int
    state: StudyState
    problem: str
    problem_hash: str
    trials: Mapping[str, int]
    long_trials: int
    excluded: Mapping[str, int]
    hypervolume: float
    pick: FoundPoint | None
    front: tuple[FoundPoint, ...]
    regret: Regret
    settings: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class _Row:
    index: int
    trial: Trial
    seen: Observation


def report_of(
    store: Store,
    name: str,
    space: SearchSpace,
    *,
    expected_gain: float | None = None,
    settings: Mapping[str, Scalar] | None = None,
) -> StudyReport:
    """The report of study `name`, whose points are in `space`."""
    study = store.studies.get(name)
    trials = store.studies.trials(name)
    rows = _rows(space, trials)
    long = _long_rows(store, name, space)
    feasible = [r for r in (long or rows) if r.trial.feasible]
    front = Front.of(_values(feasible), _reference(space))
    on_front = {(x, y) for x, y in zip(front.x.tolist(), front.y.tolist(), strict=True)}
    found = [r for r in feasible if (r.seen.output_tok_s_per_gpu, r.seen.tok_s_user) in on_front]
    pick = max(feasible, key=lambda r: (r.seen.output_tok_s_per_gpu, -r.trial.number), default=None)
    return StudyReport(
        name=name,
        level=study.level,
        sampler=study.sampler,
        seed=study.seed,
        state=study.state,
        problem=space.problem.name,
        problem_hash=study.problem_hash,
        trials={s.value: n for s, n in sorted(Counter(t.state for t in trials).items())},
        long_trials=len(long),
        excluded=_excluded(trials),
        hypervolume=Front.of(_values([r for r in rows if r.trial.feasible]), _reference(space)).hypervolume,
        pick=None if pick is None else _point(pick),
        front=tuple(_point(r) for r in sorted(found, key=lambda r: -r.seen.tok_s_user)),
        regret=_regret(space, rows, long, pick, expected_gain),
        settings=dict(settings if settings is not None else study.settings),
    )


def _rows(space: SearchSpace, trials: Sequence[Trial]) -> list[_Row]:
    rows = []
    for t in trials:
        index = space.index_of(t.parameters)
        if index is not None and t.state is TrialState.COMPLETE:
            rows.append(_Row(index, t, observation_of_outcome(t.outcome)))
    return rows


def _long_rows(store: Store, name: str, space: SearchSpace) -> list[_Row]:
    children = [s.study.name for s in store.studies.list() if s.study.parent == name]
    return [r for child in children for r in _rows(space, store.studies.trials(child))]


def _values(rows: Sequence[_Row]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array(
        [(r.seen.output_tok_s_per_gpu, r.seen.tok_s_user) for r in rows], dtype=np.float64
    ).reshape(len(rows), 2)


def _reference(space: SearchSpace) -> tuple[float, float]:
    limit = space.problem.slo.tpot_limit_ms
    return (0.0, 1000.0 / limit if limit is not None else 0.0)


def _point(row: _Row) -> FoundPoint:
    o = row.seen
    return FoundPoint(
        study=row.trial.study,
        trial=row.trial.number,
        plan=str(row.trial.outcome.attributes.get("plan", "")),
        plan_hash=row.trial.outcome.plan_hash,
        parameters=row.trial.parameters,
        output_tok_s_per_gpu=o.output_tok_s_per_gpu,
        tok_s_user=o.tok_s_user,
        ttft_ms=o.ttft_ms,
        tpot_ms=o.tpot_ms,
        usd_per_m_output_tokens=o.usd_per_m_output_tokens,
        meets_slo=row.trial.feasible,
    )


def _excluded(trials: Sequence[Trial]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for t in trials:
        if t.state is TrialState.FAILED:
            counts[f"failed: {(t.outcome.error or 'no figures').split(':')[0]}"] += 1
        for name, value in t.outcome.constraints.items():
            if value > 0.0:
                counts[f"misses {name.removesuffix('_ms').upper()} target"] += 1
    return dict(counts.most_common())


def _regret(
    space: SearchSpace,
    rows: Sequence[_Row],
    long: Sequence[_Row],
    pick: _Row | None,
    expected_gain: float | None,
) -> Regret:
    met = _meets(space)
    values = np.where(met[:, None], np.column_stack([space.rate, space.user]), 0.0)
    exact = Front.of(values, _reference(space))
    tried = np.array(sorted({space.base(r.index) for r in rows}), dtype=np.intp)
    covered = Front.of(values[tried], _reference(space)).hypervolume
    best = float(values[:, 0].max(initial=0.0))
    analytic = int(np.flatnonzero(values[:, 0] == best)[0]) if best > 0.0 else None
    again = next(
        (r for r in (*long, *rows) if analytic is not None and space.base(r.index) == analytic), None
    )
    own = again.seen.output_tok_s_per_gpu if again is not None and again.trial.feasible else None
    chosen = None if pick is None else pick.seen.output_tok_s_per_gpu
    return Regret(
        points_in_exact_front=len(exact),
        points_in_space=len(space),
        hypervolume_l1=1.0 - covered / exact.hypervolume if exact.hypervolume > 0.0 else 0.0,
        pick_l1=None
        if pick is None or best <= 0.0
        else max(1.0 - float(space.rate[space.base(pick.index)]) / best, 0.0),
        expected_gain=expected_gain,
        analytic_pick_tok_s_per_gpu=None if again is None else again.seen.output_tok_s_per_gpu,
        gain_over_analytic_pick=None if own is None or chosen is None else chosen / own - 1.0,
    )


def _meets(space: SearchSpace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    slo = space.problem.slo
    met = np.ones(space.base_size, dtype=bool)
    if slo.ttft_ms is not None:
        met &= space.ttft_ms <= slo.ttft_ms
    if slo.tpot_limit_ms is not None:
        met &= space.tpot_ms <= slo.tpot_limit_ms
    return met
