"""Predicted against measured, metric by metric; and a steady window as a row of our measurement format."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from datetime import datetime

from console.cluster.residuals import Measured
from planner.domain.deployment import DeploymentPlan, Role, RolePlan, Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualRow:
    """One metric. `residual` is measured over predicted minus one; `inside` the 80 % interval, None without one."""

    metric: str
    unit: str
    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None

    @property
    def residual(self) -> float | None:
        """Relative difference, None when either side is not known."""
        if self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted - 1.0

    @property
    def inside(self) -> bool | None:
        """Whether the interval holds the measured value."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


def workload_of(plan: DeploymentPlan, seen: Measured) -> Workload:
    """The traffic that was measured; the plan's where the engines do not report it."""
    return replace(
        plan.workload,
        isl=round(seen.prompt_tokens) if seen.prompt_tokens else plan.workload.isl,
        osl=max(2, round(seen.output_tokens)) if seen.output_tokens else plan.workload.osl,
        prefix_hit=min(0.99, seen.prefix_hit) if seen.prefix_hit is not None else plan.workload.prefix_hit,
    )


def residual_rows(plan: DeploymentPlan, predicted: Evaluation, seen: Measured) -> tuple[ResidualRow, ...]:
    """All metrics. `predicted` is for the load and traffic that were measured; traffic rows show the plan's own."""
    return (
        ResidualRow(metric="TTFT p50", unit="ms", predicted=predicted.ttft_ms.value, low=predicted.ttft_ms.low,
                    high=predicted.ttft_ms.high, measured=seen.ttft_p50_ms),
        ResidualRow(metric="TPOT", unit="ms", predicted=predicted.tpot_ms.value, low=predicted.tpot_ms.low,
                    high=predicted.tpot_ms.high, measured=seen.tpot_mean_ms),
        ResidualRow(metric="output", unit="tok/s/GPU", predicted=predicted.output_tok_s_per_gpu.value,
                    low=predicted.output_tok_s_per_gpu.low, high=predicted.output_tok_s_per_gpu.high,
                    measured=seen.output_tok_s_per_gpu),
        ResidualRow(metric="requests", unit="1/s", predicted=predicted.requests_per_s, low=None, high=None,
                    measured=seen.requests_per_s),
        ResidualRow(metric="prefix hit", unit="share", predicted=plan.workload.prefix_hit, low=None, high=None,
                    measured=seen.prefix_hit),
        ResidualRow(metric="prompt length", unit="tokens", predicted=float(plan.workload.isl), low=None, high=None,
                    measured=seen.prompt_tokens),
        ResidualRow(metric="output length", unit="tokens", predicted=float(plan.workload.osl), low=None, high=None,
                    measured=seen.output_tokens),
    )  # fmt: skip


def measurement_csv(plan: DeploymentPlan, seen: Measured, *, at: datetime, source: str) -> str:
    """The window as one row of our CSV (columns in docs/measurements.md)."""
    decode = plan.role(Role.DECODE) or plan.roles[-1]
    prefill = plan.role(Role.PREFILL)
    row: dict[str, object] = {
        "id": at.strftime("live-%Y%m%dT%H%M%SZ"),
        "source": source,
        "date": at.strftime("%Y-%m-%d"),
        "model": plan.model,
        "gpu": decode.gpu,
        "engine": plan.engine,
        "engine_version": plan.engine_version,
        "mode": "disagg" if plan.strategy is Strategy.DISAGGREGATED else "agg",
        **(_widths("prefill", prefill) if prefill else {}),
        **_widths("decode", decode),
        "total_gpus": plan.gpus_used,
        "isl": round(seen.prompt_tokens or plan.workload.isl),
        "osl": round(seen.output_tokens or plan.workload.osl),
        "prefix_hit_or_shared_tokens": "" if seen.prefix_hit is None else f"{seen.prefix_hit:.2%}",
        "concurrency": f"{seen.in_flight:.1f}",
        "dbo": "on" if decode.dbo else "off",
        "eplb": "on" if decode.eplb else "off",
        "mtp": f"on({decode.speculation.draft_tokens})" if decode.speculation else "off",
        "output_tok_s_per_gpu": f"{seen.output_tok_s_per_gpu or 0.0:.3f}",
        "input_tok_s_per_gpu": "" if seen.input_tok_s_per_gpu is None else f"{seen.input_tok_s_per_gpu:.3f}",
        "ttft_ms_p50": "" if seen.ttft_p50_ms is None else f"{seen.ttft_p50_ms:.3f}",
        "tpot_ms_mean": "" if seen.tpot_mean_ms is None else f"{seen.tpot_mean_ms:.4f}",
        "notes": f"window {seen.window_s:.0f} s of {seen.ranks_fresh} ranks; TTFT from histogram buckets",
    }
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return out.getvalue()


def _widths(prefix: str, role: RolePlan) -> dict[str, object]:
    p = role.parallelism
    return {
        f"{prefix}_workers": role.groups,
        f"{prefix}_tp": p.tp,
        f"{prefix}_dp": p.dp,
        f"{prefix}_ep": p.ep,
    }
