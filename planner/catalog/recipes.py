"""Load recipes: named inputs in ``recipes/``, or a file of the user's own."""

from __future__ import annotations

from pathlib import Path

from planner.catalog.documents import Document, read_document
from planner.catalog.findings import Report, refuse_errors
from planner.catalog.locate import recipe_dir
from planner.catalog.lookup import SUFFIXES, find_file, normalise, unknown
from planner.catalog.wire import structure
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.domain.recipe import Recipe, RecipePool


def load_recipe(name: str | Path, *, overlay: Path | None = None) -> Recipe:
    """Return the recipe named `name`, or the one in the file `name` points to.

    Text with a path separator or a YAML or JSON suffix is a path. Hardware names are resolved in the catalogue and
    `overlay`. Raises InputError ``recipe.unknown``, ``recipe.*`` (see `check_recipe`) or the file's structural problems;
    MissingDataError ``file.not_found`` for a path that is not there.
    """
    path = _path_of(name)
    document = read_document(path)
    recipe = structure(document, Recipe)
    refuse_errors(check_recipe(recipe, document=document, overlay=overlay))
    return recipe


def list_recipes() -> tuple[str, ...]:
    """Return the names of the shipped recipes, sorted."""
    folder = recipe_dir()
    return tuple(sorted(p.stem for p in folder.iterdir() if p.suffix in SUFFIXES)) if folder.is_dir() else ()


def check_recipe(
    recipe: Recipe, *, document: Document | None = None, overlay: Path | None = None
) -> tuple[Issue, ...]:
    """Return everything wrong with `recipe` that needs no model file.

    ``recipe.pools`` pools missing or given twice; ``recipe.value_range``; ``recipe.gpu_unknown``,
    ``recipe.fabric_unknown``, ``recipe.node_unknown``;
    ``recipe.why`` no reason given.
    """
    r = Report("recipe", document)
    shared, split = recipe.pool is not None, (recipe.prefill_pool is not None, recipe.decode_pool is not None)
    if shared == any(split) or (not shared and not all(split)):
        r.add(
            "pools",
            ("pool",),
            what="pools given: " + (", ".join(_pool_names(recipe)) or "none"),
            why="prefill and decode either share one pool or have one each",
            fix="give 'pool:', or both 'prefill_pool:' and 'decode_pool:'",
        )
    if not recipe.why.strip():
        r.add(
            "why",
            ("why",),
            what="no reason given",
            why="a recipe says what it is for",
            fix="write one sentence",
        )
    w, slo = recipe.workload, recipe.slo
    r.positive({"workload.isl": w.isl, "workload.osl": w.osl})
    r.positive({"workload.length_cv": w.length_cv}, zero_ok=True)
    r.positive({"slo.ttft_ms": slo.ttft_ms, "slo.tpot_ms": slo.tpot_ms, "slo.tok_s_user": slo.tok_s_user})
    r.positive({"usd_per_gpu_hour": recipe.usd_per_gpu_hour})
    if not 0 <= w.prefix_hit < 1:
        r.add(
            "value_range",
            ("workload", "prefix_hit"),
            what=f"prefix_hit is {w.prefix_hit:g}",
            why="it is the fraction of prompt tokens found in the cache: 0 or more, less than 1",
            fix="give a fraction, e.g. 0.3",
        )
    for key in _pool_names(recipe):
        pool: RecipePool = getattr(recipe, key)
        r.positive({f"{key}.gpus": pool.gpus})
        for kind, noun, name in (("gpus", "gpu", pool.gpu), ("fabrics", "fabric", pool.fabric),
                                 ("clusters", "node", pool.node)):  # fmt: skip
            if name is not None and find_file(kind, name, overlay=overlay) is None:
                issue = unknown(kind, name, noun=noun, overlay=overlay)
                r.add(f"{noun}_unknown", (key, noun), what=issue.what, why=issue.why, fix=issue.fix)
    return tuple(r.issues)


def _pool_names(recipe: Recipe) -> list[str]:
    return [k for k in ("pool", "prefill_pool", "decode_pool") if getattr(recipe, k) is not None]


def _path_of(name: str | Path) -> Path:
    if isinstance(name, Path) or "/" in name or name.endswith(SUFFIXES):
        return Path(name)
    for suffix in SUFFIXES:
        path = recipe_dir() / (normalise(name) + suffix)
        if path.is_file():
            return path
    raise InputError(
        Issue(
            code="recipe.unknown",
            what=f"unknown recipe '{name}'",
            why="no file in recipes/ has this name",
            fix=f"{did_you_mean(name, list_recipes())} A file of your own is given with its path: ./{name}.yaml",
        )
    )
