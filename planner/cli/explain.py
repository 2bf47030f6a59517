"""`planner explain`: terms, error codes, rules and exit statuses, offline."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.explain import Case, Topic

CASES_SHOWN = 6


def explain(
    topic: Annotated[
        list[str] | None,
        typer.Argument(help="Error code, rule, lint rule, exit status or term; none lists them all."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Explain an error code, a rule, an exit status or a term, offline.

    planner explain tpot; planner explain dbo.dcp; planner explain L13; planner explain 5; planner explain wide EP
    """
    from planner.explain import find, topics

    wanted = " ".join(topic or ()).strip()
    if not wanted:
        if json:
            emit_json("topics", {"topics": [_head(t) for t in topics()]})
        else:
            _print_list(topics())
        return
    if wanted.endswith("."):
        _print_area(wanted, json=json)
        return
    found = find(wanted)
    if json:
        emit_json("topic", _payload(found))
    else:
        _print_topic(found)


def _print_list(topics: Sequence[Topic]) -> None:
    """Names by kind; error codes by their first part, since there are hundreds."""
    from planner.explain import Kind

    headings = {
        Kind.TERM: "Terms",
        Kind.METRIC: "Metrics",
        Kind.RULE: "Legality rules",
        Kind.LINT: "Lint rules",
        Kind.EXIT: "Exit statuses",
    }
    for kind, heading in headings.items():
        names = [t.name for t in topics if t.kind is kind]
        sys.stdout.write(f"{heading} ({len(names)})\n")
        print_lines(", ".join(names))
        sys.stdout.write("\n")
    codes = [t.name for t in topics if t.kind is Kind.ERROR]
    areas = sorted({c.split(".")[0] for c in codes})
    sys.stdout.write(f"Error codes ({len(codes)}) by area\n")
    print_lines(", ".join(f"{a}. ({sum(c.startswith(f'{a}.') for c in codes)})" for a in areas))
    sys.stdout.write("\nplanner explain NAME tells one; planner explain AREA. lists the codes of an area\n")


def _print_area(prefix: str, *, json: bool) -> None:
    """All codes that begin with `prefix`, e.g. ``export.``, with their reasons."""
    from planner.cli.output import print_table
    from planner.domain.errors import InputError, Issue, did_you_mean
    from planner.explain import topics

    coded = [t for t in topics() if "." in t.name]
    found = [t for t in coded if t.name.startswith(prefix.lower())]
    if not found:
        raise InputError(
            Issue(
                code="explain.unknown",
                what=f"no code begins with '{prefix}'",
                why="a name that ends in a dot stands for an area of codes",
                fix=did_you_mean(prefix, {f"{t.name.split('.')[0]}." for t in coded}),
            )
        )
    if json:
        emit_json("topics", {"topics": [_head(t) for t in found]})
    else:
        print_table(("code", "reason"), [(t.name, t.title) for t in found])


def _print_topic(topic: Topic) -> None:
    head = f"{topic.name}: {topic.kind}"
    if topic.severity:
        head += f", {topic.severity}"
    if topic.exit_status is not None:
        head += f", exit status {topic.exit_status}"
    sys.stdout.write(head + "\n")
    if topic.text:
        print_lines(topic.text)
    elif topic.kind != "error":
        print_lines(topic.title)
    term = topic.term
    for label, value in (
        ("unit", term.unit if term else None),
        ("better", str(term.better) if term and term.better else None),
        ("computed", term.formula if term else None),
        ("also called", ", ".join(term.aliases) if term and term.aliases else None),
    ):
        if value:
            print_lines(f"{label}: {value}")
    for case in topic.cases[:CASES_SHOWN]:
        _print_case(topic, case)
    hidden = len(topic.cases) - CASES_SHOWN
    if hidden > 0:
        print_lines(f"and {hidden} more cases; --json lists all")
    for label, values, joint in (("shown in", topic.shown, "; "), ("see", topic.see, ", ")):
        if values:
            print_lines(f"{label}: {joint.join(values)}")
    if topic.source:
        print_lines(f"reported by: {topic.source}")


def _print_case(topic: Topic, case: Case) -> None:
    lines = [case.what] if case.what != topic.title and case.what.strip("… :") else []
    lines += [
        f"{label}: {text}" for label, text in (("why", case.why), ("fix", case.fix)) if text.strip("… ")
    ]
    for index, line in enumerate(lines):
        print_lines(f"- {line}" if index == 0 else line, indent=2 if index == 0 else 4)


def _head(topic: Topic) -> dict[str, object]:
    return {"kind": str(topic.kind), "name": topic.name, "title": topic.title}


def _payload(topic: Topic) -> dict[str, object]:
    term = topic.term
    return {
        **_head(topic),
        "text": topic.text,
        "unit": term.unit if term else None,
        "better": str(term.better) if term and term.better else None,
        "computed": term.formula if term else None,
        "aliases": list(term.aliases) if term else [],
        "severity": topic.severity,
        "exit_status": topic.exit_status,
        "cases": [{"what": c.what, "why": c.why, "fix": c.fix} for c in topic.cases],
        "shown_in": list(topic.shown),
        "see": list(topic.see),
        "source": topic.source,
    }
