"""What arithmetic alone rules out: weights beyond the memory, targets below what a datasheet allows."""

from __future__ import annotations

import math

from planner.domain.dtypes import ComputeDtype
from planner.domain.engine import EngineProfile
from planner.domain.errors import Issue, NotFeasibleError
from planner.domain.hardware import GpuProfile
from planner.domain.model import ModelSpec
from planner.domain.problem import PlanningProblem
from planner.domain.workload import Workload


def refuse_impossible(problem: PlanningProblem, engine: EngineProfile) -> None:
    """Raise NotFeasibleError for weights beyond the memory and for targets below physical bounds."""
    issues = []
    weights = problem.model.weight_bytes
    pools = (
        [problem.decode_pool] if not problem.heterogeneous else [problem.prefill_pool, problem.decode_pool]
    )
    for pool in pools:
        usable = pool.gpu.memory_bytes * engine.gpu_memory_utilization
        if weights > usable * pool.gpus:
            missing = (weights - usable * pool.gpus) / 2**30
            per = pool.gpus_per_node
            enough = math.ceil(weights / (usable * 0.85))
            enough = math.ceil(enough / per) * per if enough > per else enough
            issues.append(
                Issue(
                    code="memory.model-too-big",
                    what=f"{problem.model.id} on {pool.gpus} x {pool.gpu.name}",
                    why=f"its weights are {weights / 2**30:,.0f} GiB; the GPUs offer {usable * pool.gpus / 2**30:,.0f} GiB "
                    f"to the engine, {missing:,.0f} GiB too little, before any KV cache",
                    fix=f"use at least {enough} of these GPUs, GPUs with more memory, or a smaller quantisation",
                    where="--gpus",
                )
            )
    if not issues:
        issues.extend(_below_bounds(problem))
    if issues:
        raise NotFeasibleError(*issues)


def _below_bounds(problem: PlanningProblem) -> list[Issue]:
    """Targets that the datasheet alone rules out: bytes read per step, FLOP per prompt."""
    issues = []
    pool = problem.decode_pool
    limit = problem.slo.tpot_limit_ms
    floor = tpot_floor_ms(problem.model, pool.gpu, pool.gpus)
    if limit is not None and limit < floor:
        issues.append(
            Issue(
                code="slo.tpot-below-bound",
                what=f"TPOT of {limit:.3g} ms",
                why=f"reading the active weights once from all {pool.gpus} GPUs' memory takes {floor:.3g} ms",
                fix=f"ask for at least {2.0 * floor:.3g} ms, or use speculation or more memory bandwidth",
                where="--tpot-ms",
            )
        )
    ttft = problem.slo.ttft_ms
    prefill = problem.prefill_pool
    work = ttft_floor_ms(problem.model, problem.workload, prefill.gpu, prefill.gpus)
    if ttft is not None and ttft < work:
        issues.append(
            Issue(
                code="slo.ttft-below-bound",
                what=f"TTFT of {ttft:g} ms",
                why=f"the prompt's arithmetic alone takes {work:.3g} ms at peak on all {prefill.gpus} GPUs",
                fix=f"ask for at least {3.0 * work:.3g} ms, shorten --isl, or raise --prefix-hit",
                where="--ttft-ms",
            )
        )
    return issues


def tpot_floor_ms(model: ModelSpec, gpu: GpuProfile, gpus: int) -> float:
    """Time to read the active weights once, spread over all GPUs, at full HBM bandwidth."""
    share = model.mean_active_parameters / model.total_parameters
    return model.weight_bytes * share / (gpu.hbm_gbps * gpus) / 1e6


def ttft_floor_ms(model: ModelSpec, workload: Workload, gpu: GpuProfile, gpus: int) -> float:
    """Time of a prompt's GEMM work on all GPUs at the peak of the widest format it could run in."""
    flop = 2.0 * (model.mean_active_parameters - model.vocab * model.hidden) * workload.new_tokens
    best = max(gpu.peak_tflops.get(d, 0.0) for d in ComputeDtype)
    return flop / (best * gpus) / 1e9
