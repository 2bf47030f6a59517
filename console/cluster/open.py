"""Open a source from what the command line says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from console.cluster.connect import connect
from console.cluster.kinds import Kind
from console.cluster.live import LiveOptions, LiveSource
from console.cluster.metrics.readings import WINDOW_S
from console.cluster.recording import RecordedSource, load_recording
from console.cluster.source import ClusterSource
from console.cluster.state import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Which cluster, what of it. `replay` wins over a live cluster; `namespace` None = the context's."""

    context: str | None = None
    kubeconfig: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    replay: Path | None = None
    speed: float | None = None
    metrics: bool = True
    prometheus: str | None = None
    period_s: float = 10.0
    window_s: float = WINDOW_S
    kinds: tuple[Kind, ...] = tuple(Kind)


def make_source(opening: Opening) -> ClusterSource:
    """The source; nothing is sent yet. Raises ClusterError, InputError, MissingDataError."""
    if opening.replay is not None:
        return RecordedSource(load_recording(opening.replay), speed=opening.speed)
    api = connect(context=opening.context, kubeconfig=opening.kubeconfig)
    namespace = None if opening.all_namespaces else opening.namespace or api.target.namespace
    options = LiveOptions(
        namespace=namespace,
        kinds=opening.kinds,
        metrics=opening.metrics,
        prometheus=opening.prometheus,
        period_s=opening.period_s,
        window_s=opening.window_s,
        in_cluster=api.target.in_cluster,
    )
    identity = Identity(source="live", context=api.target.context, server=api.server, namespace=namespace)
    return LiveSource(api, options, identity=identity)


@asynccontextmanager
async def open_source(opening: Opening) -> AsyncIterator[ClusterSource]:
    """A started source, closed at the end."""
    source = make_source(opening)
    try:
        await source.start()
        yield source
    finally:
        await source.close()
