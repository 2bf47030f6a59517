"""Price one plan that a user describes or saved, after checking that it is legal and fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from planner.analytic.evaluate import Pricer
from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu, load_node
from planner.catalog.models import load_model
from planner.domain.deployment import DeploymentPlan, Role, RolePlan
from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError, Issue, NotFeasibleError
from planner.domain.evaluation import Evaluation
from planner.domain.hardware import Pool
from planner.domain.legality import check_plan
from planner.domain.model import ModelSpec
from planner.domain.problem import PlanningProblem
from planner.perf.components import Components
from planner.perf.operators.library import load_operators
from planner.search.ask import Request, build_problem
from planner.search.notation import parse_role
from planner.search.plans import plan_for
from planner.search.solve import make_pricer

DEFAULT_PER_RANK = 32  # requests per decode rank when no load is given
MAX_CONCURRENCY = 100_000_000


def check_concurrency(concurrency: int | None) -> None:
    """Raises InputError ``concurrency.range`` for a load that no deployment can have."""
    if concurrency is not None and not 0 < concurrency <= MAX_CONCURRENCY:
        raise InputError(
            Issue(
                code="concurrency.range",
                what=f"--concurrency {concurrency}",
                why="it is the number of requests in flight over the whole plan",
                fix=f"give a number from 1 to {MAX_CONCURRENCY:,}, or leave it out",
                where="--concurrency",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A plan with its numbers."""

    plan: DeploymentPlan
    evaluation: Evaluation
    model: ModelSpec


def price_plan(
    plan: DeploymentPlan, *, concurrency: int | None, profiles: Path | None, usd: float | None
) -> Priced:
    """Price a saved plan with the catalogue's profiles, at its own or another concurrency."""
    check_concurrency(concurrency)
    if concurrency is not None:
        plan = replace(plan, concurrency=concurrency)
    model = load_model(plan.model, overlay=profiles)
    engine = load_engine(plan.engine, plan.engine_version, overlay=profiles)
    fabric = load_fabric(plan.fabric, overlay=profiles)
    pools: dict[str, Pool] = {}
    for role in plan.roles:
        node = load_node(role.node, overlay=profiles)
        gpu = load_gpu(role.gpu, overlay=profiles)
        pools[role.gpu] = Pool(
            gpu=gpu, fabric=fabric, node=replace(node, fabric=fabric.id), gpus=plan.gpus_owned
        )
    if usd is None:
        gpu = pools[plan.roles[-1].gpu].gpu
        usd = gpu.prices[0].usd_per_gpu_hour if gpu.prices else None
    pricer = Pricer(
        model=model,
        pools=pools,
        components={
            k: Components(model, load_operators(p.gpu, p.fabric, engine.engine)) for k, p in pools.items()
        },
        engine=engine,
        usd_per_gpu_hour=usd,
    )
    return _price(plan, model, pools, engine, pricer)


def price_roles(
    request: Request,
    *,
    aggregated: str | None,
    prefill: str | None,
    decode: str | None,
    concurrency: int | None,
) -> Priced:
    """Price a plan given in the short notation. `request.gpus` defaults to what the roles use."""
    plan, problem, engine = describe(
        request, aggregated=aggregated, prefill=prefill, decode=decode, concurrency=concurrency
    )
    pools = {
        problem.prefill_pool.gpu.id: problem.prefill_pool,
        problem.decode_pool.gpu.id: problem.decode_pool,
    }
    return _price(plan, problem.model, pools, engine, make_pricer(problem, engine))


def describe(
    request: Request,
    *,
    aggregated: str | None,
    prefill: str | None,
    decode: str | None,
    concurrency: int | None,
) -> tuple[DeploymentPlan, PlanningProblem, EngineProfile]:
    """The plan in the short notation, with the problem it belongs to; nothing is checked for legality.

    Raises InputError ``estimate.roles`` unless there is one aggregated role or a prefill and a decode role.
    """
    check_concurrency(concurrency)
    _check_roles(aggregated, prefill, decode)
    if request.gpus is None and request.prefill_gpus is None:
        # the widths say how many GPUs there are: parse once on a stand-in pool of one node
        request = _with_gpus(request, [t for t in (aggregated, prefill, decode) if t is not None])
    problem, engine = build_problem(request)
    roles: list[RolePlan] = []
    texts = {Role.AGGREGATED: aggregated, Role.PREFILL: prefill, Role.DECODE: decode}
    for role, text in texts.items():
        if text is not None:
            pool = problem.prefill_pool if role is Role.PREFILL else problem.decode_pool
            roles.append(
                parse_role(
                    text,
                    role,
                    model=problem.model,
                    pool=pool,
                    flag=f"--{role.value}",
                    speculation=problem.speculation,
                )
            )
    last = roles[-1]
    load = concurrency or max(DEFAULT_PER_RANK * last.groups * last.parallelism.dp, 1)
    return plan_for(problem, tuple(roles), concurrency=load), problem, engine


def describe_saved(plan: DeploymentPlan, flags: Request) -> tuple[PlanningProblem, EngineProfile]:
    """The problem a saved plan answers: its model, hardware, traffic and targets, with `flags` laid over them."""
    prefill, decode = plan.roles[0], plan.roles[-1]
    split = prefill.gpu != decode.gpu
    request = Request(
        name=plan.name,
        model=plan.model,
        fabric=plan.fabric,
        node=None if split else decode.node,
        gpu=None if split else decode.gpu,
        gpus=None if split else plan.gpus_owned,
        prefill_gpu=prefill.gpu if split else None,
        prefill_gpus=prefill.gpus if split else None,
        decode_gpu=decode.gpu if split else None,
        decode_gpus=decode.gpus if split else None,
        isl=plan.workload.isl,
        osl=plan.workload.osl,
        prefix_hit=plan.workload.prefix_hit,
        prefix_shared=plan.workload.prefix_shared,
        ttft_ms=plan.slo.ttft_ms,
        tpot_ms=plan.slo.tpot_ms,
        tok_s_user=plan.slo.tok_s_user,
        engine_version=plan.engine_version,
    )
    return build_problem(request.overlaid(flags))


def _check_roles(aggregated: str | None, prefill: str | None, decode: str | None) -> None:
    given = (aggregated is not None, prefill is not None, decode is not None)
    if given in {(True, False, False), (False, True, True)}:
        return
    raise InputError(
        Issue(
            code="estimate.roles",
            what="no complete set of roles was given",
            why="a plan is either one aggregated role or a prefill and a decode role",
            fix="give a saved plan (why-not: --plan), or --aggregated ROLE, or --prefill ROLE and --decode ROLE, e.g. "
            "--decode '1x(tp1,dp16)'",
        )
    )


def _with_gpus(request: Request, texts: list[str]) -> Request:
    import re

    total = 0
    for text in texts:
        groups = re.match(r"\s*(\d+)\s*x", text)
        tp = re.search(r"\btp(\d+)", text)
        dp = re.search(r"\bdp(\d+)", text)
        total += int(groups[1] if groups else 1) * int(tp[1] if tp else 1) * int(dp[1] if dp else 1)
    if request.gpu is not None:
        node = load_node(
            f"generic-{load_gpu(request.gpu, overlay=request.profiles).id}", overlay=request.profiles
        )
        per = (
            load_node(request.node, overlay=request.profiles).gpus_per_node
            if request.node
            else node.gpus_per_node
        )
        if total < per:
            total = next(d for d in range(total, per + 1) if per % d == 0)
        else:
            total = -(-total // per) * per
    return replace(request, gpus=max(total, 1))


def _price(
    plan: DeploymentPlan, model: ModelSpec, pools: dict[str, Pool], engine: EngineProfile, pricer: Pricer
) -> Priced:
    violations = check_plan(model, plan, {r.role: pools[r.gpu] for r in plan.roles}, engine)
    if violations:
        raise NotFeasibleError(*(v.issue() for v in violations))
    missing = [i for r in plan.roles if (i := no_room(pricer, plan, r)) is not None]
    if missing:
        raise NotFeasibleError(*missing)
    return Priced(plan=plan, evaluation=pricer.evaluate(plan), model=model)


def no_room(pricer: Pricer, plan: DeploymentPlan, role: RolePlan) -> Issue | None:
    """What is missing when a rank cannot hold its weights or one request."""
    workload = plan.workload
    needed = workload.isl if role.role is Role.PREFILL else workload.context_at_end
    priced = pricer.role(role, context_tokens=needed)
    memory = priced.memory
    if memory.kv_gib <= 0.0:
        return Issue(
            code="memory.weights",
            what=f"{role.role.value} {role.label()}",
            why=f"weights and buffers need {memory.total_gib - memory.reserved_gib - memory.kv_gib:.1f} GiB of "
            f"{memory.total_gib - memory.reserved_gib:.1f} GiB usable per GPU ({role.gpu_memory_utilization:.0%} of "
            f"{memory.total_gib:.1f})",
            fix="widen EP (more GPUs per group), use a smaller quantisation, or GPUs with more memory",
        )
    if memory.kv_tokens_per_rank < needed:
        return Issue(
            code="memory.one-request",
            what=f"{role.role.value} {role.label()}",
            why=f"a request needs {needed:,} KV tokens, a rank holds {memory.kv_tokens_per_rank:,}",
            fix="widen EP, use fp8 KV, raise TP or DCP, or shorten the requests",
        )
    return None
