"""The answer to "why not this plan?" as headed lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from console.views.metrics import figure
from planner.domain.errors import InputError, Issue
from planner.search.notation import EXAMPLE
from planner.search.why_not import Verdict, WhyNot

_PAIR: Final = re.compile(r"^\s*[Pp]\s+(?P<prefill>.+?)\s+[Dd]\s+(?P<decode>.+)$")


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


def split_roles(text: str) -> tuple[str | None, str | None, str | None]:
    """Split what a user types into (aggregated, prefill, decode) role texts.

    Takes ``2x(tp1,dp8)``, ``P 2x(tp1,dp8) D 1x(tp1,dp16)`` (a plan's label) and ``2x(tp1,dp8) / 1x(tp1,dp16)``.
    Raises InputError ``why-not.roles`` for anything else.
    """
    match = _PAIR.match(text)
    if match is not None:
        return None, match["prefill"].strip(), match["decode"].strip()
    parts = [p.strip() for p in text.split("/") if p.strip()]
    if len(parts) == 2:
        return None, parts[0], parts[1]
    if len(parts) == 1:
        return parts[0], None, None
    raise InputError(
        Issue(
            code="why-not.roles",
            what=f"'{text}'",
            why="a plan is one aggregated role, or a prefill and a decode role",
            fix=f"write it like {EXAMPLE} or P 2x(tp1,dp8) D 1x(tp1,dp16)",
        )
    )
