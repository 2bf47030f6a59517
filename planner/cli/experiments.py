"""`planner experiments`: the laws of the field, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_table, stderr, stdout
from planner.domain.errors import ExitCode, InputError, Issue

app = typer.Typer(no_args_is_help=True, help="The laws of the field as experiments with verdicts.")


@app.command("list")
def list_(json: o.Json = False) -> None:
    """Name, law and what was published."""
    from planner.simulation.experiments.registry import EXPERIMENTS

    if json:
        emit_json(
            "experiments",
            {
                "experiments": [
                    {
                        "name": e.name,
                        "law": e.law,
                        "title": e.title,
                        "published": e.published,
                        "simulated": e.simulated,
                    }
                    for e in EXPERIMENTS.values()
                ]
            },
        )
        return
    print_table(
        ("name", "law", "what it shows", "published"),
        [(e.name, str(e.law), e.title, e.published) for e in EXPERIMENTS.values()],
        right=(1,),
    )


@app.command("run")
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments by name (planner experiments list).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same figures.")] = 0,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report with plots.")] = None,
    json: o.Json = False,
) -> None:
    """Run experiments: published figures beside ours, and a verdict on the shape.

    Exit status 1 when a law does not hold in our model; the notes say what is known about why.
    """
    from planner.simulation.engine import announce_compilation
    from planner.simulation.experiments.registry import EXPERIMENTS, experiment

    if everything == bool(names):
        raise InputError(
            Issue(
                code="experiment.which",
                what="no experiment was named" if not names else "names and --all together",
                why="either some experiments or all of them are run",
                fix="planner experiments run --all, or names from planner experiments list",
            )
        )
    chosen = list(EXPERIMENTS.values()) if everything else [experiment(n) for n in names or ()]
    announce_compilation()
    outcomes = []
    for i, e in enumerate(chosen):
        stderr().print(f"[{i + 1}/{len(chosen)}] {e.name}", markup=False)
        outcomes.append((e, e.run(seed)))
    if html is not None:
        from planner.simulation.experiments.report import experiments_html
        from planner.simulation.export import write_text

        write_text(experiments_html(outcomes), html)
    if json:
        from dataclasses import asdict

        from planner.simulation.export import plain

        emit_json(
            "experiment-results",
            {
                "seed": seed,
                "results": [
                    {
                        "name": e.name,
                        "law": e.law,
                        "title": e.title,
                        "published": e.published,
                        "passed": r.passed,
                    }
                    | plain(asdict(r))
                    for e, r in outcomes
                ],
            },
        )
    else:
        for e, r in outcomes:
            out = stdout()
            out.print(f"Law {e.law}: {e.title} ({e.name})", style="bold", markup=False)
            out.print(f"published: {e.published}", markup=False)
            print_table(r.headers, r.rows, right=range(1, len(r.headers)))
            for check in r.checks:
                out.print(f"  {'holds' if check.holds else 'FAILS'}: {check.statement}", markup=False)
            for note in r.notes:
                out.print(f"  note: {note}", markup=False)
            out.print(f"  verdict: {'reproduced' if r.passed else 'not reproduced'}\n", markup=False)
        passed = sum(r.passed for _, r in outcomes)
        stdout().print(f"{passed} of {len(outcomes)} experiments reproduce their law", markup=False)
    if not all(r.passed for _, r in outcomes):
        raise typer.Exit(int(ExitCode.ANSWERED_NO))
