"""`planner recipes check`: plan every recipe again and say what changed; ``--update`` keeps the new outcomes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_table, stdout
from planner.domain.errors import ExitCode

if TYPE_CHECKING:
    from planner.search.recipe_check import Change

SAME, CHANGED, NEW, UPDATED = "as expected", "changed", "nothing kept", "written"


def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Recipe names or files; default: all shipped ones.")
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Keep today's outcomes, and write recipes/README.md anew.")
    ] = False,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Plan recipes again and compare with the outcomes kept in ``expected/`` beside them.

    Exit status 1 when a plan or a reason differs, or a figure by more than 0.5 %. Your own calibrations are not used.
    """
    from planner.catalog.recipes import list_recipes, load_expected, load_recipe, recipe_path
    from planner.search.recipe_check import answer_recipe, compare, write_expected

    chosen = list(dict.fromkeys(names or list_recipes()))
    for name in chosen:  # every file is readable before the first is planned
        load_recipe(name, overlay=profiles)
    results: list[tuple[str, str, tuple[Change, ...]]] = []
    for name in chosen:
        found = answer_recipe(name, profiles=profiles).outcome
        path = recipe_path(name)
        kept = load_expected(path)
        changes = compare(kept, found) if kept is not None else ()
        status = NEW if kept is None else CHANGED if changes else SAME
        if update and kept != found:
            write_expected(found, path)
            status = UPDATED if status != SAME else SAME
        results.append((name, status, changes))
        if not json:
            _print_one(name, status, changes)
    page = _page_state(chosen, whole=not names, update=update)
    failed = [n for n, status, _ in results if status in {CHANGED, NEW}] + ([page] if page else [])
    if json:
        from planner.catalog.wire import unstructure

        emit_json(
            "recipes-check",
            {
                "recipes": [{"recipe": n, "status": s, "changes": unstructure(c)} for n, s, c in results],
                "page": page or "current",
            },
        )
    elif page:
        stdout().print(page, markup=False, soft_wrap=True)
    if failed:
        sys.stderr.write(
            f"{', '.join(failed)}: if that is meant, planner recipes check --update{_arguments(names)}\n"
        )
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


def _arguments(names: list[str] | None) -> str:
    return "".join(f" {n}" for n in names or ())


def _print_one(name: str, status: str, changes: tuple[Change, ...]) -> None:
    stdout().print(f"{name}: {status}", markup=False, soft_wrap=True)
    if changes:
        print_table(
            ["what", "kept", "today", "change"],
            [
                [c.field, c.expected, c.found, "" if c.percent is None else f"{c.percent:+.1f} %"]
                for c in changes
            ],
            right=(3,),
        )


def _page_state(chosen: list[str], *, whole: bool, update: bool) -> str:
    """Write or compare what stands beside all recipes; returns what is wrong with it, empty when nothing is."""
    from planner.catalog.locate import recipe_dir
    from planner.catalog.recipes import (
        list_recipes,
        load_expected,
        load_recipe,
        recipe_path,
        stray_outcomes,
        write_beside,
    )
    from planner.cli.recipes_page import page

    shipped = list_recipes()
    if not whole and not (update and set(chosen) & set(shipped)):
        return ""
    outcomes = {n: kept for n in shipped if (kept := load_expected(recipe_path(n))) is not None}
    text = page([load_recipe(n) for n in shipped], outcomes)
    path = recipe_dir() / "README.md"
    if update:
        write_beside(path, text)
        for stray in stray_outcomes():
            stray.unlink()
        return ""
    if strays := stray_outcomes():
        return f"no recipe for {', '.join(p.name for p in strays)}"
    current = path.is_file() and path.read_text(encoding="utf-8") == text
    return "" if current else f"{path.name} is stale"
