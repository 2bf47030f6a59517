"""Every rule: a good deployment does not trigger it, the same deployment with one fault does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import export_faults_a  # noqa: F401 - registers the faults
import export_faults_b  # noqa: F401
import pytest
import yaml
from export_builders import HT, LL, QWEN, PlanBuilder, example_a, model
from export_fault_tools import FAULTS, Fault, Objects

from planner.domain.deployment import Eplb
from planner.domain.hardware import NodeShape
from planner.domain.model import ModelSpec
from planner.export.lint import Finding, Severity, lint_documents, rules
from planner.export.yaml import Document


class CatalogueFacts:
    """Models and nodes of the catalogue, as the command line passes them."""

    def model(self, name: str) -> ModelSpec | None:
        known = {
            "deepseek-ai/DeepSeek-R1",
            QWEN,
            "openai/gpt-oss-120b",
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "Qwen/Qwen3-32B",
        }
        return model(name) if name in known else None

    def node(self, labels: Any) -> NodeShape | None:
        from planner.catalog.hardware import load_node

        return (
            load_node("generic-h200-sxm") if labels.get("nvidia.com/gpu.product") == "NVIDIA-H200" else None
        )


def documents(objects: Objects) -> list[Document]:
    return [Document("m.yaml", i, 1, o) for i, o in enumerate(objects)]


def objects_of(builder: PlanBuilder, **options: Any) -> Objects:
    return [copy.deepcopy(m.plain()) for m in builder.render(**options)]


BASES: dict[str, Callable[[], Objects]] = {
    "pd": lambda: objects_of(example_a(), gateway="inference-gateway"),
    "lws": lambda: objects_of(
        PlanBuilder().aggregated(2, dp=16, all2all=LL, eplb=Eplb(redundant_experts=16, use_async=False))
    ),
    "deployment": lambda: objects_of(PlanBuilder(QWEN, "generic-h200-sxm", "q").aggregated(1, dp=8)),
    "gqa": lambda: objects_of(
        PlanBuilder(QWEN, "generic-h200-sxm", "q")
        .prefill(2, tp=2, dp=2, all2all=HT)
        .decode(1, tp=2, dp=4, all2all=LL)
    ),
    "hybrid": lambda: objects_of(
        PlanBuilder("Qwen/Qwen3-Next-80B-A3B-Instruct", "generic-h200-sxm", "n")
        .prefill(1, tp=2, ep=True)
        .decode(1, tp=2, ep=True)
    ),
    "spanning": lambda: objects_of(PlanBuilder().prefill(1, tp=8, ep=False).decode(1, tp=16, ep=False)),
}


def lint(objects: Objects, **more: Any) -> tuple[Finding, ...]:
    return lint_documents(documents(objects), facts=CatalogueFacts(), **more)


def ids(found: tuple[Finding, ...]) -> set[str]:
    return {f.rule.id for f in found}


@pytest.mark.parametrize("base", BASES)
def test_our_own_manifests_are_clean(base: str) -> None:
    found = [f for f in lint(BASES[base]()) if f.severity is not Severity.INFO]
    assert found == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.rule}-{f.name}")
def test_a_fault_is_caught_by_its_rule(fault: Fault) -> None:
    objects = BASES[fault.base]()
    before = [f for f in lint(objects, lws_version=fault.lws_version) if f.rule.id == fault.rule]
    fault.plant(objects)
    after = [f for f in lint(objects, lws_version=fault.lws_version) if f.rule.id == fault.rule]
    assert len(after) > len(before), f"{fault.rule} missed: {fault.name}"
    new = [f for f in after if f not in before]
    for finding in new:
        assert finding.what
        assert finding.fix
        assert finding.path.startswith("$")
        assert finding.rule.why
    if fault.severity is not None:
        assert {f.severity for f in new} == {fault.severity}


def test_every_rule_has_a_fault() -> None:
    planted = {f.rule for f in FAULTS}
    assert planted == {r.id for r in rules()} - {"V01"}


def test_numbered_rules_of_the_field_are_all_there() -> None:
    assert {f"L{i:02d}" for i in range(1, 32)} <= {r.id for r in rules()}


def test_findings_are_stable() -> None:
    objects = BASES["pd"]()
    for fault in FAULTS:
        if fault.base == "pd" and fault.severity is None:
            fault.plant(objects)
            break
    assert lint(objects) == lint(yaml.safe_load(yaml.safe_dump(objects)))


def test_only_limits_the_rules() -> None:
    objects = BASES["pd"]()
    next(f for f in FAULTS if f.rule == "L27" and f.base == "pd").plant(objects)
    assert ids(lint(objects, only=["L27"])) == {"L27"}


def test_nothing_to_say_about_foreign_objects() -> None:
    assert (
        lint([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}]) == ()
    )
    assert lint([{"kind": 3, "spec": [1], "metadata": "x"}, {}]) == ()
