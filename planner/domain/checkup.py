"""What `planner doctor` finds: one line per check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """How a check ended: `WARN` limits something, `FAIL` stops something that was set up."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: its name, what was found, and what to do unless it is `OK`."""

    name: str
    state: CheckState
    what: str
    fix: str = ""


def ok(name: str, what: str) -> Check:
    """A check that found nothing wrong."""
    return Check(name=name, state=CheckState.OK, what=what)


def warn(name: str, what: str, fix: str) -> Check:
    """A check that found a limit."""
    return Check(name=name, state=CheckState.WARN, what=what, fix=fix)


def fail(name: str, what: str, fix: str) -> Check:
    """A check that found something broken."""
    return Check(name=name, state=CheckState.FAIL, what=what, fix=fix)
