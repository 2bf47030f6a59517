"""Find a topic by what a user types."""

from __future__ import annotations

import functools
import json
from importlib.resources import files

from planner.domain.errors import ExitCode, InputError, Issue, did_you_mean
from planner.domain.legality import rule_title
from planner.explain.terms import TERMS
from planner.explain.topic import Case, Kind, Topic

EXIT_TEXT = {
    ExitCode.OK: "success",
    ExitCode.ANSWERED_NO: 'answered "no": no feasible plan, a target missed, drift or findings under --exit-code',
    ExitCode.USAGE: "usage or invalid input",
    ExitCode.MISSING_DATA: "missing data: a profile, model file or table is not here",
    ExitCode.CLUSTER: "the cluster is unreachable or refused",
    ExitCode.STOPPED_EARLY: "stopped before its budget; the partial result is kept",
    ExitCode.INTERRUPTED: "interrupted; state is kept and the command that resumes is printed",
}


@functools.cache
def topics() -> tuple[Topic, ...]:
    """Everything that can be explained, by kind and name."""
    return (*_terms(), *_codes(), *_lint_rules(), *_exit_statuses())


def find(wanted: str) -> Topic:
    """The topic that `wanted` names, whatever its case, by name, alias or code.

    Raises InputError ``explain.unknown`` with the closest names.
    """
    names = _names()
    topic = names.get(_key(wanted))
    if topic is None:
        close = did_you_mean(_key(wanted), names)
        raise InputError(
            Issue(
                code="explain.unknown",
                what=f"'{wanted}' is not a term or a code",
                why="terms, error codes, rules and exit statuses are known by name",
                fix=f"{close} planner explain lists all"
                if close.startswith("did")
                else "planner explain lists all",
            )
        )
    return topic


@functools.cache
def _names() -> dict[str, Topic]:
    names: dict[str, Topic] = {}
    for topic in topics():
        for name in (topic.name, *(topic.term.aliases if topic.term else ())):
            names.setdefault(_key(name), topic)
    return names


def _key(name: str) -> str:
    return " ".join(name.strip().lower().split())


def _terms() -> list[Topic]:
    return [
        Topic(
            kind=Kind.TERM if t.better is None else Kind.METRIC,
            name=t.name,
            title=t.text.split(". ")[0].rstrip("."),
            text=t.text,
            term=t,
            shown=t.shown,
            see=t.see,
        )
        for t in TERMS
    ]


def _codes() -> list[Topic]:
    data = json.loads(files("planner.explain").joinpath("codes.json").read_text(encoding="utf-8"))
    errors = [
        Topic(
            kind=Kind.ERROR,
            name=code,
            title=_best_reason(cases := _cases(entry)),
            cases=cases,
            exit_status=entry["status"],
        )
        for code, entry in data["errors"].items()
    ]
    rules = [
        Topic(
            kind=Kind.RULE,
            name=code,
            title=rule_title(code),
            cases=_cases(entry),
            shown=("planner why-not", "planner estimate", "Space of planner recommend"),
        )
        for code, entry in data["rules"].items()
    ]
    return [*errors, *rules]


def _cases(entry: dict[str, list[dict[str, str]]]) -> tuple[Case, ...]:
    return tuple(Case(what=c["what"], why=c["why"], fix=c["fix"]) for c in entry["cases"])


def _best_reason(cases: tuple[Case, ...]) -> str:
    telling = [t for c in cases for t in (c.why, c.what, c.fix) if t.strip("… :.'()")]
    return telling[0] if telling else "see the message"


def _lint_rules() -> list[Topic]:
    from planner.export.lint import rules

    return [
        Topic(
            kind=Kind.LINT,
            name=r.id,
            title=r.title,
            cases=(Case(what=r.title, why=r.why, fix=r.fix),),
            severity=str(r.severity),
            source=r.source,
            shown=("planner lint", "planner export"),
        )
        for r in rules()
    ]


def _exit_statuses() -> list[Topic]:
    return [
        Topic(kind=Kind.EXIT, name=str(int(code)), title=EXIT_TEXT[code], text=EXIT_TEXT[code])
        for code in ExitCode
    ]
