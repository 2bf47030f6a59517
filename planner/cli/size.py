"""`planner size`: how many GPUs a load needs, per GPU type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, stderr
from planner.domain.errors import ExitCode

Rate = Annotated[
    str | None,
    typer.Option("--rate", help="Requests that arrive: 20rps, 1200rpm or 72000rph; 20 means 20rps."),
]
Users = Annotated[
    int | None, typer.Option("--users", help="Concurrently active users, each with one request in flight.")
]
Gpus = Annotated[
    str | None,
    typer.Option("--gpu", help="GPU types, comma-separated. Default: all with measured kernels and a price."),
]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Node shape, e.g. coreweave-h200.")]
SpareNodes = Annotated[int, typer.Option("--spare-nodes", help="Carry the load with any N nodes lost.")]
RolloutOption = Annotated[
    str | None,
    typer.Option("--rollout", help="Keep room for a rollout: surge (new beside old) or in-place (in turn)."),
]

PriceTier = Annotated[
    str | None,
    typer.Option("--price-tier", help="Compare prices of one tier, e.g. neocloud, rental-3yr, oci-list."),
]


def size(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe for model, traffic and targets, or use the flags.")
    ] = None,
    model: o.Model = None,
    rate: Rate = None,
    users: Users = None,
    gpu: Gpus = None,
    fabric: o.Fabric = None,
    cluster: Cluster = None,
    isl: o.Isl = None,
    osl: o.Osl = None,
    prefix_hit: o.PrefixHit = None,
    prefix_shared: o.PrefixShared = None,
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    tok_s_user: o.TokSUser = None,
    spare_nodes: SpareNodes = 0,
    rollout: RolloutOption = None,
    strategy: o.StrategyOption = None,
    kv_dtype: o.KvDtypeOption = None,
    engine_version: o.EngineVersion = None,
    usd_per_gpu_hour: o.Price = None,
    price_tier: PriceTier = None,
    dbo: o.Dbo = None,
    eplb: o.EplbOption = None,
    mtp: o.Mtp = None,
    mtp_acceptance: o.MtpAcceptance = None,
    calibration: o.CalibrationOption = None,
    profiles: o.Profiles = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the plan of the cheapest fleet for later commands.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Find the smallest fleet that carries a load within the targets, per GPU type, with its plan and cost.

    GPUs are owned in whole nodes. Exit status 1 when no GPU type carries the load: what binds, and what would do.
    """
    from planner.search.ask import Request
    from planner.search.sizing.size import SizeRequest, read_gpus, recipe_request, size_fleet

    if save is not None:
        from planner.catalog.plans import check_writable

        check_writable(save)
    request = Request(
        model=model, fabric=fabric, node=cluster, isl=isl, osl=osl, prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft_ms=ttft_ms,
        tpot_ms=tpot_ms, tok_s_user=tok_s_user, strategy=strategy, kv_dtype=kv_dtype,
        engine_version=engine_version, usd_per_gpu_hour=usd_per_gpu_hour, dbo=dbo, eplb=eplb, mtp=mtp,
        mtp_acceptance=mtp_acceptance, calibration=calibration, profiles=profiles,
    )  # fmt: skip
    if recipe is not None:
        request = recipe_request(recipe, request)
    err = stderr()
    answer = size_fleet(
        SizeRequest(
            request=request,
            gpus=read_gpus(gpu),
            rate=rate,
            users=users,
            spare_nodes=spare_nodes,
            rollout=rollout,
            price_tier=price_tier,
        ),
        progress=lambda line: err.print(line, markup=False),
    )
    chosen = answer.chosen
    if save is not None and chosen is not None and chosen.fleet is not None:
        from planner.catalog.plans import save_plan

        save_plan(chosen.fleet.plan, save)
    if json:
        from planner.catalog.wire import unstructure

        emit_json("sizing", unstructure(answer))
    else:
        from planner.cli.render_size import print_sizing

        print_sizing(answer, saved=save if chosen is not None else None)
    if chosen is None:
        raise typer.Exit(int(ExitCode.ANSWERED_NO))
