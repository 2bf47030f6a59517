"""`planner cluster`: what runs in a cluster, per DP rank. Read-only."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from planner.cli.output import emit_json
from planner.domain.errors import ExitCode

if TYPE_CHECKING:
    from console.cluster.kinds import Kind
    from console.cluster.open import Opening
    from console.cluster.profile import FoundHardware
    from console.cluster.source import ClusterSource
    from console.cluster.state import Snapshot
    from console.views.cluster import ClusterOverview

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

READY_S = 30.0


class Output(StrEnum):
    """How a status is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="Kubeconfig file; default: KUBECONFIG, then ~/.kube/config."),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace; default: the context's.")
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Every namespace.")]
Replay = Annotated[Path | None, typer.Option("--replay", help="A recording instead of a cluster.")]
Prometheus = Annotated[
    str | None, typer.Option("--prometheus", help="Address of a Prometheus server that scrapes the engines.")
]
Period = Annotated[float, typer.Option("--period", min=1.0, max=300.0, help="Seconds between scrapes.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work; Ctrl-C ends with exit code 130 and no traceback."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None


async def settle(source: ClusterSource, *, ranks: bool, timeout_s: float = READY_S) -> Snapshot:
    """A snapshot once every kind is known and, with `ranks`, rates have a window (two scrapes)."""
    if not await source.ready(timeout_s):
        sys.stderr.write(f"not every kind answered within {timeout_s:.0f} s; showing what is known\n")
    snapshot = source.snapshot()
    if not ranks or source.api is None:
        return snapshot
    import time

    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        scraped = snapshot.metrics is not None
        if scraped and (not snapshot.readings or all(r.window_s > 0 for r in snapshot.readings.values())):
            break
        await source.changed(0.5)
        snapshot = source.snapshot()
    return snapshot


@app.command()
def status(
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    replay: Replay = None,
    prometheus: Prometheus = None,
    metrics: Annotated[bool, typer.Option("--metrics/--no-metrics", help="Scrape the engines.")] = True,
    output: Annotated[Output, typer.Option("--output", "-o", help="table, wide or json.")] = Output.TABLE,
    json: Json = False,
) -> None:
    """Roles, groups, endpoints, DP ranks, and what blocks a rollout."""
    from console.cluster.open import Opening

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        all_namespaces=all_namespaces,
        replay=replay,
        metrics=metrics,
        prometheus=prometheus,
        period_s=2.0,
    )
    run(_status(opening, Output.JSON if json else output))


async def _status(opening: Opening, output: Output) -> None:
    from console.cluster.open import open_source
    from console.views.cluster import overview
    from planner.cli.render_cluster import overview_json, print_overview

    async with open_source(opening) as source:
        view = overview(await settle(source, ranks=opening.metrics))
    if output is Output.JSON:
        emit_json("cluster-status", overview_json(view))
    else:
        print_overview(view, wide=output is Output.WIDE)


@app.command()
def watch(
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    replay: Replay = None,
    speed: Annotated[float, typer.Option("--speed", min=0.01, help="Replay this many times faster.")] = 1.0,
    prometheus: Prometheus = None,
    period: Period = 10.0,
    updates: Annotated[
        int | None, typer.Option("--updates", min=1, help="Stop after this many updates.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON line per update on stdout.")] = False,
) -> None:
    """Follow a cluster until Ctrl-C."""
    from console.cluster.open import Opening

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        all_namespaces=all_namespaces,
        replay=replay,
        speed=speed,
        prometheus=prometheus,
        period_s=period,
    )
    run(_watch(opening, updates=updates, json=json))


async def _watch(opening: Opening, *, updates: int | None, json: bool) -> None:
    from console.cluster.open import open_source
    from planner.cli.watch_cluster import follow

    async with open_source(opening) as source:
        await source.ready(READY_S)
        await follow(source, updates=updates, json=json)


@app.command()
def record(
    file: Annotated[Path, typer.Argument(help="New file to write.")],
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    prometheus: Prometheus = None,
    period: Period = 10.0,
    seconds: Annotated[
        float | None, typer.Option("--for", min=1.0, help="Seconds to record; default: until Ctrl-C.")
    ] = None,
) -> None:
    """Record a cluster for --replay: views and metrics, no raw objects, no credentials."""
    from console.cluster.open import Opening

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        all_namespaces=all_namespaces,
        prometheus=prometheus,
        period_s=period,
    )
    run(_record(opening, file, seconds))


async def _record(opening: Opening, file: Path, seconds: float | None) -> None:
    import asyncio

    from console.cluster.open import open_source
    from console.cluster.recording import Recorder

    async with open_source(opening) as source:
        await source.ready(READY_S)
        recorder = Recorder(file, source.snapshot())
        source.subscribe(recorder)
        sys.stderr.write(f"recording to {file}; Ctrl-C stops\n")
        try:
            await asyncio.sleep(seconds if seconds is not None else float("inf"))
        except asyncio.CancelledError:
            pass  # Ctrl-C is how a recording ends
        finally:
            recorder.close()
        sys.stderr.write(f"{recorder.changes} changes in {file}\n")


@app.command()
def profile(
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    replay: Replay = None,
    free: Annotated[bool, typer.Option("--free", help="Count only nodes no pod uses.")] = False,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Json = False,
) -> None:
    """Hardware of the nodes in the planner's terms: GPU, node shape, network, how many."""
    from console.cluster.open import Opening

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        replay=replay,
        all_namespaces=True,
        metrics=False,
        kinds=_hardware_kinds(),
    )
    run(_profile(opening, free=free, profiles=profiles, json=json))


def _hardware_kinds() -> tuple[Kind, ...]:
    from console.cluster.kinds import Kind

    return (Kind.NODES, Kind.PODS)


async def _profile(opening: Opening, *, free: bool, profiles: Path | None, json: bool) -> None:
    from console.cluster.open import open_source
    from planner.cli.render_cluster import hardware_json, print_hardware, print_permissions

    async with open_source(opening) as source:
        found, view = await find_hardware(source, free=free, profiles=profiles)
    if json:
        emit_json("cluster-profile", hardware_json(found))
    else:
        print_hardware(found)
    print_permissions([k for k in view.problems if k.kind in ("nodes", "pods")])


def live_hardware(
    *,
    context: str | None = None,
    kubeconfig: str | None = None,
    profiles: Path | None = None,
    free: bool = False,
) -> FoundHardware:
    """The hardware of a live cluster, for ``planner recommend --cluster live``; pools largest first.

    Raises ClusterError, InputError ``cluster.context_unknown``, MissingDataError ``cluster.no_gpu_nodes``.
    """
    from console.cluster.open import Opening, open_source

    opening = Opening(
        context=context, kubeconfig=kubeconfig, all_namespaces=True, metrics=False, kinds=_hardware_kinds()
    )

    async def look() -> FoundHardware:
        async with open_source(opening) as source:
            return (await find_hardware(source, free=free, profiles=profiles))[0]

    return run(look())


async def find_hardware(
    source: ClusterSource, *, free: bool, profiles: Path | None
) -> tuple[FoundHardware, ClusterOverview]:
    """Identify the nodes of a source. Raises ClusterError ``cluster.nodes_denied``, MissingDataError."""
    from console.cluster.kinds import Kind
    from console.cluster.profile import pool_from_nodes
    from console.cluster.state import Trust
    from console.views.cluster import overview
    from planner.domain.errors import ClusterError, Issue

    await source.ready(READY_S)
    snapshot = source.snapshot()
    if snapshot.kinds[Kind.NODES].trust is Trust.DENIED:
        raise ClusterError(
            Issue(
                code="cluster.nodes_denied",
                what="nodes may not be read",
                why=snapshot.kinds[Kind.NODES].why,
                fix="ask for the ClusterRole of `planner cluster rbac`, or name hardware with --gpu and --gpus",
            )
        )
    readable = snapshot.kinds[Kind.PODS].trust is Trust.LIVE
    pods = snapshot.pods.values() if readable else None
    found = pool_from_nodes(snapshot.nodes.values(), pods=pods, profiles=profiles, only_free=free)
    return found, overview(snapshot)


@app.command()
def residuals(
    plan: Annotated[Path, typer.Argument(help="The saved plan that was applied.")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    replay: Replay = None,
    prometheus: Prometheus = None,
    name: Annotated[str | None, typer.Option("--name", help="Name it was exported with.")] = None,
    window: Annotated[float, typer.Option("--window", min=5.0, max=600.0, help="Seconds to measure.")] = 60.0,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    keep: Annotated[bool, typer.Option("--import", help="Keep a steady window as a measurement.")] = False,
    json: Json = False,
) -> None:
    """Predicted against measured: TTFT, TPOT, tok/s, prefix hits.

    The plan is priced at the load that is measured. Exit status 1 with --import when the window was not steady.
    """
    from console.cluster.open import Opening
    from planner.cli.residuals_cluster import show_residuals

    opening = Opening(
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
        replay=replay,
        prometheus=prometheus,
        period_s=min(5.0, window / 4.0),
        window_s=window,
    )
    run(show_residuals(opening, plan, name=name, window_s=window, profiles=profiles, keep=keep, json=json))


@app.command()
def rbac(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the role.")] = "default",
    subject: Annotated[
        str | None, typer.Option("--subject", help="User:NAME, Group:NAME or ServiceAccount:NAME to bind.")
    ] = None,
) -> None:
    """Print the read-only role the console needs, for kubectl apply."""
    from console.cluster.rbac import role_manifests
    from planner.export.yaml import dump_stream

    sys.stdout.write(dump_stream([((), m) for m in role_manifests(namespace=namespace, subject=subject)]))


@app.command()
def demo(
    plan: Annotated[
        Path | None, typer.Argument(help="A saved plan to deploy in it; default: an empty cluster.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=2000, help="Nodes of 8 H200.")] = 4,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0 = any.")] = 0,
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", help="File to write the kubeconfig to.")] = Path(
        "wideplan-demo.kubeconfig"
    ),
) -> None:
    """Run a cluster in a box until Ctrl-C: kubectl and planner work against it. Nothing leaves this machine."""
    from planner.cli.demo_cluster import serve

    run(serve(plan, nodes=nodes, port=port, kubeconfig=kubeconfig))
