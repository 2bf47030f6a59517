"""What a running study tells its user, as plain values; drawing is the interface's job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a study after a trial. `total` None: bounded by time. `excluded`: points not charged or not feasible."""

    stage: str
    done: int
    total: int | None
    running: int
    elapsed_s: float
    limit_s: float | None
    best: str | None  # the best feasible trial, in words
    best_rate: float | None
    hypervolume: float
    excluded: Mapping[str, int]

    @property
    def per_s(self) -> float:
        """Trials per second since the start of this run."""
        return self.done / self.elapsed_s if self.elapsed_s > 0.0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until the budget is used, at the present rate; None before the first trial."""
        by_time = None if self.limit_s is None else max(self.limit_s - self.elapsed_s, 0.0)
        if self.total is None or self.per_s <= 0.0:
            return by_time
        by_count = (self.total - self.done) / self.per_s
        return by_count if by_time is None else min(by_count, by_time)


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report nothing."""
    del progress
