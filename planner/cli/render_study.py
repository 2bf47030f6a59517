"""Studies as tables on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli.output import print_table, stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.domain.study import StudySummary
    from planner.search.studies.report import FoundPoint, StudyReport

SHOWN_POINTS = 12


def print_report(report: StudyReport) -> None:
    """Front, pick and regret of one study."""
    out = stdout()
    counts = ", ".join(f"{n} {state}" for state, n in report.trials.items()) or "no trials"
    out.print(
        f"Study {report.name}: {report.level.value}, sampler {report.sampler}, seed {report.seed}, {report.state.value}"
    )
    long = f", {report.long_trials} long runs" if report.long_trials else ""
    out.print(f"{counts}{long}; {report.regret.points_in_space:,} legal points in the space")
    if report.excluded:
        out.print("Excluded: " + ", ".join(f"{n} {reason}" for reason, n in report.excluded.items()))
    if report.pick is None:
        out.print("No trial meets the targets.")
    else:
        print_points(report.front, title="Front" + (" (long runs)" if report.long_trials else ""))
        p = report.pick
        out.print(
            f"Pick: {p.plan} at {p.output_tok_s_per_gpu:,.0f} tok/s/GPU, {p.tok_s_user:.1f} tok/s/user, "
            f"TTFT {p.ttft_ms:,.0f} ms"
        )
        if p.plan_hash:
            out.print(
                f"Its plan is stored as {p.plan_hash[:12]}; write it with: planner studies export {report.name} --plan FILE"
            )
    for line in regret_lines(report):
        out.print(line)


def regret_lines(report: StudyReport) -> list[str]:
    """How far from the best the study may be, in words."""
    r = report.regret
    lines = [
        f"Regret against the exact analytic front ({r.points_in_exact_front} points): "
        f"{r.hypervolume_l1:.1%} of its hypervolume is not covered"
        + (
            ""
            if r.pick_l1 is None
            else f"; by the analytic model the pick gives up {r.pick_l1:.1%} throughput"
        )
    ]
    if r.gain_over_analytic_pick is not None and r.analytic_pick_tok_s_per_gpu is not None:
        lines.append(
            f"Against the plan that the analytic model alone picks ({r.analytic_pick_tok_s_per_gpu:,.0f} tok/s/GPU here): "
            f"{r.gain_over_analytic_pick:+.1%}"
        )
    elif r.analytic_pick_tok_s_per_gpu is not None:
        lines.append("The plan that the analytic model alone picks misses a target here.")
    if r.expected_gain is not None:
        lines.append(f"One more trial is expected to add {r.expected_gain:.2%} of hypervolume.")
    return lines


def print_points(points: Sequence[FoundPoint], *, title: str) -> None:
    """Trials with their numbers, at most `SHOWN_POINTS` spread over the list."""
    step = max(-(-len(points) // SHOWN_POINTS), 1)
    rows = [
        (
            f"{p.trial}",
            p.plan,
            str(p.parameters.get("router", "default")),
            f"{p.tok_s_user:.1f}",
            f"{p.output_tok_s_per_gpu:,.0f}",
            f"{p.ttft_ms:,.0f}",
            f"{p.tpot_ms:.1f}",
            "-" if p.usd_per_m_output_tokens is None else f"{p.usd_per_m_output_tokens:.2f}",
        )
        for p in points[::step]
    ]
    print_table(
        ("trial", "plan", "router", "tok/s/user", "tok/s/GPU", "TTFT ms", "TPOT ms", "$/M"),
        rows,
        title=title,
        right=(0, 3, 4, 5, 6, 7),
    )


def print_summaries(summaries: Sequence[StudySummary]) -> None:
    """All studies, newest first."""
    rows = []
    for s in summaries:
        when = s.study.updated_at
        # long runs follow the budget of the study they belong to
        budget = None if s.study.parent is not None else s.study.settings.get("trials")
        rows.append(
            (
                s.study.name,
                s.study.level.value,
                s.study.sampler,
                s.study.state.value,
                f"{s.finished:,}" if budget is None else f"{s.finished:,} of {budget:,}",
                "-" if when is None else when.strftime("%Y-%m-%d %H:%M"),
            )
        )
    print_table(("study", "level", "sampler", "state", "trials", "updated (UTC)"), rows, right=(4,))


def print_comparison(reports: Sequence[StudyReport]) -> None:
    """One row per study."""
    rows = []
    for r in reports:
        p = r.pick
        rows.append(
            (
                r.name,
                r.sampler,
                str(sum(r.trials.values())),
                f"{r.hypervolume:,.0f}",
                f"{r.regret.hypervolume_l1:.1%}",
                "-" if p is None else f"{p.output_tok_s_per_gpu:,.0f}",
                "-" if p is None else f"{p.tok_s_user:.1f}",
                "nothing meets the targets" if p is None else p.plan,
            )
        )
    print_table(
        (
            "study",
            "sampler",
            "trials",
            "hypervol.",
            "regret",
            "tok/s/GPU",
            "/user",
            "pick",
        ),
        rows,
        right=(2, 3, 4, 5, 6),
    )
