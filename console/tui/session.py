"""What the screens share: the question, its answer, the pinned plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from console.tui.services import Solved
from console.views.comparison import MOST
from planner.domain.errors import Issue
from planner.search.ask import Request


class Phase(StrEnum):
    """How far the answer is."""

    EMPTY = "empty"
    SOLVING = "solving"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A value; every change makes a new one. `pinned` are points of `solved`, in the order of pinning.

    While a new question is solved, and when it fails, `solved` is the last good answer.
    """

    phase: Phase = Phase.EMPTY
    request: Request | None = None
    origin: str = ""
    solved: Solved | None = None
    issues: tuple[Issue, ...] = ()
    pinned: tuple[int, ...] = ()
    progress: str = ""  # of a study that is followed

    def toggled(self, point: int) -> Session:
        """`point` pinned, or not any more; unchanged when as many are pinned as can be compared."""
        if point in self.pinned:
            return replace(self, pinned=tuple(p for p in self.pinned if p != point))
        if len(self.pinned) >= MOST:
            return self
        return replace(self, pinned=(*self.pinned, point))
