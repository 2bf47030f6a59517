"""Studies as the console shows them: trials as columns, read once and then only what is new."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from console.figures.study import TrialColumns
from planner.domain.study import Study, StudyState, Trial, TrialState
from planner.search.studies.sampler import OBSERVED
from planner.storage.store import Store

KEPT: Final = 4
RECENT: Final = 200  # trials finish nearly in the order of their numbers
QUIET: Final = timedelta(minutes=2)  # without a finished trial, a running study may have lost its process


@dataclass(slots=True)
class _Followed:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What a study's page says of all its trials. `best` is the feasible trial with the highest rate."""

    columns: TrialColumns
    counts: Mapping[TrialState, int]
    excluded: Mapping[str, int]
    best: Trial | None


def overview_of(trials: tuple[Trial, ...]) -> Overview:
    """One pass over the trials; a study may have 50,000."""
    rows: list[tuple[int, float, float, bool]] = []
    counts: Counter[TrialState] = Counter()
    excluded: Counter[str] = Counter()
    best: tuple[float, Trial] | None = None
    rate_name, tpot_name = OBSERVED[:2]
    for t in trials:
        outcome = t.outcome
        counts[outcome.state] += 1
        if outcome.state is TrialState.FAILED:
            excluded[f"failed: {(outcome.error or 'no figures').split(':')[0][:80]}"] += 1
        missed = [name for name, value in outcome.constraints.items() if value > 0.0]
        for name in missed:
            excluded[f"misses {name.removesuffix('_ms').upper()} target"] += 1
        rate, tpot = outcome.attributes.get(rate_name), outcome.attributes.get(tpot_name)
        if outcome.state is not TrialState.COMPLETE or not isinstance(rate, int | float):
            continue
        if not isinstance(tpot, int | float) or tpot <= 0.0:
            continue
        rows.append((t.number, rate, 1000.0 / tpot, not missed))
        if not missed and (best is None or rate > best[0]):
            best = float(rate), t
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 4)
    columns = TrialColumns(
        number=table[:, 0].astype(np.int32), rate=table[:, 1], user=table[:, 2], feasible=table[:, 3].astype(bool)
    )  # fmt: skip
    return Overview(columns=columns, counts=counts, excluded=excluded, best=None if best is None else best[1])


def is_quiet(study: Study, trials: tuple[Trial, ...], now: datetime) -> bool:
    """Whether a study is marked as running while nothing finished for a while: its process may be gone."""
    if study.state is not StudyState.RUNNING:
        return False
    finished = [t.finished_at for t in trials[-RECENT:] if t.finished_at is not None]
    last = max(finished, default=study.updated_at)
    return last is not None and now - last > QUIET
