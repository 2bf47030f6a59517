"""Two to six plans side by side: parameters, then metrics with differences in percent, then manifests."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.views.metrics import change, figure
from console.views.points import facts_of
from planner.domain.deployment import DeploymentPlan, Role, RolePlan
from planner.domain.evaluation import Evaluation
from planner.domain.provenance import Estimate

MOST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareCell:
    """A value; `change` is against the first plan, `better` None when there is no better or no difference."""

    text: str
    change: str = ""
    better: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRow:
    """One parameter or metric of every plan. `differs` is False when all cells say the same."""

    name: str
    cells: tuple[CompareCell, ...]
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison; the first plan is the base. `verdict` says what the second gives up, in words."""

    labels: tuple[str, ...]
    parameters: tuple[CompareRow, ...]
    metrics: tuple[CompareRow, ...]
    verdict: tuple[str, ...]


def comparison(plans: Sequence[tuple[DeploymentPlan, Evaluation]]) -> Comparison:
    """Compare `plans`; the first is the base."""
    return Comparison(
        labels=tuple(p.label() for p, _ in plans),
        parameters=tuple(_parameters([p for p, _ in plans])),
        metrics=tuple(_metrics(plans)),
        verdict=tuple(_verdict(plans)),
    )


def _parameters(plans: Sequence[DeploymentPlan]) -> list[CompareRow]:
    rows = [
        _plain("strategy", [p.strategy.value for p in plans]),
        _plain("GPUs used", [f"{p.gpus_used} of {p.gpus_owned}" for p in plans]),
        _plain("requests in flight", [f"{p.concurrency:,}" for p in plans]),
        _plain("max_model_len", [f"{p.max_model_len:,}" for p in plans]),
    ]
    for role in (Role.AGGREGATED, Role.PREFILL, Role.DECODE):
        members = [p.role(role) for p in plans]
        if all(m is None for m in members):
            continue
        if any(m is None for m in members):
            # a role that some plans do not have is one row: nothing in it can be compared
            rows.append(_plain(f"{role.value} role", ["–" if m is None else _role_text(m) for m in members]))
        else:
            rows.extend(
                _plain(f"{role.value} {name}", [getter(m) for m in members if m is not None])
                for name, getter in _ROLE_PARAMETERS
            )
    return rows


_ROLE_PARAMETERS: Final[tuple[tuple[str, Callable[[RolePlan], str]], ...]] = (
    ("groups", lambda r: str(r.groups)),
    ("widths", lambda r: r.parallelism.label()),
    ("GPU", lambda r: r.gpu),
    ("KV format", lambda r: r.kv_dtype.value),
    ("exchange", lambda r: r.all2all.value),
    ("DBO", lambda r: "on" if r.dbo else "off"),
    ("EPLB", lambda r: f"+{r.eplb.redundant_experts}" if r.eplb is not None else "off"),
    ("max_num_seqs", lambda r: str(r.max_num_seqs)),
    ("max_num_batched_tokens", lambda r: str(r.max_num_batched_tokens)),
)


def _role_text(role: RolePlan) -> str:
    return f"{role.label()} {facts_of(role).extras}"


def _plain(name: str, texts: Sequence[str]) -> CompareRow:
    return CompareRow(name=name, cells=tuple(CompareCell(text=t) for t in texts), differs=len(set(texts)) > 1)


def _metrics(plans: Sequence[tuple[DeploymentPlan, Evaluation]]) -> list[CompareRow]:
    values = [e for _, e in plans]
    kv = [float(e.memory[-1].kv_tokens_per_rank) for e in values]
    return [
        _numbers("output tok/s/GPU owned", [e.output_tok_s_per_gpu.value for e in values], higher=True),
        _numbers("tok/s/user", [e.tok_s_user for e in values], higher=True),
        _numbers("TTFT p50, ms", [e.ttft_ms.value for e in values], higher=False),
        _numbers("TPOT p50, ms", [e.tpot_ms.value for e in values], higher=False),
        _numbers("$/M output tokens", [e.usd_per_m_output_tokens for e in values], higher=False),
        _numbers("in + out tok/s/GPU owned", [e.total_tok_s_per_gpu for e in values], higher=True),
        _numbers("KV tokens per decode rank", kv, higher=True),
        _numbers("KV transfer, ms", [e.kv_transfer_ms for e in values], higher=False),
        _plain("80 % of tok/s/GPU", [_interval(e.output_tok_s_per_gpu) for e in values]),
        _plain("80 % of TTFT, ms", [_interval(e.ttft_ms) for e in values]),
        _plain("weakest source", [e.provenance.value for e in values]),
    ]


def _numbers(name: str, values: Sequence[float | None], *, higher: bool) -> CompareRow:
    base = values[0]
    cells = [CompareCell(text=figure(base))]
    for value in values[1:]:
        if value is None or base is None:
            cells.append(CompareCell(text=figure(value)))
            continue
        text = change(value, base)
        better = None if text in {"=", "–"} else (value > base) is higher
        cells.append(CompareCell(text=figure(value), change=text, better=better))
    return CompareRow(name=name, cells=tuple(cells), differs=any(c.change not in {"", "="} for c in cells))


def _interval(e: Estimate) -> str:
    return f"{figure(e.low)} – {figure(e.high)}"


def _verdict(plans: Sequence[tuple[DeploymentPlan, Evaluation]]) -> list[str]:
    _, base = plans[0]
    lines = []
    for plan, evaluation in plans[1:]:
        rate = change(evaluation.output_tok_s_per_gpu.value, base.output_tok_s_per_gpu.value)
        ttft = change(evaluation.ttft_ms.value, base.ttft_ms.value)
        tpot = change(evaluation.tpot_ms.value, base.tpot_ms.value)
        sure = (
            "not distinguishable: their 80 % intervals overlap"
            if evaluation.output_tok_s_per_gpu.overlaps(base.output_tok_s_per_gpu)
            else "distinguishable"
        )
        lines.append(f"{plan.label()}: {rate} tok/s/GPU, TTFT {ttft}, TPOT {tpot}; {sure}")
    return lines


def manifest_diff(first: str, second: str, *, names: tuple[str, str], context: int = 2) -> tuple[str, ...]:
    """Unified diff of two manifests, as lines; empty when they are equal."""
    lines = difflib.unified_diff(
        first.splitlines(), second.splitlines(), fromfile=names[0], tofile=names[1], lineterm="", n=context
    )
    return tuple(lines)
