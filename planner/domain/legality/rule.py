"""What a rule is and what breaking it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from planner.domain.errors import Issue

S = TypeVar("S")


class Message(NamedTuple):
    """`what` repeats the numbers, `why` names the constraint, `fix` says what would make it legal."""

    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule, with the numbers that broke it."""

    code: str
    rule: str
    what: str
    why: str
    fix: str

    def issue(self, where: str | None = None) -> Issue:
        """The violation as an error a user can act on; `where` is a flag, file or role."""
        return Issue(code=self.code, what=self.what, why=self.why, fix=self.fix, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[S]):
    """A named constraint of the engine, the exporter or the hardware on a subject.

    `applies` decides whether the rule concerns the subject, `check` whether the subject obeys it, `message` words
    the violation. All three are cheap functions of the subject's fields; the enumerator calls them per candidate.
    """

    code: str
    title: str
    applies: Callable[[S], bool]
    check: Callable[[S], bool]
    message: Callable[[S], Message]

    def broken_by(self, subject: S) -> bool:
        """Whether the rule concerns `subject` and is not obeyed."""
        return self.applies(subject) and not self.check(subject)

    def violation(self, subject: S) -> Violation:
        """Word the violation; call only when `broken_by`."""
        message = self.message(subject)
        return Violation(code=self.code, rule=self.title, what=message.what, why=message.why, fix=message.fix)


def always(_: object) -> bool:
    """For rules that concern every subject."""
    return True


def violations_of(rules: Iterable[Rule[S]], subject: S) -> tuple[Violation, ...]:
    """All violations, in the order of the rules, one per rule."""
    return tuple(r.violation(subject) for r in rules if r.applies(subject) and not r.check(subject))


def codes_of(rules: Iterable[Rule[S]], subject: S) -> tuple[str, ...]:
    """Codes of all broken rules, without wording them."""
    return tuple(r.code for r in rules if r.applies(subject) and not r.check(subject))


def numbers(values: Iterable[int]) -> str:
    """``1, 2, 4`` or ``none``."""
    return ", ".join(str(v) for v in values) or "none"
