"""The answer to "why not this plan?" as headed lines."""

from __future__ import annotations

from dataclasses import dataclass

from console.views.metrics import figure
from planner.search.why_not import Verdict, WhyNot


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNotView:
    """Verdict, reasons as (what, why, fix) texts, and the plan that does better."""

    label: str
    verdict: str
    good: bool
    lines: tuple[str, ...]
    better: str


def why_not_view(answer: WhyNot) -> WhyNotView:
    """`answer` in words."""
    lines = [line for i in answer.issues for line in (i.what, f"   why: {i.why}", f"   fix: {i.fix}")]
    lines += list(answer.explanation)
    if answer.evaluation is not None:
        v = answer.evaluation
        lines.append(
            f"its best load, {answer.plan.concurrency:,} requests in flight: {figure(v.output_tok_s_per_gpu.value)} "
            f"tok/s/GPU at {figure(v.tok_s_user)} tok/s/user, TTFT {figure(v.ttft_ms.value)} ms"
        )
    better = ""
    if answer.better is not None and answer.better_evaluation is not None:
        e = answer.better_evaluation
        better = (
            f"{answer.better.label()}: {figure(e.output_tok_s_per_gpu.value)} tok/s/GPU at {figure(e.tok_s_user)} "
            "tok/s/user"
        )
    return WhyNotView(
        label=answer.plan.label(),
        verdict=answer.verdict.value,
        good=answer.verdict is Verdict.ON_FRONT,
        lines=tuple(lines),
        better=better,
    )
