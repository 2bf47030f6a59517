"""Studies as the console shows them: trials as columns, read once and then only what is new."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from console.figures.study import TrialColumns
from planner.domain.study import Study, StudyState, TrialState
from planner.search.studies.sampler import OBSERVED
from planner.storage.store import Store
from planner.storage.trial_figures import TrialFigures

KEPT: Final = 4
RECENT: Final = 200  # trials finish nearly in the order of their numbers
QUIET: Final = timedelta(minutes=2)  # without a finished trial


@dataclass(slots=True)
class _Followed:
    trials: dict[int, TrialFigures] = field(default_factory=dict)
    complete_to: int = -1  # every trial up to here had finished when it was read


class StudyData:
    """Figures of the trials of the last few studies that were looked at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    def trials(self, name: str) -> tuple[TrialFigures, ...]:
        """All trials in order; only those that may have changed are read again. Raises MissingDataError ``study.unknown``."""
        followed = self._followed.get(name)
        if followed is None:
            self._store.studies.get(name)
            followed = self._followed[name] = _Followed()
        self._followed.move_to_end(name)
        while len(self._followed) > KEPT:
            self._followed.popitem(last=False)
        for trial in self._store.studies.figures(name, OBSERVED[:2], after=followed.complete_to):
            followed.trials[trial.number] = trial
        while (found := followed.trials.get(followed.complete_to + 1)) is not None and found.state.finished:
            followed.complete_to += 1
        return tuple(followed.trials[n] for n in sorted(followed.trials))

    def forget(self, name: str) -> None:
        """Drop what is known of a study."""
        self._followed.pop(name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What a study's page says of all its trials. `best`: number of the feasible trial with the highest rate."""

    columns: TrialColumns
    counts: Mapping[TrialState, int]
    excluded: Mapping[str, int]
    best: int | None


def overview_of(trials: tuple[TrialFigures, ...]) -> Overview:
    """One pass over the trials; a study may have 50,000."""
    rows: list[tuple[int, float, float, bool]] = []
    counts: Counter[TrialState] = Counter()
    excluded: Counter[str] = Counter()
    best: tuple[float, int] | None = None
    for t in trials:
        counts[t.state] += 1
        if t.state is TrialState.FAILED:
            excluded[f"failed: {(t.error or 'no figures').split(':')[0][:80]}"] += 1
        for name in t.missed:
            excluded[f"misses {name.removesuffix('_ms').upper()} target"] += 1
        rate, tpot = t.values
        if t.state is not TrialState.COMPLETE or rate is None or tpot is None or tpot <= 0.0:
            continue
        rows.append((t.number, rate, 1000.0 / tpot, not t.missed))
        if not t.missed and (best is None or rate > best[0]):
            best = rate, t.number
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 4)
    columns = TrialColumns(
        number=table[:, 0].astype(np.int32), rate=table[:, 1], user=table[:, 2], feasible=table[:, 3].astype(bool)
    )  # fmt: skip
    return Overview(columns=columns, counts=counts, excluded=excluded, best=None if best is None else best[1])


def is_quiet(study: Study, last_finished: datetime | None, now: datetime) -> bool:
    """Whether a study runs while nothing finished for a while: its trials are long, or something hangs."""
    last = last_finished or study.updated_at
    return study.state is StudyState.RUNNING and last is not None and now - last > QUIET
