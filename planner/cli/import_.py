"""`planner import`: an existing deployment as a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.output import emit_json


def import_(
    files: Annotated[list[str], typer.Argument(help="Manifests or folders; '-' reads standard input.")],
    isl: Annotated[int | None, typer.Option("--isl", help="Prompt tokens per request.")] = None,
    osl: Annotated[int | None, typer.Option("--osl", help="Output tokens per request.")] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Requests in flight, whole deployment.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="GPU type, when the node selector does not say.")
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Node shape, e.g. coreweave-h200.")] = None,
    fabric: Annotated[str | None, typer.Option("--fabric", help="Scale-out network, e.g. ib-ndr400.")] = None,
    acceptance: Annotated[
        float | None, typer.Option("--acceptance", help="Share of drafted tokens accepted, 0 to 1.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the plan.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="File to write the plan to.")] = None,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Read an existing deployment into a plan, so that it can be priced and improved.

    Manifests written by planner export need no flags. Flags that a plan cannot hold are kept and named.
    """
    from planner.catalog.plans import dump_plan, save_plan
    from planner.domain.workload import Workload
    from planner.export.files import read_manifests
    from planner.export.parse import ImportHints, import_plan
    from planner.search.manifest_facts import CatalogueFacts

    hints = ImportHints(
        name=name,
        gpu=gpu,
        node=cluster,
        fabric=fabric,
        workload=Workload(isl=isl, osl=osl) if isl and osl else None,
        concurrency=concurrency,
        acceptance=acceptance,
    )
    documents = read_manifests(files, sys.stdin)
    got = import_plan(documents, facts=CatalogueFacts(profiles=profiles), hints=hints)
    for note in got.notes:
        sys.stderr.write(f"note: {note}\n")
    for role, flags in got.extra_flags.items():
        sys.stderr.write(f"note: {role.value}: not part of a plan: {' '.join(flags)}\n")
    if save is not None:
        save_plan(got.plan, save)
        sys.stderr.write(f"wrote {save}\n")
    if json:
        from planner.catalog.wire import unstructure

        extras = {r.value: list(f) for r, f in got.extra_flags.items()}
        emit_json("import", {"plan": unstructure(got.plan), "extra_flags": extras, "notes": list(got.notes)})
    elif save is None:
        sys.stdout.write(dump_plan(got.plan))
