"""One plan in full: figures with intervals, where the step goes, where the memory goes, what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from console.views.metrics import count, figure
from planner.domain.deployment import DeploymentPlan, RolePlan
from planner.domain.evaluation import Evaluation, MemoryBreakdown, StepBreakdown
from planner.domain.provenance import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A named value as text, with its 80 % interval where there is one."""

    name: str
    value: str
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a bar. `share` is of the bar's total; `source` says where the number comes from."""

    name: str
    amount: float
    share: float
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of parts. `note` holds what is not a part, e.g. time hidden by overlap."""

    title: str
    unit: str
    total: float
    segments: tuple[Segment, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDetail:
    """Everything about one plan at one load."""

    label: str
    headline: str
    arithmetic: tuple[str, ...]
    figures: tuple[Figure, ...]
    steps: tuple[Bar, ...]
    memory: tuple[Bar, ...]
    basis: str


def plan_detail(plan: DeploymentPlan, evaluation: Evaluation) -> PlanDetail:
    """The details of `plan` with the numbers of `evaluation`."""
    v = evaluation
    basis = "interpolates within the curves' data"
    if v.extrapolates:
        basis = "extrapolates in " + ", ".join(v.extrapolates)
    return PlanDetail(
        label=plan.label(),
        headline=f"{plan.strategy.value}, {plan.gpus_used} of {plan.gpus_owned} GPUs, "
        f"{plan.concurrency:,} requests in flight, {v.engine}",
        arithmetic=tuple(_arithmetic(r) for r in plan.roles),
        figures=_figures(v),
        steps=tuple(_step_bar(s) for s in v.steps),
        memory=tuple(_memory_bar(m) for m in v.memory),
        basis=f"weakest source: {v.provenance.value}; {basis}; intervals are 80 %",
    )


def _arithmetic(role: RolePlan) -> str:
    p = role.parallelism
    parts = [
        f"{role.role.value}: {role.groups} groups x TP {p.tp} x DP {p.dp} = {role.gpus} GPUs",
        f"EP {p.ep}" if p.expert_parallel else "no EP",
        f"DCP {p.dcp}" if p.dcp > 1 else "",
        f"KV {role.kv_dtype.value}",
        role.all2all.value if p.dp > 1 and p.expert_parallel else "",
        "DBO" if role.dbo else "",
        f"EPLB +{role.eplb.redundant_experts}" if role.eplb is not None else "",
        f"max_num_seqs {role.max_num_seqs}",
        f"max_num_batched_tokens {role.max_num_batched_tokens}",
    ]
    return ", ".join(p for p in parts if p)


def _figures(v: Evaluation) -> tuple[Figure, ...]:
    rows = [
        Figure(name="output tok/s/GPU owned", value=figure(v.output_tok_s_per_gpu.value),
               interval=_interval(v.output_tok_s_per_gpu)),
        Figure(name="tok/s/user", value=figure(v.tok_s_user)),
        Figure(name="TTFT p50, ms", value=figure(v.ttft_ms.value), interval=_interval(v.ttft_ms)),
        Figure(name="TPOT p50, ms", value=figure(v.tpot_ms.value), interval=_interval(v.tpot_ms)),
        Figure(name="$/M output tokens", value=figure(v.usd_per_m_output_tokens)),
        Figure(name="in + out tok/s/GPU owned", value=figure(v.total_tok_s_per_gpu)),
        Figure(name="requests/s", value=figure(v.requests_per_s)),
        Figure(name="KV transfer, ms", value=figure(v.kv_transfer_ms)),
        Figure(name="limited by", value=v.binding.value),
    ]  # fmt: skip
    return tuple(rows)


def _interval(e: Estimate) -> str:
    return f"{figure(e.low)} – {figure(e.high)}" if e.high > e.low else ""  # a search's figures have none


def _step_bar(step: StepBreakdown) -> Bar:
    parts = [t for t in step.terms if t.ms > 0.0]
    gross = sum(t.ms for t in parts)
    hidden = -sum(t.ms for t in step.terms if t.ms < 0.0)
    return Bar(
        title=f"{step.role.value} step",
        unit="ms",
        total=step.total_ms,
        segments=tuple(
            Segment(name=t.term.value, amount=t.ms, share=t.ms / gross, source=t.provenance.value)
            for t in sorted(parts, key=lambda t: -t.ms)
        ),
        note=f"{step.tokens:,.0f} tok/rank" + (f", DBO hides {hidden:.1f} ms" if hidden > 0.0 else ""),
    )


def _memory_bar(m: MemoryBreakdown) -> Bar:
    parts = (
        ("experts", m.weights_experts_gib),
        ("attention", m.weights_attention_gib),
        ("other weights", m.weights_other_gib),
        ("activations", m.activations_gib),
        ("CUDA graphs", m.graphs_gib),
        ("buffers", m.buffers_gib),
        ("KV cache", m.kv_gib),
        ("kept free", m.reserved_gib),
    )
    return Bar(
        title=f"{m.role.value}",
        unit="GiB",
        total=m.total_gib,
        segments=tuple(Segment(name=n, amount=a, share=a / m.total_gib) for n, a in parts if a > 0.0),
        note=f"{count(m.kv_tokens_per_rank)} KV tok/rank",
    )
