"""Optuna's side: the candidate sampler, the generic samplers by name, and parameters as distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from planner.domain.errors import InputError, Issue, MissingDataError
from planner.domain.study import Objective, SamplerName, Scalar
from planner.search.studies.evaluate import Observation
from planner.search.studies.proposer import Proposer
from planner.search.studies.space import LOAD, ROUTER, STRATEGY, SearchSpace

OBSERVED: Final = ("output_tok_s_per_gpu", "tpot_ms", "ttft_ms")  # user attributes of a trial
LOG_SE: Final = "log_se"


class CandidateSampler(BaseSampler):
    """Proposes legal points of a `SearchSpace` by expected hypervolume improvement under the re-calibrated model.

    It learns from the finished trials of the study it is asked in (user attributes `OBSERVED`), so it works in any
    Optuna study whose trials carry them, and after a restart. Running trials count as pending.
    """

    def __init__(self, space: SearchSpace, *, seed: int) -> None:
        self.proposer = Proposer(space, seed=seed)
        self._space = space
        self._distributions = distributions(space)
        self._told: set[int] = set()
        self._pending: dict[int, int] = {}
        self._fallback = RandomSampler(seed=seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All parameters; a proposal fills those of its strategy."""
        del study, trial
        return self._distributions

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Parameters of the next candidate."""
        del search_space
        self._catch_up(study, trial.number)
        index = self.proposer.propose()
        if index is None:
            return {}
        self.proposer.pend(index)
        self._pending[trial.number] = index
        return dict(self._space.parameters(index))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Only reached for parameters that are not of the space, or when every candidate is taken."""
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)

    def _catch_up(self, study: optuna.Study, asking: int) -> None:
        for t in study.get_trials(deepcopy=False):
            if t.number in self._told or t.number == asking:
                continue
            if t.state.is_finished():
                self._told.add(t.number)
                index = self._pending.pop(t.number, None)
                index = self._space.index_of(t.params) if index is None else index
                if index is not None:
                    self.proposer.observe(index, observation_of(t))
            elif t.number not in self._pending:
                index = self._space.index_of(t.params)
                if index is not None:
                    self._pending[t.number] = index
                    self.proposer.pend(index)


def observation_of(trial: FrozenTrial) -> Observation:
    """What a finished Optuna trial observed."""
    a = trial.user_attrs
    if trial.state is not TrialState.COMPLETE or any(a.get(name) is None for name in OBSERVED):
        return Observation(error=str(a.get("error", "no figures")))
    se = a.get(LOG_SE) or (0.0, 0.0, 0.0)
    return Observation(
        output_tok_s_per_gpu=float(a[OBSERVED[0]]),
        tpot_ms=float(a[OBSERVED[1]]),
        ttft_ms=float(a[OBSERVED[2]]),
        log_se=(float(se[0]), float(se[1]), float(se[2])),
    )


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Distributions of all parameters of `space`, of every strategy."""
    found: dict[str, BaseDistribution] = {}
    if len(space.strategies) > 1:
        found[STRATEGY] = CategoricalDistribution([s.value for s in space.strategies])
    for strategy in space.strategies:
        for name, values in space.choices(strategy).items():
            found[name] = CategoricalDistribution(values)
    found[LOAD] = IntDistribution(1, max(math.ceil(space.batch.max()), 2), log=True)
    if len(space.routers) > 1:
        found[ROUTER] = CategoricalDistribution([r.name for r in space.routers])
    return found


def suggest(trial: optuna.Trial, space: SearchSpace, known: dict[str, BaseDistribution]) -> dict[str, Scalar]:
    """Ask for the parameters of one point, define-by-run: first the strategy, then what belongs to it."""
    values: dict[str, Scalar] = {}

    def ask(name: str) -> None:
        d = known[name]
        if isinstance(d, CategoricalDistribution):
            values[name] = trial.suggest_categorical(name, d.choices)
        elif isinstance(d, IntDistribution):
            values[name] = trial.suggest_int(name, d.low, d.high, log=d.log)

    if STRATEGY in known:
        ask(STRATEGY)
    chosen = next((s for s in space.strategies if s.value == values.get(STRATEGY)), space.strategies[0])
    for name in space.choices(chosen):
        ask(name)
    ask(LOAD)
    if ROUTER in known:
        ask(ROUTER)
    return values


def require_sampler(name: SamplerName) -> None:
    """MissingDataError ``sampler.needs_torch`` for gp without torch; checked before a study is stored."""
    if name is SamplerName.GP and find_spec("torch") is None:
        raise MissingDataError(
            Issue(
                code="sampler.needs_torch",
                what="--sampler gp",
                why="Optuna's GP sampler runs on PyTorch, which is not installed",
                fix="pip install torch, or use the default --sampler candidates",
                where="--sampler",
            )
        )


def make_sampler(name: SamplerName, space: SearchSpace, *, seed: int) -> BaseSampler:
    """The sampler called `name`. MissingDataError ``sampler.needs_torch`` for gp without torch."""
    if name is SamplerName.CANDIDATES:
        return CandidateSampler(space, seed=seed)
    require_sampler(name)
    if name is SamplerName.GP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.GPSampler(seed=seed)
    if name is SamplerName.TPE:
        return optuna.samplers.TPESampler(seed=seed)
    if name is SamplerName.NSGA2:
        return optuna.samplers.NSGAIISampler(seed=seed)
    if name is SamplerName.NSGA3:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.NSGAIIISampler(seed=seed)
    return RandomSampler(seed=seed)


def objective_values(observation: Observation, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Values of an observation in the order of `objectives`. InputError ``objective.no_price`` for a cost without price."""
    values: list[float] = []
    for objective in objectives:
        if objective is Objective.RATE:
            values.append(observation.output_tok_s_per_gpu)
        elif objective is Objective.USER:
            values.append(observation.tok_s_user)
        elif observation.usd_per_m_output_tokens is None:
            raise InputError(
                Issue(
                    code="objective.no_price",
                    what=f"objective {objective.value}",
                    why="no price per GPU-hour is known for this hardware",
                    fix="give --usd-per-gpu-hour",
                    where="--objective",
                )
            )
        else:
            values.append(observation.usd_per_m_output_tokens)
    return tuple(values)
