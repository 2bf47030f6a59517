"""A copy of a study in an Optuna database, for optuna-dashboard and other Optuna tools. Our store stays the record."""

from __future__ import annotations

from collections.abc import Sequence

import optuna

from planner.domain.errors import InputError, Issue
from planner.domain.study import Objective, TrialOutcome, TrialState
from planner.search.studies.evaluate import Observation
from planner.search.studies.sources import frozen, quiet_optuna
from planner.search.studies.space import SearchSpace
from planner.storage.errors import DRIVER_ERRORS

SPEC = "spec_hash"


class OptunaMirror:
    """Writes finished trials into the Optuna study `name` at `url`, each once, whatever was there before."""

    def __init__(self, url: str, *, name: str, objectives: Sequence[Objective], space: SearchSpace) -> None:
        quiet_optuna()
        self._space = space
        try:
            self._study = optuna.create_study(
                study_name=name,
                storage=url,
                directions=["maximize" if o.maximise else "minimize" for o in objectives],
                load_if_exists=True,
            )
            self._study.set_metric_names([o.value for o in objectives])
            self._known = {str(t.user_attrs.get(SPEC)) for t in self._study.get_trials(deepcopy=False)}
        except (*DRIVER_ERRORS, optuna.exceptions.OptunaError, ImportError, OSError) as error:
            raise InputError(
                Issue(
                    code="mirror.unusable",
                    what="the Optuna storage cannot be opened",
                    why=str(error).splitlines()[0] if str(error) else type(error).__name__,
                    fix="give a URL like sqlite:///optuna.db, or leave --optuna-storage out",
                    where="--optuna-storage",
                )
            ) from error

    def add(self, index: int, observation: Observation, outcome: TrialOutcome, *, spec_hash: str) -> bool:
        """Copy one finished trial; False when it is there already or has no figures to show."""
        if spec_hash in self._known or outcome.state is not TrialState.COMPLETE or not observation.usable:
            return False
        trial = frozen(self._space, index, observation, outcome)
        trial.set_user_attr(SPEC, spec_hash)
        self._study.add_trial(trial)
        self._known.add(spec_hash)
        return True
