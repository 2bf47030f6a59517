"""Simulation results as tables."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cli.output import print_table, stdout
from planner.simulation.paired import PairedDifference
from planner.simulation.result import Distribution, Figure, RoleFigures, SimulationResult


def _ms(figure: Figure) -> str:
    return f"{figure.value:,.1f}"


def _with_interval(figure: Figure) -> str:
    return f"{figure.value:,.1f} [{figure.low:,.1f}-{figure.high:,.1f}]"


def print_simulation(result: SimulationResult) -> None:
    """Headline, latencies, roles, notes."""
    out = stdout()
    rate = result.output_tok_s
    spread = f" [{rate.low:,.0f}-{rate.high:,.0f}]" if result.replications > 1 else ""
    out.print(f"{result.cluster}", style="bold", markup=False)
    out.print(
        f"workload {result.workload}: {result.measured:,} of {result.requests:,} requests measured; the first "
        f"{result.warmup:,} are warm-up and left out; {result.window_s:,.1f} s window\n"
    )
    out.print(
        f"output {rate.value:,.0f}{spread} tok/s, {result.output_tok_s_per_gpu:,.1f} tok/s/GPU on {result.gpus} GPUs; "
        f"{result.requests_per_s:,.3g} requests/s; {result.mean_in_flight:,.1f} in flight"
    )
    if result.goodput_per_s is not None:
        out.print(f"goodput {result.goodput_per_s:,.3g} requests/s meet the targets")
    out.print(f"prefix hits {result.prefix_hit_rate:.1%} of prompt tokens")
    if result.failed:
        out.print(f"failed requests: {result.failed:,}")
    rows: list[tuple[str, Distribution]] = [
        ("TTFT", result.ttft_ms), ("TPOT", result.tpot_ms), ("ITL", result.itl_ms), ("E2E", result.e2e_ms)
    ]  # fmt: skip
    if result.transfer_ms is not None:
        rows.append(("KV transfer", result.transfer_ms))
    print_table(
        ("ms", "mean", "p50 [95 %]", "p90", "p99 [95 %]"),
        [
            (n, _ms(d.mean), _with_interval(d.p50), _ms(d.p90), _with_interval(d.p99))
            for n, d in rows
            if d.count
        ],
        right=range(1, 5),
    )
    _print_roles(result.roles)
    for note in result.notes:
        out.print(f"note: {note}", markup=False)


def _print_roles(roles: Sequence[RoleFigures]) -> None:
    print_table(
        ("role", "step ms", "busy", "straggler", "dummy", "hits", "peak KV", "preempted", "most/least loaded rank"),
        [
            (
                r.name, f"{r.step_ms:,.1f}", f"{r.busy_share:.0%}", f"{r.straggler_share:.1%}", f"{r.dummy_share:.1%}",
                f"{r.hit_rate:.0%}", f"{r.peak_kv_share:.0%}", f"{r.preemptions:,}", _extremes(r),
            )
            for r in roles
        ],
        right=range(1, 9),
    )  # fmt: skip


def _extremes(role: RoleFigures) -> str:
    tokens = [r.prefill_tokens + r.output_tokens for r in role.ranks]
    mean = sum(tokens) / max(len(tokens), 1)
    return f"{max(tokens) / mean:.2f}x / {min(tokens) / mean:.2f}x" if mean > 0 else "-"


def print_comparison(results: Sequence[SimulationResult], differences: Sequence[PairedDifference]) -> None:
    """Side by side, then differences to the first under common random numbers."""
    print_table(
        ("", "plan and router", "tok/s/GPU", "TTFT p50", "TTFT p99", "TPOT p50", "hits", "straggler"),
        [
            (
                chr(65 + i), r.cluster, f"{r.output_tok_s_per_gpu:,.1f}", _ms(r.ttft_ms.p50), _ms(r.ttft_ms.p99),
                f"{r.tpot_ms.p50.value:,.2f}", f"{r.prefix_hit_rate:.0%}",
                f"{max(x.straggler_share for x in r.roles):.1%}",
            )
            for i, r in enumerate(results)
        ],
        right=range(2, 8),
    )  # fmt: skip
    print_table(
        ("against A", "what", "difference [95 %]", "relative", "verdict"),
        [
            (
                chr(65 + d.other), d.metric, f"{d.difference.value:+,.2f} [{d.difference.low:+,.2f}, {d.difference.high:+,.2f}]",
                f"{d.relative:+.1%}", "differs" if d.significant else "not distinguishable",
            )
            for d in differences
        ],
        right=(2, 3),
    )  # fmt: skip
    for note in dict.fromkeys(n for r in results for n in r.notes):
        stdout().print(f"note: {note}", markup=False)
