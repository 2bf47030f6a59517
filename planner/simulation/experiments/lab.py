"""A bench for experiments: roles in a few words, their step tables, memory and clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from planner.catalog.engines import load_engine
from planner.catalog.hardware import default_node, load_fabric, load_gpu
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
from planner.domain.engine import EngineProfile
from planner.domain.evaluation import MemoryBreakdown
from planner.domain.hardware import Pool
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets, Workload
from planner.perf.components import Components
from planner.perf.memory import rank_memory
from planner.perf.operators.library import load_operators
from planner.simulation.build import build_state
from planner.simulation.cluster import Cluster, RouterTiming
from planner.simulation.from_plan import lay_out
from planner.simulation.kernels.steptime import chunk_core_ms, group_step_s
from planner.simulation.presets import ROUTERS
from planner.simulation.traffic import make_traffic, single

BLOCK = 64


@dataclass(frozen=True)
class Lab:
    """One model on one GPU type and fabric."""

    model_id: str
    gpu_id: str
    fabric_id: str
    engine_version: str | None = None
    engine_name: str = "vllm"
    calibrated: bool = True  # False: curves and datasheets alone, one basis for widths nobody measured

    @cached_property
    def model(self) -> ModelSpec:
        """The checkpoint."""
        return load_model(self.model_id)

    @cached_property
    def engine(self) -> EngineProfile:
        """The engine at the stated or the newest version."""
        return load_engine(self.engine_name, self.engine_version)

    @cached_property
    def pool(self) -> Pool:
        """Hardware, as large as anything here needs."""
        gpu, fabric = load_gpu(self.gpu_id), load_fabric(self.fabric_id)
        return Pool(gpu=gpu, fabric=fabric, node=default_node(gpu, fabric), gpus=4096)

    @cached_property
    def components(self) -> Components:
        """Operator curves of the model here."""
        return Components(self.model, load_operators(self.pool.gpu, self.pool.fabric, self.engine.engine))

    def role(
        self, kind: Role, *, groups: int = 1, tp: int = 1, dp: int = 1, ep: bool = True, **changes: Any
    ) -> RolePlan:
        """A role plan; DeepEP backends where the expert group leaves the scale-up domain."""
        gpus = tp * dp
        inside = gpus <= self.pool.scale_up_gpus
        if inside or gpus == 1:
            backend = All2AllBackend.ALLGATHER_REDUCESCATTER
        elif kind is Role.DECODE:
            backend = All2AllBackend.DEEPEP_LOW_LATENCY
        else:
            backend = All2AllBackend.DEEPEP_HIGH_THROUGHPUT
        budget = {Role.PREFILL: 16384, Role.DECODE: 1024, Role.AGGREGATED: 8192}[kind]
        backend = changes.pop("all2all", backend)
        low_latency = backend is All2AllBackend.DEEPEP_LOW_LATENCY
        if low_latency:
            budget = 256  # the engine's default there; its buffers grow with it
        base = RolePlan(
            role=kind,
            groups=groups,
            parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=ep and gpus > 1),
            gpu=self.pool.gpu.id,
            node=self.pool.node.id,
            max_num_seqs=256 if low_latency else 1024,
            max_num_batched_tokens=budget,
            kv_dtype=KvDtype.FP8,
            all2all=backend,
            block_size=BLOCK,
        )
        return replace(base, **changes)

    def memory(self, role: RolePlan) -> MemoryBreakdown:
        """Device memory of one rank."""
        return rank_memory(
            self.model, role, self.pool.gpu, self.engine, ranks_per_domain=self.pool.scale_up_gpus
        )

    def plan(self, *roles: RolePlan, isl: int = 8000, osl: int = 1000) -> DeploymentPlan:
        """A plan of these roles."""
        aggregated = roles[0].role is Role.AGGREGATED
        return DeploymentPlan(
            name="experiment",
            model=self.model.id,
            strategy=Strategy.AGGREGATED if aggregated else Strategy.DISAGGREGATED,
            roles=roles,
            router=ROUTERS["prefix+active-request"],
            engine=self.engine.engine.value,
            engine_version=self.engine.version,
            fabric=self.pool.fabric.id,
            workload=Workload(isl=isl, osl=osl),
            slo=SloTargets(),
            concurrency=1,
            gpus_owned=sum(r.gpus for r in roles),
            max_model_len=isl + osl,
        )

    def cluster(
        self,
        *roles: RolePlan,
        router: RouterPolicy | None = None,
        timing: RouterTiming | None = None,
        popularity_cv: float | None = None,
        host_gib: float = 0.0,
        isl: int = 8000,
        osl: int = 1000,
    ) -> Cluster:
        """A cluster to simulate."""
        return lay_out(
            self.plan(*roles, isl=isl, osl=osl),
            model=self.model,
            engine=self.engine,
            pools={self.pool.gpu.id: self.pool},
            components={self.pool.gpu.id: self.components},
            router=router,
            timing=timing,
            popularity_cv=popularity_cv,
            calibrated=self.calibrated,
            host_gib_per_rank=host_gib,
        )

    def step_ms(
        self,
        role: RolePlan,
        *,
        batch: int = 0,
        context: int = 0,
        prompt: int = 0,
        prompts: int = 0,
        popularity_cv: float | None = None,
        experts_scale: float = 1.0,
    ) -> float:
        """Time of one step in which every rank holds the same load: `batch` decodes and `prompts` whole prompts."""
        cluster = self.cluster(replace(role, role=Role.AGGREGATED, groups=1), popularity_cv=popularity_cv)
        if role.role is not Role.AGGREGATED:
            # the tables depend on the role (expert popularity, backend), the layout does not
            from planner.perf.step import build_tables

            tables = build_tables(
                self.components,
                role,
                self.pool,
                self.engine,
                popularity_cv=popularity_cv,
                calibrated=self.calibrated,
            )
            cluster = replace(cluster, roles=(replace(cluster.roles[0], tables=tables),))
        state = build_state(cluster, make_traffic(single(8, 2), sessions=1, seed=0, concurrency=1), seed=0)
        drafts = role.speculation.draft_tokens if role.speculation else 0
        for rank in state.rank:
            rank.dec = rank.running = batch
            rank.sampled = batch + prompts
            rank.ctx = batch * context
            rank.tok = batch * (1 + drafts) + prompt * prompts
            rank.prefill_ms = (
                prompts * chunk_core_ms(state.by_chunk[0], float(prompt), 0.0) if prompts else 0.0
            )
        state.group[0].experts_scale = experts_scale
        return float(group_step_s(state, 0) * 1e3)
