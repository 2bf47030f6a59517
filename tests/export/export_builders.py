"""Plans by hand: ``PlanBuilder("deepseek-ai/DeepSeek-R1").prefill(2, dp=8).decode(1, dp=16, dbo=True).build()``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from planner.catalog.hardware import load_fabric, load_gpu, load_node
from planner.catalog.models import load_model
from planner.domain.deployment import (
    All2AllBackend,
    DeploymentPlan,
    Parallelism,
    Role,
    RolePlan,
    RouterPolicy,
    Strategy,
)
from planner.domain.dtypes import KvDtype
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets, Workload
from planner.export import ExportOptions, Manifest, RoleHardware, render
from planner.export.yaml import Plain

CRDS = Path(__file__).parents[2].parent / "shared" / "crds"
R1 = "deepseek-ai/DeepSeek-R1"
QWEN = "Qwen/Qwen3-235B-A22B-FP8"
GPT_OSS = "openai/gpt-oss-120b"
LL = All2AllBackend.DEEPEP_LOW_LATENCY
HT = All2AllBackend.DEEPEP_HIGH_THROUGHPUT
AG = All2AllBackend.ALLGATHER_REDUCESCATTER


@cache
def model(name: str) -> ModelSpec:
    return load_model(name)


@cache
def hardware(node: str) -> RoleHardware:
    shape = load_node(node)
    return RoleHardware(gpu=load_gpu(shape.gpu), node=shape, fabric=load_fabric(shape.fabric))


@dataclass(frozen=True)
class PlanBuilder:
    """Frozen and fluent: each call returns a new builder."""

    model_name: str = R1
    node: str = "coreweave-h200"
    name: str = "r1"
    roles: tuple[RolePlan, ...] = ()
    router: RouterPolicy = field(default_factory=RouterPolicy)
    owned: int | None = None
    peak: float | None = None
    nodes: tuple[tuple[Role, str], ...] = ()

    def on(self, node: str) -> PlanBuilder:
        return replace(self, node=node)

    def called(self, name: str) -> PlanBuilder:
        return replace(self, name=name)

    def owning(self, gpus: int) -> PlanBuilder:
        return replace(self, owned=gpus)

    def routed(self, router: RouterPolicy, peak: float | None = None) -> PlanBuilder:
        return replace(self, router=router, peak=peak)

    def role(self, role: Role, groups: int, *, tp: int = 1, dp: int = 1, **more: Any) -> PlanBuilder:
        node = more.pop("node", self.node)
        shape = hardware(node)
        ep = more.pop("ep", dp > 1)
        plan = RolePlan(
            role=role,
            groups=groups,
            parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=ep, dcp=more.pop("dcp", 1)),
            gpu=shape.gpu.id,
            node=node,
            max_num_seqs=more.pop("seqs", 256),
            max_num_batched_tokens=more.pop("tokens", 256 if role is Role.DECODE else 8192),
            kv_dtype=more.pop("kv", KvDtype.BF16),
            **more,
        )
        return replace(self, roles=(*self.roles, plan), nodes=(*self.nodes, (role, node)))

    def prefill(self, groups: int, **more: Any) -> PlanBuilder:
        return self.role(Role.PREFILL, groups, **more)

    def decode(self, groups: int, **more: Any) -> PlanBuilder:
        return self.role(Role.DECODE, groups, **more)

    def aggregated(self, groups: int, **more: Any) -> PlanBuilder:
        return self.role(Role.AGGREGATED, groups, **more)

    def build(self) -> DeploymentPlan:
        used = sum(r.gpus for r in self.roles)
        pd = any(r.role is not Role.AGGREGATED for r in self.roles)
        return DeploymentPlan(
            name=self.name,
            model=self.model_name,
            strategy=Strategy.DISAGGREGATED if pd else Strategy.AGGREGATED,
            roles=self.roles,
            router=self.router,
            engine="vllm",
            engine_version="0.33.0",
            fabric=hardware(self.node).node.fabric,
            workload=Workload(isl=4000, osl=1000),
            slo=SloTargets(ttft_ms=2000.0, tpot_ms=50.0),
            concurrency=1024,
            gpus_owned=self.owned or used,
            max_model_len=16384,
            peak_prefill_tok_s_per_rank=self.peak,
        )

    def hardware(self) -> dict[Role, RoleHardware]:
        return {role: hardware(node) for role, node in self.nodes}

    def render(self, **options: Any) -> tuple[Manifest, ...]:
        return render(
            self.build(),
            model=model(self.model_name),
            hardware=self.hardware(),
            options=ExportOptions(**options),
        )


def example_a() -> PlanBuilder:
    """DeepSeek-R1 on 32 H200 with InfiniBand: P 2 x (TP1, DP8), D 1 x (TP1, DP16), DBO on decode."""
    return PlanBuilder().prefill(2, dp=8, all2all=HT).decode(1, dp=16, all2all=LL, dbo=True)


def example_b() -> PlanBuilder:
    """Qwen3-235B-A22B-FP8 aggregated on one 8 x H100 node, DP8 TP1 EP8."""
    return PlanBuilder(QWEN, "generic-h100-sxm", "qwen3").aggregated(1, dp=8)


def plain(manifests: tuple[Manifest, ...], kind: str, name: str | None = None) -> dict[str, Any]:
    """The one manifest of `kind` as plain data."""
    found = [m for m in manifests if m.kind == kind and name in (None, m.metadata.name)]
    assert len(found) == 1, [f"{m.kind}/{m.metadata.name}" for m in manifests]
    data: dict[str, Plain] = found[0].plain()
    return data


def pod_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Pod spec of a role, LeaderWorkerSet or Deployment spec."""
    template = (
        spec["leaderWorkerTemplate"]["workerTemplate"] if "leaderWorkerTemplate" in spec else spec["template"]
    )
    return dict(template["spec"])


def env_of(pod: dict[str, Any]) -> dict[str, str]:
    """Literal variables of the engine container."""
    return {e["name"]: e["value"] for e in pod["containers"][0]["env"] if "value" in e}


def script_of(pod: dict[str, Any]) -> str:
    """Start script of the engine container."""
    return str(pod["containers"][0]["args"][0])
