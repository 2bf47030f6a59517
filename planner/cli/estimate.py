"""`planner estimate`: price one configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json


def estimate(
    plan: Annotated[Path | None, typer.Argument(help="A saved plan; or describe one with the flags.")] = None,
    aggregated: Annotated[str | None, typer.Option("--aggregated", help="Role, e.g. 2x(tp1,dp16).")] = None,
    prefill: Annotated[str | None, typer.Option("--prefill", help="Prefill role, e.g. 2x(tp1,dp8).")] = None,
    decode: Annotated[
        str | None, typer.Option("--decode", help="Decode role, e.g. 1x(tp1,dp16,dbo).")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Requests in flight, whole plan.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Take model, hardware and traffic from it.")
    ] = None,
    points: Annotated[
        Path | None, typer.Option("--points", help="Price every row of a measured-points CSV.")
    ] = None,
    model: o.Model = None,
    gpu: o.Gpu = None,
    fabric: o.Fabric = None,
    cluster: o.Cluster = None,
    gpus: o.Gpus = None,
    prefill_gpu: o.PrefillGpu = None,
    decode_gpu: o.DecodeGpu = None,
    prefill_gpus: o.PrefillGpus = None,
    decode_gpus: o.DecodeGpus = None,
    isl: o.Isl = None,
    osl: o.Osl = None,
    prefix_hit: o.PrefixHit = None,
    prefix_shared: o.PrefixShared = None,
    engine_version: o.EngineVersion = None,
    usd_per_gpu_hour: o.Price = None,
    mtp: o.Mtp = None,
    mtp_acceptance: o.MtpAcceptance = None,
    calibration: o.CalibrationOption = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Price one configuration: step time, memory, rates, each with interval and provenance.

    A saved plan carries its own hardware and traffic. From flags, give the widths with --aggregated, or with --prefill
    and --decode; --gpus defaults to what the roles use.
    """
    if points is not None:
        from planner.cli.estimate_points import estimate_points

        estimate_points(points, profiles=profiles, json=json)
        return
    from planner.search.ask import Request
    from planner.search.price import price_plan, price_roles

    if plan is not None:
        from planner.catalog.plans import load_plan

        priced = price_plan(load_plan(plan), concurrency=concurrency, profiles=profiles, usd=usd_per_gpu_hour)
    else:
        flags = Request(
            model=model, gpu=gpu, fabric=fabric, node=cluster, gpus=gpus, prefill_gpu=prefill_gpu,
            decode_gpu=decode_gpu, prefill_gpus=prefill_gpus, decode_gpus=decode_gpus, isl=isl, osl=osl,
            prefix_hit=prefix_hit, prefix_shared=prefix_shared, engine_version=engine_version, usd_per_gpu_hour=usd_per_gpu_hour, mtp=mtp, mtp_acceptance=mtp_acceptance, calibration=calibration, profiles=profiles,
        )  # fmt: skip
        if recipe is not None:
            from planner.search.from_recipe import with_recipe

            flags = with_recipe(recipe, flags)
        priced = price_roles(
            flags, aggregated=aggregated, prefill=prefill, decode=decode, concurrency=concurrency
        )
    if json:
        from planner.catalog.wire import unstructure

        emit_json(
            "estimate", {"plan": unstructure(priced.plan), "evaluation": unstructure(priced.evaluation)}
        )
        return
    from planner.cli.render_evaluation import print_evaluation

    print_evaluation(priced)
