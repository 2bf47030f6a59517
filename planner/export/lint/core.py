"""Rules, findings and the registry. A rule is a generator over a `Scene`; a new one is a function with `@rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from planner.domain.hardware import NodeShape
from planner.domain.model import ModelSpec
from planner.export.bundle import Bundle
from planner.export.dialects import Version, parse_version
from planner.export.intent import Intent
from planner.export.yaml import Document


class Severity(StrEnum):
    """How bad a finding is: it will fail, it may fail or be slow, or it is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInfo:
    """A rule as documented: what it catches, why that fails, how to mend it, and who reported it."""

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    source: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that breaks a rule. `fix` and `severity` override the rule's."""

    document: Document
    path: str
    what: str
    fix: str | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A hit with its rule: what a user sees."""

    rule: RuleInfo
    severity: Severity
    source: str
    line: int
    object: str
    path: str
    what: str
    fix: str


class Facts(Protocol):
    """What the linter may ask about models and nodes; None means unknown, and the rule stays silent or only warns."""

    def model(self, name: str) -> ModelSpec | None:
        """The model served under `name`."""

    def node(self, labels: Mapping[str, str]) -> NodeShape | None:
        """The node shape a selector picks."""


class NoFacts:
    """Knows nothing."""

    def model(self, name: str) -> ModelSpec | None:  # noqa: ARG002
        """None."""
        return None

    def node(self, labels: Mapping[str, str]) -> NodeShape | None:  # noqa: ARG002
        """None."""
        return None


@dataclass(frozen=True)
class Scene:
    """Everything a rule looks at. `intent` is the plan annotation, when a manifest of ours is among the documents."""

    bundle: Bundle
    facts: Facts = field(default_factory=NoFacts)
    lws_version: Version | None = None
    intent: Intent | None = None

    def router_version(self, image: str) -> Version:
        """Version of a router image; the newest known one when the tag says nothing."""
        tag = image.rsplit(":", 1)[-1] if ":" in image.rsplit("/", 1)[-1] else ""
        return parse_version(tag) or (0, 10, 0)


Check: TypeAlias = Callable[[Scene], Iterator[Hit]]
REGISTRY: dict[str, tuple[RuleInfo, Check]] = {}


def rule(
    id_: str, severity: Severity, title: str, *, why: str, fix: str, source: str
) -> Callable[[Check], Check]:
    """Register a rule. Ids are stable and never reused."""

    def register(check: Check) -> Check:
        if id_ in REGISTRY:
            msg = f"rule {id_} is registered twice"
            raise ValueError(msg)
        info = RuleInfo(id=id_, severity=severity, title=title, why=why, fix=fix, source=source)
        REGISTRY[id_] = (info, check)
        return check

    return register


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
