"""A cluster to simulate from a deployment plan: the same step tables and memory model as the analytic level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu, load_node
from planner.catalog.models import load_model
from planner.domain.deployment import DeploymentPlan, Role, RolePlan, RouterPolicy
from planner.domain.engine import EngineName, EngineProfile
from planner.domain.errors import Issue, NotFeasibleError
from planner.domain.hardware import FabricProfile, Pool
from planner.domain.model import ModelSpec
from planner.domain.workload import Workload
from planner.perf.balance import Phase, hottest_rank_factor
from planner.perf.components import Components
from planner.perf.memory import rank_memory
from planner.perf.operators.library import load_operators
from planner.perf.step import build_tables
from planner.perf.transfer import SETUP_MS, TCP_GBPS, kv_transfer_ms
from planner.simulation.cluster import Cluster, EngineRole, ExpertBalance, HostTier, Network, RouterTiming

SYNC_PAUSE_S = 0.91  # mean stall of a synchronous rearrangement, 32 GB200 (vllm PR 43219, 2026-05)
_TYPICAL_TOKENS = 64.0


def load_pools(plan: DeploymentPlan, profiles: Path | None) -> dict[str, Pool]:
    """Pools of a plan's GPU types, from the catalogue."""
    fabric = load_fabric(plan.fabric, overlay=profiles)
    return {
        role.gpu: Pool(
            gpu=load_gpu(role.gpu, overlay=profiles),
            fabric=fabric,
            node=replace(load_node(role.node, overlay=profiles), fabric=fabric.id),
            gpus=plan.gpus_owned,
        )
        for role in plan.roles
    }


def cluster_from_plan(
    plan: DeploymentPlan,
    *,
    profiles: Path | None = None,
    router: RouterPolicy | None = None,
    timing: RouterTiming | None = None,
    host_gib_per_rank: float = 0.0,
) -> Cluster:
    """Load what `plan` names from the catalogue and lay it out. `router` replaces the plan's."""
    model = load_model(plan.model, overlay=profiles)
    engine = load_engine(plan.engine, plan.engine_version, overlay=profiles)
    pools = load_pools(plan, profiles)
    components = {
        k: Components(model, load_operators(p.gpu, p.fabric, engine.engine)) for k, p in pools.items()
    }
    return lay_out(
        plan, model=model, engine=engine, pools=pools, components=components, router=router, timing=timing,
        host_gib_per_rank=host_gib_per_rank,
    )  # fmt: skip


def lay_out(
    plan: DeploymentPlan,
    *,
    model: ModelSpec,
    engine: EngineProfile,
    pools: Mapping[str, Pool],
    components: Mapping[str, Components],
    router: RouterPolicy | None = None,
    timing: RouterTiming | None = None,
    popularity_cv: float | None = None,
    calibrated: bool = True,
    host_gib_per_rank: float = 0.0,
) -> Cluster:
    """Roles with tables, KV blocks and network. Raises `NotFeasibleError` when a role's weights leave no KV cache."""
    decode = next((r for r in plan.roles if r.role is Role.DECODE), None)
    prefill = next((r for r in plan.roles if r.role is Role.PREFILL), None)
    roles = []
    for i, role in enumerate(plan.roles):
        pool = pools[role.gpu]
        memory = rank_memory(model, role, pool.gpu, engine, ranks_per_domain=pool.scale_up_gpus)
        blocks = memory.kv_tokens_per_rank // role.block_size
        if blocks < 1:
            raise NotFeasibleError(
                Issue(
                    code="simulation.capacity",
                    what=f"{role.label()} leaves no KV cache: {memory.kv_gib:.1f} GiB after the weights",
                    why=f"a rank of {pool.gpu.name} has {memory.total_gib:.0f} GiB",
                    fix="more GPUs per group, or a GPU with more memory",
                )
            )
        network, bytes_per_token = None, 0.0
        if prefill is not None and decode is not None:
            network, bytes_per_token = _network(model, plan.workload, prefill, decode, pool.fabric)
        host = None
        if host_gib_per_rank > 0.0:
            block_bytes = memory.kv_bytes_per_token * role.block_size
            host = HostTier(blocks=int(host_gib_per_rank * 2**30 / block_bytes), gbps=pool.gpu.pcie_gbps)
            bytes_per_token = bytes_per_token or memory.kv_bytes_per_token
        names = [r.role.value for r in plan.roles]
        roles.append(
            EngineRole(
                name=role.role.value if names.count(role.role.value) == 1 else f"{role.role.value}-{i}",
                role=role.role,
                groups=role.groups,
                ranks=role.parallelism.dp,
                gpus_per_rank=role.parallelism.tp,
                tables=build_tables(
                    components[role.gpu],
                    role,
                    pool,
                    engine,
                    popularity_cv=popularity_cv,
                    calibrated=calibrated,
                ),
                kv_blocks=blocks,
                block_size=role.block_size,
                max_num_seqs=role.max_num_seqs,
                max_num_batched_tokens=role.max_num_batched_tokens,
                lockstep=model.moe is not None,
                reserve_answer=engine.engine is EngineName.TRTLLM,
                kv_bytes_per_token=bytes_per_token,
                network=network,
                speculation=role.speculation,
                eplb=role.eplb,
                experts=_balance(model, role),
                host_tier=host,
            )
        )
    return Cluster(
        name=plan.label(),
        roles=tuple(roles),
        router=router or plan.router,
        timing=timing or RouterTiming(),
        frontend_ms=roles[0].tables.frontend_ms,
        engine=f"{engine.engine.value} {engine.version}",
    )


def _network(
    model: ModelSpec, workload: Workload, prefill: RolePlan, decode: RolePlan, fabric: FabricProfile
) -> tuple[Network, float]:
    """Split the transfer model into setup, cost per block and bytes per token, so that flows can share the NICs.

    Doubling the bandwidth takes away half of the bytes' time: that difference tells the bytes from the rest.
    """
    probe = replace(fabric, rdma=True)
    twice = replace(probe, gbps_per_gpu=2.0 * probe.gbps_per_gpu)
    full, half = (
        kv_transfer_ms(model, workload, prefill=prefill, decode=decode, fabric=f) for f in (probe, twice)
    )
    in_bytes_ms = 2.0 * (full - half)
    gbps = fabric.effective_gbps if fabric.rdma else TCP_GBPS
    blocks = -(-workload.isl // decode.block_size)
    per_block_us = max(full - in_bytes_ms - SETUP_MS, 0.0) * 1e3 / blocks
    bytes_per_token = in_bytes_ms * 1e6 * probe.effective_gbps / workload.isl
    return Network(gbps=gbps, setup_ms=SETUP_MS, per_block_us=per_block_us), bytes_per_token


def _balance(model: ModelSpec, role: RolePlan) -> ExpertBalance:
    """Before its first rearrangement an EPLB group is as unbalanced as one without; the tables assume it balanced."""
    moe = model.moe
    if role.eplb is None or moe is None or not role.parallelism.expert_parallel:
        return ExpertBalance()
    ep = role.parallelism.ep
    factors = [
        float(
            hottest_rank_factor(
                slots=np.array([_TYPICAL_TOKENS * moe.top_k]),
                ep=ep,
                experts_local=(moe.experts + role.eplb.redundant_experts) / ep,
                phase=Phase.PREFILL if role.role is Role.PREFILL else Phase.DECODE,
                eplb=balanced,
            )[0]
        )
        for balanced in (False, True)
    ]
    return ExpertBalance(
        before=factors[0] / factors[1], after=1.0, pause_s=0.0 if role.eplb.use_async else SYNC_PAUSE_S
    )
