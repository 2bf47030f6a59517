"""What cannot be deployed is refused with the rule, the value and a way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from export_builders import AG, HT, LL, QWEN, R1, PlanBuilder, example_a, example_b, hardware, model

from planner.domain.deployment import Eplb, Role, RouterKind, RouterPolicy, Scorer, Speculation, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError
from planner.export import ExportOptions, Target, render
from planner.export.options import ImageOverrides
from planner.export.settings import apply_settings
from planner.export.targets import export_plan


def pd(
    prefill: dict[str, Any], decode: dict[str, Any], name: str = R1, node: str = "generic-h200-sxm"
) -> PlanBuilder:
    return PlanBuilder(name, node, "x").prefill(1, **prefill).decode(1, **decode)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "another vendor's provider": (lambda: example_a().render(provider="amd"), "export.provider_gpu"),
    "a provider without this GPU": (lambda: example_a().render(provider="gke-a4"), "export.provider_gpu"),
    "namespace with capitals": (lambda: example_a().render(namespace="Bad_NS"), "export.namespace_invalid"),
    "unknown provider": (lambda: example_a().render(provider="corewave"), "export.provider_unknown"),
    "unknown dialect": (lambda: example_a().render(dialect="llm-d-1"), "export.dialect_unknown"),
    "set name of 41": (lambda: example_a().called("a" * 41).render(), "export.name_too_long"),
    "lws name of 52": (
        lambda: PlanBuilder().called("a" * 52).aggregated(1, dp=16, all2all=LL).render(),
        "export.name_too_long",
    ),
    "name starting with a digit": (lambda: example_a().render(name="9lives"), "export.name_invalid"),
    "moving image": (
        lambda: example_a().render(images=ImageOverrides(engine="vllm/vllm-openai:latest")),
        "export.image_unpinned",
    ),
    "unreleased router": (lambda: example_a().render(dialect="router-main"), "export.image_missing"),
    "roce image not in the dialect": (
        lambda: (
            PlanBuilder(node="openshift-h200")
            .aggregated(1, dp=16, all2all=LL)
            .render(dialect="llm-d-0.9-vllm-0.33")
        ),
        "export.image_missing",
    ),
    "deepep over efa": (
        lambda: PlanBuilder(node="eks-p5en").aggregated(1, dp=16, all2all=HT).render(),
        "export.deepep_efa",
    ),
    "several pods over tcpx": (
        lambda: PlanBuilder(node="gke-a3-megagpu-8g").aggregated(1, dp=16).render(),
        "export.fabric_unsupported",
    ),
    "dbo without deepep": (
        lambda: PlanBuilder().aggregated(1, dp=16, all2all=AG, dbo=True).render(),
        "export.dbo_illegal",
    ),
    "eplb that does not divide": (
        lambda: PlanBuilder().aggregated(1, dp=16, all2all=LL, eplb=Eplb(redundant_experts=3)).render(),
        "export.eplb_illegal",
    ),
    "no limits": (lambda: PlanBuilder().aggregated(1, dp=8, seqs=0).render(), "export.limits_missing"),
    "dense dp": (
        lambda: PlanBuilder("Qwen/Qwen3-32B", "generic-h200-sxm", "d").aggregated(1, dp=2, ep=False).render(),
        "export.dense_dp",
    ),
    "tp over pods with dp": (
        lambda: PlanBuilder(node="generic-gb200").aggregated(1, tp=8, dp=2).render(),
        "export.tp_across_pods",
    ),
    "kv dtypes": (lambda: pd({"dp": 8, "kv": KvDtype.FP8}, {"dp": 8}).render(), "export.pair_kv_dtype"),
    "tp ratio": (
        lambda: pd({"tp": 2}, {"tp": 3}, "openai/gpt-oss-120b").render(),
        "export.pair_tp",
    ),
    "prefill tp above decode tp": (lambda: pd({"tp": 4}, {"tp": 2}, QWEN).render(), "export.pair_tp"),
    "block sizes": (
        lambda: pd({"dp": 8, "block_size": 128}, {"dp": 8, "block_size": 64}).render(),
        "export.pair_block_size",
    ),
    "hybrid": (
        lambda: pd({"tp": 1}, {"tp": 2}, "Qwen/Qwen3-Next-80B-A3B-Instruct").render(),
        "export.pair_hybrid",
    ),
    "speculation on one side": (
        lambda: pd({"dp": 8}, {"dp": 8, "speculation": Speculation(draft_tokens=1, acceptance=0.8)}).render(),
        "export.pair_speculation",
    ),
    "more gpus than owned": (lambda: example_a().owning(16).render(), "export.gpus"),
    "roles": (
        lambda: render(
            replace(example_a().build(), strategy=Strategy.AGGREGATED),
            model=model(R1),
            hardware=example_a().hardware(),
        ),
        "export.roles",
    ),
    "another engine": (
        lambda: render(
            replace(example_b().build(), engine="sglang"), model=model(QWEN), hardware=example_b().hardware()
        ),
        "export.engine",
    ),
    "another model": (
        lambda: render(example_b().build(), model=model(R1), hardware=example_b().hardware()),
        "export.model_mismatch",
    ),
    "other hardware": (
        lambda: render(
            example_b().build(), model=model(QWEN), hardware={Role.AGGREGATED: hardware("generic-h200-sxm")}
        ),
        "export.hardware_mismatch",
    ),
    "profile changed": (
        lambda: render(
            example_b().build(),
            model=model(QWEN),
            hardware={
                Role.AGGREGATED: replace(
                    hardware("generic-h100-sxm"),
                    node=replace(hardware("generic-h100-sxm").node, gpu="h200-sxm"),
                )
            },
        ),
        "export.plan_outgrew_profile",
    ),
    "checkpoint larger than the disk": (
        lambda: render(
            example_a().on("generic-h200-sxm").build(),
            model=model(R1),
            hardware={
                r: replace(h, node=replace(h.node, provider="generic", ephemeral_gib_allocatable=400))  # type: ignore[arg-type]
                for r, h in example_a().hardware().items()
            },
            options=ExportOptions(provider="bare-metal-ib"),
        ),
        "export.ephemeral_too_small",
    ),
    "round robin": (
        lambda: example_b().routed(RouterPolicy(kind=RouterKind.ROUND_ROBIN)).render(),
        "export.router_not_expressible",
    ),
    "unknown scorer": (
        lambda: example_b().routed(RouterPolicy(decode_scorers=(Scorer(type="queue-score"),))).render(),
        "export.router_plugin_unknown",
    ),
    "deprecated scorer": (
        lambda: example_b().routed(RouterPolicy(decode_scorers=(Scorer(type="by-label"),))).render(),
        "export.router_plugin_unknown",
    ),
    "unknown parameter": (
        lambda: (
            example_b()
            .routed(
                RouterPolicy(decode_scorers=(Scorer(type="load-aware-scorer", parameters={"treshold": 1}),))
            )
            .render()
        ),
        "export.router_parameter_unknown",
    ),
    "compose for P/D": (
        lambda: export_plan(
            example_a().build(),
            model=model(R1),
            hardware=example_a().hardware(),
            options=ExportOptions(target=Target.COMPOSE),
        ),
        "export.compose_unsupported",
    ),
    "setting without value": (
        lambda: apply_settings(ExportOptions(), ["gateway"]),
        "export.setting_malformed",
    ),
    "unknown setting": (lambda: apply_settings(ExportOptions(), ["gatway=x"]), "export.setting_unknown"),
    "bad source": (lambda: apply_settings(ExportOptions(), ["model.source=ftp"]), "export.setting_value"),
    "oci without reference": (
        lambda: apply_settings(ExportOptions(), ["model.source=oci"]),
        "export.setting_value",
    ),
    "bad priority": (lambda: apply_settings(ExportOptions(), ["objective.a=high"]), "export.setting_value"),
    "bad minutes": (lambda: apply_settings(ExportOptions(), ["startup-minutes=0"]), "export.setting_value"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_with_code_rule_and_fix(case: str) -> None:
    act, code = CASES[case]
    with pytest.raises(InputError) as caught:
        act()
    issues = [i for i in caught.value.issues if i.code == code]
    assert issues, [i.code for i in caught.value.issues]
    for issue in issues:
        assert issue.what
        assert issue.why
        assert issue.fix


def test_several_faults_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        pd({"tp": 4, "kv": KvDtype.FP8}, {"tp": 2}, QWEN).render()
    assert {i.code for i in caught.value.issues} == {"export.pair_kv_dtype", "export.pair_tp"}


def test_settings_are_all_applied() -> None:
    got = apply_settings(
        ExportOptions(),
        [
            "model.source=pvc",
            "model.claim=weights",
            "model.path=/r1/",
            "image.engine=a/b:v1",
            "gateway=infra/gw",
            "monitoring=true",
            "router=helm",
            "objective.batch=-5",
            "startup-minutes=90",
            "spare-groups=yes",
            "disaggregated-set=false",
        ],
    )
    assert got.model_source.claim == "weights"
    assert got.model_source.path == "r1"
    assert got.images.engine == "a/b:v1"
    assert (got.gateway, got.gateway_namespace) == ("gw", "infra")
    assert got.objectives == {"batch": -5}
    assert got.startup_minutes == 90
    assert (got.monitoring, got.spare_groups, got.disaggregated_set) == (True, True, False)
