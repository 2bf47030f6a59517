"""The text of `planner estimate`: numbers, where the step goes, where the memory goes."""

from __future__ import annotations

from planner.cli.output import print_table, stdout
from planner.cli.render_recommendation import interval
from planner.search.price import Priced


def print_evaluation(priced: Priced) -> None:
    """Print the evaluation of one plan within 100 columns."""
    plan, v = priced.plan, priced.evaluation
    out = stdout()
    out.print(f"[bold]{plan.name}[/bold]  {plan.label()}  ({plan.gpus_used} of {plan.gpus_owned} GPUs used)")
    out.print(
        f"{plan.model}, {plan.workload.isl} in / {plan.workload.osl} out, {plan.concurrency:,} requests in flight; "
        f"{v.engine}",
        markup=False,
    )
    cost = (
        f"{v.usd_per_m_output_tokens:.2f} $/M output tokens" if v.usd_per_m_output_tokens is not None else "-"
    )
    print_table(
        ["figure", "value (80 % interval)"],
        [
            ["output tok/s/GPU owned", interval(v.output_tok_s_per_gpu)],
            ["input + output tok/s/GPU owned", f"{v.total_tok_s_per_gpu:,.0f}"],
            ["tok/s/user", f"{v.tok_s_user:.1f}"],
            ["TTFT p50, ms", interval(v.ttft_ms)],
            ["TPOT p50, ms", interval(v.tpot_ms)],
            ["requests/s", f"{v.requests_per_s:.2f}"],
            ["KV transfer, ms", f"{v.kv_transfer_ms:.1f}"],
            ["cost", cost],
            ["limited by", v.binding.value],
        ],
        right=(1,),
    )
    print_table(
        ["role", "part of the step", "ms", "share", "source"],
        [
            [
                s.role.value if i == 0 else "",
                t.term.value,
                f"{t.ms:.2f}",
                f"{100.0 * t.ms / s.total_ms:.0f} %",
                t.provenance.value,
            ]
            for s in v.steps
            for i, t in enumerate(s.terms)
        ],
        title="Step time ("
        + ", ".join(f"{s.role.value} {s.total_ms:.1f} ms at {s.tokens:.0f} tokens/rank" for s in v.steps)
        + ")",
        right=(2, 3),
    )
    print_table(
        ["role", "total", "kept free", "attention", "experts", "other", "activ.", "graphs", "buffers", "KV", "KV tokens/rank"],
        [
            [
                m.role.value, f"{m.total_gib:.1f}", f"{m.reserved_gib:.1f}", f"{m.weights_attention_gib:.1f}",
                f"{m.weights_experts_gib:.1f}", f"{m.weights_other_gib:.1f}", f"{m.activations_gib:.1f}",
                f"{m.graphs_gib:.1f}", f"{m.buffers_gib:.1f}", f"{m.kv_gib:.1f}", f"{m.kv_tokens_per_rank:,}",
            ]
            for m in v.memory
        ],
        title="Memory per GPU, GiB",
        right=range(1, 11),
    )  # fmt: skip
    basis = (
        "extrapolates in " + ", ".join(v.extrapolates)
        if v.extrapolates
        else "interpolates within the curves' data"
    )
    out.print(f"weakest source: {v.provenance.value}; {basis}", markup=False)
