"""`planner why-not`: why a configuration is not legal or not on the frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, stdout
from planner.domain.errors import ExitCode


def why_not(
    recipe: Annotated[str | None, typer.Argument(help="A recipe, or use the flags.")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="A saved plan, instead of roles.")] = None,
    aggregated: Annotated[str | None, typer.Option("--aggregated", help="Role, e.g. 2x(tp1,dp16).")] = None,
    prefill: Annotated[str | None, typer.Option("--prefill", help="Prefill role, e.g. 2x(tp1,dp8).")] = None,
    decode: Annotated[
        str | None, typer.Option("--decode", help="Decode role, e.g. 1x(tp1,dp16,dbo).")
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
    engine_version: o.EngineVersion = None,
    mtp: o.Mtp = None,
    mtp_acceptance: o.MtpAcceptance = None,
    calibration: o.CalibrationOption = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Say why a configuration is not legal or not on the frontier: rule, numbers, what would make it so.

    A saved plan (--plan) brings its own model, hardware, traffic and targets; flags beside it win.
    Exit status 0 when it is on the frontier, 1 when it is not.
    """
    from planner.search.ask import Request
    from planner.search.price import describe, describe_saved
    from planner.search.why_not import Verdict
    from planner.search.why_not import why_not as answer

    flags = Request(
        model=model, gpu=gpu, fabric=fabric, node=cluster, gpus=gpus, prefill_gpu=prefill_gpu, decode_gpu=decode_gpu,
        prefill_gpus=prefill_gpus, decode_gpus=decode_gpus, isl=isl, osl=osl, prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft_ms=ttft_ms,
        tpot_ms=tpot_ms, tok_s_user=tok_s_user, engine_version=engine_version, mtp=mtp, mtp_acceptance=mtp_acceptance, calibration=calibration, profiles=profiles,
    )  # fmt: skip
    if plan is not None:
        from planner.catalog.plans import load_plan

        asked = load_plan(plan)
        problem, engine = describe_saved(asked, flags)
    else:
        if recipe is not None:
            from planner.search.from_recipe import with_recipe

            flags = with_recipe(recipe, flags)
        asked, problem, engine = describe(
            flags, aggregated=aggregated, prefill=prefill, decode=decode, concurrency=None
        )
    result = answer(asked, problem, engine)
    if json:
        from planner.catalog.wire import unstructure

        emit_json("why-not", unstructure(result))
    else:
        out = stdout()
        out.print(f"[bold]{result.plan.label()}[/bold]: {result.verdict.value}")
        for issue in result.issues:
            out.print(
                f"  {issue.code}: {issue.what}\n    why: {issue.why}\n    fix: {issue.fix}", markup=False
            )
        for line in result.explanation:
            out.print(f"  - {line}", markup=False)
        if result.evaluation is not None:
            from planner.cli.render_recommendation import print_numbers

            out.print(f"at {result.plan.concurrency:,} requests in flight:")
            print_numbers(result.evaluation)
    if result.verdict is not Verdict.ON_FRONT:
        raise typer.Exit(int(ExitCode.ANSWERED_NO))
