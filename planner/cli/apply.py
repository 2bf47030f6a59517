"""`planner apply`: show what would change, and with --yes change it. Never deletes; every run with --yes is audited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.cluster import READY_S, Context, Json, Kubeconfig, Namespace, run
from planner.cli.diff import print_drift, render_plan
from planner.cli.output import emit_json, print_table, stderr, stdout
from planner.domain.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.cluster.applying import Applied
    from console.cluster.open import Opening
    from console.cluster.state import Identity
    from console.views.cluster_drift import DriftReport
    from planner.storage.store import Store


def apply(
    plan: Annotated[Path, typer.Argument(help="A saved plan (planner recommend ... --save FILE).")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Apply what is shown; without it nothing changes.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the deployment.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, as given to planner export.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that another manager owns.")
    ] = False,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the dry-run and the diff of a plan; with --yes apply it. Nothing is ever deleted.

    Exit status 0: applied, or nothing to do; 1: there are changes and no --yes; 4: the cluster
    refuses. Each run with --yes is written to the audit trail of the store.
    """
    from console.cluster.kinds import Kind
    from console.cluster.open import Opening
    from planner.catalog.plans import load_plan
    from planner.storage.codec import domain_hash
    from planner.storage.store import open_store

    title, manifests = render_plan(
        plan, name=name, namespace=namespace, settings=settings or [], profiles=profiles
    )
    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        metrics=False,
        kinds=(Kind.PODS, Kind.GROUP_SETS, Kind.DISAGGREGATED_SETS, Kind.POOLS),
    )
    plain = [m.plain() for m in manifests]
    digest = domain_hash(load_plan(plan))
    if not yes:
        report, found = run(_apply(opening, plain, title=title, force=force, store=None, digest=digest))
    else:
        with open_store() as store:  # opened first: a change that cannot be written down is not made
            report, found = run(_apply(opening, plain, title=title, force=force, store=store, digest=digest))
    if json:
        from planner.catalog.wire import unstructure

        emit_json("apply", {**unstructure(report), "drifted": report.drifted, "applied": unstructure(found)})
    else:
        _print(report, found, yes=yes)
    raise typer.Exit(int(_exit_code(found, changes=_has_changes(report), yes=yes)))


async def _apply(
    opening: Opening,
    manifests: list[dict[str, Any]],
    *,
    title: str,
    force: bool,
    store: Store | None,
    digest: str,
) -> tuple[DriftReport, tuple[Applied, ...]]:
    """The difference, what the rehearsal refused or what was applied. With no `store` nothing is applied."""
    from console.cluster.api import ApiError, unreachable
    from console.cluster.applying import apply_objects, rehearse
    from console.cluster.discovery import resource_names
    from console.cluster.drift import ObjectState
    from console.cluster.open import open_source
    from console.views.cluster_drift import drift_report

    async with open_source(opening) as source:
        await source.ready(READY_S)
        snapshot, api = source.snapshot(), source.api
        assert api is not None  # noqa: S101 - only a replay has none
        space = snapshot.identity.namespace or "default"
        report = await drift_report(api, snapshot, manifests, name=title, namespace=space)
        wanted = [
            m for m, o in zip(manifests, report.objects, strict=True) if o.state is not ObjectState.SAME
        ]
        try:
            names = await resource_names(api, (str(m["apiVersion"]) for m in manifests))
            found = await rehearse(api, wanted, namespace=space, names=names, force=force)
        except ApiError as error:
            raise unreachable(api.server, error.message) from None
        if store is None or not wanted:
            return report, found
        if not found:
            found = await apply_objects(api, wanted, namespace=space, names=names, force=force)
        _note(store, snapshot.identity, found, title=title, namespace=space, digest=digest)
        return report, found


def _note(
    store: Store, where: Identity, found: Sequence[Applied], *, title: str, namespace: str, digest: str
) -> None:
    """Who applied which plan where, and what came of it."""
    import getpass

    from console.cluster.applying import Outcome
    from planner.domain.study import AuditEntry

    try:
        who = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        who = "unknown"
    failed = [a for a in found if a.outcome is not Outcome.APPLIED]
    store.audit.add(
        AuditEntry(
            actor=f"cli:{who}",
            action="cluster.apply",
            subject=f"{where.context}/{namespace}/{title}",
            detail={
                "server": where.server,
                "context": where.context,
                "namespace": namespace,
                "plan_hash": digest,
                "applied": len(found) - len(failed),
                "result": "applied"
                if not failed
                else f"{failed[0].kind}/{failed[0].name}: {failed[0].why}"[:300],
            },
        )
    )


def _has_changes(report: DriftReport) -> bool:
    from console.cluster.drift import ObjectState

    return any(o.state is not ObjectState.SAME for o in report.objects)


def _exit_code(found: Sequence[Applied], *, changes: bool, yes: bool) -> ExitCode:
    from console.cluster.applying import Outcome

    if any(a.outcome is not Outcome.APPLIED for a in found):
        return ExitCode.CLUSTER
    return ExitCode.OK if yes or not changes else ExitCode.ANSWERED_NO


def _print(report: DriftReport, found: Sequence[Applied], *, yes: bool) -> None:
    from console.cluster.applying import Outcome

    print_drift(report)
    if found:
        print_table(
            ["object", "result", "why"], [[f"{a.kind}/{a.name}", a.outcome.value, a.why] for a in found]
        )
    failed = [a for a in found if a.outcome is not Outcome.APPLIED]
    applied = len(found) - len(failed)
    if failed:
        if not applied:
            stderr().print("nothing was applied", markup=False)
        if any(a.outcome is Outcome.CONFLICT for a in failed):
            stderr().print("--force-conflicts takes over fields that another manager owns", markup=False)
    elif yes:
        stdout().print(f"{applied} applied, {len(report.objects) - applied} unchanged", markup=False)
    elif _has_changes(report):
        stderr().print("nothing was applied; --yes applies it", markup=False)
