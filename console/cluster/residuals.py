"""Measured behaviour of one deployment over the window, to set beside the prediction.

Latencies come from histogram deltas of all ranks of a role. Of a disaggregated deployment the first token takes the prefill
engine's TTFT plus the decode engine's, which waits for the KV transfer; medians are added. TPOT is the mean time between
tokens of the decode ranks. Rates are per GPU of the whole deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.cluster.metrics.readings import RankReading
from console.cluster.metrics.samples import Hist, Histogram, Quantile
from console.cluster.state import Snapshot
from console.cluster.topology import Topology, topology
from planner.domain.deployment import DeploymentPlan, Strategy
from planner.domain.errors import Issue, MissingDataError

STEADY_WINDOW_S = 45.0
STEADY_REQUESTS = 1.0  # finished per request in flight: the window covers the mean life of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was seen over `window_s`. None = not reported. `unsteady` lists why it is no operating point; empty = steady."""

    window_s: float
    gpus: int
    ranks: int
    ranks_fresh: int
    in_flight: float
    ttft_p50_ms: float | None
    ttft_bucket_ms: tuple[float, float] | None  # the buckets that hold the medians, added
    tpot_mean_ms: float | None
    output_tok_s_per_gpu: float | None
    input_tok_s_per_gpu: float | None
    requests_per_s: float | None
    prefix_hit: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    unsteady: tuple[str, ...]


def measured(snapshot: Snapshot, plan: DeploymentPlan, *, name: str) -> Measured:
    """Aggregate the ranks of deployment `name`. Raises MissingDataError ``cluster.not_deployed``, ``cluster.no_metrics``."""
    top = topology(snapshot)
    endpoints = [
        e for e in top.endpoints if e.group.deployment == name or e.group.deployment.startswith(f"{name}-")
    ]
    if not endpoints:
        known = sorted({g.deployment for g in top.groups})
        raise MissingDataError(
            Issue(
                code="cluster.not_deployed",
                what=f"no pods of '{name}' here",
                why=f"deployments found: {', '.join(known) or 'none'}",
                fix="name the deployment with --name, or another --namespace",
            )
        )
    by_role: dict[str, list[RankReading]] = {}
    for e in endpoints:
        for r in snapshot.readings.values():
            if (r.key.namespace, r.key.pod, r.key.port) == (e.pod.meta.namespace, e.pod.meta.name, e.port):
                by_role.setdefault(e.group.role, []).append(r)
    everything = [r for readings in by_role.values() for r in readings]
    if not everything:
        why = next(iter(snapshot.silent.values()), "no scrape yet")
        raise MissingDataError(
            Issue(
                code="cluster.no_metrics",
                what=f"no metrics of '{name}'",
                why=why,
                fix="planner cluster status shows which way was tried; pods/proxy or --prometheus is needed",
            )
        )
    split = plan.strategy is Strategy.DISAGGREGATED and "decode" in by_role
    decode = by_role["decode"] if split else everything
    prefill = by_role.get("prefill", []) if split else []
    gpus = _gpus(top, name) or plan.gpus_used
    medians = [m for part in (prefill, decode) if part and (m := _median(part, Hist.TTFT))]
    output = _total(r.output_tok_s for r in decode)
    prompt = _total(r.prompt_tok_s for r in (prefill or decode))
    finished = _total(r.requests_per_s for r in decode)
    return Measured(
        window_s=min(r.window_s for r in everything),
        gpus=gpus,
        ranks=len(endpoints),
        ranks_fresh=len(everything),
        in_flight=_total(r.running for r in everything) or 0.0,
        ttft_p50_ms=sum(m.value for m in medians) * 1000.0 if medians else None,
        ttft_bucket_ms=_bucket(medians),
        tpot_mean_ms=_mean_ms(decode, Hist.TPOT) or _mean_ms(decode, Hist.ITL),
        output_tok_s_per_gpu=output / gpus if output is not None else None,
        input_tok_s_per_gpu=prompt / gpus if prompt is not None else None,
        requests_per_s=finished,
        prefix_hit=_hit(prefill or decode),
        prompt_tokens=_mean(prefill or decode, Hist.PROMPT_LENGTH),
        output_tokens=_mean(decode, Hist.OUTPUT_LENGTH),
        unsteady=tuple(_unsteady(everything, len(endpoints), finished)),
    )


def _gpus(top: Topology, name: str) -> int:
    return sum(
        g.gpus
        for g in top.groups.values()
        if g.id.deployment == name or g.id.deployment.startswith(f"{name}-")
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def merged(readings: Sequence[RankReading], hist: Hist) -> Histogram | None:
    """One histogram of all ranks; those with other buckets are left out."""
    total: Histogram | None = None
    for reading in readings:
        part = reading.histograms.get(hist)
        if part is not None:
            total = part if total is None else total.plus(part) or total
    return total


def _median(readings: Sequence[RankReading], hist: Hist) -> Quantile | None:
    found = merged(readings, hist)
    return found.quantile(0.5) if found else None


def _bucket(medians: Sequence[Quantile]) -> tuple[float, float] | None:
    if not medians or any(m.high is None for m in medians):
        return None
    return sum(m.low for m in medians) * 1000.0, sum(m.high or 0.0 for m in medians) * 1000.0


def _mean(readings: Sequence[RankReading], hist: Hist) -> float | None:
    found = merged(readings, hist)
    return found.mean if found else None


def _mean_ms(readings: Sequence[RankReading], hist: Hist) -> float | None:
    mean = _mean(readings, hist)
    return None if mean is None else mean * 1000.0


def _hit(readings: Sequence[RankReading]) -> float | None:
    weighed = [
        (r.prefix_hit, r.prompt_tok_s) for r in readings if r.prefix_hit is not None and r.prompt_tok_s
    ]
    total = sum(w for _, w in weighed)
    return sum(h * w for h, w in weighed) / total if total > 0 else None


def _unsteady(readings: Sequence[RankReading], ranks: int, finished: float | None) -> Iterable[str]:
    window = min(r.window_s for r in readings)
    if window < STEADY_WINDOW_S:
        yield f"the window is {window:.0f} s, at least {STEADY_WINDOW_S:.0f} s are needed"
    if len(readings) < ranks:
        yield f"{ranks - len(readings)} of {ranks} ranks report nothing"
    if any((r.failed_per_s or 0.0) > 0 for r in readings):
        yield "requests failed in the window"
    if any((r.preemptions_per_s or 0.0) > 0 for r in readings):
        yield "requests were preempted in the window"
    running = sum(r.running or 0.0 for r in readings)
    if finished is not None and running and finished * window < STEADY_REQUESTS * running:
        needed = f"--window {STEADY_REQUESTS * running / finished:.0f}" if finished else "traffic"
        yield f"{finished * window:.0f} requests finished, {running:.0f} were in flight: the window needs {needed}"
    if not running:
        yield "nothing is running"
