"""Autoscaling and scenario results as tables, plots and sentences."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cli.output import print_lines, print_table, stdout
from planner.domain.workload import SloTargets
from planner.simulation.scaling.compare import INDEPENDENT, NO_COLD_START, TOGETHER, Answer
from planner.simulation.scaling.figures import ScaledFigures
from planner.simulation.scaling.load import length, time_unit
from planner.simulation.scaling.policy import UNIT, Metric
from planner.simulation.scaling.report import differences

_BARS = " ▁▂▃▄▅▆▇█"
_PLOT_HEIGHT = 14

SUPPORT_AUTOSCALE = (
    "Supported today: a DisaggregatedSet role with scaling.mode External gets a DisaggregatedSetRoleScaler whose /scale "
    "HPA or KEDA drives (scaled independently; slices must stay 1); spec.slices adds whole copies (scaled together). "
    "Draining is not given: a pod's terminationGracePeriodSeconds must exceed its longest answer."
)


def print_answer(answer: Answer, *, slo: SloTargets, name: str) -> None:
    """The comparison: sizing, variants, groups over time, cold starts, what is supported."""
    out = stdout()
    c, cap = answer.curve, answer.capacity
    out.print(name, style="bold", markup=False)
    print_lines(
        f"load {c.label}: {answer.variants[0].requests:,} requests in {length(c.end_s)}, mean {c.mean_rps:,.3g}/s; "
        f"targets {_targets(slo)}"
    )
    print_lines(
        f"the plan as it is, simulated at its own load: {cap.rps:,.3g} requests/s, TTFT p50 {cap.ttft_p50_ms:,.0f} ms, "
        f"TPOT p50 {cap.tpot_p50_ms:,.1f} ms"
    )
    b = answer.behaviour
    print_lines(
        f"autoscaler: looks every {b.sync_s:g} s, metric averaged over {b.average_s:g} s, tolerance {b.tolerance:.0%}, "
        f"scale-down window {b.down_window_s:g} s, at most {b.step} groups a decision; "
        f"a new group serves after {answer.cold_start_s:g} s (stated, --cold-start-s)"
    )
    print_table(
        ("role", "metric of a group", "plan's load", "target", "GPUs", "peak", "mean", "bounds"),
        [
            (
                s.role, UNIT[s.policy.metric], _value(s.at_plan, s.policy.metric), _value(s.policy.target, s.policy.metric),
                str(s.gpus_per_group), str(s.peak), str(s.mean), f"{s.policy.least}-{s.policy.most}",
            )
            for s in answer.sizing
        ],
        title="\nGroups that the targets ask for at the steady peak and mean",
        right=(2, 3, 4, 5, 6, 7),
    )  # fmt: skip
    print_variants(answer.variants, title="\nFleets under the same arrivals")
    for line in _differences(answer):
        print_lines(line)
    scaled = next((v for v in answer.variants if v.name == INDEPENDENT), None)
    if scaled is not None and (scaled.started or scaled.removed):
        print_groups(scaled, end_s=c.end_s)
    print_over_time(answer.variants)
    for line in _verdict(answer):
        print_lines(line, indent=0)
    print_lines(SUPPORT_AUTOSCALE, indent=0)


def _targets(slo: SloTargets) -> str:
    limits = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_limit_ms))
    return ", ".join(f"{name} <= {value:,.4g} ms" for name, value in limits if value is not None)


def _value(value: float, metric: Metric) -> str:
    return f"{value:.0%}" if metric in {Metric.KV, Metric.UTILISATION} else f"{value:,.0f}"


def print_variants(variants: Sequence[ScaledFigures], *, title: str) -> None:
    """One row per fleet; the first is the reference."""
    print_table(
        ("fleet", "GPU-h", "vs 1st", "in target", "TTFT p50", "p99", "TPOT p50", "starts", "groups"),
        [
            (
                v.name, f"{v.gpu_hours:,.1f}", "" if i == 0 else f"{v.gpu_hours / variants[0].gpu_hours - 1.0:+.0%}",
                f"{v.attainment:.1%}", f"{v.ttft_p50_ms:,.0f}", f"{v.ttft_p99_ms:,.0f}",
                f"{v.tpot_p50_ms:,.1f}", str(v.started),
                " ".join(f"{r.role[0].upper()}{_span(r.least, r.most)}" for r in v.roles),
            )
            for i, v in enumerate(variants)
        ],
        title=title,
        right=range(1, 8),
    )  # fmt: skip
    print_lines(
        "in target: requests within every target; TTFT and TPOT in ms; groups: fewest to most that served"
    )
    for v in variants:
        if v.refused or v.failed:
            print_lines(
                f"{v.name}: {v.refused:,} answers of 503 (clients retry every second), {v.failed:,} failed requests"
            )


def _span(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}-{most}"


def _differences(answer: Answer) -> list[str]:
    found = differences(answer)
    if not found:
        return ["one replication: differences are of one day; --replications 5 gives intervals"]
    first = answer.variants[0].name
    return [
        f"differences to '{first}' over {len(answer.replications)} days with the same arrivals [95 %]:"
    ] + [f"  {v}: {m} {d.value:+,.1f} [{d.low:+,.1f}, {d.high:+,.1f}]" for v, m, d in found]


def print_groups(v: ScaledFigures, *, end_s: float) -> None:
    """Serving groups over time as a plot; the letter is the role's first."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limitsize(False, False)
    plotext.plotsize(stdout().width, _PLOT_HEIGHT)
    name, unit = time_unit(end_s)
    times = [w.from_s / unit for w in v.windows]
    for r in v.roles:
        plotext.scatter(times, list(r.groups), marker=r.role[0], label=f"{r.role} groups")
    top = max(max(r.groups) for r in v.roles)
    plotext.ylim(0, top * 1.05)
    plotext.xlabel(name)
    stdout().print(f"\nServing groups, {v.name} (mean of each window)", markup=False)
    stdout().print(plotext.uncolorize(plotext.build()), markup=False)


def bars(values: Sequence[float], top: float) -> str:
    """Values as bars of eight heights; a blank where there is no value."""
    out = []
    for x in values:
        share = min(max(x / top, 0.0), 1.0) if top > 0 and x == x else None
        out.append(" " if share is None else _BARS[max(1, round(share * 8))])
    return "".join(out)


def print_over_time(variants: Sequence[ScaledFigures]) -> None:
    """Load and targets over the curve, one bar per window."""
    out = stdout()
    width = max(len(v.name) for v in variants)
    load = [w.rps for w in variants[0].windows]
    out.print(
        "\nRequests within the targets over time (full height: all; at the end: the worst window)",
        markup=False,
    )
    out.print(f"  {'load':<{width}}  {bars(load, max(load))}  up to {max(load):,.3g}/s", markup=False)
    for v in variants:
        shares = [w.attainment for w in v.windows]
        out.print(f"  {v.name:<{width}}  {bars(shares, 1.0)}  {v.worst_window:.0%}", markup=False)
    out.print()


def _verdict(answer: Answer) -> list[str]:
    by_name = {v.name: v for v in answer.variants}
    peak, own, warm = answer.variants[0], by_name[INDEPENDENT], by_name[NO_COLD_START]
    loading = sum(r.starting_gpu_hours for r in own.roles)
    draining = sum(r.draining_gpu_hours for r in own.roles)
    drain_s = max(r.longest_drain_s for r in own.roles)
    lines = [
        (
            f"Scaled per role, the plan takes {own.gpu_hours:,.1f} GPU-hours instead of {peak.gpu_hours:,.1f} "
            f"({own.gpu_hours / peak.gpu_hours - 1.0:+.0%}); {own.attainment:.1%} of requests are within the targets "
            f"instead of {peak.attainment:.1%}."
        ),
        (
            f"Price of cold starts: {own.started} starts, {loading:,.1f} GPU-hours loading "
            f"({loading / own.gpu_hours:.1%} of the bill), {100.0 * (warm.attainment - own.attainment):.1f} points of "
            f"requests lost against groups that are ready at once; draining held {draining:,.1f} GPU-hours, the longest "
            f"drain took {drain_s:,.0f} s."
        ),
    ]
    together = by_name.get(TOGETHER)
    if together is not None:
        lines.append(
            f"Against whole copies: {own.gpu_hours / together.gpu_hours - 1.0:+.0%} GPU-hours, "
            f"{100.0 * (own.attainment - together.attainment):+.1f} points of requests within the targets."
        )
    if not own.started and not own.removed:
        lines.append(
            "Nothing was scaled: one size serves this whole curve. A higher peak or smaller groups would change that."
        )
    followed = sum(r.most - r.least for r in own.roles)
    if own.started > 3 * max(followed, 1):
        lines.append(
            f"The metric is noisy here: {own.started} starts where {followed} would follow the curve. A longer "
            "--stabilisation-s, another --metric or a higher --min-groups calms it."
        )
    lines += [
        f"{s.role}: the peak asks for {s.peak} groups, the autoscaler may use {s.policy.most} (--max-groups)."
        for s in answer.sizing
        if s.peak > s.policy.most
    ]
    if peak.attainment < 0.9:
        lines.append(
            "Even the fleet for the peak misses the targets for many requests: they are medians in a plan, and here every "
            "request counts. --ttft-ms and --tpot-ms set what to count."
        )
    late = max(answer.variants, key=lambda v: v.late)
    if late.late > 0.02 * late.requests:
        lines.append(
            f"'{late.name}' still had {late.late:,} requests to serve when the curve ended; that time is not in its GPU-hours."
        )
    return lines
