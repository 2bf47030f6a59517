"""Errors a user can act on.

    PlannerError
    ├── InputError         exit 2: what was asked is malformed or contradicts itself
    ├── MissingDataError   exit 3: a profile, model file or table is not here
    ├── NotFeasibleError   exit 1: answered "no"
    └── ClusterError       exit 4: the cluster is unreachable or refused

Each error carries one or more `Issue`s; every issue says what, why and how to mend it, with a stable code.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """Exit statuses of every command (docs/errors.md)."""

    OK = 0
    ANSWERED_NO = 1
    USAGE = 2
    MISSING_DATA = 3
    CLUSTER = 4
    STOPPED_EARLY = 5
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong.

    `code` is stable across releases and documented in docs/errors.md, e.g. ``gpu.unknown``.
    `what` repeats the user's value; `why` names the rule or the numbers; `fix` names a command, flag or value.
    `where` is a file with a path (``profiles/x.yaml @ $.hbm_gbps``) or a flag, when there is one.
    """

    code: str
    what: str
    why: str
    fix: str
    where: str | None = None


class PlannerError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, *issues: Issue) -> None:
        if not issues:
            msg = "a PlannerError needs at least one issue"
            raise ValueError(msg)
        self.issues = tuple(dict.fromkeys(issues))  # a cause met twice is said once
        super().__init__("; ".join(f"{i.code}: {i.what}" for i in self.issues))


class InputError(PlannerError):
    """The request is malformed, unknown or contradicts itself."""

    exit_code = ExitCode.USAGE


class MissingDataError(PlannerError):
    """A profile, a model file or a table that is needed is not here."""

    exit_code = ExitCode.MISSING_DATA


class NotFeasibleError(PlannerError):
    """The question was understood and the answer is no."""

    exit_code = ExitCode.ANSWERED_NO


class ClusterError(PlannerError):
    """The cluster is unreachable or refused the request."""

    exit_code = ExitCode.CLUSTER


def did_you_mean(name: str, known: Iterable[str], count: int = 3) -> str:
    """Return ``did you mean 'a', 'b'?`` for the closest known names, or a list of a few known ones.

    Comparison ignores case; a known name that contains the given one counts as close.
    """
    names = sorted(set(known))
    by_lower = {n.lower(): n for n in names}
    close = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=count, cutoff=0.5)]
    for n in names:
        if len(close) >= count:
            break
        if name and (name.lower() in n.lower() or n.lower() in name.lower()) and n not in close:
            close.append(n)
    if close:
        return "did you mean " + ", ".join(f"'{c}'" for c in close) + "?"
    shown = ", ".join(names[:8])
    return f"known: {shown}{', …' if len(names) > 8 else ''}"
