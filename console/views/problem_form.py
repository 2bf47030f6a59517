"""The planning question as a form: fields, suggestions, and validation as one types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from planner.domain.deployment import Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.errors import Issue, PlannerError
from planner.domain.workload import SloTargets
from planner.search.ask import DEFAULT_ISL, DEFAULT_OSL, Request, build_problem
from planner.search.recommend import question

_NUMBER: Final = re.compile(r"^(?P<value>[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)\s*(?P<unit>[a-zA-Z%]*)$")


class Kind(StrEnum):
    """What a field holds."""

    TEXT = "text"
    COUNT = "count"
    MS = "milliseconds"
    RATE = "rate"
    SHARE = "share"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field. `key` is the name in `Request`; `flag` the option of `planner recommend` that says the same."""

    key: str
    label: str
    group: str
    kind: Kind
    hint: str
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The command-line option of the same name."""
        return "--cluster" if self.key == "node" else "--" + self.key.replace("_", "-")


FIELDS: Final = (
    FieldSpec(key="model", label="Model", group="Model", kind=Kind.TEXT, hint="id, alias or config.json"),
    FieldSpec(key="gpu", label="GPU", group="Hardware", kind=Kind.TEXT, hint="e.g. h200-sxm"),
    FieldSpec(key="gpus", label="GPUs owned", group="Hardware", kind=Kind.COUNT, hint="e.g. 32"),
    FieldSpec(key="fabric", label="Fabric", group="Hardware", kind=Kind.TEXT, hint="usual for the GPU"),
    FieldSpec(key="node", label="Node shape", group="Hardware", kind=Kind.TEXT, hint="usual for the GPU"),
    FieldSpec(key="prefill_gpu", label="Prefill GPU", group="Hardware", kind=Kind.TEXT, hint="if it differs"),
    FieldSpec(key="prefill_gpus", label="Prefill GPUs", group="Hardware", kind=Kind.COUNT, hint=""),
    FieldSpec(key="decode_gpu", label="Decode GPU", group="Hardware", kind=Kind.TEXT, hint="if it differs"),
    FieldSpec(key="decode_gpus", label="Decode GPUs", group="Hardware", kind=Kind.COUNT, hint=""),
    FieldSpec(key="isl", label="Prompt tokens", group="Workload", kind=Kind.COUNT, hint=str(DEFAULT_ISL)),
    FieldSpec(key="osl", label="Output tokens", group="Workload", kind=Kind.COUNT, hint=str(DEFAULT_OSL)),
    FieldSpec(key="prefix_hit", label="Prefix hit", group="Workload", kind=Kind.SHARE, hint="0 to <1, or 30%"),
    FieldSpec(key="ttft_ms", label="TTFT p50 ≤", group="Targets", kind=Kind.MS, hint="e.g. 2s"),
    FieldSpec(key="tpot_ms", label="TPOT p50 ≤", group="Targets", kind=Kind.MS, hint="e.g. 30ms"),
    FieldSpec(key="tok_s_user", label="tok/s/user ≥", group="Targets", kind=Kind.RATE, hint="e.g. 40"),
    FieldSpec(key="usd_per_gpu_hour", label="$/GPU-hour", group="Search", kind=Kind.RATE, hint="list price"),
    FieldSpec(key="strategy", label="Strategy", group="Search", kind=Kind.CHOICE, hint="both",
              choices=tuple(s.value for s in Strategy)),
    FieldSpec(key="kv_dtype", label="KV format", group="Search", kind=Kind.CHOICE, hint="bf16 and fp8",
              choices=tuple(k.value for k in KvDtype)),
    FieldSpec(key="engine_version", label="vLLM version", group="Search", kind=Kind.TEXT, hint="newest profile"),
)  # fmt: skip
BY_KEY: Final = {f.key: f for f in FIELDS}
TARGET_KEYS: Final = ("ttft_ms", "tpot_ms", "tok_s_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldState:
    """A field with what is in it and what is wrong with it."""

    spec: FieldSpec
    text: str
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState:
    """The form after validation. `request` is None while a field cannot be read; `ready` when it can be planned.

    `general` are issues that belong to no field; `command` is the command line that asks the same.
    """

    fields: tuple[FieldState, ...]
    general: tuple[Issue, ...]
    request: Request | None
    ready: bool
    summary: str
    assumptions: tuple[str, ...]
    command: str

    @property
    def issues(self) -> tuple[Issue, ...]:
        """All issues, fields first."""
        return tuple(i for f in self.fields for i in f.issues) + self.general


def values_of(request: Request) -> dict[str, str]:
    """The form's texts for `request`."""
    result = {}
    for spec in FIELDS:
        value = getattr(request, spec.key)
        if value is None:
            result[spec.key] = ""
        elif isinstance(value, float):
            result[spec.key] = f"{value:g}"
        else:
            result[spec.key] = str(value)
    return result


def check_form(values: Mapping[str, str], *, base: Request | None = None) -> FormState:
    """Validate `values` (by field key). `base` supplies what the form does not show (profiles, name, switches).

    Never raises for what a user may type.
    """
    parsed: dict[str, object] = {}
    by_field: dict[str, list[Issue]] = {f.key: [] for f in FIELDS}
    for spec in FIELDS:
        text = values.get(spec.key, "").strip()
        if not text:
            parsed[spec.key] = None
            continue
        value, issue = _parse(spec, text)
        if issue is not None:
            by_field[spec.key].append(issue)
        parsed[spec.key] = value
    general: list[Issue] = []
    request: Request | None = None
    summary, ready = "", False
    assumptions: tuple[str, ...] = ()
    if not any(by_field.values()):
        request = _request(parsed, base or Request())
        try:
            problem, _ = build_problem(request)
        except PlannerError as error:
            for issue in error.issues:
                _place(issue, by_field, general)
        else:
            ready = True
            summary = question(problem)
            assumptions = tuple(
                f"{a.name}: {a.value} — {a.why}"
                for a in problem.assumptions
                if not a.why.startswith("not confirmed")
            )
    return FormState(
        fields=tuple(
            FieldState(spec=f, text=values.get(f.key, ""), issues=tuple(by_field[f.key])) for f in FIELDS
        ),
        general=tuple(general),
        request=request,
        ready=ready,
        summary=summary,
        assumptions=assumptions,
        command=command_of(request) if request is not None else "",
    )


def command_of(request: Request) -> str:
    """The command line that asks the same question."""
    parts = ["planner recommend"]
    for spec in FIELDS:
        value = getattr(request, spec.key)
        if value is not None:
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            parts.append(f"{spec.flag} {shown}")
    return " ".join(parts)


def _request(parsed: Mapping[str, object], base: Request) -> Request:
    kept = {f.name: getattr(base, f.name) for f in fields(base) if f.name not in BY_KEY and f.name != "name"}
    return Request(**{**kept, **parsed})


def _place(issue: Issue, by_field: dict[str, list[Issue]], general: list[Issue]) -> None:
    flag = (issue.where or "").split(" ")[0]
    for spec in FIELDS:
        if spec.flag == flag:
            by_field[spec.key].append(issue)
            return
    noun = issue.code.split(".")[0]
    if noun in by_field:
        by_field[noun].append(issue)
    else:
        general.append(issue)


def _parse(spec: FieldSpec, text: str) -> tuple[object, Issue | None]:
    if spec.kind is Kind.TEXT:
        return text, None
    if spec.kind is Kind.CHOICE:
        if text not in spec.choices:
            return None, _bad(spec, text, f"choose {' or '.join(spec.choices)}, or leave it empty")
        return (Strategy(text) if spec.key == "strategy" else KvDtype(text)), None
    match = _NUMBER.match(text)
    if match is None:
        return None, _bad(spec, text, f"write a number, {spec.hint}".rstrip(", "))
    value = float(match["value"].replace(",", "").replace("_", ""))
    unit = match["unit"].lower()
    scale = _SCALES[spec.kind].get(unit)
    if scale is None:
        return None, _bad(spec, text, f"'{unit}' is not a unit here; use {_units(spec.kind)}")
    value *= scale
    if spec.kind is Kind.COUNT:
        if value != int(value):
            return None, _bad(spec, text, "write a whole number")
        return int(value), None
    return value, None


_SCALES: Final[dict[Kind, dict[str, float]]] = {
    Kind.COUNT: {"": 1.0, "k": 1000.0},
    Kind.MS: {"": 1.0, "ms": 1.0, "s": 1000.0},
    Kind.RATE: {"": 1.0},
    Kind.SHARE: {"": 1.0, "%": 0.01},
}


def _units(kind: Kind) -> str:
    return " or ".join(u or "a plain number" for u in _SCALES[kind])


def _bad(spec: FieldSpec, text: str, fix: str) -> Issue:
    return Issue(
        code="form.value",
        what=f"{spec.label} '{text}'",
        why=f"it is not a {spec.kind.value}",
        fix=fix,
        where=spec.flag,
    )


def check_targets(texts: Mapping[str, str]) -> tuple[SloTargets | None, dict[str, str]]:
    """Read the three target fields; None with a note per field when one cannot be read or is not above 0."""
    found: dict[str, float | None] = {}
    problems: dict[str, str] = {}
    for key in TARGET_KEYS:
        text = texts.get(key, "").strip()
        value, issue = _parse(BY_KEY[key], text) if text else (None, None)
        if issue is not None:
            problems[key] = issue.fix
        elif isinstance(value, float) and value <= 0.0:
            problems[key] = "a target is above 0"
        else:
            found[key] = value if isinstance(value, float) else None
    if problems:
        return None, problems
    return SloTargets(**found), {}


def values_of_targets(slo: SloTargets) -> dict[str, str]:
    """The texts of the target fields."""
    return {k: "" if getattr(slo, k) is None else f"{getattr(slo, k):g}" for k in TARGET_KEYS}


def suggestions() -> dict[str, tuple[str, ...]]:
    """Known names per text field, from the catalogue."""
    from planner.catalog.hardware import list_fabrics, list_gpus, list_nodes
    from planner.catalog.models import list_models

    gpus = list_gpus()
    return {
        "model": tuple(m.id for m in list_models()),
        "gpu": gpus,
        "prefill_gpu": gpus,
        "decode_gpu": gpus,
        "fabric": list_fabrics(),
        "node": list_nodes(),
        "strategy": BY_KEY["strategy"].choices,
        "kv_dtype": BY_KEY["kv_dtype"].choices,
    }
