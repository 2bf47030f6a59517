"""Where the points of a study come from: an Optuna study that is asked, or a fixed list."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import optuna
from optuna.trial import TrialState as OptunaState
from optuna.trial import create_trial

from planner.domain.study import Objective, SamplerName, TrialOutcome, TrialState
from planner.search.studies.evaluate import Observation
from planner.search.studies.sampler import (
    LOG_SE,
    OBSERVED,
    CandidateSampler,
    distributions,
    make_sampler,
    suggest,
)
from planner.search.studies.space import SearchSpace

_ASKS_PER_TRIAL: Final = 200  # generic samplers repeat themselves
_WARM_POINTS: Final = 20


class Source(Protocol):
    """Gives points and is told what they gave."""

    rejected: Counter[str]

    def next(self) -> int | None:
        """The next point to evaluate, or None when there is none."""
        ...

    def tell(self, index: int, observation: Observation, outcome: TrialOutcome) -> None:
        """The outcome of a point that `next` gave."""
        ...

    def skip(self, index: int) -> None:
        """The point is evaluated by someone else."""
        ...


class ListSource:
    """Given points in order."""

    def __init__(self, indexes: Iterable[int]) -> None:
        self._left = deque(indexes)
        self.rejected: Counter[str] = Counter()

    def next(self) -> int | None:
        """See `Source.next`."""
        return self._left.popleft() if self._left else None

    def tell(self, index: int, observation: Observation, outcome: TrialOutcome) -> None:
        """Nothing to learn."""

    def skip(self, index: int) -> None:
        """Nothing to learn."""


class OptunaSource:
    """Ask and tell on an in-memory Optuna study; points seen before are told at once, not charged.

    Generic samplers know no legality: what they make up is read as the nearest legal point, whose values they are told.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        sampler: SamplerName,
        seed: int,
        objectives: Sequence[Objective],
        warm_start: bool = True,
    ) -> None:
        quiet_optuna()
        self.space = space
        self.sampler = make_sampler(sampler, space, seed=seed)
        self.rejected: Counter[str] = Counter()
        self._distributions = distributions(space)
        self.study = optuna.create_study(
            directions=["maximize" if o.maximise else "minimize" for o in objectives], sampler=self.sampler
        )
        self._open: dict[int, optuna.Trial] = {}
        self._known: dict[int, tuple[Observation, TrialOutcome]] = {}
        if warm_start and not isinstance(self.sampler, CandidateSampler):
            for index in front_points(space, _WARM_POINTS):
                self.study.enqueue_trial(dict(space.parameters(index)))

    @property
    def expected_gain(self) -> float | None:
        """What the candidate sampler expects of one more trial, relative to the hypervolume found; None for others."""
        return self.sampler.proposer.last_gain if isinstance(self.sampler, CandidateSampler) else None

    def enqueue(self, index: int) -> None:
        """Try this point first."""
        self.study.enqueue_trial(dict(self.space.parameters(index)))

    def restore(self, index: int, observation: Observation, outcome: TrialOutcome) -> None:
        """Add a trial that was finished before, by whatever process."""
        self._known[index] = (observation, outcome)
        if outcome.state is TrialState.COMPLETE and observation.usable:
            self.study.add_trial(frozen(self.space, index, observation, outcome))
        elif isinstance(self.sampler, CandidateSampler):
            self.sampler.proposer.exclude(index)

    def next(self) -> int | None:
        """See `Source.next`; None also when the sampler keeps repeating itself."""
        for _ in range(_ASKS_PER_TRIAL):
            trial = self.study.ask()
            wanted = suggest(trial, self.space, self._distributions)
            index = self.space.nearest(wanted)
            if self.space.parameters(index) != wanted:
                # the sampler made up an illegal combination: it stands for the legal one nearest to it
                self.rejected["moved to the nearest legal configuration"] += 1
            if index in self._known:
                self.rejected["repeated"] += 1
                self._tell(trial, *self._known[index])
            elif index in self._open:
                self.rejected["repeated"] += 1
                self.study.tell(trial, state=OptunaState.FAIL)
            else:
                self._open[index] = trial
                return index
        return None

    def tell(self, index: int, observation: Observation, outcome: TrialOutcome) -> None:
        """See `Source.tell`."""
        self._known[index] = (observation, outcome)
        self._tell(self._open.pop(index), observation, outcome)

    def skip(self, index: int) -> None:
        """See `Source.skip`."""
        self.study.tell(self._open.pop(index), state=OptunaState.FAIL)
        if isinstance(self.sampler, CandidateSampler):
            self.sampler.proposer.exclude(index)

    def _tell(self, trial: optuna.Trial, observation: Observation, outcome: TrialOutcome) -> None:
        if outcome.state is not TrialState.COMPLETE or not observation.usable:
            trial.set_user_attr("error", outcome.error or "no figures")
            self.study.tell(trial, state=OptunaState.FAIL)
            return
        for name in OBSERVED:
            trial.set_user_attr(name, getattr(observation, name))
        trial.set_user_attr(LOG_SE, list(observation.log_se))
        for name, value in outcome.constraints.items():
            trial.set_constraint(name, value)
        self.study.tell(trial, list(outcome.values))


def frozen(
    space: SearchSpace, index: int, observation: Observation, outcome: TrialOutcome
) -> optuna.trial.FrozenTrial:
    """A finished trial as Optuna stores it."""
    known = distributions(space)
    parameters = space.parameters(index)
    return create_trial(
        params=dict(parameters),
        distributions={n: known[n] for n in parameters},
        values=list(outcome.values),
        constraints=dict(outcome.constraints),
        user_attrs={
            **{name: getattr(observation, name) for name in OBSERVED},
            LOG_SE: list(observation.log_se),
            **{k: v for k, v in outcome.attributes.items() if k not in OBSERVED},
        },
    )


def front_points(space: SearchSpace, count: int) -> list[int]:
    """Points of the analytic front (default router), spread evenly over it, feasible ones first."""
    import numpy as np

    from planner.analytic.front import pareto_indexes

    slo = space.problem.slo
    met = np.ones(space.base_size, dtype=bool)
    if slo.ttft_ms is not None:
        met &= space.ttft_ms <= slo.ttft_ms
    if slo.tpot_limit_ms is not None:
        met &= space.tpot_ms <= slo.tpot_limit_ms
    rows = np.flatnonzero(met) if met.any() else np.arange(space.base_size)
    front = rows[pareto_indexes(space.user[rows], space.rate[rows])]
    picks = np.unique(np.linspace(0, len(front) - 1, min(count, len(front))).round().astype(int))
    return [int(front[i]) * len(space.routers) for i in picks]


def quiet_optuna() -> None:
    """Optuna's log goes nowhere; what matters is said by the progress line."""
    optuna.logging.set_verbosity(logging.ERROR)
