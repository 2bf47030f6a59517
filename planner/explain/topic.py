"""What can be explained: a term, an error code, a legality rule, a lint rule or an exit status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The sort of a topic; also the heading it is listed under."""

    TERM = "term"
    METRIC = "metric"
    ERROR = "error"
    RULE = "legality rule"
    LINT = "lint rule"
    EXIT = "exit status"


class Better(StrEnum):
    """Which direction of a metric is the good one."""

    HIGHER = "higher"
    LOWER = "lower"


class Area(StrEnum):
    """Heading of the glossary a term stands under."""

    LAYOUT = "Layout of a model"
    SERVING = "Serving"
    METRICS = "Metrics"
    SEARCH = "Search, simulation and certainty"
    KUBERNETES = "Kubernetes and llm-d"
    OURS = "Words of this program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One situation that raises an error or breaks a rule. An ellipsis stands for what is filled in."""

    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word of the field, or of ours. A term with a `unit` and a direction is a metric.

    `text`: the definition, one or a few sentences. `unit`: what a value is given in, with its denominator.
    `formula`: how it is computed, in plain text. `shown`: commands, screens or fields where it is met.
    `see`: names of related terms. `aliases`: other spellings that find it.
    """

    name: str
    area: Area
    text: str
    aliases: tuple[str, ...] = ()
    unit: str | None = None
    better: Better | None = None
    formula: str | None = None
    shown: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One thing to explain, of whatever kind. `name` is what is typed; `title` is one line for lists."""

    kind: Kind
    name: str
    title: str
    text: str = ""
    cases: tuple[Case, ...] = ()
    term: Term | None = None
    severity: str | None = None
    source: str | None = None
    exit_status: int | None = None
    shown: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
