"""`planner schemas`: the JSON Schema of every document that wideplan prints or saves."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli import options as o
from planner.cli.completing import schema_names
from planner.cli.output import emit_json, print_table
from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean

_SUFFIX = ".v1.json"

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("list")
def list_schemas(json: o.Json = False) -> None:
    """Name, content and who writes it."""
    found = [_read(path) for path in _files()]
    rows = [
        {
            "name": _name(path),
            "title": str(schema["title"]),
            "written_by": str(schema["description"]).removeprefix("Written by: "),
        }
        for path, schema in zip(_files(), found, strict=True)
    ]
    if json:
        emit_json("schemas", {"schemas": rows})
        return
    print_table(["schema", "content", "written by"], [tuple(r.values()) for r in rows])


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Name as in planner schemas list, e.g. recommendation.", autocompletion=schema_names
        ),
    ],
) -> None:
    """Print one JSON Schema (draft 2020-12)."""
    known = {_name(p): p for p in _files()}
    wanted = name.removeprefix("wideplan.").removesuffix("/v1")
    if wanted not in known:
        raise InputError(
            Issue(
                code="schema.unknown",
                what=f"'{name}' is not a document",
                why=f"{len(known)} documents have a schema",
                fix=f"{did_you_mean(wanted, known)} See planner schemas list",
            )
        )
    sys.stdout.write(known[wanted].read_text(encoding="utf-8"))


def _files() -> list[Path]:
    from planner.catalog.locate import data_root

    folder = data_root() / "schemas"
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    if not found:
        raise MissingDataError(
            Issue(
                code="data.missing",
                what=f"no schemas in {folder}",
                why="the data files are part of the installation and are not here",
                fix="reinstall wideplan, or run from a complete checkout",
            )
        )
    return found


def _name(path: Path) -> str:
    return path.name.removesuffix(_SUFFIX)


def _read(path: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json_module.loads(path.read_text(encoding="utf-8"))
    return schema
