"""`planner export`: a saved plan as manifests."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit_json
from planner.domain.errors import InputError, Issue, did_you_mean

if TYPE_CHECKING:
    from planner.domain.deployment import DeploymentPlan
    from planner.export.objects import Manifest


def export(
    plan: Annotated[Path, typer.Argument(help="A saved plan (planner recommend ... --save FILE).")],
    target: Annotated[
        str, typer.Option("--target", "-t", help="llm-d, kustomize, helm-values, kserve, dynamo or compose.")
    ] = "llm-d",
    provider: Annotated[
        str | None, typer.Option("--provider", help="Cloud overlay; default: from the plan's node profile.")
    ] = None,
    dialect: Annotated[
        str | None, typer.Option("--dialect", help="Tested set of versions; default: the newest that fits.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace written into the objects.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the deployment; default: the plan's.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write to; default: one stream on stdout.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, e.g. model.source=pvc, gateway=NAME.")
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON document with the objects on stdout.")
    ] = False,
) -> None:
    """Write a saved plan as manifests for kubectl.

    planner export PLAN | kubectl apply --server-side -f -
    """
    from planner import __version__
    from planner.catalog.plans import load_plan
    from planner.export.options import ExportOptions, Target
    from planner.export.settings import apply_settings
    from planner.export.targets import export_plan
    from planner.search.manifest_facts import load_facts

    known = [t.value for t in Target]
    if target not in known:
        raise InputError(
            Issue(
                code="export.target_unknown",
                what=f"target '{target}'",
                why="a target is an export format",
                fix=f"{did_you_mean(target, known)} (known: {', '.join(known)})",
                where="--target",
            )
        )
    options = apply_settings(
        ExportOptions(
            target=Target(target),
            provider=provider,
            dialect=dialect,
            namespace=namespace,
            name=name,
            created_by=f"wideplan {__version__}",
        ),
        settings or [],
    )
    loaded = load_plan(plan)
    model, hardware = load_facts(loaded, profiles=profiles)
    options = replace(options, prediction=_prediction(loaded, profiles))
    made = export_plan(loaded, model=model, hardware=hardware, options=options)
    for note in made.notes:
        sys.stderr.write(f"note: {note}\n")
    if json:
        emit_json(
            "manifests",
            {"plan": loaded.name, "target": target, "objects": [m.plain() for m in made.manifests]},
        )
        return
    if out is not None and str(out) != "-":
        from planner.export.folder import write_folder

        for path in write_folder(made.files, out):
            sys.stderr.write(f"wrote {path}\n")
        return
    if made.stream is None:
        raise InputError(
            Issue(
                code="export.needs_folder",
                what=f"target '{target}' on stdout",
                why="it is a tree of files",
                fix="--out DIR",
                where="--out",
            )
        )
    sys.stdout.write(made.stream)


def _check_own_work(manifests: tuple[Manifest, ...], profiles: Path | None) -> None:
    """Lint what is about to be written: warnings go to stderr, an error stops the export."""
    from planner.export.lint import Severity, lint_documents
    from planner.export.yaml import Document
    from planner.search.manifest_facts import CatalogueFacts

    documents = [Document(f"{m.kind}/{m.metadata.name}", i, 1, m.plain()) for i, m in enumerate(manifests)]
    findings = lint_documents(documents, facts=CatalogueFacts(profiles=profiles))
    for f in findings:
        if f.severity is Severity.WARNING:
            sys.stderr.write(f"warning[{f.rule.id}]: {f.what}\n  why: {f.rule.why}\n  fix: {f.fix}\n")
    errors = [f for f in findings if f.severity is Severity.ERROR]
    if errors:
        raise InputError(
            *(
                Issue(
                    code=f"lint.{f.rule.id}",
                    what=f.what,
                    why=f.rule.why,
                    fix=f.fix,
                    where=f"{f.object} @ {f.path}",
                )
                for f in errors
            )
        )


def _prediction(plan: DeploymentPlan, profiles: Path | None) -> str:
    """One comment line with what the plan is predicted to do, or why there is no prediction."""
    from planner.domain.errors import PlannerError
    from planner.search.price import price_plan

    try:
        e = price_plan(plan, concurrency=None, profiles=profiles, usd=None).evaluation
    except PlannerError as error:
        return f"none: {error.issues[0].what}"
    shown = (
        ("TTFT p50", e.ttft_ms, "ms"),
        ("TPOT p50", e.tpot_ms, "ms"),
        ("output", e.output_tok_s_per_gpu, "tok/s/GPU"),
    )
    parts = [
        f"{name} {_figure(v.value)} {unit} [{_figure(v.low)}-{_figure(v.high)}]" for name, v, unit in shown
    ]
    return f"{', '.join(parts)} (80 % intervals; {e.provenance.value}, model {e.model_version})"


def _figure(value: float) -> str:
    """Three figures, never with an exponent."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
