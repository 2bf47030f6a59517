"""From what a user typed to a checked planning problem, with every default said and every mistake named at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from planner.catalog.assumptions import unconfirmed_assumptions
from planner.catalog.engines import load_engine
from planner.catalog.hardware import default_node, load_fabric, load_gpu, load_node, nodes_for
from planner.catalog.models import load_model
from planner.domain.calibration import Calibration, CalibrationScope
from planner.domain.deployment import Speculation, Strategy
from planner.domain.dtypes import ComputeDtype, KvDtype
from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError, Issue, NotFeasibleError, PlannerError
from planner.domain.hardware import FabricKind, GpuProfile, NodeShape, Pool
from planner.domain.model import ModelSpec
from planner.domain.problem import PREFILL_HEADROOM, Assumption, PlanningProblem, SearchBounds
from planner.domain.workload import SloTargets, Workload
from planner.search.own_calibration import stored_calibration

DEFAULT_ISL: Final = 4096
DEFAULT_OSL: Final = 1024
DEFAULT_ENGINE: Final = "vllm"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked, before checking; None means not said. Names equal the flags of ``planner recommend``."""

    model: str | None = None
    gpu: str | None = None
    fabric: str | None = None
    node: str | None = None
    gpus: int | None = None
    prefill_gpu: str | None = None
    decode_gpu: str | None = None
    prefill_gpus: int | None = None
    decode_gpus: int | None = None
    isl: int | None = None
    osl: int | None = None
    prefix_hit: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    tok_s_user: float | None = None
    strategy: Strategy | None = None
    kv_dtype: KvDtype | None = None
    engine_version: str | None = None
    usd_per_gpu_hour: float | None = None
    dbo: bool | None = None
    eplb: bool | None = None
    mtp: int | None = None
    mtp_acceptance: float | None = None
    calibration: bool | None = None
    name: str | None = None
    profiles: Path | None = None


class _Collector:
    """Runs loaders and keeps their issues, so that one run names all mistakes."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.missing: list[Issue] = []

    def load(self, loader: Callable[[], T]) -> T | None:
        try:
            return loader()
        except InputError as error:
            self.issues.extend(error.issues)
        except PlannerError as error:
            self.missing.extend(error.issues)
        return None

    def add(self, code: str, what: str, why: str, fix: str, where: str) -> None:
        self.issues.append(Issue(code=code, what=what, why=why, fix=fix, where=where))

    def stop_if_any(self) -> None:
        if self.issues or self.missing:
            from planner.domain.errors import MissingDataError

            if not self.issues:
                raise MissingDataError(*self.missing)
            raise InputError(*self.issues, *self.missing)


def build_problem(
    request: Request, *, found_pool: Pool | None = None
) -> tuple[PlanningProblem, EngineProfile]:
    """Check `request` and load what it names.

    `found_pool`: hardware found in a live cluster, in place of --gpu, --fabric and --cluster.

    Raises InputError with every mistake at once, MissingDataError for a model that is not here, NotFeasibleError when
    arithmetic alone shows that no plan can exist (weights beyond the memory, targets below physical bounds).
    """
    found = _Collector()
    _check_numbers(request, found)
    assumptions: list[Assumption] = []
    model = _model(request, found)
    engine = found.load(lambda: load_engine(DEFAULT_ENGINE, request.engine_version, overlay=request.profiles))
    pools = (
        _found(request, found_pool, found, assumptions) if found_pool else _pools(request, found, assumptions)
    )
    workload = _workload(request, model, found, assumptions)
    found.stop_if_any()
    if (
        model is None or engine is None or pools is None or workload is None
    ):  # pragma: no cover - stopped above
        msg = "unreachable"
        raise AssertionError(msg)
    speculation = _speculation(request, model)
    slo = SloTargets(ttft_ms=request.ttft_ms, tpot_ms=request.tpot_ms, tok_s_user=request.tok_s_user)
    prefill, decode = pools
    price = _price(request, prefill, decode, assumptions)
    _say_engine(engine, request, assumptions)
    if request.ttft_ms is not None:
        assumptions.append(
            Assumption(
                name="headroom",
                value=f"prefill groups at most {100.0 * PREFILL_HEADROOM:.0f} % busy",
                why="lockstep leaves ranks idle and capacity is known to about 15 %; near it TTFT is all queue",
                flag="(none)",
            )
        )
    assumptions.extend(unconfirmed_assumptions([prefill.gpu, decode.gpu], [decode.fabric], engine))
    bounds = SearchBounds(
        strategies=(request.strategy,) if request.strategy else tuple(Strategy),
        kv_dtypes=_kv_dtypes(request, model, assumptions),
        allow_dbo=request.dbo is not False,
        allow_eplb=request.eplb is not False,
    )
    problem = PlanningProblem(
        name=request.name or _name(model, prefill, decode),
        model=model,
        prefill_pool=prefill,
        decode_pool=decode,
        workload=workload,
        slo=slo,
        engine=engine.engine.value,
        engine_version=engine.version,
        usd_per_gpu_hour=price,
        bounds=bounds,
        speculation=speculation,
        calibration=_own_calibration(request, model, decode.gpu, engine, assumptions),
        assumptions=tuple(assumptions),
    )
    _refuse_impossible(problem, engine)
    return problem, engine


# --- numbers ---

MAX_GPUS = 10_000
MAX_DRAFT_TOKENS = 16


def _check_numbers(request: Request, found: _Collector) -> None:
    for name, value in (
        ("gpus", request.gpus),
        ("prefill-gpus", request.prefill_gpus),
        ("decode-gpus", request.decode_gpus),
        ("isl", request.isl),
        ("osl", request.osl),
        ("mtp", request.mtp),
    ):
        if value is not None and value <= 0:
            noun = "GPUs" if name.endswith("gpus") else "tokens"
            found.add(
                f"{name}.not-positive", f"--{name} {value}", f"a plan needs a positive number of {noun}",
                f"give --{name} a number of {noun} above 0", f"--{name}",
            )  # fmt: skip
    for name in ("gpus", "prefill-gpus", "decode-gpus"):
        gpus = getattr(request, name.replace("-", "_"))
        if gpus is not None and gpus > MAX_GPUS:
            found.add(
                "gpus.too-many", f"--{name} {gpus}", f"one plan covers at most {MAX_GPUS:,} GPUs",
                "plan a part of the fleet and repeat it", f"--{name}",
            )  # fmt: skip
    for name, rate in (
        ("ttft-ms", request.ttft_ms),
        ("tpot-ms", request.tpot_ms),
        ("tok-s-user", request.tok_s_user),
        ("usd-per-gpu-hour", request.usd_per_gpu_hour),
    ):
        if rate is not None and not (rate > 0.0 and math.isfinite(rate)):
            found.add(
                f"{name}.not-positive", f"--{name} {rate:g}", "a target or price must be a finite number above 0",
                f"give --{name} a positive number or leave it out", f"--{name}",
            )  # fmt: skip
    if request.prefix_hit is not None and not 0.0 <= request.prefix_hit < 1.0:
        found.add(
            "prefix-hit.range", f"--prefix-hit {request.prefix_hit:g}", "it is the share of prompt tokens found in cache",
            "give a value from 0 to below 1", "--prefix-hit",
        )  # fmt: skip
    split = request.prefill_gpu or request.decode_gpu or request.prefill_gpus or request.decode_gpus
    if split and request.strategy is Strategy.AGGREGATED:
        found.add(
            "flags.conflict", "--strategy aggregated with --prefill-gpu/--decode-gpu",
            "an aggregated plan has one role on one GPU type", "drop the split flags or the strategy", "--strategy",
        )  # fmt: skip
    if split and request.gpu is not None:
        found.add(
            "flags.conflict", "--gpu with --prefill-gpu/--decode-gpu", "each role's GPU would be said twice",
            "use --gpu with --gpus, or all of --prefill-gpu --prefill-gpus --decode-gpu --decode-gpus", "--gpu",
        )  # fmt: skip


# --- model and workload ---


def _model(request: Request, found: _Collector) -> ModelSpec | None:
    name = request.model
    if name is None:
        found.add(
            "model.missing", "no model was named", "memory and time follow from its structure",
            "give --model ID (see planner models list), a config.json, or a recipe", "--model",
        )  # fmt: skip
        return None
    return found.load(lambda: load_model(name, overlay=request.profiles))


def _workload(
    request: Request, model: ModelSpec | None, found: _Collector, assumptions: list[Assumption]
) -> Workload | None:
    isl = request.isl if request.isl is not None else DEFAULT_ISL
    osl = request.osl if request.osl is not None else DEFAULT_OSL
    if request.isl is None:
        assumptions.append(Assumption(name="prompt", value=f"{isl} tokens", why="not given", flag="--isl"))
    if request.osl is None:
        assumptions.append(Assumption(name="output", value=f"{osl} tokens", why="not given", flag="--osl"))
    hit = request.prefix_hit if request.prefix_hit is not None else 0.0
    if request.prefix_hit is None:
        assumptions.append(
            Assumption(
                name="prefix cache",
                value="no hits",
                why="not given; every prompt is new",
                flag="--prefix-hit",
            )
        )
    if isl <= 0 or osl <= 0:
        return None
    if model is not None and isl + osl > model.max_position:
        found.add(
            "workload.beyond-context", f"--isl {isl} + --osl {osl} = {isl + osl} tokens",
            f"{model.id} handles at most {model.max_position} tokens per request",
            f"keep --isl + --osl at or below {model.max_position}", "--isl",
        )  # fmt: skip
    return Workload(isl=isl, osl=osl, prefix_hit=hit)


def _kv_dtypes(request: Request, model: ModelSpec, assumptions: list[Assumption]) -> tuple[KvDtype, ...]:
    if request.kv_dtype is not None:
        return (request.kv_dtype,)
    declared = model.quantization.kv_cache
    note = f"the checkpoint declares {declared.value}" if declared else "the checkpoint declares none"
    assumptions.append(
        Assumption(
            name="KV cache",
            value="bf16 and fp8 are both tried",
            why=f"{note}; check quality",
            flag="--kv-dtype",
        )
    )
    return (KvDtype.BF16, KvDtype.FP8)


# --- hardware ---


def _pools(request: Request, found: _Collector, assumptions: list[Assumption]) -> tuple[Pool, Pool] | None:
    split = request.prefill_gpu or request.decode_gpu
    if not split:
        pool = _pool(request, request.gpu, request.gpus, "gpu", found, assumptions)
        return (pool, pool) if pool is not None else None
    prefill = _pool(request, request.prefill_gpu, request.prefill_gpus, "prefill-gpu", found, assumptions)
    decode = _pool(request, request.decode_gpu, request.decode_gpus, "decode-gpu", found, assumptions)
    return (prefill, decode) if prefill is not None and decode is not None else None


def _found(
    request: Request, pool: Pool, found: _Collector, assumptions: list[Assumption]
) -> tuple[Pool, Pool] | None:
    """One shared pool as a live cluster offers it; --gpus takes a part of it."""
    named = [
        flag for flag, value in (("--gpu", request.gpu), ("--fabric", request.fabric)) if value is not None
    ]
    if named or request.prefill_gpu or request.decode_gpu:
        found.add(
            "flags.conflict", f"--cluster live with {', '.join(named) or '--prefill-gpu/--decode-gpu'}",
            "the hardware is read from the cluster", "drop the one or the other", "--cluster",
        )  # fmt: skip
        return None
    gpus = request.gpus if request.gpus is not None else pool.gpus
    if gpus > pool.gpus:
        found.add(
            "gpus.more-than-found", f"--gpus {gpus}", f"the cluster has {pool.gpus} x {pool.gpu.id}",
            f"give at most {pool.gpus}, or leave --gpus out", "--gpus",
        )  # fmt: skip
        return None
    if not _tiles(gpus, pool.node, found, "gpu"):
        return None
    assumptions.append(
        Assumption(
            name="hardware",
            value=f"{gpus} x {pool.gpu.id} over {pool.fabric.id}, {pool.gpus_per_node} per node",
            why="found in the live cluster",
            flag="--cluster",
        )
    )
    chosen = replace(pool, gpus=gpus)
    return chosen, chosen


def _pool(
    request: Request,
    gpu_name: str | None,
    gpus: int | None,
    flag: str,
    found: _Collector,
    assumptions: list[Assumption],
) -> Pool | None:
    node = _node(request, found) if request.node is not None else None
    if gpu_name is None and node is not None:
        gpu_name = node.gpu
    if gpu_name is None:
        found.add(
            "gpu.missing", "no GPU type was named", "the plan depends on it",
            f"give --{flag} NAME (see planner profiles list gpus), --cluster NAME, or a recipe", f"--{flag}",
        )  # fmt: skip
    if gpus is None:
        found.add(
            "gpus.missing", "no number of GPUs was given", "the search fills what is owned", f"give --{flag}s NUMBER",
            f"--{flag}s",
        )  # fmt: skip
    if gpu_name is None:
        return None
    gpu = found.load(lambda: load_gpu(gpu_name, overlay=request.profiles))
    if gpu is None:
        return None
    if node is not None and node.gpu != gpu.id:
        found.add(
            "flags.conflict", f"--{flag} {gpu.id} with --cluster {node.id}", f"that node shape holds {node.gpu}",
            f"drop --{flag} or choose another --cluster", f"--{flag}",
        )  # fmt: skip
        return None
    fabric_name = request.fabric or (node.fabric if node else None)
    if fabric_name is None:
        node = found.load(lambda: _usual_node(gpu, request.profiles))
        fabric_name = node.fabric if node else None
        if node is not None:
            assumptions.append(
                Assumption(name="fabric", value=node.fabric, why=f"usual for {gpu.id} nodes", flag="--fabric")
            )
    if fabric_name is None:
        return None
    fabric = found.load(lambda: load_fabric(fabric_name, overlay=request.profiles))
    if fabric is None:
        return None
    if node is None:
        node = found.load(lambda: default_node(gpu, fabric, overlay=request.profiles))
        if node is None:
            return None
        assumptions.append(
            Assumption(
                name="node shape",
                value=f"{node.id}: {node.gpus_per_node} GPUs",
                why=f"usual for {gpu.id}",
                flag="--cluster",
            )
        )
    if gpus is None or not 0 < gpus <= MAX_GPUS:
        return None
    if not _tiles(gpus, node, found, flag):
        return None
    if gpus > max(node.gpus_per_node, gpu.scale_up.domain_gpus) and fabric.kind is FabricKind.NONE:
        found.add(
            "fabric.none", f"{gpus} x {gpu.id} with fabric none", "more than one scale-up domain needs a network",
            "give --fabric (see planner profiles list fabrics)", "--fabric",
        )  # fmt: skip
    return Pool(gpu=gpu, fabric=fabric, node=replace(node, fabric=fabric.id), gpus=gpus)


def _usual_node(gpu: GpuProfile, overlay: Path | None) -> NodeShape:
    """The generic shape of the GPU, or the first cloud shape that has it."""
    shapes = nodes_for(gpu, overlay=overlay)
    return shapes[0] if shapes else load_node(f"generic-{gpu.id}", overlay=overlay)


def _node(request: Request, found: _Collector) -> NodeShape | None:
    name = request.node or ""
    return found.load(lambda: load_node(name, overlay=request.profiles))


def _tiles(gpus: int, node: NodeShape, found: _Collector, flag: str) -> bool:
    per = node.gpus_per_node
    if gpus % per == 0 or (gpus < per and per % gpus == 0):
        return True
    if gpus < per:
        below = max(d for d in range(1, gpus) if per % d == 0)
        above = min(d for d in range(gpus, per + 1) if per % d == 0)
    else:
        below, above = gpus // per * per, -(-gpus // per) * per
    found.add(
        "gpus.not-tiling", f"--{flag}s {gpus}", f"{node.id} has {per} GPUs per node; engine groups tile nodes",
        f"use {below} or {above}", f"--{flag}s",
    )  # fmt: skip
    return False


def _price(request: Request, prefill: Pool, decode: Pool, assumptions: list[Assumption]) -> float | None:
    if request.usd_per_gpu_hour is not None:
        return request.usd_per_gpu_hour
    pools = [decode] if prefill is decode else [prefill, decode]
    total = 0.0
    for pool in pools:
        if not pool.gpu.prices:
            return None
        total += pool.gpu.prices[0].usd_per_gpu_hour * pool.gpus
    price = total / sum(p.gpus for p in pools)
    listed = decode.gpu.prices[0]
    assumptions.append(
        Assumption(
            name="price",
            value=f"{price:.2f} $/GPU-hour",
            why=f"{listed.tier}, {listed.source}, {listed.date}",
            flag="--usd-per-gpu-hour",
        )
    )
    return price


def _say_engine(engine: EngineProfile, request: Request, assumptions: list[Assumption]) -> None:
    if request.engine_version is None:
        assumptions.append(
            Assumption(
                name="engine",
                value=f"{engine.engine.value} {engine.version}",
                why="newest profile",
                flag="--engine-version",
            )
        )
    assumptions.append(
        Assumption(
            name="memory",
            value=f"gpu_memory_utilization {engine.gpu_memory_utilization}",
            why="engine default",
            flag="(engine profile)",
        )
    )
    assumptions.append(
        Assumption(
            name="speculation", value="off", why="acceptance is a property of your traffic", flag="--mtp"
        )
    )


def _speculation(request: Request, model: ModelSpec) -> Speculation | None:
    if not request.mtp:
        return None
    issues = []
    if model.mtp_layers == 0:
        issues.append(
            Issue(
                code="mtp.absent",
                what=f"--mtp {request.mtp}",
                why=f"{model.id} has no multi-token-prediction layers",
                fix="leave --mtp out",
                where="--mtp",
            )
        )
    if request.mtp > MAX_DRAFT_TOKENS:
        issues.append(
            Issue(
                code="mtp.too-many",
                what=f"--mtp {request.mtp}",
                why=f"more than {MAX_DRAFT_TOKENS} drafted tokens per step never pay and are not modelled",
                fix="give --mtp 1 to 3",
                where="--mtp",
            )
        )
    if request.mtp_acceptance is None or not 0.0 < request.mtp_acceptance <= 1.0:
        issues.append(
            Issue(
                code="mtp.acceptance",
                what=f"--mtp {request.mtp} with "
                + (
                    "no acceptance"
                    if request.mtp_acceptance is None
                    else f"acceptance {request.mtp_acceptance:g}"
                ),
                why="the gain depends on how often a drafted token is accepted, which only your traffic can tell",
                fix="give --mtp-acceptance from 0 to 1 (vLLM logs it; published runs see 0.6 to 0.9 for the first token)",
                where="--mtp-acceptance",
            )
        )
    if issues:
        raise InputError(*issues)
    return Speculation(draft_tokens=request.mtp, acceptance=float(request.mtp_acceptance or 0.0))


def _own_calibration(
    request: Request, model: ModelSpec, gpu: GpuProfile, engine: EngineProfile, assumptions: list[Assumption]
) -> Calibration | None:
    """The user's calibration for exactly this model, GPU, engine and version, if there is one and it is wanted."""
    if request.calibration is False:
        return None
    scope = CalibrationScope(
        model=model.id, gpu=gpu.id, engine=engine.engine.value, engine_version=engine.version
    )
    found = stored_calibration(scope)
    if found is not None and not found.trusted and request.calibration is None:
        assumptions.append(
            Assumption(
                name="calibration",
                value=f"yours (n={found.n}) is not used",
                why=found.distrust,
                flag="--calibration",
            )
        )
        return None
    if found is not None:
        moved = [f.name for f in found.factors if f.moved]
        assumptions.append(
            Assumption(
                name="calibration",
                value=f"yours, n={len(found.measurements)}",
                why=f"measured on {gpu.id} with {engine.id}; moved: {', '.join(moved) or 'nothing'}",
                flag="--no-calibration",
            )
        )
    return found


def _name(model: ModelSpec, prefill: Pool, decode: Pool) -> str:
    short = model.id.rsplit("/", 1)[-1].lower().replace(".", "-").replace("_", "-")
    if prefill is decode:
        return f"{short}-{decode.gpu.id}x{decode.gpus}"
    return f"{short}-{prefill.gpu.id}x{prefill.gpus}-{decode.gpu.id}x{decode.gpus}"


# --- arithmetic refusals ---


def _refuse_impossible(problem: PlanningProblem, engine: EngineProfile) -> None:
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
    tokens = workload.isl * (1.0 - workload.prefix_hit)
    flop = 2.0 * (model.mean_active_parameters - model.vocab * model.hidden) * tokens
    best = max(gpu.peak_tflops.get(d, 0.0) for d in ComputeDtype)
    return flop / (best * gpus) / 1e9
