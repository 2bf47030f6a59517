"""What recipes look like in words: their families, texts shared by the commands, and ``recipes/README.md``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planner.domain.provenance import Estimate
from planner.domain.recipe import ExpectedOutcome, PlannedOutcome, Recipe, RecipeFamily

HEADINGS: Final[Mapping[RecipeFamily | None, str]] = {
    RecipeFamily.NETWORK: "What does the network cost?",
    RecipeFamily.HARDWARE: "Which GPUs, and how many?",
    RecipeFamily.MODEL: "What does the model change?",
    RecipeFamily.TRAFFIC: "What does the traffic change?",
    RecipeFamily.GOAL: "What is optimised for?",
    RecipeFamily.LIMITS: "What if there is no answer?",
    None: "Others",
}
NBSP: Final = "\u00a0"
LIMITS: Final = re.compile(r",tokens=\d+,seqs=\d+")  # in the kept answers; a table has no room for them
INTRO: Final = """# Recipes

Named questions with the plan this version answers. Written by `planner recipes check --update` from the files here and in `expected/`; do not edit.

- `planner recommend NAME` asks the question; `planner recipes show NAME` shows the plan, its sources and what was published.
- `planner recipes check` plans all of them again and says what changed; a change of the performance model shows as a change of `expected/` in review.
- `planner recipes new NAME --from RECIPE` starts one of your own. The format: [docs/reference/recipes.md](../docs/reference/recipes.md).

Rates are output tokens/s per GPU owned with the 80 % interval, and tokens/s per user; TTFT and TPOT are medians in ms; costs are $ per
million output tokens; the other strategy is the best plan that does (not) share engines between prefill and decode.
Published rates come from other engines or settings unless the recipe says otherwise: the recipe file names the source and what differs.
*Outside* marks a published rate that our interval does not reach.
"""


def by_family(recipes: Iterable[Recipe]) -> list[tuple[str, list[Recipe]]]:
    """Recipes under the question they belong to, in the order of `RecipeFamily`; empty families are left out."""
    members: dict[RecipeFamily | None, list[Recipe]] = {f: [] for f in HEADINGS}
    for r in recipes:
        members[r.family].append(r)
    return [(HEADINGS[f], found) for f, found in members.items() if found]


def published_text(e: ExpectedOutcome) -> str:
    """The published rate or range of rates."""
    low, high = e.output_tok_s_per_gpu_low, e.output_tok_s_per_gpu_high
    if low is not None and high is not None:
        return rate_text(low) if low == high else f"{rate_text(low)} to {rate_text(high)}"
    if low is not None:
        return f"{rate_text(low)} or more"
    if high is not None:
        return f"{rate_text(high)} or less"
    return "a plan" if e.feasible else "no plan"


def interval(e: Estimate) -> str:
    """``value [low-high]`` with as many digits as it deserves."""
    digits = 0 if e.value >= 100 else 1
    return f"{e.value:,.{digits}f} [{e.low:,.{digits}f}-{e.high:,.{digits}f}]"


def rate_text(rate: float) -> str:
    """Tokens/s with as many digits as they deserve."""
    return f"{rate:,.{0 if rate >= 100 else 1}f}"


def cost_text(usd: float | None) -> str:
    """Dollars with three digits or so; empty when the price is not known."""
    return "" if usd is None else f"{usd:,.{2 if usd >= 1 else 3}f}"


def hardware_text(r: Recipe) -> str:
    """GPUs and network of all pools."""
    return " + ".join(f"{p.gpus}x {p.gpu} {p.fabric}" for p in r.pools)


def traffic_text(r: Recipe) -> str:
    """Tokens in and out, with the share of prompts that is in cache where there is any."""
    hit = f", {100 * r.workload.prefix_hit:.0f} % of prompt tokens in cache" if r.workload.prefix_hit else ""
    return f"{r.workload.isl} in / {r.workload.osl} out{hit}"


def targets_text(r: Recipe) -> str:
    """The targets on one line."""
    slo = r.slo
    parts = [
        f"TTFT {slo.ttft_ms:g} ms" if slo.ttft_ms is not None else "",
        f"TPOT {slo.tpot_ms:g} ms" if slo.tpot_ms is not None else "",
        f"{slo.tok_s_user:g} tok/s/user" if slo.tok_s_user is not None else "",
    ]
    return ", ".join(p for p in parts if p) or "none"


def page(recipes: Sequence[Recipe], outcomes: Mapping[str, PlannedOutcome]) -> str:
    """The text of ``recipes/README.md``; `outcomes` by recipe id."""
    parts = [INTRO]
    for heading, members in by_family(recipes):
        parts.append(f"\n## {heading}\n")
        parts.append(
            "| recipe | question | pick | tok/s/GPU | user | TTFT | TPOT | $/Mtok | other strategy | published |\n"
        )
        parts.append("|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
        parts += [_row(r, outcomes.get(r.id)) for r in members]
    return "".join(parts)


def _row(r: Recipe, o: PlannedOutcome | None) -> str:
    model = r.model.rsplit("/", 1)[-1]
    lines = (
        model,
        *hardware_text(r).split(" + "),
        *traffic_text(r).split(", "),
        *targets_text(r).split(", "),
    )
    question = "<br>".join(line.replace(" ", NBSP) for line in lines)
    published = published_text(r.expected) if r.expected else ""
    if r.expected is not None and o is not None and o.figures is not None:
        published += "" if r.expected.overlaps(o.figures.output_tok_s_per_gpu) else "<br>(outside)"
    f = o.figures if o is not None else None
    if o is None or f is None:
        pick, figures = "none" if o is not None else "not planned yet", [""] * 5
    else:
        pick = "<br>".join(
            f"{_letter(role)}`{LIMITS.sub('', plan)}`" for role, plan in zip(o.roles, o.plan, strict=True)
        )
        cost = cost_text(f.usd_per_m_output_tokens)
        figures = [
            interval(f.output_tok_s_per_gpu).replace(" ", "<br>"), f"{f.tok_s_user:.1f}", f"{f.ttft_ms.value:,.0f}",
            f"{f.tpot_ms.value:.1f}", cost,
        ]  # fmt: skip
    if o is not None and not o.feasible:
        pick = f"no plan: {o.binding}" + (f"<br>nearest: {pick}" if f is not None else "")
    other = (
        f"{o.other.strategy.value}<br>{rate_text(o.other.output_tok_s_per_gpu)}"
        if o is not None and o.other
        else ""
    )
    cells = [f"[{r.id}]({r.id}.yaml)<br>{r.why}", question, pick, *figures, other, published]
    return "| " + " | ".join(c.replace("|", "/") for c in cells) + " |\n"


def _letter(role: str) -> str:
    return {"prefill": "P ", "decode": "D "}.get(role, "")
