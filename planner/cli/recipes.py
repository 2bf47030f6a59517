"""`planner recipes`: named, tested inputs, with what the planner answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.completing import recipe_names
from planner.cli.output import emit_json, print_lines, print_table, stdout
from planner.cli.recipes_check import check
from planner.cli.recipes_new import new
from planner.cli.recipes_page import (
    by_family,
    cost_text,
    hardware_text,
    interval,
    published_text,
    rate_text,
    targets_text,
    traffic_text,
)

if TYPE_CHECKING:
    from planner.domain.recipe import ExpectedOutcome, PlannedOutcome, Recipe

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_command(profiles: o.Profiles = None, json: o.Json = False) -> None:
    """List the recipes by question, with traffic, targets and the rate their picks are expected to reach."""
    from planner.catalog.recipes import list_recipes, load_expected, load_recipe, recipe_path
    from planner.catalog.wire import unstructure

    recipes = [load_recipe(name, overlay=profiles) for name in list_recipes()]
    if json:
        emit_json("recipes", {"recipes": unstructure(tuple(recipes))})
        return
    for heading, members in by_family(recipes):
        rows = []
        for r in members:
            kept = load_expected(recipe_path(r.id))
            rows.append(
                [r.id, hardware_text(r).replace(" + ", "\n"), f"{r.workload.isl}/{r.workload.osl}",
                 _ms(r.slo.ttft_ms), _ms(r.slo.tpot_limit_ms), _rate(kept)]
            )  # fmt: skip
        print_table(
            ["recipe", "hardware", "in/out", "TTFT", "TPOT", "tok/s/GPU"],
            rows,
            title=f"\n{heading}",
            right=(2, 3, 4, 5),
        )
    stdout().print(
        "Targets in ms; rates are output tokens/s per GPU owned. The plan and why: planner recipes show NAME.",
        soft_wrap=True,
    )


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Recipe name or file.", autocompletion=recipe_names)],
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Show one recipe, the plan expected for it, what was published, and the commands to go on with."""
    from planner.catalog.recipes import load_expected, load_recipe, recipe_path
    from planner.catalog.wire import unstructure

    recipe = load_recipe(name, overlay=profiles)
    planned = load_expected(recipe_path(name))
    if json:
        emit_json("recipe", {**unstructure(recipe), "planned": unstructure(planned)})
        return
    stdout().print(f"[bold]{recipe.id}[/bold]")
    print_lines(recipe.why)
    print_lines(f"model     {recipe.model}")
    for pool in recipe.pools:
        node = f", node shape {pool.node}" if pool.node else ""
        print_lines(f"hardware  {pool.gpus} x {pool.gpu} over {pool.fabric}{node}")
    print_lines(f"traffic   {traffic_text(recipe)}")
    print_lines(f"targets   {targets_text(recipe)} (medians)")
    if recipe.strategies:
        print_lines(f"only      {', '.join(s.value for s in recipe.strategies)}")
    if planned is not None:
        _print_planned(planned)
    if recipe.expected is not None:
        _print_published(recipe.expected, planned)
    _print_commands(name, recipe, planned)


app.command("new")(new)
app.command("check")(check)


def _print_planned(p: PlannedOutcome) -> None:
    label = "Expected plan" if p.feasible else "No plan meets the targets; the nearest"
    stdout().print(
        f"\n[bold]{label}[/bold] ({p.engine}, model {p.model_version}, calibration {p.calibration})"
    )
    for role, plan in zip(p.roles, p.plan, strict=True):
        print_lines(f"{role:<10} {plan}")
    if p.figures is not None:
        f = p.figures
        usd = cost_text(f.usd_per_m_output_tokens)
        cost = f", {usd} $/M output tokens" if usd else ""
        print_lines(
            f"output {interval(f.output_tok_s_per_gpu)} tok/s/GPU, {f.tok_s_user:.1f} tok/s/user, TTFT "
            f"{interval(f.ttft_ms)} ms, TPOT {interval(f.tpot_ms)} ms, {f.concurrency:,} requests in flight, "
            f"{p.gpus_used} of {p.gpus_owned} GPUs{cost}"
        )
    print_lines(f"binding: {p.binding}")
    for line in p.needed:
        print_lines(f"would do: {line}")
    if p.other is not None:
        print_lines(
            f"best {p.other.strategy.value} plan: {p.other.plan}, {rate_text(p.other.output_tok_s_per_gpu)} tok/s/GPU"
        )
    if p.provenance is not None:
        basis = f"extrapolates in {', '.join(p.extrapolates)}" if p.extrapolates else "interpolates"
        print_lines(f"weakest source: {p.provenance.value}; {basis}; intervals are 80 %")


def _print_published(e: ExpectedOutcome, planned: PlannedOutcome | None) -> None:

    out = stdout()
    out.print("\n[bold]Published[/bold]" + ("" if e.source.confirmed else " (not confirmed)"))
    ours = planned.figures.output_tok_s_per_gpu if planned and planned.figures else None
    beside = f"; expected here {interval(ours)}" if ours else ""
    if ours is not None and not e.overlaps(ours):
        beside += ", which does not reach it"
    kind = f", {e.strategy.value}" if e.strategy else ""
    print_lines(f"{published_text(e)} output tok/s/GPU{kind}{beside}")
    print_lines(f"{e.source.source}; {e.source.date}{'; ' + e.source.note if e.source.note else ''}")


def _print_commands(name: str, recipe: Recipe, planned: PlannedOutcome | None) -> None:
    out = stdout()
    out.print("\n[bold]Next[/bold]")
    out.print(f"  planner recommend {name}", markup=False)
    if planned is not None and planned.plan:
        flags = " ".join(f"--{r} '{p}'" for r, p in zip(planned.roles, planned.plan, strict=True))
        load = f" --concurrency {planned.figures.concurrency}" if planned.figures else ""
        out.print(f"  planner estimate --recipe {name} {flags}{load}", markup=False, soft_wrap=True)
    out.print(f"  planner recipes new my-{recipe.id} --from {name}", markup=False, soft_wrap=True)


def _ms(target: float | None) -> str:
    return "-" if target is None else f"{target:g}"


def _rate(kept: PlannedOutcome | None) -> str:
    if kept is None or kept.figures is None:
        return "-"
    return rate_text(kept.figures.output_tok_s_per_gpu.value) if kept.feasible else "no plan"
