"""`planner simulate`: a plan under traffic, event by event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli import scaling_options as scaling
from planner.cli.completing import recipe_names
from planner.cli.output import emit_json

Workload = Annotated[
    str | None,
    typer.Option(
        "--workload", help="seed-talk, ISL/OSL such as 8000/1000, or a trace file. Default: the plan's."
    ),
]
ArrivalOption = Annotated[
    str,
    typer.Option("--arrival", help="closed, poisson, gamma, ramp or burst (traces carry their own times)."),
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", help="Closed loop: requests or sessions in flight.")
]
Rate = Annotated[float | None, typer.Option("--rate", help="Open arrivals: requests per second.")]
Requests = Annotated[int | None, typer.Option("--requests", help="Requests to simulate, warm-up included.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]
Replications = Annotated[
    int, typer.Option("--replications", min=1, help="Independent runs; pooled, with intervals.")
]
LengthCv = Annotated[float, typer.Option("--length-cv", min=0.0, help="Spread of lengths (0 = fixed).")]
Cv = Annotated[float, typer.Option("--arrival-cv", min=0.01, help="Burstiness of gamma arrivals.")]
Spread = Annotated[
    float | None, typer.Option("--spread-s", help="Start closed-loop users over this many seconds.")
]
SharedPrefix = Annotated[int, typer.Option("--shared-prefix", min=0, help="Tokens all prompts begin with.")]
ScrapeMs = Annotated[
    float, typer.Option("--scrape-ms", min=0.0, help="Age of the router's metrics (0 = fresh).")
]
HostGib = Annotated[
    float, typer.Option("--host-kv-gib", min=0.0, help="Host memory for KV offload, GiB per rank.")
]
Html = Annotated[Path | None, typer.Option("--html", help="Write a report with plots.")]


def simulate(
    plan: Annotated[
        str,
        typer.Argument(help="A saved plan, or a recipe (its recommended plan).", autocompletion=recipe_names),
    ],
    workload: Workload = None,
    router: Annotated[
        str | None,
        typer.Option(
            "--router", help="A router by name (NAME@precise: precise index) or an EndpointPickerConfig file."
        ),
    ] = None,
    arrival: ArrivalOption = "closed",
    concurrency: Concurrency = None,
    rate: Rate = None,
    requests: Requests = None,
    seed: Seed = 0,
    replications: Replications = 1,
    length_cv: LengthCv = 0.0,
    arrival_cv: Cv = 1.0,
    spread_s: Spread = None,
    shared_prefix: SharedPrefix = 0,
    scrape_ms: ScrapeMs = 50.0,
    host_kv_gib: HostGib = 0.0,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write every request: .csv, otherwise JSON lines.")
    ] = None,
    html: Html = None,
    autoscale: scaling.Autoscale = False,
    scenario: scaling.Scenario = None,
    peak_rps: scaling.PeakRps = None,
    trough_rps: scaling.TroughRps = None,
    period: scaling.Period = None,
    load_curve: scaling.LoadCurveFile = None,
    cold_start_s: scaling.ColdStart = None,
    metric: scaling.MetricOption = None,
    target: scaling.TargetOption = None,
    min_groups: scaling.MinGroups = None,
    max_groups: scaling.MaxGroups = None,
    sync_s: scaling.SyncS = None,
    stabilisation_s: scaling.StabilisationS = None,
    scale_step: scaling.ScaleStep = None,
    ttft_ms: scaling.TtftMs = None,
    tpot_ms: scaling.TpotMs = None,
    dp_sizes: scaling.DpSizes = None,
    prepare_s: scaling.PrepareS = None,
    pause_s: scaling.PauseS = None,
    drain_timeout_s: scaling.DrainTimeout = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Simulate a plan: routers, queues, caches, transfers, lockstep ranks; with --autoscale, groups that come and go.

    Warm-up requests (the first tenth, and a closed loop's first wave) and a closed loop's run-down are left out of the
    figures. Under a load curve every request counts.
    """
    from dataclasses import replace

    from planner.cli.simulate_scaling import Run, chosen_mode, run_mode

    flags = scaling.ScalingFlags(
        peak_rps=peak_rps, trough_rps=trough_rps, period=period, load_curve=load_curve, cold_start_s=cold_start_s,
        metric=metric, target=target, min_groups=min_groups, max_groups=max_groups, sync_s=sync_s,
        stabilisation_s=stabilisation_s, scale_step=scale_step, ttft_ms=ttft_ms, tpot_ms=tpot_ms,
        dp_sizes=dp_sizes, prepare_s=prepare_s, pause_s=pause_s, drain_timeout_s=drain_timeout_s,
    )  # fmt: skip
    plain = {
        "--arrival": arrival != "closed", "--concurrency": concurrency is not None, "--rate": rate is not None,
        "--spread-s": spread_s is not None, "--trace": trace is not None,
        "--requests": requests is not None and autoscale,
    }  # fmt: skip
    several = {
        "--replications": replications > 1,
        "--html": html is not None,
        "--host-kv-gib": host_kv_gib > 0.0,
    }
    mode = chosen_mode(
        flags, autoscale=autoscale, scenario=scenario,
        plain=[k for k, given in plain.items() if given], several=[k for k, given in several.items() if given],
    )  # fmt: skip

    from planner.cli.simulation_inputs import Inputs, asked, notes_on_plan, prepare, progress
    from planner.simulation.collect import trace as trace_rows
    from planner.simulation.engine import announce_compilation, play
    from planner.simulation.engine import simulate as run
    from planner.simulation.workloads import traffic_of

    inputs = Inputs(plan=plan, router=router, scrape_ms=scrape_ms, host_kv_gib=host_kv_gib, profiles=profiles)
    chosen, cluster = prepare(inputs)
    if mode is not None:
        shared = Run(
            workload=workload, length_cv=length_cv, shared_prefix=shared_prefix, seed=seed, replications=replications,
            requests=requests, html=html, profiles=profiles, json=json,
        )  # fmt: skip
        run_mode(mode, chosen, cluster, shared)
        return
    wanted = asked(
        chosen, workload=workload, arrival=arrival, concurrency=concurrency, rate=rate, requests=requests,
        arrival_cv=arrival_cv, length_cv=length_cv, spread_s=spread_s, shared_prefix=shared_prefix,
    )  # fmt: skip
    traffics = [traffic_of(wanted, seed=seed + i) for i in range(replications)]
    announce_compilation()
    with progress() as report:
        result = run(cluster, traffics, seed=seed, slo=chosen.slo, progress=report)
    result = replace(
        result, notes=(*result.notes, *notes_on_plan(chosen, traffics, result, own_traffic=workload is None))
    )
    if trace is not None:
        from planner.simulation.export import write_trace

        write_trace(trace_rows(traffics[0], play(cluster, traffics[0], seed=seed).state), trace)
    if html is not None:
        from planner.simulation.export import write_text
        from planner.simulation.report import html_report

        write_text(html_report([result], seed=seed), html)
    if json:
        from planner.simulation.export import result_document

        emit_json("simulation", {"seed": seed, "result": result_document(result)})
        return
    from planner.cli.render_simulation import print_simulation

    print_simulation(result)
