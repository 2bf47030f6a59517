"""From what a user typed to a checked planning problem, with every default said and every mistake named at once."""

from __future__ import annotations

from typing import Final

from planner.catalog.assumptions import unconfirmed_assumptions
from planner.catalog.engines import load_engine
from planner.catalog.models import load_model
from planner.domain.calibration import Calibration, CalibrationScope
from planner.domain.deployment import Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.engine import EngineProfile
from planner.domain.errors import Issue, MissingDataError
from planner.domain.hardware import GpuProfile, Pool
from planner.domain.model import ModelSpec
from planner.domain.problem import PREFILL_HEADROOM, Assumption, PlanningProblem, SearchBounds
from planner.domain.workload import SloTargets, Workload
from planner.search.ask_hardware import pools_found, pools_of
from planner.search.own_calibration import stored_calibration
from planner.search.physical_bounds import refuse_impossible
from planner.search.request import Collector, Request, check_numbers, speculation_of

__all__ = ["Request", "build_problem"]

DEFAULT_ISL: Final = 4096
DEFAULT_OSL: Final = 1024
DEFAULT_ENGINE: Final = "vllm"


def build_problem(
    request: Request, *, found_pool: Pool | None = None
) -> tuple[PlanningProblem, EngineProfile]:
    """Check `request` and load what it names.

    `found_pool`: hardware found in a live cluster, in place of --gpu, --fabric and --cluster.

    Raises InputError with every mistake at once, MissingDataError for a model that is not here, NotFeasibleError when
    arithmetic alone shows that no plan can exist (weights beyond the memory, targets below physical bounds).
    """
    found = Collector()
    check_numbers(request, found)
    assumptions: list[Assumption] = []
    model = _model(request, found)
    engine = found.load(lambda: load_engine(DEFAULT_ENGINE, request.engine_version, overlay=request.profiles))
    pools = (
        pools_found(request, found_pool, found, assumptions)
        if found_pool
        else pools_of(request, found, assumptions)
    )
    workload = _workload(request, model, found, assumptions)
    found.stop_if_any()
    if (
        model is None or engine is None or pools is None or workload is None
    ):  # pragma: no cover - stopped above
        msg = "unreachable"
        raise AssertionError(msg)
    speculation = speculation_of(request, model)
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
    refuse_impossible(problem, engine)
    return problem, engine


def _model(request: Request, found: Collector) -> ModelSpec | None:
    name = request.model
    if name is None:
        found.add(
            "model.missing", "no model was named", "memory and time follow from its structure",
            "give --model ID (see planner models list), a config.json, or a recipe", "--model",
        )  # fmt: skip
        return None
    return found.load(lambda: load_model(name, overlay=request.profiles))


def _workload(
    request: Request, model: ModelSpec | None, found: Collector, assumptions: list[Assumption]
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
    if hit > 0.0 and request.prefix_shared is None:
        assumptions.append(
            Assumption(
                name="prefix",
                value="every conversation repeats its own",
                why="prefill ranks then keep every conversation's prompt; a common one is kept once",
                flag="--prefix-shared",
            )
        )
    return Workload(isl=isl, osl=osl, prefix_hit=hit, prefix_shared=bool(hit and request.prefix_shared))


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
    if isinstance(found, Issue):
        if request.calibration:
            raise MissingDataError(found)
        assumptions.append(
            Assumption(
                name="calibration",
                value="yours was not looked up",
                why=f"{found.code}: {found.why}; {found.fix}",
                flag="--no-calibration",
            )
        )
        return None
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
