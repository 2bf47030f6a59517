"""Role configurations priced in a line, for tests of shape."""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.analytic.closed_loop import decode_points, prefill_points
from planner.analytic.stack import RoleStack
from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu, load_node
from planner.catalog.models import load_model
from planner.domain.deployment import All2AllBackend, Eplb, Parallelism, Role, RolePlan, Speculation
from planner.domain.dtypes import KvDtype
from planner.domain.hardware import Pool
from planner.domain.workload import Workload
from planner.perf.components import Components
from planner.perf.operators.library import load_operators
from planner.perf.step import build_tables

CHAT = Workload(isl=2048, osl=1024)


@cache
def pool(gpu: str) -> Pool:
    part = load_gpu(gpu)
    node = load_node(f"generic-{part.id}")
    return Pool(gpu=part, fabric=load_fabric(node.fabric), node=node, gpus=1024)


@cache
def components(model: str, gpu: str, engine: str) -> Components:
    p = pool(gpu)
    return Components(load_model(model), load_operators(p.gpu, p.fabric, load_engine(engine).engine))


def role(
    gpu: str,
    *,
    kind: Role = Role.DECODE,
    tp: int = 1,
    dp: int = 1,
    ep: bool = True,
    backend: All2AllBackend = All2AllBackend.DEEPEP_LOW_LATENCY,
    dbo: bool = False,
    eplb: int | None = None,
    drafts: int = 0,
    acceptance: float = 0.0,
    tokens: int = 8192,
) -> RolePlan:
    p = pool(gpu)
    return RolePlan(
        role=kind,
        groups=1,
        parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=ep),
        gpu=p.gpu.id,
        node=p.node.id,
        max_num_seqs=2048,
        max_num_batched_tokens=tokens,
        kv_dtype=KvDtype.FP8,
        all2all=backend,
        dbo=dbo,
        eplb=None if eplb is None else Eplb(redundant_experts=eplb),
        speculation=Speculation(draft_tokens=drafts, acceptance=acceptance) if drafts else None,
    )


def stack(
    plan: RolePlan, *, model: str = "deepseek-r1", engine: str = "vllm", popularity: float | None = None
) -> RoleStack:
    p = pool(plan.gpu)
    tables = build_tables(
        components(model, plan.gpu, engine), plan, p, load_engine(engine), popularity_cv=popularity
    )
    return RoleStack([plan], [tables], [1e9])


def tpot_ms(s: RoleStack, batch: float, workload: Workload = CHAT) -> float:
    return float(decode_points(s, workload, np.array([[batch]])).tpot_ms[0, 0])


def decode_tok_s_per_gpu(s: RoleStack, batch: float, workload: Workload = CHAT) -> float:
    """Output tokens per second and GPU with `batch` requests on every rank."""
    gpus_per_rank = s.roles[0].parallelism.tp
    return batch * 1000.0 / tpot_ms(s, batch, workload) / gpus_per_rank


def prefill_tok_s_per_gpu(s: RoleStack, workload: Workload = CHAT) -> float:
    pre = prefill_points(s, workload)
    return float(pre.capacity_per_ms[0, 0]) * workload.isl * 1000.0 / s.roles[0].parallelism.tp
