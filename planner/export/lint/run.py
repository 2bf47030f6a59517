"""Run the rules over documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.domain.errors import InputError
from planner.export.bundle import Bundle, bundle, name_of
from planner.export.dialects import Version
from planner.export.intent import Intent, decode
from planner.export.lint import engine, pair, pods, ports, router, sets  # noqa: F401 - registers the rules
from planner.export.lint.core import (
    REGISTRY,
    Facts,
    Finding,
    Hit,
    NoFacts,
    RuleInfo,
    Scene,
    Severity,
)
from planner.export.naming import PLAN_ANNOTATION
from planner.export.schema import SchemaSet
from planner.export.values import dig
from planner.export.yaml import Document

SCHEMA_RULE = RuleInfo(
    id="V01",
    severity=Severity.ERROR,
    title="an object its CustomResourceDefinition does not allow",
    why="the API server rejects it, or drops an unknown field silently",
    fix="mend the field",
    source="the CRD given with --crds",
)


def rules() -> tuple[RuleInfo, ...]:
    """All rules, by id."""
    return (*(REGISTRY[k][0] for k in sorted(REGISTRY)), SCHEMA_RULE)


def lint_documents(
    documents: Sequence[Document],
    *,
    facts: Facts | None = None,
    schemas: SchemaSet | None = None,
    lws_version: Version | None = None,
    only: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Findings in `documents`, worst first within each file order; `only` limits the rules by id."""
    seen = bundle(documents)
    scene = Scene(bundle=seen, facts=facts or NoFacts(), lws_version=lws_version, intent=plan_intent(seen))
    wanted = set(only)
    found: list[Finding] = []
    for id_, (info, check) in sorted(REGISTRY.items()):
        if not wanted or id_ in wanted:
            found += [_finding(info, hit) for hit in check(scene)]
    if schemas is not None and (not wanted or SCHEMA_RULE.id in wanted):
        for document in documents:
            found += [
                _finding(SCHEMA_RULE, Hit(document, v.path, v.message, v.fix))
                for v in schemas.check(document.value)
            ]
    order = list(Severity)
    found.sort(key=lambda f: (f.source, f.line, order.index(f.severity), f.rule.id, f.path, f.what))
    return tuple(dict.fromkeys(found))


def plan_intent(seen: Bundle) -> Intent | None:
    """The plan annotation of one of our own manifests; None when there is none that can be read."""
    for document in seen.documents:
        text = dig(document.value, "metadata", "annotations", PLAN_ANNOTATION)
        if isinstance(text, str):
            try:
                return decode(text, where=document.source)
            except InputError:
                return None
    return None


def _finding(info: RuleInfo, hit: Hit) -> Finding:
    return Finding(
        rule=info,
        severity=hit.severity or info.severity,
        source=hit.document.source,
        line=hit.document.line,
        object=f"{hit.document.value.get('kind')}/{name_of(hit.document)}",
        path=hit.path,
        what=hit.what,
        fix=hit.fix or info.fix,
    )
