"""`planner recipes`: named, tested inputs."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_table, stdout

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_command(profiles: o.Profiles = None, json: o.Json = False) -> None:
    """List the recipes with model, hardware and traffic."""
    from planner.catalog.recipes import list_recipes, load_recipe
    from planner.catalog.wire import unstructure

    recipes = [load_recipe(name, overlay=profiles) for name in list_recipes()]
    if json:
        emit_json("recipes", {"recipes": unstructure(tuple(recipes))})
        return
    print_table(
        ["recipe", "model", "hardware", "in/out", "targets"],
        [
            [
                r.id,
                r.model.rsplit("/", 1)[-1],
                " + ".join(f"{p.gpus}x {p.gpu} {p.fabric}" for p in r.pools),
                f"{r.workload.isl}/{r.workload.osl}",
                _targets(r.slo.ttft_ms, r.slo.tpot_ms, r.slo.tok_s_user),
            ]
            for r in recipes
        ],
    )


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Recipe name or file.")],
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Show one recipe and the command it stands for."""
    from planner.catalog.recipes import load_recipe
    from planner.catalog.wire import unstructure

    recipe = load_recipe(name, overlay=profiles)
    if json:
        emit_json("recipe", unstructure(recipe))
        return
    out = stdout()
    out.print(f"[bold]{recipe.id}[/bold]  {recipe.why}")
    out.print(f"  model     {recipe.model}", markup=False)
    for pool in recipe.pools:
        out.print(f"  hardware  {pool.gpus} x {pool.gpu} over {pool.fabric}", markup=False)
    out.print(
        f"  traffic   {recipe.workload.isl} in / {recipe.workload.osl} out, prefix hit {recipe.workload.prefix_hit:g}",
        markup=False,
    )
    out.print(
        f"  targets   {_targets(recipe.slo.ttft_ms, recipe.slo.tpot_ms, recipe.slo.tok_s_user)}", markup=False
    )
    out.print(f"  run       planner recommend {recipe.id}", markup=False)


def _targets(ttft: float | None, tpot: float | None, user: float | None) -> str:
    parts = [
        f"TTFT {ttft:g} ms" if ttft is not None else "",
        f"TPOT {tpot:g} ms" if tpot is not None else "",
        f"{user:g} tok/s/user" if user is not None else "",
    ]
    return ", ".join(p for p in parts if p) or "none"
