"""Options of `planner simulate --autoscale` and `--scenario`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

Autoscale = Annotated[
    bool,
    typer.Option(
        "--autoscale", help="Static against autoscaled groups, together and per role, under a load curve."
    ),
]
Scenario = Annotated[
    str | None,
    typer.Option(
        "--scenario",
        help="elastic-ep: one decode group that changes its width. async-eplb: rebalancing with and without stall.",
    ),
]
PeakRps = Annotated[
    float | None,
    typer.Option("--peak-rps", help="Daily curve: highest rate, requests/s."),
]
TroughRps = Annotated[
    float | None,
    typer.Option("--trough-rps", help="Daily curve: lowest rate, requests/s."),
]
Period = Annotated[
    str | None,
    typer.Option("--period", help="Daily curve: length, such as 24h (the default), 90m."),
]
LoadCurveFile = Annotated[
    Path | None,
    typer.Option("--load-curve", help="CSV of time_s,rps instead of the daily curve."),
]
ColdStart = Annotated[
    float | None,
    typer.Option(
        "--cold-start-s",
        help="Seconds from the decision until a new group serves: pod, weights, graph capture. Yours to state.",
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", help="ROLE=running|backlog|kv|utilisation. Default: prefill=backlog, decode=running."
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target", help="ROLE=VALUE of the metric per group. Default: 80 % of what the plan carries."
    ),
]
MinGroups = Annotated[list[str] | None, typer.Option("--min-groups", help="ROLE=N. Default: 1.")]
MaxGroups = Annotated[
    list[str] | None,
    typer.Option("--max-groups", help="ROLE=N. Default: one more than the peak needs."),
]
SyncS = Annotated[
    float | None,
    typer.Option("--sync-s", help="The autoscaler looks so often (default 15 s)."),
]
StabilisationS = Annotated[
    float | None,
    typer.Option("--stabilisation-s", help="Scale-down stabilisation window (default 300 s)."),
]
ScaleStep = Annotated[
    int | None,
    typer.Option("--scale-step", help="Groups per decision at most (default 4)."),
]
DpSizes = Annotated[
    str | None,
    typer.Option(
        "--dp-sizes", help="elastic-ep: DP sizes, launch size first. Default: the plan's and twice that."
    ),
]
PrepareS = Annotated[
    float | None,
    typer.Option("--prepare-s", help="elastic-ep: seconds to prepare new ranks while the group serves."),
]
PauseS = Annotated[
    float | None,
    typer.Option(
        "--pause-s",
        help="elastic-ep: seconds without a step per change. async-eplb: stall of a synchronous rearrangement (0.91).",
    ),
]
DrainTimeout = Annotated[
    float | None,
    typer.Option("--drain-timeout-s", help="elastic-ep: give a change up (default 120 s)."),
]
TtftMs = Annotated[
    float | None,
    typer.Option("--ttft-ms", help="Target to count against. Default: the plan's."),
]
TpotMs = Annotated[
    float | None,
    typer.Option("--tpot-ms", help="Target to count against. Default: the plan's."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFlags:
    """What the command line says about scaling; None is "not said"."""

    peak_rps: float | None = None
    trough_rps: float | None = None
    period: str | None = None
    load_curve: Path | None = None
    cold_start_s: float | None = None
    metric: Sequence[str] | None = None
    target: Sequence[str] | None = None
    min_groups: Sequence[str] | None = None
    max_groups: Sequence[str] | None = None
    sync_s: float | None = None
    stabilisation_s: float | None = None
    scale_step: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    dp_sizes: str | None = None
    prepare_s: float | None = None
    pause_s: float | None = None
    drain_timeout_s: float | None = None

    def said(self) -> list[str]:
        """Flags that were given."""
        return [
            "--" + f.name.replace("_", "-")
            for f in fields(self)
            if getattr(self, f.name) not in (None, [], ())
        ]
