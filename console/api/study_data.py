"""Studies as the console shows them: trials as columns, read once and then only what is new."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from console.figures.study import TrialColumns
from planner.domain.study import Study, StudyState, Trial, TrialState
from planner.search.studies.sampler import OBSERVED
from planner.storage.store import Store

KEPT: Final = 4
QUIET: Final = timedelta(minutes=2)  # without a finished trial, a running study may have lost its process


@dataclass(slots=True)
class _Followed:
    columns: list[tuple[float, float, float, bool]] = field(default_factory=list)
    trials: dict[int, Trial] = field(default_factory=dict)
    complete_to: int = -1  # every trial up to here had finished when it was read


class StudyData:
    """Trials of the last few studies that were looked at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    def trials(self, name: str) -> tuple[Trial, ...]:
        """All trials in order; only those that may have changed are read again. Raises MissingDataError ``study.unknown``."""
        followed = self._followed.get(name)
        if followed is None:
            self._store.studies.get(name)
            followed = self._followed[name] = _Followed()
        self._followed.move_to_end(name)
        while len(self._followed) > KEPT:
            self._followed.popitem(last=False)
        for trial in self._store.studies.trials(name, after=followed.complete_to):
            followed.trials[trial.number] = trial
        while (found := followed.trials.get(followed.complete_to + 1)) is not None and found.state.finished:
            followed.complete_to += 1
        return tuple(followed.trials[n] for n in sorted(followed.trials))

    def forget(self, name: str) -> None:
        """Drop what is known of a study."""
        self._followed.pop(name, None)


def columns_of(trials: tuple[Trial, ...]) -> TrialColumns:
    """The complete trials with figures, as columns."""
    rows = []
    for t in trials:
        rate, tpot = (t.outcome.attributes.get(n) for n in OBSERVED[:2])
        if t.state is TrialState.COMPLETE and isinstance(rate, int | float) and isinstance(tpot, int | float):
            rows.append((t.number, rate, 1000.0 / tpot if tpot > 0 else 0.0, t.feasible))
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 4)
    return TrialColumns(
        number=table[:, 0].astype(np.int32),
        rate=table[:, 1],
        user=table[:, 2],
        feasible=table[:, 3].astype(bool),
    )


def is_quiet(study: Study, trials: tuple[Trial, ...], now: datetime) -> bool:
    """Whether a study is marked as running while nothing finished for a while: its process may be gone."""
    last = max((t.finished_at for t in trials if t.finished_at is not None), default=study.updated_at)
    return study.state is StudyState.RUNNING and last is not None and now - last > QUIET
