"""The work behind `planner cluster demo`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.domain.errors import InputError, Issue

if TYPE_CHECKING:
    from console.cluster.fake.engines import Load


async def serve(plan: Path | None, *, nodes: int, port: int, kubeconfig: Path) -> None:
    """Start the box, write the kubeconfig (never over another file of a real cluster), wait for Ctrl-C."""
    from console.cluster.fake.box import cluster_in_a_box

    _check(kubeconfig)
    objects, loads = deployment(plan) if plan is not None else ([], {})
    try:
        async with cluster_in_a_box(nodes=nodes, objects=objects, loads=loads, port=port) as box:
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


def deployment(file: Path) -> tuple[list[Mapping[str, Any]], dict[str, Load]]:
    """The plan's manifests, and engines that behave as the plan is priced: every rank gets its even share."""
    from console.cluster.fake.engines import Load
    from planner.catalog.plans import load_plan
    from planner.cli.diff import render_plan
    from planner.domain.deployment import Role
    from planner.search.price import price_plan

    plan = load_plan(file)
    found = price_plan(plan, concurrency=None, profiles=None, usd=None).evaluation
    loads = {}
    for role in plan.roles:
        ranks = role.groups * role.parallelism.dp
        prefill = role.role is Role.PREFILL
        waiting_s = found.ttft_ms.value / 1000.0
        decoding_s = found.tpot_ms.value / 1000.0 * plan.workload.osl
        share = waiting_s / (waiting_s + decoding_s) if plan.role(Role.PREFILL) is not None else 0.0
        loads["prefill-decode" if role.role is Role.AGGREGATED else role.role.value] = Load(
            requests_per_s=found.requests_per_s / ranks,
            prompt_tokens=float(plan.workload.isl),
            output_tokens=1.0 if prefill else float(plan.workload.osl),
            ttft_s=0.02 if role.role is Role.DECODE else waiting_s,
            itl_s=found.tpot_ms.value / 1000.0,
            running=round(found.concurrency * (share if prefill else 1.0 - share) / ranks),
            prefix_hit=plan.workload.prefix_hit,
        )
    return [m.plain() for m in render_plan(file)[1]], loads
