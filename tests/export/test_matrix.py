"""Plans x providers x dialects: every export validates, lints clean and keeps the sums; what cannot run is refused."""

from __future__ import annotations

from typing import Any

import pytest
from export_builders import AG, HT, LL, QWEN, PlanBuilder, example_a, example_b
from test_lint_rules import CatalogueFacts

from planner.domain.deployment import Eplb, Role
from planner.domain.errors import InputError
from planner.export import Manifest
from planner.export.bundle import bundle
from planner.export.dialects import DIALECTS
from planner.export.lint import Severity, lint_documents
from planner.export.options import ExportOptions, ImageOverrides
from planner.export.providers import PROVIDERS
from planner.export.schema import SchemaSet
from planner.export.targets.base import stream_of
from planner.export.yaml import Document, load_stream

PLANS = {
    "r1-pd": example_a(),
    "r1-pd-tp2": PlanBuilder().prefill(2, tp=2, dp=4, all2all=HT).decode(1, tp=2, dp=8, all2all=AG, dcp=2),
    "r1-aggregated": PlanBuilder().aggregated(1, tp=2, dp=8, all2all=LL, eplb=Eplb(redundant_experts=0)),
    "qwen-aggregated": example_b(),
    "qwen-pd": PlanBuilder(QWEN, "generic-h100-sxm", "q")
    .prefill(1, tp=4, dp=2, all2all=HT)
    .decode(1, tp=4, dp=2),
    "gpt-oss": PlanBuilder("openai/gpt-oss-120b", "generic-h200-sxm", "oss")
    .prefill(1, dp=4)
    .decode(1, dp=4, ep=False),
    "gpt-oss-replicas": PlanBuilder("openai/gpt-oss-120b", "generic-h200-sxm", "oss").aggregated(8),
    "v3-gb200": PlanBuilder("deepseek-ai/DeepSeek-V3", "generic-gb200", "v3")
    .prefill(6, dp=8, all2all=HT, eplb=Eplb(redundant_experts=32))
    .decode(1, dp=24, all2all=LL, tokens=512, seqs=120),
    "r1-mi300x": PlanBuilder(node="generic-mi300x").prefill(1, tp=8).decode(1, dp=8),
    "r1-efa": PlanBuilder(node="eks-p5en").prefill(1, dp=8).decode(1, dp=16),
    "r1-gke": PlanBuilder(node="gke-a3-ultragpu-8g")
    .prefill(2, dp=8, all2all=HT)
    .decode(1, dp=16, all2all=LL),
    "v3-gke-gb200": PlanBuilder("deepseek-ai/DeepSeek-V3", "gke-a4x-highgpu-4g", "v3")
    .prefill(2, dp=8, all2all=HT)
    .decode(1, dp=16, all2all=LL),
    "v3-gke-b200": PlanBuilder("deepseek-ai/DeepSeek-V3", "gke-a4-highgpu-8g", "v3")
    .prefill(2, dp=8)
    .decode(1, dp=16, all2all=LL),
    "v3-p6": PlanBuilder("deepseek-ai/DeepSeek-V3", "eks-p6-b200", "v3").prefill(1, dp=8).decode(1, dp=16),
    "r1-oci": PlanBuilder(node="oci-h200-8").prefill(2, dp=8, all2all=HT).decode(1, dp=16, all2all=AG),
    "r1-openshift": PlanBuilder(node="openshift-h200").aggregated(1, dp=16, all2all=LL),
    "v3-oci-gb200": PlanBuilder("deepseek-ai/DeepSeek-V3", "oci-gb200-4", "v3")
    .prefill(1, dp=8)
    .decode(1, dp=16),
}
IMAGES = ImageOverrides(sidecar="ghcr.io/x/sidecar:v0.11.0", router="ghcr.io/x/epp:v0.11.0")
REFUSALS = {"export.provider_gpu", "export.image_missing", "export.fabric_unsupported", "export.deepep_efa"}


def options(provider: str | None, dialect: str) -> dict[str, Any]:
    images = IMAGES if dialect == "router-main" else ImageOverrides()
    return {"provider": provider, "dialect": dialect, "images": images, "gateway": "gw", "monitoring": True}


def rendered(builder: PlanBuilder, provider: str | None, dialect: str) -> tuple[Manifest, ...] | None:
    """The objects, or None when the combination is refused for one of the known reasons."""
    try:
        return builder.render(**options(provider, dialect))
    except InputError as error:
        if {i.code for i in error.issues} <= REFUSALS:
            return None
        raise


@pytest.mark.parametrize("provider", [None, *(p.id for p in PROVIDERS)])
@pytest.mark.parametrize("name", PLANS)
def test_every_export_is_valid_clean_and_adds_up(name: str, provider: str | None, crds: SchemaSet) -> None:
    builder = PLANS[name]
    plan = builder.build()
    for dialect in DIALECTS:
        made = rendered(builder, provider, dialect.id)
        if made is None:
            continue
        read = [Document("m.yaml", i, 1, m.plain()) for i, m in enumerate(made)]
        findings = lint_documents(read, facts=CatalogueFacts(), schemas=crds, lws_version=dialect.lws)
        assert [f for f in findings if f.severity is Severity.ERROR] == []
        seen = bundle(read)
        pods = {e.role: e for e in seen.engines}
        assert len(pods) == len(plan.roles)
        for role in plan.roles:
            view = pods["prefill-decode" if role.role is Role.AGGREGATED else role.role.value]
            per_node = builder.hardware()[role.role].node.gpus_per_node
            gpus = (
                view.gpus if view.gpus is not None else len([c for c in view.claims if c.startswith("rdma-")])
            )
            assert gpus * view.size * view.replicas == role.gpus
            assert gpus <= per_node
            assert (view.tp, view.dp) == (role.parallelism.tp, role.parallelism.dp)
            if role.role is not Role.AGGREGATED:
                assert view.kv["kv_connector"] == "NixlConnector"


@pytest.mark.parametrize("name", PLANS)
def test_own_provider_is_never_refused_without_a_dialect(name: str) -> None:
    assert PLANS[name].render()


@pytest.mark.parametrize("name", PLANS)
def test_the_stream_says_what_the_objects_say(name: str) -> None:
    made = PLANS[name].render(gateway="g", monitoring=True)
    read = load_stream(stream_of(made, ("header",)), source="m.yaml")
    assert [d.value for d in read] == [m.plain() for m in made]


@pytest.mark.parametrize("name", ["r1-pd", "v3-gb200", "gpt-oss-replicas"])
def test_same_input_gives_the_same_bytes(name: str) -> None:
    first, second = (stream_of(PLANS[name].render(gateway="g"), ("h",)) for _ in range(2))
    assert first == second


def test_default_options_are_the_documented_ones() -> None:
    assert ExportOptions().router.value == "raw"
    assert ExportOptions().spare_groups is False
