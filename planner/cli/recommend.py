"""`planner recommend`: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.completing import recipe_names
from planner.cli.output import emit_json
from planner.domain.errors import ExitCode
from planner.domain.hardware import Pool


def recommend(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe (planner recipes list), or use the flags.", autocompletion=recipe_names
        ),
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
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    tok_s_user: o.TokSUser = None,
    strategy: o.StrategyOption = None,
    kv_dtype: o.KvDtypeOption = None,
    engine_version: o.EngineVersion = None,
    usd_per_gpu_hour: o.Price = None,
    dbo: o.Dbo = None,
    eplb: o.EplbOption = None,
    mtp: o.Mtp = None,
    mtp_acceptance: o.MtpAcceptance = None,
    calibration: o.CalibrationOption = None,
    profiles: o.Profiles = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the picked plan for later commands.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Find the deployments worth running and pick one, with reasons.

    Every legal configuration is priced at every load; the front is exact for the model. Exit status 1 when nothing
    meets the targets: the nearest plan and what would be needed are shown.
    """
    from planner.search.ask import Request, build_problem

    if save is not None:
        from planner.catalog.plans import check_writable

        check_writable(save)
    # `--cluster live` replaces what a recipe says about hardware
    flags = Request(
        model=model, gpu=gpu, fabric=fabric, node=None if cluster == "live" else cluster, gpus=gpus, prefill_gpu=prefill_gpu, decode_gpu=decode_gpu,
        prefill_gpus=prefill_gpus, decode_gpus=decode_gpus, isl=isl, osl=osl, prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft_ms=ttft_ms,
        tpot_ms=tpot_ms, tok_s_user=tok_s_user, strategy=strategy, kv_dtype=kv_dtype, engine_version=engine_version,
        usd_per_gpu_hour=usd_per_gpu_hour, dbo=dbo, eplb=eplb, mtp=mtp, mtp_acceptance=mtp_acceptance, calibration=calibration, profiles=profiles,
    )  # fmt: skip
    if recipe is not None:
        from planner.search.from_recipe import with_recipe

        flags = with_recipe(recipe, flags)
        if cluster == "live":
            flags = replace(flags, gpu=gpu, fabric=fabric, node=None, gpus=gpus)
    problem, engine = build_problem(
        flags, found_pool=_live_pool(flags.profiles) if cluster == "live" else None
    )

    from planner.search.recommend import recommend as answer

    recommendation = answer(problem, engine)
    if save is not None and recommendation.pick is not None:
        from planner.catalog.plans import save_plan

        save_plan(recommendation.pick.plan, save)
    if json:
        from planner.catalog.wire import unstructure

        emit_json("recommendation", unstructure(recommendation))
    else:
        from planner.cli.render_recommendation import print_recommendation

        print_recommendation(recommendation, saved=save if recommendation.pick else None)
    if recommendation.pick is None:
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


def _live_pool(profiles: Path | None) -> Pool:
    """The largest pool of GPUs in the cluster of the current context."""
    from planner.cli.cluster import live_hardware

    return live_hardware(profiles=profiles).pools[0].pool
