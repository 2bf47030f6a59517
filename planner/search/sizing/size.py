"""Size a fleet for a load: every GPU type that was asked for, each exactly, side by side."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from planner.analytic.evaluate import MODEL_VERSION
from planner.catalog.hardware import list_gpus, load_gpu, load_node, nodes_for
from planner.catalog.locate import data_root
from planner.domain.errors import InputError, Issue, NotFeasibleError, PlannerError, did_you_mean
from planner.domain.hardware import Availability, GpuProfile
from planner.domain.problem import PREFILL_HEADROOM, Assumption, PlanningProblem
from planner.domain.recommendation import Shortfall
from planner.domain.workload import SloTargets
from planner.perf.operators.library import SAME_SILICON
from planner.search.ask import DEFAULT_ENGINE, Request, build_problem
from planner.search.sizing.answer import GpuAnswer, LeftOut, SizingAnswer, issue_text
from planner.search.sizing.load import Load, LoadKind, Reserve, Rollout, Targets, check_reserve, read_load
from planner.search.sizing.one_type import GROUP_GPUS, size_problem

WORKERS: Final = 2
NO_NETWORK: Final = "none"
DEFINITIONS: Final = {
    LoadKind.USERS: "active users: each has exactly one request in flight and sends the next when it is answered",
    LoadKind.RATE: "requests/s that arrive independently (Poisson), whether or not earlier ones are answered",
}
OPEN_ARRIVALS: Final = Assumption(
    name="open arrivals",
    value=f"engines at most at {100.0 * PREFILL_HEADROOM:.0f} % of their highest throughput",
    why="near it a burst of arrivals never drains (simulated); a closed loop holds itself back",
    flag="(none)",
)
PLACEMENT: Final = Assumption(
    name="placement",
    value="groups are packed onto nodes role by role, and a lost node takes every group on it",
    why="engines of a group run in lockstep; manifests leave the rest to the scheduler",
    flag="(none)",
)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRequest:
    """What was asked. `request` holds model, workload and targets; `gpus` None means every type with data."""

    request: Request
    gpus: tuple[str, ...] | None = None
    rate: str | None = None
    users: int | None = None
    spare_nodes: int = 0
    rollout: str | None = None
    price_tier: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    request: Request
    load: Load
    reserve: Reserve
    price_tier: str | None


def size_fleet(
    asked: SizeRequest, *, workers: int | None = None, progress: Progress | None = None
) -> SizingAnswer:
    """Answer `asked`; GPU types are sized in `workers` processes (default: 2 when there are several types and cores).

    Raises InputError with every mistake at once, MissingDataError for a model that is not here.
    """
    say = progress or (lambda _: None)
    load, reserve, gpus, left_out = _checked(asked)
    jobs = [
        _Job(replace(asked.request, gpu=g, gpus=_pool(g, asked.request)), load, reserve, asked.price_tier)
        for g in gpus
    ]
    found: dict[str, GpuAnswer] = {}
    for gpu, answer in _run(jobs, _workers(workers, len(jobs))):
        found[gpu] = answer
        size = f"{answer.fleet.gpus} GPUs" if answer.fleet else "no fleet carries the load"
        say(f"{gpu}: {size} ({len(found)} of {len(jobs)})")
    answers = tuple(found[g] for g in gpus)
    common, answers = _common_assumptions(answers)
    common += (PLACEMENT, OPEN_ARRIVALS) if load.kind is LoadKind.RATE else (PLACEMENT,)
    return _answer(asked, load, reserve, common, answers, left_out)


def read_gpus(text: str | None) -> tuple[str, ...] | None:
    """GPU names of a comma-separated list; None when none was given."""
    if text is None:
        return None
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def recipe_request(name: str, flags: Request) -> Request:
    """Model, traffic and targets of recipe `name` with `flags` laid over them; its hardware is what is asked for here."""
    from planner.search.from_recipe import with_recipe

    asked = with_recipe(name, flags)
    return replace(
        asked,
        name=None,
        gpu=None,
        gpus=None,
        prefill_gpu=None,
        prefill_gpus=None,
        decode_gpu=None,
        decode_gpus=None,
        node=flags.node,
        fabric=flags.fabric,
        usd_per_gpu_hour=flags.usd_per_gpu_hour,
    )


def enough_data(overlay: Path | None = None) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """GPU types that are compared when none is named, and the others with the reason."""
    chosen, left = [], []
    for name in list_gpus(overlay=overlay):
        gpu = load_gpu(name, overlay=overlay)
        why = _lacks(gpu, overlay)
        if why:
            left.append(LeftOut(gpu=gpu.id, why=why))
        else:
            chosen.append(gpu.id)
    return tuple(chosen), tuple(left)


def _lacks(gpu: GpuProfile, overlay: Path | None) -> str:
    if gpu.availability is not Availability.AVAILABLE:
        return gpu.availability.value
    if not nodes_for(gpu, overlay=overlay):
        return "no node shape in the catalogue"
    folder = data_root() / "profiles" / "operators"
    if not (folder / f"{gpu.id}-{DEFAULT_ENGINE}.json").is_file():
        twin = SAME_SILICON.get(gpu.id)
        borrowed = f"its kernels are taken from {twin}" if twin else "its kernels are not measured"
        return f"{borrowed} with {DEFAULT_ENGINE}"
    return "" if gpu.prices else "no price in its profile"


# --- checks ---


def _checked(asked: SizeRequest) -> tuple[Load, Reserve, tuple[str, ...], tuple[LeftOut, ...]]:
    """Every mistake at once: the load, the reserve, the GPU types and what `build_problem` finds."""
    request = asked.request
    slo = SloTargets(ttft_ms=request.ttft_ms, tpot_ms=request.tpot_ms, tok_s_user=request.tok_s_user)
    try:
        targets = Targets.of(slo)
    except ZeroDivisionError:  # --tok-s-user 0 is refused below with the other numbers
        targets = Targets(ttft_ms=request.ttft_ms, tpot_ms=request.tpot_ms)
    load, issues = read_load(rate=asked.rate, users=asked.users, targets=targets)
    issues += check_reserve(asked.spare_nodes)
    rollout = _rollout(asked.rollout, issues)
    _check_tier(asked, issues)
    if asked.gpus is None:
        gpus, left_out = enough_data(request.profiles)
    else:
        gpus, left_out = _named(asked.gpus, request, issues), ()
    if request.node is not None:
        gpus, left_out = _of_node(asked, request.node, gpus, issues), ()
    errors: list[PlannerError] = []
    for gpu in gpus or (None,):
        try:
            build_problem(replace(request, gpu=gpu, gpus=_pool(gpu, request) if gpu else None))
        except NotFeasibleError:
            continue  # an answer, given with the others
        except PlannerError as error:
            errors.append(error)
    issues += [i for e in errors for i in e.issues if gpus or not i.code.startswith(("gpu.", "gpus."))]
    if issues or load is None:
        if errors and len(issues) == sum(len(e.issues) for e in errors):
            raise type(errors[0])(*issues)
        raise InputError(*issues)
    return load, Reserve(spare_nodes=asked.spare_nodes, rollout=rollout), gpus, left_out


def _rollout(text: str | None, issues: list[Issue]) -> Rollout | None:
    if text is None:
        return None
    if text in set(Rollout):
        return Rollout(text)
    issues.append(
        Issue(
            code="size.rollout",
            what=f"--rollout {text}",
            why="a new version starts beside the old one (surge) or replaces one group after the other (in-place)",
            fix=did_you_mean(text, [r.value for r in Rollout]),
            where="--rollout",
        )
    )
    return None


def _check_tier(asked: SizeRequest, issues: list[Issue]) -> None:
    tier, overlay = asked.price_tier, asked.request.profiles
    if tier is None:
        return
    known = {p.tier for g in list_gpus(overlay=overlay) for p in load_gpu(g, overlay=overlay).prices}
    if tier not in known:
        issues.append(
            Issue(
                code="size.price-tier",
                what=f"--price-tier {tier}",
                why="no GPU profile has a price of this tier",
                fix=did_you_mean(tier, known),
                where="--price-tier",
            )
        )
    if asked.request.usd_per_gpu_hour is not None:
        issues.append(
            Issue(
                code="flags.conflict",
                what="--price-tier with --usd-per-gpu-hour",
                why="the price would be said twice",
                fix="drop the one or the other",
                where="--price-tier",
            )
        )


def _named(names: tuple[str, ...], request: Request, issues: list[Issue]) -> tuple[str, ...]:
    found = []
    for name in names:
        try:
            found.append(load_gpu(name, overlay=request.profiles).id)
        except PlannerError as error:
            issues.extend(error.issues)
    return tuple(dict.fromkeys(found))


def _of_node(asked: SizeRequest, node: str, gpus: tuple[str, ...], issues: list[Issue]) -> tuple[str, ...]:
    """The one GPU type that a named node shape holds."""
    try:
        gpu = load_node(node, overlay=asked.request.profiles).gpu
    except PlannerError as error:
        issues.extend(error.issues)
        return ()
    if asked.gpus is not None and gpus != (gpu,):
        issues.append(
            Issue(
                code="flags.conflict",
                what=f"--gpu {','.join(asked.gpus)} with --cluster {node}",
                why=f"that node shape holds {gpu}",
                fix="drop --gpu or --cluster",
                where="--cluster",
            )
        )
    return (gpu,)


def _pool(gpu_name: str, request: Request) -> int:
    """GPUs of the pool whose configurations are enumerated: whole nodes, up to the widest group considered."""
    overlay = request.profiles
    gpu = load_gpu(gpu_name, overlay=overlay)
    shapes = nodes_for(gpu, overlay=overlay)
    node = load_node(request.node, overlay=overlay) if request.node is not None else next(iter(shapes), None)
    if node is None:
        return GROUP_GPUS  # refused with a reason by the problem's own checks
    widest = max(GROUP_GPUS // node.gpus_per_node, 1) * node.gpus_per_node
    network = request.fabric or node.fabric
    if network == NO_NETWORK:
        widest = min(widest, max(node.gpus_per_node, gpu.scale_up.domain_gpus))
    return widest


# --- running ---


def _workers(wanted: int | None, jobs: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(min(wanted if wanted is not None else WORKERS, jobs, cores), 1)


def _run(jobs: list[_Job], workers: int) -> Iterator[tuple[str, GpuAnswer]]:
    if workers == 1:
        for job in jobs:
            yield str(job.request.gpu), _size_one(job)
        return
    pool = ProcessPoolExecutor(
        max_workers=workers, mp_context=get_context("spawn"), initializer=_die_silently_when_interrupted
    )
    try:
        with _interrupts_held():  # workers inherit this until they are up
            futures = {pool.submit(_size_one, job): str(job.request.gpu) for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _die_silently_when_interrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _size_one(job: _Job) -> GpuAnswer:
    try:
        problem, engine = build_problem(job.request)
    except NotFeasibleError as error:
        return _refused(job.request, error)
    if job.price_tier is not None:
        problem = _at_tier(problem, job.price_tier)
    return size_problem(problem, engine, load=job.load, reserve=job.reserve, named=job.request.name)


def _at_tier(problem: PlanningProblem, tier: str) -> PlanningProblem:
    """The problem with the GPU's price of one tier; without a price where its profile has none of it."""
    price = next((p for p in problem.decode_pool.gpu.prices if p.tier == tier), None)
    said = Assumption(
        name="price",
        value=f"{price.usd_per_gpu_hour:.2f} $/GPU-hour" if price else f"none of tier {tier}",
        why=f"{price.tier}, {price.source}, {price.date}" if price else "not in its profile",
        flag="--price-tier",
    )
    return replace(
        problem,
        usd_per_gpu_hour=price.usd_per_gpu_hour if price else None,
        assumptions=(*(a for a in problem.assumptions if a.name != "price"), said),
    )


def _refused(request: Request, error: NotFeasibleError) -> GpuAnswer:
    gpu = load_gpu(str(request.gpu), overlay=request.profiles)
    node = nodes_for(gpu, overlay=request.profiles)[0]
    binding, needed = issue_text(error.issues)
    return GpuAnswer(
        gpu=gpu.id,
        gpu_name=gpu.name,
        fabric=request.fabric or node.fabric,
        node=node.id,
        gpus_per_node=node.gpus_per_node,
        assumptions=(),
        fleet=None,
        shortfall=Shortfall(binding=binding, nearest=None, needed=needed),
    )


# --- the answer ---


def _common_assumptions(
    answers: tuple[GpuAnswer, ...],
) -> tuple[tuple[Assumption, ...], tuple[GpuAnswer, ...]]:
    """Assumptions that every sized type shares, said once; the rest stays with its type."""
    sized = [a for a in answers if a.assumptions]
    if not sized:
        return (), answers
    common = tuple(x for x in sized[0].assumptions if all(x in a.assumptions for a in sized))
    return common, tuple(
        replace(a, assumptions=tuple(x for x in a.assumptions if x not in common)) for a in answers
    )


def _answer(
    asked: SizeRequest,
    load: Load,
    reserve: Reserve,
    common: tuple[Assumption, ...],
    answers: tuple[GpuAnswer, ...],
    left_out: tuple[LeftOut, ...],
) -> SizingAnswer:
    fleets = {a.gpu: a.fleet for a in answers if a.fleet is not None}
    priced = {gpu: f.cost.usd_per_hour for gpu, f in fleets.items() if f.cost is not None}
    request = asked.request
    return SizingAnswer(
        model=str(request.model),
        question=_question(request, load, reserve),
        load=load,
        load_definition=DEFINITIONS[load.kind],
        reserve=reserve,
        assumptions=common,
        types=answers,
        left_out=left_out,
        cheapest=min(priced, key=lambda g: (priced[g], g), default=None),
        fewest=min(fleets, key=lambda g: (fleets[g].gpus, g), default=None),
        largest_group=GROUP_GPUS,
        model_version=MODEL_VERSION,
    )


def _question(request: Request, load: Load, reserve: Reserve) -> str:
    from planner.catalog.models import load_model
    from planner.search.ask import DEFAULT_ISL, DEFAULT_OSL

    model = load_model(str(request.model), overlay=request.profiles).id
    targets = [f"TTFT <= {request.ttft_ms:g} ms"] if request.ttft_ms is not None else []
    targets += [f"TPOT <= {request.tpot_ms:g} ms"] if request.tpot_ms is not None else []
    targets += [f">= {request.tok_s_user:g} tok/s/user"] if request.tok_s_user is not None else []
    kept = [f"any {reserve.spare_nodes} nodes may fail"] if reserve.spare_nodes > 1 else []
    kept += ["any node may fail"] if reserve.spare_nodes == 1 else []
    kept += [f"rollout {reserve.rollout.value}"] if reserve.rollout is not None else []
    shape = f"{request.isl or DEFAULT_ISL} in / {request.osl or DEFAULT_OSL} out"
    goal = ", ".join(targets) + " (medians)" if targets else "a stable queue"
    return "; ".join([f"{model} for {load.text()}", shape, goal, *kept])
