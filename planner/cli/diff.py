"""`planner diff`: a saved plan against a cluster. Exit status as kubectl diff: 0 same, 1 differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.cluster import READY_S, Context, Json, Kubeconfig, Namespace, run
from planner.cli.output import emit_json, print_table, stderr, stdout
from planner.domain.errors import ExitCode

if TYPE_CHECKING:
    from console.views.cluster_drift import DriftReport
    from planner.export.objects import Manifest


def diff(
    plan: Annotated[Path, typer.Argument(help="A saved plan (planner recommend ... --save FILE).")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    name: Annotated[str | None, typer.Option("--name", help="Name it was exported with.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, as given to planner export.")
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare a plan with what runs: manifests by server-side dry-run, and engine flags.

    Exit status 0: no difference; 1: differences; 4: cluster not reachable. Nothing is changed.
    """
    title, manifests = render_plan(
        plan, name=name, namespace=namespace, settings=settings or [], profiles=profiles
    )
    report = run(_report(title, manifests, namespace=namespace, context=context, kubeconfig=kubeconfig))
    if json:
        from planner.catalog.wire import unstructure

        emit_json("drift", {**unstructure(report), "drifted": report.drifted})
    else:
        print_drift(report)
    raise typer.Exit(int(ExitCode.ANSWERED_NO if report.drifted else ExitCode.OK))


def render_plan(
    plan: Path,
    *,
    name: str | None = None,
    namespace: str | None = None,
    settings: Sequence[str] = (),
    profiles: Path | None = None,
) -> tuple[str, tuple[Manifest, ...]]:
    """The deployment's name and the manifests of a saved plan. Errors of `load_plan` and ``export.*``."""
    from planner import __version__
    from planner.catalog.plans import load_plan
    from planner.export.naming import slug
    from planner.export.options import ExportOptions
    from planner.export.settings import apply_settings
    from planner.export.targets import export_plan
    from planner.search.manifest_facts import load_facts

    loaded = load_plan(plan)
    model, hardware = load_facts(loaded, profiles=profiles)
    options = apply_settings(
        ExportOptions(namespace=namespace, name=name, created_by=f"wideplan {__version__}"), list(settings)
    )
    made = export_plan(loaded, model=model, hardware=hardware, options=options)
    return options.name or slug(loaded.name), made.manifests


async def _report(
    title: str,
    manifests: tuple[Manifest, ...],
    *,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> DriftReport:
    from console.cluster.kinds import Kind
    from console.cluster.open import Opening, open_source
    from console.views.cluster_drift import drift_report

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        metrics=False,
        kinds=(Kind.PODS, Kind.GROUP_SETS, Kind.DISAGGREGATED_SETS, Kind.POOLS),
    )
    async with open_source(opening) as source:
        await source.ready(READY_S)
        snapshot = source.snapshot()
        assert source.api is not None  # noqa: S101 - only a replay has none
        space = snapshot.identity.namespace or "default"
        plain = [m.plain() for m in manifests]
        return await drift_report(source.api, snapshot, plain, name=title, namespace=space)


def print_drift(report: DriftReport) -> None:
    """Objects with their changes, flags of running engines, notes."""
    out = stdout()
    print_table(
        ["object", "state", "why"],
        [[f"{o.kind}/{o.name}", o.state.value, o.why] for o in report.objects],
        title=f"plan {report.name} against namespace {report.namespace}",
    )
    changed = [o for o in report.objects if o.changes]
    for o in changed:
        out.print(f"{o.kind}/{o.name}", markup=False)
        for c in o.changes:
            if c.live is not None:
                out.print(f"- {c.path}: {_short(c.live)}", markup=False)
            if c.planned is not None:
                out.print(f"+ {c.path}: {_short(c.planned)}", markup=False)
    if report.arguments:
        print_table(
            ["role", "flag", "plan", "running", "pods"],
            [[a.role, a.flag, a.planned or "–", a.running or "–", str(a.pods)] for a in report.arguments],
            title="running engines",
            right=(4,),
        )
    for note in report.notes:
        stderr().print(f"note: {note}", markup=False)
    out.print("differences found" if report.drifted else "no difference", markup=False)


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
