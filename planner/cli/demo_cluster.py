"""The work behind `planner cluster demo`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.domain.errors import InputError, Issue


async def serve(plan: Path | None, *, nodes: int, port: int, kubeconfig: Path) -> None:
    """Start the box, write the kubeconfig (never over another file of a real cluster), wait for Ctrl-C."""
    from console.cluster.fake.box import cluster_in_a_box

    objects = _objects(plan) if plan is not None else []
    _check(kubeconfig)
    try:
        async with cluster_in_a_box(nodes=nodes, objects=objects, port=port) as box:
            kubeconfig.write_text(box.kubeconfig(), encoding="utf-8")
            sys.stdout.write(f"export KUBECONFIG={kubeconfig.resolve()}\n")
            sys.stdout.flush()
            sys.stderr.write(
                f"a cluster of {nodes} nodes runs at {box.address}; in another terminal:\n"
                "  kubectl get disaggregatedsets,pods\n  planner cluster status\nCtrl-C stops it\n"
            )
            await asyncio.Event().wait()
    except OSError as error:
        raise InputError(
            Issue(
                code="cluster.demo_port",
                what=f"port {port}",
                why=error.strerror or str(error),
                fix="--port 0 takes any free one",
                where="--port",
            )
        ) from None


def _check(kubeconfig: Path) -> None:
    if kubeconfig.exists() and "wideplan-demo" not in kubeconfig.read_text(
        encoding="utf-8", errors="replace"
    ):
        raise InputError(
            Issue(
                code="cluster.demo_kubeconfig",
                what=f"{kubeconfig} exists and is not of a demo cluster",
                why="a kubeconfig of yours is never written over",
                fix="--kubeconfig with another file",
                where="--kubeconfig",
            )
        )


def _objects(plan: Path) -> list[Mapping[str, Any]]:
    from planner.cli.diff import render_plan

    return [m.plain() for m in render_plan(plan)[1]]
