"""`planner tui`: the terminal app."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.completing import recipe_names
from planner.domain.errors import InputError, Issue

DEFAULT_RECIPE = "deepseek-r1-h200x32"


def tui(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help=f"A recipe (planner recipes list); default {DEFAULT_RECIPE}.", autocompletion=recipe_names
        ),
    ] = None,
    model: o.Model = None,
    gpu: o.Gpu = None,
    fabric: o.Fabric = None,
    cluster: o.Cluster = None,
    gpus: o.Gpus = None,
    isl: o.Isl = None,
    osl: o.Osl = None,
    prefix_hit: o.PrefixHit = None,
    prefix_shared: o.PrefixShared = None,
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    tok_s_user: o.TokSUser = None,
    profiles: o.Profiles = None,
    study: Annotated[
        str | None, typer.Option("--study", help="Open a saved study (planner studies list).")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="Context of the kubeconfig, for the cluster screen.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace; default: the context's.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="A recording instead of a cluster (planner cluster record)."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed", min=0.01, help="Play the recording this many times faster; default: its end."
        ),
    ] = None,
    theme: Annotated[
        str | None, typer.Option("--theme", help="wideplan-dark, wideplan-light, high-contrast or no-colour.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings file; default: the user's (docs/tui.md).")
    ] = None,
) -> None:
    """Explore the frontier, compare and export plans in the terminal. Nothing is ever changed in a cluster."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            Issue(
                code="tui.no-terminal",
                what="planner tui without a terminal",
                why="input or output is a file or a pipe",
                fix="run it in a terminal; planner recommend prints the same answer as text or --json",
            )
        )
    from console.tui.run import run
    from console.tui.services import ClusterChoice
    from planner.search.ask import Request

    flags = Request(
        model=model, gpu=gpu, fabric=fabric, node=cluster, gpus=gpus, isl=isl, osl=osl, prefix_hit=prefix_hit, prefix_shared=prefix_shared,
        ttft_ms=ttft_ms, tpot_ms=tpot_ms, tok_s_user=tok_s_user, profiles=profiles,
    )  # fmt: skip
    asked = model is not None or gpu is not None or gpus is not None or cluster is not None
    name = recipe if recipe is not None or asked or study is not None else DEFAULT_RECIPE
    choice = ClusterChoice(context=context, namespace=namespace, replay=replay, speed=speed)
    status = run(flags, recipe=name, theme=theme, config=config, cluster=choice, study=study)
    if status:
        raise typer.Exit(status)
