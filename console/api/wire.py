"""Documents of the API. Each model lists what may leave the server; nothing else does."""

from __future__ import annotations

import re
import shlex
from typing import Any

from pydantic import BaseModel, ConfigDict

from console.api.problems import Question
from console.views.frontier_model import FrontierView, PlanRow
from console.views.points import PlanPoints
from planner.domain.errors import Issue as DomainIssue

_KEYS = re.compile(r"[;,.]? [Pp]ress \w (?:to [^.,;]*)(?:, or [^.;]*)?")


class Wire(BaseModel):
    """Base of all documents: immutable, read from attributes of view-models."""

    model_config = ConfigDict(frozen=True, from_attributes=True, ser_json_inf_nan="null")


class Issue(Wire):
    """What is wrong, why, and how to mend it."""

    code: str
    what: str
    why: str
    fix: str
    where: str | None = None


class Issues(Wire):
    """The body of every refusal."""

    issues: tuple[Issue, ...]


def issues_of(*issues: DomainIssue) -> Issues:
    """The wire form of domain issues."""
    return Issues(issues=tuple(Issue.model_validate(i) for i in issues))


class Row(Wire):
    """A plan at a load. Metrics are in the order of ``axes``; widths are of prefill (or the only role) and decode."""

    point: int
    rank: int
    plan: str
    extras: str
    kind: str
    group: str
    gpus: str
    values: tuple[float | None, ...]
    meets: bool
    on_front: bool
    prefill: tuple[int, int, int] | None  # groups, TP, EP
    decode: tuple[int, int, int]


class AxisOut(Wire):
    """A metric that can be an axis."""

    key: str
    label: str
    short: str
    unit: str
    higher_is_better: bool


class Group(Wire):
    """What a colour and a marker stand for."""

    name: str
    colour: str
    symbol: str


class AssumptionOut(Wire):
    """A default that was filled in."""

    name: str
    value: str
    why: str
    flag: str


class ExclusionOut(Wire):
    """Role configurations that one rule left out."""

    code: str
    title: str
    count: int


class FrontierOut(Wire):
    """The frontier page."""

    title: str
    question: str
    summary: str
    query: dict[str, str]
    command: str
    axes: tuple[AxisOut, ...]
    groups: tuple[Group, ...]
    figure: dict[str, Any]
    rows: tuple[Row, ...]
    rows_total: int
    offset: int
    best: Row | None
    total: int
    shown: int
    meeting: int
    measured: int
    usd_per_gpu_hour: float | None
    assumptions: tuple[AssumptionOut, ...]
    unconfirmed: tuple[AssumptionOut, ...]
    exclusions: tuple[ExclusionOut, ...]
    role_configurations: int
    legal: int
    model_version: str


def row_of(points: PlanPoints, row: PlanRow) -> Row:
    """The wire form of a table row."""
    first = points.roles[int(points.first[row.point])]
    left = (int(points.first_groups[row.point]), first.tp, first.ep)
    if points.second[row.point] < 0:
        prefill, decode = None, left
    else:
        second = points.roles[int(points.second[row.point])]
        prefill, decode = left, (int(points.second_groups[row.point]), second.tp, second.ep)
    return Row(
        point=row.point, rank=row.rank, plan=row.plan, extras=row.extras, kind=row.kind, group=row.group, gpus=row.gpus,
        values=tuple(finite(v) for v in row.values), meets=row.meets, on_front=row.on_front, prefill=prefill, decode=decode,
    )  # fmt: skip


def without_keys(text: str) -> str:
    """A view's sentence without the terminal app's keys."""
    return _KEYS.sub("", text)


def finite(value: float) -> float | None:
    """Six significant digits; None for what JSON cannot say."""
    return float(f"{value:.6g}") if value - value == 0.0 else None


def command_of(question: Question) -> str:
    """The command line that asks `question`."""
    from console.views.problem_form import BY_KEY

    parts = ["planner recommend", *([question.recipe] if question.recipe else [])]
    for key, text in question.values:
        shown = "config.json" if text.startswith("upload:") else text
        parts.append(f"{BY_KEY[key].flag} {shlex.quote(shown)}")
    return " ".join(parts)


def groups_out(view: FrontierView) -> tuple[Group, ...]:
    """Names of the groups with their colours and markers."""
    from console.figures.theme import colour, symbol

    return tuple(Group(name=n, colour=colour(i), symbol=symbol(i)) for i, n in enumerate(view.groups))
