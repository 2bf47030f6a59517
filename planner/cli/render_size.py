"""The text of `planner size`, within 100 columns."""

from __future__ import annotations

import string
from pathlib import Path

from planner.cli.output import print_lines, print_table, stdout
from planner.cli.render_recommendation import interval
from planner.domain.recommendation import Shortfall
from planner.search.sizing.answer import IN_PLACE, SURGE, GpuAnswer, Headroom, SizedFleet, SizingAnswer
from planner.search.sizing.load import plain

PLOT_HEIGHT = 18


def print_sizing(answer: SizingAnswer, *, saved: Path | None) -> None:
    """Print the question, a fleet per GPU type, what speed costs, the chosen plan with its headroom, and what was left out."""
    out = stdout()
    out.print(f"[bold]{answer.question}[/bold]", markup=True)
    print_lines(answer.load_definition)
    _assumptions(answer)
    sized = sorted((t for t in answer.types if t.fleet is not None), key=_by_cost)
    if sized:
        _table(sized)
        _plot(sized)
        _headroom(sized, answer)
    chosen = answer.chosen
    if chosen is not None and chosen.fleet is not None:
        _chosen(chosen, chosen.fleet, answer)
    for entry in answer.types:
        if entry.shortfall is not None:
            _shortfall(entry, entry.shortfall)
    _left_out(answer)
    if saved is not None:
        out.print(f"\nPlan saved to {saved}. Next: planner export {saved} | kubectl apply -f -", markup=False)


def _by_cost(entry: GpuAnswer) -> tuple[float, int, str]:
    fleet = entry.fleet
    if fleet is None:
        return (float("inf"), 0, entry.gpu)
    return (fleet.cost.usd_per_hour if fleet.cost else float("inf"), fleet.gpus, entry.gpu)


def _assumptions(answer: SizingAnswer) -> None:
    stdout().print("\n[bold]Assumed[/bold] (change with the flag)")
    unsure = [a for a in answer.assumptions if a.why.startswith("not confirmed")]
    for a in answer.assumptions:
        if a not in unsure:
            print_lines(f"{a.name}: {a.value} — {a.why}  {a.flag}")
    if unsure:
        print_lines("not confirmed: " + ", ".join(f"{a.name} {a.value}" for a in unsure))
    tiers: dict[str, list[str]] = {}
    for entry in answer.types:
        own = [a for a in entry.assumptions if a.name in ("fabric", "node shape", "price")]
        for a in own:
            if a.name == "price":
                tiers.setdefault(a.why.partition(",")[0], []).append(entry.gpu)
        if own and len(answer.types) > 1:
            said = [
                f"{a.name} {a.value}" + (f" ({a.why.partition(',')[0]})" if a.name == "price" else "")
                for a in own
            ]
            print_lines(f"{entry.gpu}: {'; '.join(said)}")
    if len(tiers) > 1:
        print_lines(f"prices are of different tiers ({', '.join(sorted(tiers))}): compare with --price-tier")
    print_lines(f"engine groups of at most {answer.largest_group} GPUs are considered")


def _table(sized: list[GpuAnswer]) -> None:
    rows = []
    for entry in sized:
        fleet = entry.fleet
        if fleet is None:
            continue
        v = fleet.evaluation
        rows.append(
            [
                entry.gpu,
                f"{fleet.gpus} {_range(fleet.gpus_interval)}",
                fleet.plan.label().replace(" D ", "\nD "),
                f"{v.tok_s_user:.1f}",
                f"{v.ttft_ms.value:,.0f}",
                f"{fleet.cost.usd_per_hour:,.2f}" if fleet.cost else "-",
                f"{fleet.cost.usd_per_m_output_tokens:.2f}" if fleet.cost else "-",
            ]
        )
    print_table(
        ["GPU type", "GPUs (80 %)", "plan", "tok/s/user", "TTFT", "$/h", "$/Mtok"],
        rows,
        title="\nSmallest fleet per GPU type, in whole nodes, cheapest first",
        right=(1, 3, 4, 5, 6),
    )


def _range(interval_: tuple[int | None, int | None]) -> str:
    low, high = interval_
    return f"[{low if low is not None else '?'}-{high if high is not None else '>10k'}]"


def _plot(sized: list[GpuAnswer]) -> None:
    """What speed costs: $/Mtok against tok/s/user, one letter per type, the pick in capitals."""
    import plotext

    drawn = [e for e in sized if e.fleet is not None and e.fleet.cost is not None]
    if not drawn:
        return
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limitsize(False, False)
    plotext.plotsize(stdout().width, PLOT_HEIGHT)
    plotext.yscale("log")
    keys = []
    for letter, entry in zip(string.ascii_lowercase, drawn, strict=False):
        fleet = entry.fleet
        if fleet is None or fleet.cost is None:
            continue
        points = [
            (p.tok_s_user, p.usd_per_m_output_tokens) for p in fleet.frontier if p.usd_per_m_output_tokens
        ]
        if points:
            plotext.scatter([x for x, _ in points], [y for _, y in points], marker=letter)
        pick = (fleet.evaluation.tok_s_user, fleet.cost.usd_per_m_output_tokens)
        plotext.scatter([pick[0]], [pick[1]], marker=letter.upper())
        keys.append(f"{letter} {entry.gpu}")
    plotext.xlabel("tok/s/user, at least (picks: as predicted)")
    plotext.ylabel("$ per million output tokens (log)")
    stdout().print("\n[bold]What speed costs[/bold]: the smallest fleet for this load at each speed")
    stdout().print(plotext.uncolorize(plotext.build()), markup=False)
    print_lines(", ".join(keys) + "; capitals: the plans of the table, which carry most for their size")


def _headroom(sized: list[GpuAnswer], answer: SizingAnswer) -> None:
    """One row per type: what is carried at once in each event, and in brackets after lost groups have started again."""
    events = [e.event for e in sized[0].fleet.headroom] if sized[0].fleet else []
    rows = []
    for entry in sized:
        if entry.fleet is None:
            continue
        cells = [_share(e, answer.load.amount) for e in entry.fleet.headroom]
        more = entry.fleet.one_more_lost
        whole = _percent(entry.fleet.carries / answer.load.amount)
        rows.append([entry.gpu, whole, *cells, f"{more} GPUs" if more is not None else "-"])
    print_table(
        [
            "GPU type",
            "whole",
            *(_EVENT_HEADS.get(e, e) for e in events),
            f"holds {answer.reserve.spare_nodes + 1} lost",
        ],
        rows,
        title="\nHeadroom: share of the load carried at worst (lost groups restarted)",
        right=range(1, len(events) + 3),
    )


def _nodes(answer: SizingAnswer) -> str:
    lost = answer.reserve.spare_nodes + 1
    return "1 node" if lost == 1 else f"{lost} nodes"


_EVENT_HEADS = {IN_PLACE: "in-place rollout", SURGE: "surge needs"}


def _share(event: Headroom, load: float) -> str:
    if event.event == SURGE:
        return f"+{event.extra_gpus} GPUs" if event.extra_gpus else "idle GPUs do"
    again = "" if event.recovered is None else f" ({_percent(event.recovered / load)})"
    return f"{_percent(event.share)}{again}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %" if share < 9.995 else ">999 %"


def _chosen(entry: GpuAnswer, fleet: SizedFleet, answer: SizingAnswer) -> None:
    out = stdout()
    v = fleet.evaluation
    cost = f", {fleet.cost.usd_per_hour:,.2f} $/h" if fleet.cost else ""
    kind = "cheapest" if answer.cheapest == entry.gpu else "fewest GPUs"
    out.print(f"\n[bold]Pick[/bold] ({kind})  {fleet.gpus} x {entry.gpu}: {fleet.plan.label()}")
    idle = fleet.gpus - fleet.gpus_used
    print_lines(
        f"{fleet.nodes} node{'s' if fleet.nodes > 1 else ''} of {entry.gpus_per_node}{cost}; "
        + ("every GPU is used" if idle == 0 else f"{fleet.gpus_used} GPUs are used, {idle} are idle")
    )
    if fleet.scale_up_domains is not None:
        one = fleet.scale_up_domains == 1
        print_lines(
            "all nodes must share one scale-up (NVLink) domain"
            if one
            else f"its groups need {fleet.scale_up_domains} scale-up (NVLink) domains; no group may straddle two"
        )
    if fleet.gpus_enough is not None:
        print_lines(f"{fleet.gpus_enough} GPUs are enough where a node can be had in parts")
    print_lines(
        f"at {answer.load.text()}: {plain(v.requests_per_s)} requests/s, {plain(v.concurrency)} in flight; "
        f"TTFT {interval(v.ttft_ms)} ms, TPOT {interval(v.tpot_ms)} ms, {v.tok_s_user:.1f} tok/s/user"
    )
    print_lines(
        f"carries {answer.load.text(fleet.carries)} at most ({100.0 * answer.load.amount / fleet.carries:.0f} % "
        f"loaded); binding: {fleet.binding}"
    )
    if fleet.smaller_carries is not None:
        print_lines(
            f"one node less carries {answer.load.text(fleet.smaller_carries)}"
            + (f" (binding: {fleet.smaller_binding})" if fleet.smaller_binding else "")
        )
    if fleet.one_more_lost is not None:
        print_lines(
            f"the load still carried with {_nodes(answer)} lost takes {fleet.one_more_lost} GPUs (--spare-nodes)"
        )
    for event in fleet.headroom:
        print_lines(f"{event.event}: {_event_text(event, answer)}")
    print_lines(
        f"the same for GPUs owned: planner recommend --model {answer.model} --gpu {entry.gpu} --gpus {fleet.gpus} …"
    )
    basis = "extrapolates in " + ", ".join(v.extrapolates) if v.extrapolates else "interpolates"
    print_lines(f"{v.engine}; weakest source: {v.provenance.value}; {basis}; intervals are 80 %")


def _event_text(event: Headroom, answer: SizingAnswer) -> str:
    if event.event == SURGE:
        return event.note
    text = f"{event.left} serve and carry {answer.load.text(event.carries)} ({_percent(event.share)})"
    if event.recovered is not None:
        text += f"; {answer.load.text(event.recovered)} once lost groups have started again on what is left"
    return text


def _shortfall(entry: GpuAnswer, shortfall: Shortfall) -> None:
    stdout().print(f"\n[bold]No fleet of {entry.gpu} carries the load[/bold]")
    print_lines(f"binding: {shortfall.binding}")
    if shortfall.nearest is not None:
        v = shortfall.nearest.evaluation
        print_lines(
            f"nearest: {shortfall.nearest.plan.gpus_owned} GPUs, {shortfall.nearest.plan.label()}: TTFT "
            f"{interval(v.ttft_ms)} ms, TPOT {interval(v.tpot_ms)} ms"
        )
    for line in shortfall.needed:
        print_lines(f"would do: {line}")


def _left_out(answer: SizingAnswer) -> None:
    if not answer.left_out:
        return
    reasons: dict[str, list[str]] = {}
    for entry in answer.left_out:
        reasons.setdefault(entry.why, []).append(entry.gpu)
    stdout().print("\n[bold]Left out[/bold] (name them with --gpu to size them all the same)")
    for why, gpus in reasons.items():
        print_lines(f"{', '.join(gpus)}: {why}")
