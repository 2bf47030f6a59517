"""Plans under traffic: routers side by side over time, and the laws of the field. Each runs in a process of its own."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, Field, field_validator

from console.api.documents import tagged
from console.api.plan_refs import PlanQuery, meant_by
from console.api.queries import State
from console.api.state import ConsoleState
from console.api.wire import Wire
from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.storage.codec import domain_hash

router = APIRouter(prefix="/api/v1", tags=["simulation"])
OWN = "the plan's own"
SAMPLES = 400  # points of one line that are sent


class SimulationQuery(PlanQuery):
    """A plan, routers to compare, and the traffic."""

    routers: Annotated[list[Annotated[str, Field(max_length=60)]], Field(max_length=5)] = Field(
        default_factory=list
    )
    requests: Annotated[int, Field(ge=20, le=200_000)] = 2000
    concurrency: Annotated[int, Field(ge=1, le=200_000)] | None = None
    rate: Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)] | None = None
    replications: Annotated[int, Field(ge=1, le=8)] = 2
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    shared_prefix: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    length_cv: Annotated[float, Field(ge=0.0, le=5.0, allow_inf_nan=False)] = 0.0

    @field_validator("routers")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(value))


class StatisticOut(Wire):
    """A statistic with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


class SimulatedOut(Wire):
    """One simulation."""

    name: str
    requests: int
    measured: int
    failed: int
    simulated_s: float
    output_tok_s_per_gpu: float | None
    ttft_p50: StatisticOut
    ttft_p99: StatisticOut
    tpot_p50: StatisticOut
    tpot_p99: StatisticOut
    prefix_hit_rate: float | None
    goodput_per_s: float | None
    busiest_rank: dict[str, float | None]
    notes: tuple[str, ...]


class DifferenceOut(Wire):
    """A paired difference against the first simulation."""

    name: str
    metric: str
    difference: StatisticOut
    relative: float | None
    significant: bool


class SimulationOut(Wire):
    """The simulation page."""

    plan: str
    simulations: tuple[SimulatedOut, ...]
    differences: tuple[DifferenceOut, ...]
    series_figure: dict[str, Any]
    ranks_figure: dict[str, Any]


class RoutersOut(Wire):
    """Routers by name."""

    routers: tuple[str, ...]


class ExperimentOut(Wire):
    """One law of the field."""

    name: str
    law: int
    title: str
    published: str
    simulated: bool


class ExperimentsOut(Wire):
    """All laws."""

    experiments: tuple[ExperimentOut, ...]


class CheckOut(BaseModel):
    """One statement and whether it holds in our model."""

    statement: str
    holds: bool


class OutcomeOut(BaseModel):
    """What an experiment gave."""

    name: str
    passed: bool
    headers: list[str]
    rows: list[list[str]]
    checks: list[CheckOut]
    notes: list[str]


@router.get("/routers")
def routers() -> RoutersOut:
    """Names of the routers that can be simulated."""
    from planner.simulation.presets import ROUTERS

    return RoutersOut(routers=tuple(ROUTERS))


@router.get("/simulation", response_model=SimulationOut)
async def simulation(state: State, request: Request, query: Annotated[SimulationQuery, Query()]) -> Response:
    """One plan under one traffic, once per router. The same question gives the same answer, and is asked once."""
    await state.answers.run(_check_routers, query.routers)
    meant = await meant_by(state, query)
    arguments = _arguments(query)
    key = ("simulation", domain_hash(meant.plan), arguments)
    made = await state.answers.slow_text(key, partial(_simulate, state, meant.plan, query, arguments))
    return tagged(request, made)


def _check_routers(names: list[str]) -> None:
    from planner.simulation.presets import ROUTERS

    wrong = [n for n in names if n not in ROUTERS]  # never a path: this text comes from outside
    if wrong:
        raise InputError(
            *(
                Issue(
                    code="router.unknown",
                    what=f"router '{n}'",
                    why="it is not a built-in router",
                    fix=did_you_mean(n, ROUTERS),
                    where="--router",
                )
                for n in wrong
            )
        )


def _arguments(query: SimulationQuery) -> tuple[str, ...]:
    given = ["--requests", str(query.requests), "--seed", str(query.seed)]
    if query.rate is not None:
        given += ["--arrival", "poisson", "--rate", str(query.rate)]
    elif query.concurrency is not None:
        given += ["--concurrency", str(query.concurrency)]
    if query.shared_prefix:
        given += ["--shared-prefix", str(query.shared_prefix)]
    if query.length_cv:
        given += ["--length-cv", str(query.length_cv)]
    for name in query.routers:
        given += ["--router", name]
    compared = len(query.routers) > 1
    return (*given, "--replications", str(max(query.replications, 2) if compared else query.replications))


async def _simulate(
    state: ConsoleState, plan: DeploymentPlan, query: SimulationQuery, arguments: tuple[str, ...]
) -> bytes:
    from planner.catalog.plans import save_plan

    with tempfile.TemporaryDirectory(prefix="wideplan-") as folder:
        path = Path(folder) / "plan.json"
        save_plan(plan, path)
        command = "compare" if len(query.routers) > 1 else "simulate"
        document = await state.children.command(command, str(path), *arguments)
    return await state.answers.run(_document, plan, query, document)


def _document(plan: DeploymentPlan, query: SimulationQuery, document: dict[str, Any]) -> bytes:
    from console.figures.simulation import QUANTITIES, Line, RankBars, ranks_figure, series_figure

    results = document["results"] if "results" in document else [document["result"]]
    names = query.routers or [OWN]
    lines, bars = [], []
    for name, r in zip(names, results, strict=True):
        step = max(1, -(-len(r["series_s"]) // SAMPLES))
        lines += [
            Line(
                simulation=name, role=s["role"], quantity=q, seconds=r["series_s"][::step],
                values=[v or 0.0 for v in s[q]][::step],
            )
            for s in r["series"]
            for q, _ in QUANTITIES
        ]  # fmt: skip
        bars += [
            RankBars(
                simulation=name, role=role["role"], work=_work(role)[0], counts=_work(role)[1],
                hit_rate=[k["hit_rate"] or 0.0 for k in role["ranks"]],
                busy_share=[k["busy_share"] or 0.0 for k in role["ranks"]],
            )
            for role in r["roles"]
        ]  # fmt: skip
    out = SimulationOut(
        plan=plan.label(),
        simulations=tuple(_simulated(n, r) for n, r in zip(names, results, strict=True)),
        differences=tuple(
            DifferenceOut(
                name=names[d["other"]], metric=d["metric"], difference=StatisticOut(**d["difference"]),
                relative=d["relative"], significant=d["significant"],
            )
            for d in document.get("differences", [])
        ),
        series_figure=series_figure(lines),
        ranks_figure=ranks_figure(bars),
    )  # fmt: skip
    return out.model_dump_json().encode()


def _work(role: dict[str, Any]) -> tuple[str, list[int]]:
    """Requests per rank; prompt tokens where requests are counted at the rank that serves them."""
    requests = [k["requests"] for k in role["ranks"]]
    return (
        ("requests", requests)
        if any(requests)
        else ("prompt tokens", [k["prefill_tokens"] for k in role["ranks"]])
    )


def _simulated(name: str, r: dict[str, Any]) -> SimulatedOut:
    busiest = {}
    for role in r["roles"]:
        _, counts = _work(role)
        mean = sum(counts) / len(counts) if counts else 0.0
        busiest[role["role"]] = max(counts) / mean if mean else None
    return SimulatedOut(
        name=name, requests=r["requests"], measured=r["measured"], failed=r["failed"], simulated_s=r["simulated_s"],
        output_tok_s_per_gpu=r["output_tok_s_per_gpu"], ttft_p50=StatisticOut(**r["ttft_ms"]["p50"]),
        ttft_p99=StatisticOut(**r["ttft_ms"]["p99"]), tpot_p50=StatisticOut(**r["tpot_ms"]["p50"]),
        tpot_p99=StatisticOut(**r["tpot_ms"]["p99"]), prefix_hit_rate=r["prefix_hit_rate"],
        goodput_per_s=r["goodput_per_s"], busiest_rank=busiest, notes=tuple(r["notes"]),
    )  # fmt: skip


@router.get("/experiments")
def experiments() -> ExperimentsOut:
    """The laws of the field, with what was published."""
    from planner.simulation.experiments.registry import EXPERIMENTS

    return ExperimentsOut(experiments=tuple(ExperimentOut.model_validate(e) for e in EXPERIMENTS.values()))


@router.get("/experiments/{name}", response_model=OutcomeOut)
async def experiment(
    state: State,
    request: Request,
    name: Annotated[str, InPath(max_length=80)],
    seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
) -> Response:
    """Run one experiment: our figures beside the published ones, and a verdict."""
    known = await state.answers.run(_find, name)
    made = await state.answers.slow_text(
        ("experiment", known, seed), partial(_experiment, state, known, seed)
    )
    return tagged(request, made)


def _find(name: str) -> str:
    from planner.simulation.experiments.registry import experiment as find

    return find(name).name


async def _experiment(state: ConsoleState, name: str, seed: int) -> bytes:
    document = await state.children.command("experiments", "run", name, "--seed", str(seed))
    found = document["results"][0]
    out = OutcomeOut(
        name=name,
        passed=found["passed"],
        headers=[str(x) for x in found["headers"]],
        rows=[[str(x) for x in row] for row in found["rows"]],
        checks=[CheckOut(statement=c["statement"], holds=c["holds"]) for c in found["checks"]],
        notes=[str(x) for x in found["notes"]],
    )
    return out.model_dump_json().encode()
