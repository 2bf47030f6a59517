"""The text of `planner estimate`: numbers, where the step goes, where the memory goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planner.cli.output import print_table, stdout
from planner.cli.render_recommendation import interval
from planner.domain.evaluation import MemoryBreakdown
from planner.search.price import Priced

_MEMORY: Final[tuple[tuple[str, Callable[[MemoryBreakdown], str]], ...]] = (
    ("device total", lambda m: f"{m.total_gib:.1f}"),
    ("kept free", lambda m: f"{m.reserved_gib:.1f}"),
    ("attention weights", lambda m: f"{m.weights_attention_gib:.1f}"),
    ("expert weights", lambda m: f"{m.weights_experts_gib:.1f}"),
    ("other weights", lambda m: f"{m.weights_other_gib:.1f}"),
    ("activations", lambda m: f"{m.activations_gib:.1f}"),
    ("CUDA graphs", lambda m: f"{m.graphs_gib:.1f}"),
    ("communication buffers", lambda m: f"{m.buffers_gib:.1f}"),
    ("KV cache", lambda m: f"{m.kv_gib:.1f}"),
    ("KV tokens per DP rank", lambda m: f"{m.kv_tokens_per_rank:,}"),
)


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
        ["GiB per GPU", *(m.role.value for m in v.memory)],
        [[name, *(cell(m) for m in v.memory)] for name, cell in _MEMORY],
        title="Memory",
        right=range(1, 1 + len(v.memory)),
    )
    basis = (
        "extrapolates in " + ", ".join(v.extrapolates)
        if v.extrapolates
        else "interpolates within the curves' data"
    )
    out.print(f"weakest source: {v.provenance.value}; {basis}", markup=False)
