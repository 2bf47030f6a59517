"""The text of `planner recommend`, within 100 columns."""

from __future__ import annotations

from pathlib import Path

from planner.cli.output import print_lines, print_table, stdout
from planner.domain.deployment import Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.provenance import Estimate
from planner.domain.recommendation import RankedPlan, Recommendation

PLOT_HEIGHT = 18
SHOWN_EXCLUSIONS = 8


def print_recommendation(r: Recommendation, *, saved: Path | None) -> None:
    """Print assumptions, space, frontier, ranked plans, pick and reasons; or the shortfall."""
    out = stdout()
    out.print(f"[bold]{r.name}[/bold]")
    print_lines(r.question)
    _assumptions(r)
    _space(r)
    _frontier(r)
    if r.ranked:
        _ranked(r)
    if r.pick is not None:
        _pick(r.pick, r)
    elif r.shortfall is not None:
        _shortfall(r)
    if saved is not None:
        out.print(f"\nPlan saved to {saved}. Next: planner export {saved} | kubectl apply -f -", markup=False)


def _assumptions(r: Recommendation) -> None:
    stdout().print("\n[bold]Assumed[/bold] (change with the flag)")
    unsure: dict[str, list[str]] = {}
    for a in r.assumptions:
        owner, _, field = a.name.rpartition(".")
        if owner and a.why.startswith("not confirmed"):
            unsure.setdefault(owner, []).append(f"{field} {a.value}")
        else:
            print_lines(f"{a.name}: {a.value} — {a.why}  {a.flag}")
    for owner, figures in unsure.items():
        print_lines(f"not confirmed in {owner}: {', '.join(figures)}  (planner profiles show {owner})")


def _space(r: Recommendation) -> None:
    s = r.space
    stdout().print("\n[bold]Space[/bold]")
    print_lines(
        f"{s.role_configurations:,} role configurations: {s.legal:,} legal, {s.role_configurations - s.legal:,} "
        f"excluded; {s.dominated:,} legal ones lose to a twin at every load"
    )
    print_lines(
        f"{s.points:,} (configuration x load) points priced, {s.reachable:,} reachable, {s.meeting_slo:,} meet the "
        f"targets; the front is exact for {'these points' if s.sampled else 'the model'}"
    )
    if s.sampled:
        print_lines("for so many GPUs the numbers of prefill and decode groups are a sample of all that fit")
    for e in s.exclusions[:SHOWN_EXCLUSIONS]:
        print_lines(f"{e.count:>7,}  {e.code}: {e.title}")
    rest = s.exclusions[SHOWN_EXCLUSIONS:]
    if rest:
        print_lines(f"{sum(e.count for e in rest):>7,}  by {len(rest)} more rules (all in --json)")


def _frontier(r: Recommendation) -> None:
    if not r.frontier:
        return
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limitsize(
        False, False
    )  # else the COLUMNS of the caller's shell change the bytes written to a file
    plotext.plotsize(stdout().width, PLOT_HEIGHT)
    for strategy, marker in ((Strategy.AGGREGATED, "a"), (Strategy.DISAGGREGATED, "d")):
        points = [p for p in r.frontier if p.strategy is strategy]
        if points:
            plotext.scatter(
                [p.tok_s_user for p in points],
                [p.output_tok_s_per_gpu for p in points],
                marker=marker,
                label=strategy.value,
            )
    if r.pick is not None:
        plotext.scatter(
            [r.pick.evaluation.tok_s_user],
            [r.pick.evaluation.output_tok_s_per_gpu.value],
            marker="X",
            label="pick",
        )
    plotext.xlabel("tok/s/user")
    plotext.ylabel("output tok/s/GPU owned")
    stdout().print("\n[bold]Frontier[/bold] (points that meet the TTFT target)")
    stdout().print(plotext.uncolorize(plotext.build()), markup=False)


def _ranked(r: Recommendation) -> None:
    for strategy in Strategy:
        entries = [e for e in r.ranked if e.plan.strategy is strategy]
        if not entries:
            continue
        print_table(
            ["#", "plan", "GPUs", "tok/s/GPU (80 %)", "tok/s/user", "TTFT", "TPOT", "conc.", "$/Mtok"],
            [_row(e) for e in entries],
            title=f"\nBest {strategy.value} plans (= not distinguishable from #1)",
            right=(0, 2, 3, 4, 5, 6, 7, 8),
        )


def _row(e: RankedPlan) -> list[str]:
    v = e.evaluation
    cost = f"{v.usd_per_m_output_tokens:.2f}" if v.usd_per_m_output_tokens is not None else "-"
    same = "" if e.rank == 1 or e.distinguishable else "="
    return [
        f"{e.rank}{same}",
        plan_text(e),
        f"{e.plan.gpus_used}/{e.plan.gpus_owned}",
        interval(v.output_tok_s_per_gpu),
        f"{v.tok_s_user:.1f}",
        f"{v.ttft_ms.value:,.0f}",
        f"{v.tpot_ms.value:.1f}",
        f"{e.plan.concurrency:,}",
        cost,
    ]


def plan_text(e: RankedPlan) -> str:
    """Plan label with the switches that matter, one role per line."""
    lines = []
    for role in e.plan.roles:
        extras = [role.kv_dtype.value]
        if role.parallelism.dp > 1 and role.parallelism.expert_parallel:
            extras.append(_SHORT.get(role.all2all.value, role.all2all.value))
        if role.dbo:
            extras.append("dbo")
        if role.eplb is not None:
            extras.append(f"eplb+{role.eplb.redundant_experts}")
        prefix = {"prefill": "P ", "decode": "D "}.get(role.role.value, "")
        lines.append(f"{prefix}{role.label()} {' '.join(extras)}")
    return "\n".join(lines)


_SHORT = {
    "allgather_reducescatter": "ag-rs",
    "deepep_high_throughput": "deepep-ht",
    "deepep_low_latency": "deepep-ll",
    "flashinfer_nvlink_one_sided": "nvl-1s",
    "flashinfer_nvlink_two_sided": "nvl-2s",
    "mori_high_throughput": "mori-ht",
    "mori_low_latency": "mori-ll",
}


def interval(e: Estimate) -> str:
    """``value [low-high]`` with as many digits as it deserves."""
    digits = 0 if e.value >= 100 else 1
    return f"{e.value:,.{digits}f} [{e.low:,.{digits}f}-{e.high:,.{digits}f}]"


def _pick(pick: RankedPlan, r: Recommendation) -> None:
    out = stdout()
    out.print(f"\n[bold]Pick[/bold]  {pick.plan.label()}")
    print_numbers(pick.evaluation)
    out.print("\n[bold]Why[/bold]")
    for reason in r.reasons:
        print_lines(f"- {reason}")


def print_numbers(v: Evaluation) -> None:
    """Print the figures of one evaluation with intervals, engine and weakest source."""
    basis = "interpolates within the curves' data"
    if v.extrapolates:
        basis = "extrapolates in " + ", ".join(v.extrapolates)
    cost = (
        f", {v.usd_per_m_output_tokens:.2f} $/M output tokens"
        if v.usd_per_m_output_tokens is not None
        else ""
    )
    print_lines(
        f"output {interval(v.output_tok_s_per_gpu)} tok/s/GPU, {v.tok_s_user:.1f} tok/s/user, "
        f"TTFT {interval(v.ttft_ms)} ms, TPOT {interval(v.tpot_ms)} ms{cost}"
    )
    print_lines(f"{v.engine}; weakest source: {v.provenance.value}; {basis}; intervals are 80 %")


def _shortfall(r: Recommendation) -> None:
    out = stdout()
    shortfall = r.shortfall
    if shortfall is None:
        return
    out.print("\n[bold]No plan meets the targets[/bold]")
    print_lines(f"binding: {shortfall.binding}")
    if shortfall.nearest is not None:
        print_lines(f"nearest: {shortfall.nearest.plan.label()}")
        print_numbers(shortfall.nearest.evaluation)
    for line in shortfall.needed:
        print_lines(f"would do: {line}")
