"""What plausibility checks report, and the checks every kind of profile shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.catalog.documents import Document, PathKey, json_path
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.domain.provenance import Source

# Findings that are told but do not make a profile unusable; every other code is an error.
WARNINGS: Final = frozenset(
    {
        "gpu.unconfirmed_input",
        "gpu.resembles_catalogue",
        "gpu.announced",
        "fabric.unconfirmed_input",
        "node.unconfirmed_input",
        "engine.unconfirmed_input",
        "node.gpu_resource_missing_rdma",
    }
)

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_warning(issue: Issue) -> bool:
    """Whether `issue` leaves the profile usable."""
    return issue.code in WARNINGS


def refuse_errors(issues: Sequence[Issue]) -> None:
    """Raise InputError with the issues that are errors, if there are any."""
    errors = [i for i in issues if not is_warning(i)]
    if errors:
        raise InputError(*errors)


@dataclass(slots=True)
class Report:
    """Collects issues of one profile; `prefix` starts every code, `document` gives lines when there is one."""

    prefix: str
    document: Document | None = None
    issues: list[Issue] = field(default_factory=list)

    def add(self, code: str, path: Sequence[PathKey], *, what: str, why: str, fix: str) -> None:
        """Record one finding about the value at `path`."""
        where = self.document.where(path) if self.document is not None else json_path(path)
        self.issues.append(Issue(code=f"{self.prefix}.{code}", what=what, why=why, fix=fix, where=where))

    def positive(self, values: Mapping[str, float | None], *, zero_ok: bool = False) -> None:
        """Record ``value_range`` for every value that is negative, or zero unless `zero_ok`; None is skipped."""
        for name, value in values.items():
            if value is not None and (value < 0 or (value == 0 and not zero_ok)):
                self.add(
                    "value_range",
                    name.split("."),
                    what=f"{name} is {value:g}",
                    why=f"it must be {'zero or more' if zero_ok else 'more than zero'}",
                    fix="give the real figure",
                )

    def fractions(self, values: Mapping[str, float]) -> None:
        """Record ``value_range`` for every value outside (0, 1]."""
        for name, value in values.items():
            if not 0 < value <= 1:
                self.add(
                    "value_range",
                    name.split("."),
                    what=f"{name} is {value:g}",
                    why="it is a fraction: more than 0, at most 1",
                    fix="give a fraction, e.g. 0.95",
                )

    def sources(self, sources: Mapping[str, Source], figures: Sequence[str], known: Sequence[str]) -> None:
        """Record figures without a source, sources of unknown fields, and unusable dates.

        A source may be given for a field (``peak_tflops``) or a part of it (``peak_tflops.fp4``).
        """
        given = {key.split(".")[0] for key in sources}
        for name in figures:
            if name not in given:
                self.add(
                    "source_missing",
                    ("sources", name),
                    what=f"no source for {name}",
                    why="every figure says where it comes from, when and how it was obtained",
                    fix=f"add sources.{name} with source, date and method (confirmed: false if unsure)",
                )
        for key, source in sources.items():
            if key.split(".")[0] not in known:
                self.add(
                    "source_unknown",
                    ("sources", key),
                    what=f"a source for '{key}', which is no field",
                    why="a misspelt key leaves the real figure without a source",
                    fix=did_you_mean(key, known),
                )
            if not _DATE.fullmatch(source.date):
                self.add(
                    "source_date",
                    ("sources", key, "date"),
                    what=f"date '{source.date}'",
                    why="figures age; a date is yyyy-mm-dd or yyyy-mm",
                    fix="write the date the source was published or read",
                )
            if not source.source.strip():
                self.add(
                    "source_missing",
                    ("sources", key, "source"),
                    what=f"the source of {key} is empty",
                    why="every figure says where it comes from",
                    fix="name a document, a log or a listing",
                )

    def unconfirmed(
        self, sources: Mapping[str, Source], inputs: Sequence[str], shown: Callable[[str], str]
    ) -> None:
        """Record the planning inputs among `inputs` whose source is not confirmed."""
        for key, source in sources.items():
            if key.split(".")[0] in inputs and not source.confirmed:
                self.add(
                    "unconfirmed_input",
                    (key.split(".")[0],),
                    what=f"{key} = {shown(key.split('.')[0])} is not confirmed",
                    why=f"{source.source}{f' ({source.note})' if source.note else ''}; plans depend on it",
                    fix=f"measure it and overlay the profile with --profiles DIR, or accept {key} as an assumption",
                )

    def label_value(self, path: Sequence[PathKey], value: str) -> None:
        """Record a text that Kubernetes would refuse as a label value."""
        if value and not _LABEL_VALUE.fullmatch(value):
            self.add(
                "label_form",
                path,
                what=f"'{value}' is not a Kubernetes label value",
                why="63 characters at most of A-Z a-z 0-9 - _ . with an alphanumeric at both ends",
                fix="copy the value from: kubectl get nodes --show-labels",
            )
