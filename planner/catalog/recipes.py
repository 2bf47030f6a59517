"""Load recipes: named inputs in ``recipes/``, or a file of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planner.catalog.documents import Document, read_document
from planner.catalog.findings import Report, refuse_errors
from planner.catalog.locate import recipe_dir
from planner.catalog.lookup import SUFFIXES, find_file, normalise, unknown
from planner.catalog.wire import structure
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.domain.recipe import PlannedOutcome, Recipe, RecipePool

PLANNED_ENGINE: Final = "vllm"


def load_recipe(name: str | Path, *, overlay: Path | None = None) -> Recipe:
    """Return the recipe named `name`, or the one in the file `name` points to.

    Text with a path separator or a YAML or JSON suffix is a path. Hardware names are resolved in the catalogue and
    `overlay`. Raises InputError ``recipe.unknown``, ``recipe.*`` (see `check_recipe`) or the file's structural problems;
    MissingDataError ``file.not_found`` for a path that is not there.
    """
    path = recipe_path(name)
    document = read_document(path)
    recipe = structure(document, Recipe)
    refuse_errors(check_recipe(recipe, document=document, overlay=overlay))
    return recipe


def list_recipes() -> tuple[str, ...]:
    """Return the names of the shipped recipes, sorted."""
    folder = recipe_dir()
    if not folder.is_dir():
        return ()
    return tuple(sorted(p.stem for p in folder.iterdir() if p.suffix in SUFFIXES and p.is_file()))


def expected_path(recipe: Path) -> Path:
    """Where the planned outcome of the recipe file `recipe` is kept: ``expected/<name>.yaml`` beside it."""
    return recipe.parent / "expected" / f"{recipe.stem}.yaml"


def load_expected(recipe: Path) -> PlannedOutcome | None:
    """Return the outcome kept for the recipe file `recipe`; None when none was written yet.

    Raises InputError with the file's structural problems.
    """
    path = expected_path(recipe)
    return structure(read_document(path), PlannedOutcome) if path.is_file() else None


def stray_outcomes() -> tuple[Path, ...]:
    """Outcomes kept for shipped recipes that are gone, sorted."""
    known = set(list_recipes())
    return tuple(sorted(p for p in (recipe_dir() / "expected").glob("*.yaml") if p.stem not in known))


def write_beside(path: Path, text: str) -> None:
    """Write a recipe, an outcome or the page of recipes. Raises InputError ``recipe.unwritable``."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise InputError(
            Issue(
                code="recipe.unwritable",
                what=f"cannot write {path}",
                why=e.strerror or str(e),
                fix="choose a folder you may write to; shipped recipes are changed in a checkout only",
                where=str(path),
            )
        ) from None


def check_recipe(
    recipe: Recipe, *, document: Document | None = None, overlay: Path | None = None
) -> tuple[Issue, ...]:
    """Return everything wrong with `recipe` that needs no model file.

    ``recipe.pools`` pools missing or given twice; ``recipe.value_range``; ``recipe.gpu_unknown``,
    ``recipe.fabric_unknown``, ``recipe.node_unknown``;
    ``recipe.why`` no reason given; ``recipe.engine`` an engine that is not planned for; ``recipe.fabrics_differ`` and
    ``recipe.node_of_role``: what two pools cannot have.
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
    if recipe.engine != PLANNED_ENGINE:
        r.add(
            "engine",
            ("engine",),
            what=f"engine '{recipe.engine}'",
            why=f"plans are made for {PLANNED_ENGINE}; the other engines' profiles serve validation and export",
            fix=f"write engine: {PLANNED_ENGINE}",
        )
    if recipe.prefill_pool is not None and recipe.decode_pool is not None:
        _check_two_pools(recipe.prefill_pool, recipe.decode_pool, r, overlay=overlay)
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


def _check_two_pools(prefill: RecipePool, decode: RecipePool, r: Report, *, overlay: Path | None) -> None:
    networks = {find_file("fabrics", p.fabric, overlay=overlay) for p in (prefill, decode)}
    if None not in networks and len(networks) > 1:
        r.add(
            "fabrics_differ",
            ("prefill_pool", "fabric"),
            what=f"prefill over {prefill.fabric}, decode over {decode.fabric}",
            why="the KV cache crosses from one pool to the other, so both are on one network",
            fix=f"give both the slower of the two, e.g. fabric: {decode.fabric}",
        )
    for key, pool in (("prefill_pool", prefill), ("decode_pool", decode)):
        if pool.node is not None:
            r.add(
                "node_of_role",
                (key, "node"),
                what=f"node shape '{pool.node}' for one of two pools",
                why="with two GPU types the usual shape of each is taken",
                fix="remove 'node:'; lay a shape of your own over ours with --profiles DIR",
            )


def _pool_names(recipe: Recipe) -> list[str]:
    return [k for k in ("pool", "prefill_pool", "decode_pool") if getattr(recipe, k) is not None]


def recipe_path(name: str | Path) -> Path:
    """Return the file of the shipped recipe `name`, or `name` itself when it is a path.

    Raises InputError ``recipe.unknown``; a path is not checked.
    """
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
