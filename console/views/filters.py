"""The filter grammar of tables and plots: words that must occur, ``!words`` that must not, and ``ttft<2000``.

Words look at the plan's text (strategy, widths, switches, GPU); numbers at ``user``, ``rate``, ``ttft``, ``tpot``, ``cost``,
``conc`` and ``gpus``. All terms must hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from console.views.metrics import Axis
from console.views.points import PlanPoints
from planner.domain.errors import InputError, Issue, did_you_mean

_NUMBER: Final = re.compile(r"^(?P<name>[a-z]+)(?P<op><=|>=|<|>|=)(?P<value>.+)$")
_OPERATORS: Final[dict[str, Callable[[Any, float], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
FIELDS: Final = {
    "user": Axis.TOK_S_USER,
    "rate": Axis.RATE,
    "ttft": Axis.TTFT,
    "tpot": Axis.TPOT,
    "cost": Axis.COST,
    "conc": Axis.CONCURRENCY,
}
EXAMPLE: Final = "disagg ep16 !dbo ttft<2000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A numeric condition; `field` is a key of FIELDS or ``gpus``."""

    field: str
    op: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A parsed filter."""

    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()


def parse_filter(text: str) -> Filter:
    """Parse `text`; empty text lets everything pass. Raises InputError ``filter.*``."""
    words: list[str] = []
    without: list[str] = []
    bounds: list[Bound] = []
    issues: list[Issue] = []
    for term in text.lower().split():
        match = _NUMBER.match(term)
        if match is not None:
            issue, bound = _bound(term, match["name"], match["op"], match["value"])
            if issue is not None:
                issues.append(issue)
            if bound is not None:
                bounds.append(bound)
        elif term.startswith("!"):
            if term[1:]:
                without.append(term[1:])
        else:
            words.append(term)
    if issues:
        raise InputError(*issues)
    return Filter(words=tuple(words), without=tuple(without), bounds=tuple(bounds))


def _bound(term: str, name: str, op: str, value: str) -> tuple[Issue | None, Bound | None]:
    known = (*FIELDS, "gpus")
    if name not in known:
        issue = Issue(
            code="filter.field",
            what=f"'{term}'",
            why=f"'{name}' is not a number of a plan",
            fix=did_you_mean(name, known),
        )
        return issue, None
    try:
        return None, Bound(field=name, op=op, value=float(value))
    except ValueError:
        issue = Issue(
            code="filter.number",
            what=f"'{term}'",
            why=f"'{value}' is not a number",
            fix=f"write it like {EXAMPLE}",
        )
        return issue, None


def passes(points: PlanPoints, wanted: Filter) -> NDArray[np.bool_]:
    """Which entries satisfy `wanted`."""
    ok = np.ones(len(points), dtype=bool)
    for bound in wanted.bounds:
        column = points.gpus if bound.field == "gpus" else points.values(FIELDS[bound.field])
        ok &= np.asarray(_OPERATORS[bound.op](column, bound.value), dtype=bool)
    texts = [f"{r.label} {r.extras} {r.gpu}".lower() for r in points.roles]
    for word, wants in [(w, True) for w in wanted.words] + [(w, False) for w in wanted.without]:
        in_role = np.array([word in t for t in texts] + [False], dtype=bool)
        in_kind = np.array([word in s.value for s in points.strategies] or [False], dtype=bool)
        found = in_role[points.first] | in_role[points.second]
        if points.strategies:
            found |= in_kind[points.strategy]
        ok &= found if wants else ~found
    return ok
