"""``planner profiles fit-operators``: refit the operator curves from the measured tables (developer command)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from planner.perf.operators.fit.build import FitError


def fit_operators(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to; default: profiles/operators of this installation."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the held-out errors as JSON.")] = False,
) -> None:
    """Fit compact operator curves from the tables of aiconfigurator-core 0.12 (extra ``opdb``)."""
    from planner.catalog.locate import data_root
    from planner.cli import output
    from planner.perf.operators.fit.build import fit_operators as run
    from planner.perf.operators.fit.build import summary

    folder = out if out is not None else data_root() / "profiles" / "operators"

    def progress(error: FitError) -> None:
        output.stderr().print(
            f"{error.gpu} {error.engine} {error.key}: held-out median {error.median:.1%}, p90 {error.p90:.1%}"
        )

    errors = run(folder, report=progress)
    families = summary(errors)
    if as_json:
        output.emit_json("operators-heldout", {"folder": str(folder), "families": families})
        return
    for row in families:
        if row["gpu"] == "all":
            verdict = "meets the target" if row["meets"] else "misses the target"
            output.stdout().print(
                f"{row['family']}: median {row['median']:.1%}, p90 {row['p90']:.1%}, {row['rows']} rows; {verdict}"
            )
