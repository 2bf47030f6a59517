"""Results of `planner simulate --scenario` as tables and sentences."""

from __future__ import annotations

from planner.cli.output import print_lines, print_table, stdout
from planner.cli.render_scaling import print_over_time, print_variants
from planner.domain.workload import SloTargets
from planner.simulation.scaling.elastic_compare import ElasticAnswer
from planner.simulation.scaling.load import length
from planner.simulation.scaling.rebalancing import Rebalanced, RebalancingAnswer

SUPPORT_ELASTIC = (
    "Supported today (vLLM 0.33.0): --enable-elastic-ep (needs --enable-eplb, --elastic-ep-max-dp-size; one internal API server "
    "or external load balancing; no PP, no DBO), resized by POST /scale_elastic_ep; routes answer 503 while it scales. "
    "'live' is what background preparation (vllm PR 47288) and graph reuse with NIXL EP (PR 54985) aim at: unmeasured here. "
    "llm-d has no controller for it that we know of: a LeaderWorkerSet's size is fixed, so the pods must exist beforehand."
)
SUPPORT_EPLB = (
    "Supported today (vLLM 0.33.0): --enable-eplb with --eplb-config '{\"use_async\": true}' (the default; the communicator must not "
    "be nccl or pynccl). Known failure: the asynchronous thread can stall silently on EP16 across nodes (vllm issue 57883, "
    "2026-09); watch the steps until the next rearrangement in the logs."
)


def print_elastic(answer: ElasticAnswer, *, slo: SloTargets, name: str) -> None:
    """Widths, fleets, downtime, what is supported."""
    out = stdout()
    c, how = answer.curve, answer.how
    limits = ", ".join(
        f"{n} <= {v:,.4g} ms"
        for n, v in (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_limit_ms))
        if v is not None
    )
    out.print(name, style="bold", markup=False)
    print_lines(
        f"load {c.label}: {answer.variants[0].requests:,} requests in {length(c.end_s)}; targets {limits}"
    )
    print_lines(
        f"a change of width (stated): {how.prepare_s:g} s to prepare new ranks while serving, {how.pause_s:g} s without a "
        f"step, given up after {how.drain_timeout_s:g} s of draining; a new group serves after {answer.cold_start_s:g} s"
    )
    others = f"; prefill keeps {answer.prefill_groups} groups in every fleet" if answer.prefill_groups else ""
    print_lines(f"the peak asks for {answer.needed_ranks} ranks{others}")
    print_table(
        ("width", "EP", "redundant experts", "KV per rank, elastic", "KV per rank, launched so"),
        [
            (
                f"dp{w.dp}",
                str(w.ep),
                str(w.redundant_experts),
                f"{w.kv_tokens:,}",
                f"{w.launched_kv_tokens:,}",
            )
            for w in answer.widths
        ],
        title="\nWidths: experts per rank stay as launched, so a wider elastic group gains ranks but no room per rank",
        right=range(1, 5),
    )
    print_variants(
        answer.variants, title="\nFleets under the same arrivals (P in groups, D in groups or ranks)"
    )
    for fleet, times in answer.downtimes_s.items():
        if times:
            print_lines(
                f"{fleet}: {len(times)} changes, without service for {sum(times):,.0f} s in all, {max(times):,.0f} s at most; "
                f"{answer.given_up[fleet]} given up at the drain timeout"
            )
    print_over_time(answer.variants)
    for line in _elastic_verdict(answer):
        print_lines(line, indent=0)
    for note in answer.notes:
        print_lines(f"note: {note}", indent=0)
    print_lines(SUPPORT_ELASTIC, indent=0)


def _elastic_verdict(answer: ElasticAnswer) -> list[str]:
    wide, _, replicas, drained, live = answer.variants
    lines = [
        (
            f"'{v.name}' takes {v.gpu_hours:,.1f} GPU-hours, {v.gpu_hours / wide.gpu_hours - 1.0:+.0%} to '{wide.name}', "
            f"with {v.attainment:.1%} of requests within the targets."
        )
        for v in (replicas, drained, live)
    ]
    best = max((replicas, drained, live), key=lambda v: (round(v.attainment, 3), -v.gpu_hours))
    lines.append(f"Of the three that follow the load, '{best.name}' serves best here.")
    return lines


def print_rebalancing(answer: RebalancingAnswer, *, name: str) -> None:
    """Ways of balancing, and what a stall costs."""
    out = stdout()
    out.print(name, style="bold", markup=False)
    print_lines(
        f"{answer.role}: steps of {answer.step_ms:,.1f} ms; without EPLB the hottest rank gets {answer.hottest_load:.2f} times the "
        f"load it has with {answer.redundant_experts} redundant experts, and at this batch experts and exchange take "
        f"{answer.slowdown_before:.2f} times as long"
    )
    first = answer.ways[0]
    print_table(
        ("experts", "every", "slowdown", "tok/s", "vs none", "TPOT p50", "ITL p99", "moves", "stalled s"),
        [_way(w, answer, first) for w in answer.ways],
        title="\nThe plan at its own concurrency, the same requests",
        right=range(1, 9),
    )
    print_lines(
        "slowdown: of experts and exchange, mean between two rearrangements; slow drift: 63 % of the imbalance is back after "
        "four intervals, fast: after half of one. How fast experts' loads drift in your traffic is not known here."
    )
    by_name = {w.name: w for w in answer.ways}
    sync, asynchronous = by_name["sync, no drift"], by_name["async, no drift"]
    loss = 1.0 - sync.result.output_tok_s.value / asynchronous.result.output_tok_s.value
    by_hand = answer.pause_s / (sync.interval_steps * answer.step_ms * 1e-3)
    print_lines(
        f"A stall of {answer.pause_s:g} s every {sync.interval_steps:,} steps costs {loss:.1%} of the output (by hand: "
        f"{by_hand:.1%}), and one gap of {answer.pause_s:g} s per request that it meets.",
        indent=0,
    )
    best = max(answer.ways, key=lambda w: w.result.output_tok_s.value)
    gain = asynchronous.result.output_tok_s.value / first.result.output_tok_s.value - 1.0
    if best is first:
        print_lines(
            f"EPLB does not pay at this batch ({gain:+.1%} at its best): reading the experts' weights takes the time, and a "
            "redundant expert is one more to read. Larger batches or a stronger imbalance would turn it.",
            indent=0,
        )
    else:
        print_lines(f"EPLB pays: {gain:+.1%} output with an asynchronous one and no drift.", indent=0)
    for note in answer.notes:
        print_lines(f"note: {note}", indent=0)
    print_lines(SUPPORT_EPLB, indent=0)


def _way(w: Rebalanced, answer: RebalancingAnswer, first: Rebalanced) -> tuple[str, ...]:
    role = next(r for r in w.result.roles if r.name == answer.role)
    rate = w.result.output_tok_s.value
    return (
        w.name, f"{w.interval_steps:,}" if w.interval_steps else "-", f"{w.slowdown:.3f}", f"{rate:,.0f}",
        "" if w is first else f"{rate / first.result.output_tok_s.value - 1.0:+.1%}", f"{w.result.tpot_ms.p50.value:.1f}",
        f"{w.result.itl_ms.p99.value:.1f}", str(role.rearrangements), f"{role.paused_s:.1f}",
    )  # fmt: skip
