"""`planner doctor`: does everything that planner needs work here, and what to do where it does not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.output import WIDTH, emit_json, print_lines, print_table
from planner.domain.checkup import Check, CheckState, fail, ok, warn
from planner.domain.errors import ExitCode, InputError, Issue, PlannerError

if TYPE_CHECKING:
    from planner.search.coverage import Coverage

_SYMBOLS = {CheckState.OK: ("✓", "+"), CheckState.WARN: ("!", "!"), CheckState.FAIL: ("✗", "x")}


def doctor(
    model: o.Model = None,
    gpu: o.Gpu = None,
    engine_version: o.EngineVersion = None,
    context: Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", help="Kubeconfig file; default: KUBECONFIG, then ~/.kube/config."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace; default: the context's.")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", help="Address of a Prometheus server that scrapes the engines."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster/--no-cluster", help="Look at the cluster of the kubeconfig.")
    ] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1.0, max=120.0, help="Seconds the cluster may take.")
    ] = 8.0,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Check this machine, the installation, the database, the cluster, and the data behind a model on a GPU.

    Changes nothing. Exit status 1 when a check fails; warnings do not count.
    """
    from planner.cli.doctor_machine import (
        check_command,
        check_database,
        check_installation,
        check_kubectl,
        check_python,
        check_terminal,
    )

    if (model is None) != (gpu is None):
        raise InputError(
            Issue(
                code="doctor.pair",
                what=f"--{'gpu' if model is None else 'model'} alone",
                why="data coverage is a property of a model on a GPU",
                fix=f"add --{'model' if model is None else 'gpu'}",
                where=f"--{'model' if model is None else 'gpu'}",
            )
        )
    checks = [check_python(), check_installation(), *check_command(), check_terminal(), check_kubectl()]
    checks.append(check_database())
    found: Coverage | None = None
    if model is not None and gpu is not None:
        checked, found = _coverage(model, gpu, engine_version, profiles)
        checks.append(checked)
    if cluster:
        checks += _cluster(context, kubeconfig, namespace, prometheus, timeout)
    if json:
        _emit(checks, found)
    else:
        _print(checks, found)
    if any(c.state is CheckState.FAIL for c in checks):
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


def _cluster(
    context: str | None,
    kubeconfig: str | None,
    namespace: str | None,
    prometheus: str | None,
    timeout_s: float,
) -> tuple[Check, ...]:
    from console.cluster.checkup import check_cluster
    from console.cluster.open import Opening
    from planner.cli.cluster import run

    opening = Opening(
        context=context, kubeconfig=kubeconfig, namespace=namespace, prometheus=prometheus, period_s=30.0
    )
    return run(check_cluster(opening, timeout_s=timeout_s))


def _coverage(
    model: str, gpu: str, engine_version: str | None, profiles: Path | None
) -> tuple[Check, Coverage | None]:
    from planner.domain.provenance import Provenance
    from planner.search.coverage import find_coverage

    try:
        found = find_coverage(model, gpu, engine_version=engine_version, overlay=profiles)
    except PlannerError as error:
        issue = error.issues[0]
        return fail("coverage", f"{issue.what}: {issue.why}", issue.fix), None
    subject = f"{found.model} on {found.gpu}"
    curves = f"{found.measured_parts} of {len(found.parts)} parts of a step have measured curves"
    if found.calibrated:
        return ok(
            "coverage", f"{subject}: calibrated on {found.calibration_rows} measured rows; {curves}"
        ), found
    weak = [p.part for p in found.parts if p.provenance is Provenance.DATASHEET]
    rest = f" ({', '.join(weak)} from the datasheet)" if weak and len(weak) < len(found.parts) else ""
    what = f"{subject}: no measured serving rows of this pair (taken from {found.transferred_from}); {curves}{rest}"
    return warn(
        "coverage",
        what,
        "intervals are wide; narrow them with planner campaign, planner measurements import, planner calibrate",
    ), found


def _print(checks: list[Check], found: Coverage | None) -> None:
    plain = "utf" not in (sys.stdout.encoding or "ascii").lower()
    for check in checks:
        head = f"{_SYMBOLS[check.state][plain]} {check.state.value:<4} {check.name:<11} "
        _hanging(head, check.what)
        if check.fix:
            _hanging(" " * len(head) + "fix: ", check.fix)
    if found is not None:
        _print_coverage(found)
    failed = sum(c.state is CheckState.FAIL for c in checks)
    warned = sum(c.state is CheckState.WARN for c in checks)
    sys.stdout.write(
        f"{len(checks) - failed - warned} ok, {warned} warning{'' if warned == 1 else 's'}, {failed} failed\n"
    )


def _hanging(head: str, text: str) -> None:
    """`text` after `head`, its further lines below its first."""
    import textwrap

    lines = textwrap.wrap(text, WIDTH - len(head), break_long_words=False, break_on_hyphens=False)
    sys.stdout.write(head + ("\n" + " " * len(head)).join(lines) + "\n")


def _print_coverage(found: Coverage) -> None:
    print_lines(
        f"\n{found.model} on {found.gpu} with {found.engine} over {found.fabric}, "
        f"engine group {found.layout}:",
        indent=0,
    )
    print_table(["part of a step", "source"], [[p.part, p.provenance.value] for p in found.parts])
    print_table(
        ["80 % interval to expect", "aggregated", "disaggregated"],
        [
            [metric, *(f"x{i.low:.2f} to x{i.high:.2f}" for i in found.intervals if i.metric == metric)]
            for metric in dict.fromkeys(i.metric for i in found.intervals)
        ],
    )
    print_lines(
        "A plan that reaches beyond the measured loads says so, and its interval is half as wide again.",
        indent=0,
    )


def _emit(checks: list[Check], found: Coverage | None) -> None:
    from planner.catalog.wire import unstructure

    emit_json(
        "doctor",
        {
            "ok": not any(c.state is CheckState.FAIL for c in checks),
            "checks": unstructure(tuple(checks)),
            "coverage": None if found is None else unstructure(found),
        },
    )
