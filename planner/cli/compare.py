"""`planner compare`: plans or routers under common random numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json
from planner.cli.simulate import (
    ArrivalOption,
    Concurrency,
    Cv,
    HostGib,
    Html,
    LengthCv,
    Rate,
    Requests,
    ScrapeMs,
    Seed,
    SharedPrefix,
    Spread,
    Workload,
)


def compare(
    plans: Annotated[
        list[str], typer.Argument(help="Saved plans or recipes; one plan with several --router works too.")
    ],
    router: Annotated[
        list[str] | None, typer.Option("--router", help="Repeat to compare routers on the (single) plan.")
    ] = None,
    workload: Workload = None,
    arrival: ArrivalOption = "closed",
    concurrency: Concurrency = None,
    rate: Rate = None,
    requests: Requests = None,
    seed: Seed = 0,
    replications: Annotated[
        int, typer.Option("--replications", min=2, help="Pairs of runs behind each interval.")
    ] = 5,
    length_cv: LengthCv = 0.0,
    arrival_cv: Cv = 1.0,
    spread_s: Spread = None,
    shared_prefix: SharedPrefix = 0,
    scrape_ms: ScrapeMs = 50.0,
    host_kv_gib: HostGib = 0.0,
    html: Html = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Compare plans or routers: the same arrivals and lengths for each, differences with 95 % intervals.

    The traffic is the first plan's unless stated.
    """
    from planner.cli.simulation_inputs import Inputs, asked, prepare, progress
    from planner.domain.errors import InputError, Issue
    from planner.simulation.engine import announce_compilation
    from planner.simulation.paired import compare as paired
    from planner.simulation.workloads import traffic_of

    routers: list[str | None] = [*router] if router else [None]
    if len(plans) > 1 and len(routers) > 1:
        raise InputError(
            Issue(
                code="compare.too_many",
                what=f"{len(plans)} plans and {len(routers)} routers",
                why="a comparison varies one thing",
                fix="give one plan and several --router, or several plans and at most one --router",
            )
        )
    cases = [(p, r) for p in plans for r in routers]
    if len(cases) < 2:
        raise InputError(
            Issue(
                code="compare.too_few",
                what="only one thing to simulate",
                why="a comparison needs two",
                fix="add a plan, or repeat --router",
            )
        )
    prepared = [
        prepare(Inputs(plan=p, router=r, scrape_ms=scrape_ms, host_kv_gib=host_kv_gib, profiles=profiles))
        for p, r in cases
    ]
    wanted = asked(
        prepared[0][0], workload=workload, arrival=arrival, concurrency=concurrency, rate=rate, requests=requests,
        arrival_cv=arrival_cv, length_cv=length_cv, spread_s=spread_s, shared_prefix=shared_prefix,
    )  # fmt: skip
    traffics = [traffic_of(wanted, seed=seed + i) for i in range(replications)]
    announce_compilation()
    with progress() as report:
        results, differences = paired(
            [c for _, c in prepared], traffics, seed=seed, slo=[p.slo for p, _ in prepared], progress=report
        )
    if html is not None:
        from planner.simulation.export import write_text
        from planner.simulation.report import html_report

        write_text(html_report(results, seed=seed), html)
    if json:
        from dataclasses import asdict

        from planner.simulation.export import plain, result_document

        emit_json(
            "comparison",
            {
                "seed": seed,
                "results": [result_document(r) for r in results],
                "differences": [plain(asdict(d)) | {"significant": d.significant} for d in differences],
            },
        )
        return
    from planner.cli.render_simulation import print_comparison

    print_comparison(results, differences)
