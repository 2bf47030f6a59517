"""`planner recipes new`: a checked recipe file in the current folder."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_lines, stdout
from planner.domain.errors import InputError, Issue

if TYPE_CHECKING:
    from planner.domain.hardware import Pool
    from planner.domain.problem import PlanningProblem
    from planner.domain.recipe import Recipe, RecipePool
    from planner.search.ask import Request

ORDER = (
    "id", "family", "why", "model", "pool", "prefill_pool", "decode_pool", "workload", "slo", "strategies", "engine",
    "engine_version", "usd_per_gpu_hour",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def new(
    name: Annotated[str, typer.Argument(help="Name of the recipe; the file is NAME.yaml.")],
    model: o.Model = None,
    gpu: o.Gpu = None,
    gpus: o.Gpus = None,
    fabric: o.Fabric = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Node shape, e.g. coreweave-h200.")] = None,
    prefill_gpu: o.PrefillGpu = None,
    prefill_gpus: o.PrefillGpus = None,
    decode_gpu: o.DecodeGpu = None,
    decode_gpus: o.DecodeGpus = None,
    isl: o.Isl = None,
    osl: o.Osl = None,
    prefix_hit: o.PrefixHit = None,
    prefix_shared: o.PrefixShared = None,
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    tok_s_user: o.TokSUser = None,
    strategy: o.StrategyOption = None,
    engine_version: o.EngineVersion = None,
    usd_per_gpu_hour: o.Price = None,
    why: Annotated[str | None, typer.Option("--why", help="One sentence: what this recipe is for.")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A recipe to start from; flags change what they name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite NAME.yaml.")] = False,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Write a recipe to NAME.yaml in the current folder, after checking that it can be planned.

    What is not said is filled in as `planner recommend` would, and written out.
    """
    from planner.catalog.recipes import load_recipe, write_beside
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe

    path = _path(name, force=force)
    flags = Request(
        model=model, gpu=gpu, gpus=gpus, fabric=fabric, node=cluster, prefill_gpu=prefill_gpu,
        prefill_gpus=prefill_gpus, decode_gpu=decode_gpu, decode_gpus=decode_gpus, isl=isl, osl=osl,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft_ms=ttft_ms, tpot_ms=tpot_ms, tok_s_user=tok_s_user, strategy=strategy,
        engine_version=engine_version, usd_per_gpu_hour=usd_per_gpu_hour, profiles=profiles, calibration=False,
    )  # fmt: skip
    origin = load_recipe(source, overlay=profiles) if source is not None else None
    asked = _asked(flags, with_recipe(source, flags) if source is not None else None)
    problem, _ = build_problem(replace(asked, name=name))
    recipe = _recipe(problem, asked, why=why or _why(problem, flags, origin), origin=origin)
    text = _text(recipe)
    _refuse_if_wrong(text, path, profiles)
    write_beside(path, text)
    if json:
        from planner.catalog.wire import unstructure

        emit_json("recipe-new", {"file": str(path), "recipe": unstructure(recipe)})
        return
    stdout().print(f"wrote {path}", markup=False, soft_wrap=True)
    print_lines(recipe.why)
    overlay = f" --profiles {profiles}" if profiles is not None else ""
    stdout().print(f"Next: planner recommend ./{path}{overlay}", markup=False, soft_wrap=True)


def _path(name: str, *, force: bool) -> Path:
    if _NAME.fullmatch(name) is None:
        raise InputError(
            Issue(
                code="recipe.name",
                what=f"recipe name '{name}'",
                why="it becomes a file name and the name of Kubernetes objects",
                fix="use lower-case letters, digits, '.', '_' and '-', at most 63, starting with a letter or digit",
            )
        )
    path = Path(f"{name}.yaml")
    if path.exists() and not force:
        raise InputError(
            Issue(
                code="recipe.exists",
                what=f"{path} exists",
                why="a recipe is not overwritten unasked",
                fix="choose another name, or add --force",
                where=str(path),
            )
        )
    return path


def _asked(flags: Request, base: Request | None) -> Request:
    """`base` with the flags over it, without what the flags make meaningless."""
    if base is None:
        return flags
    split = any((flags.prefill_gpu, flags.prefill_gpus, flags.decode_gpu, flags.decode_gpus))
    if split and flags.gpu is None:
        base = replace(base, gpu=None, gpus=None, node=None, strategy=flags.strategy)
    elif flags.gpu or flags.gpus:
        base = replace(
            base, prefill_gpu=flags.prefill_gpu, prefill_gpus=flags.prefill_gpus, decode_gpu=flags.decode_gpu,
            decode_gpus=flags.decode_gpus,
        )  # fmt: skip
    if any((flags.gpu, flags.prefill_gpu, flags.decode_gpu)):  # the old GPU's price and node shape
        base = replace(base, usd_per_gpu_hour=flags.usd_per_gpu_hour, node=flags.node)
    elif flags.fabric:
        base = replace(base, node=flags.node)
    return base


def _recipe(problem: PlanningProblem, asked: Request, *, why: str, origin: Recipe | None) -> Recipe:
    """The problem as a recipe: every name resolved, every default written out."""
    from planner.domain.recipe import Recipe

    own = asked.model is not None and Path(asked.model).is_file()  # a config.json is found by its path only
    shared = problem.prefill_pool is problem.decode_pool
    decode = _pool(problem.decode_pool, node=asked.node is not None and shared)
    return Recipe(
        id=problem.name,
        family=origin.family if origin is not None else None,
        why=why,
        model=str(asked.model) if own else problem.model.id,
        pool=decode if shared else None,
        prefill_pool=None if shared else _pool(problem.prefill_pool, node=False),
        decode_pool=None if shared else decode,
        workload=problem.workload,
        slo=problem.slo,
        strategies=(asked.strategy,) if asked.strategy is not None else (),
        usd_per_gpu_hour=asked.usd_per_gpu_hour,
        engine=problem.engine,
        engine_version=problem.engine_version,
    )


def _pool(pool: Pool, *, node: bool) -> RecipePool:
    from planner.domain.recipe import RecipePool

    return RecipePool(
        gpu=pool.gpu.id, gpus=pool.gpus, fabric=pool.fabric.id, node=pool.node.id if node else None
    )


def _why(problem: PlanningProblem, flags: Request, origin: Recipe | None) -> str:
    if origin is None:
        w, prefill, decode = problem.workload, problem.prefill_pool, problem.decode_pool
        pools = (decode,) if prefill is decode else (prefill, decode)
        hardware = " and ".join(f"{p.gpus} x {p.gpu.id}" for p in pools)
        return f"{problem.model.id} on {hardware} for {w.isl:,} tokens in and {w.osl:,} out."
    changed = [
        f"--{'cluster' if field.name == 'node' else field.name.replace('_', '-')} {_plain(getattr(flags, field.name))}"
        for field in fields(flags)
        if field.name not in {"profiles", "calibration"} and getattr(flags, field.name) is not None
    ]
    return f"Like {origin.id}" + (f" with {' '.join(changed)}." if changed else ".")


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(recipe: Recipe) -> str:
    """The file: what is empty or zero by default is left out."""
    from planner.catalog.wire import unstructure
    from planner.export.yaml import dump_document

    lean = {"slo": {}, **_lean(unstructure(recipe))}
    return dump_document({key: lean[key] for key in ORDER if key in lean})


def _lean(value: dict[str, Any]) -> dict[str, Any]:
    """`value` without what is empty, zero or off; whole numbers without a decimal point."""
    out: dict[str, Any] = {}
    for key, v in value.items():
        if isinstance(v, dict):
            out[key] = _lean(v)
        elif v:
            out[key] = int(v) if isinstance(v, float) and v.is_integer() else v
    return out


def _refuse_if_wrong(text: str, path: Path, profiles: Path | None) -> None:
    """What is written is read back first: a recipe that cannot be loaded is not written."""
    from planner.catalog.documents import parse_document
    from planner.catalog.findings import refuse_errors
    from planner.catalog.recipes import check_recipe
    from planner.catalog.wire import structure
    from planner.domain.recipe import Recipe

    document = parse_document(text, name=str(path))
    refuse_errors(check_recipe(structure(document, Recipe), document=document, overlay=profiles))
