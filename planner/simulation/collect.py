"""From the end state of runs to figures: measurement window, percentiles with intervals, shares per role and rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.domain.deployment import Role
from planner.domain.workload import SloTargets
from planner.simulation.cluster import Cluster
from planner.simulation.kernels import state as st
from planner.simulation.result import (
    Distribution,
    Figure,
    RankFigures,
    RequestTrace,
    RoleFigures,
    RoleSeries,
    SimulationResult,
)
from planner.simulation.traffic import Traffic

Floats = NDArray[np.float64]
_BLOCKS = 20
_RESAMPLES = 100
_SAMPLE_LIMIT = 20_000
RELIABLE_P99 = 1000
_QUANTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True)
class Window:
    """Measurement window of one run and the requests that count."""

    begin_s: float
    end_s: float
    chosen: NDArray[np.bool_]
    steady: bool


def window_of(traffic: Traffic, req: Any) -> Window:
    """Leave out the first `warmup` requests by arrival and, in a closed loop, what enters after the last session head."""
    arrival = np.asarray(req.arrival)
    order = np.argsort(arrival, kind="stable")
    warmup = min(traffic.warmup, traffic.requests - 1)
    begin = float(arrival[order[warmup]])
    finish = float(np.nanmax(req.finish))
    heads = traffic.pool if traffic.closed else np.flatnonzero(np.isfinite(traffic.arrival_s))
    end = float(np.max(arrival[heads])) if len(heads) else finish
    # nothing that enters within a window shorter than every request can finish in it: a burst has no steady state
    shortest = 0.0 if traffic.closed else float(np.nanmin(np.asarray(req.finish) - arrival))
    steady = end - begin > max(shortest, 0.0)
    if not steady:
        end = finish
    chosen = (arrival >= begin) & (arrival <= end) & (req.failed == 0)
    return Window(begin_s=begin, end_s=end, chosen=chosen, steady=steady)


def distribution(values: Floats, weights: Floats | None = None) -> Distribution:
    """Mean and percentiles in the unit of `values`, with block-bootstrap intervals over `values` in arrival order."""
    count = len(values) if weights is None else int(weights.sum())
    if count == 0:
        nothing = Figure(float("nan"), float("nan"), float("nan"))
        return Distribution(count=0, mean=nothing, p50=nothing, p90=nothing, p99=nothing, reliable_p99=False)
    if weights is not None:
        return _weighted(values, weights, count)
    point = [float(values.mean()), *np.percentile(values, _QUANTILES)]
    sample = values[:: max(1, len(values) // _SAMPLE_LIMIT)]
    blocks = np.array_split(sample, min(_BLOCKS, len(sample)))
    rng = np.random.default_rng(7)
    draws = np.empty((_RESAMPLES, 4))
    for i in range(_RESAMPLES):
        picked = np.concatenate([blocks[j] for j in rng.integers(0, len(blocks), len(blocks))])
        draws[i] = [picked.mean(), *np.percentile(picked, _QUANTILES)]
    low, high = np.percentile(draws, [2.5, 97.5], axis=0)
    figures = [
        Figure(float(p), float(min(a, p)), float(max(b, p))) for p, a, b in zip(point, low, high, strict=True)
    ]
    return Distribution(
        count=count, mean=figures[0], p50=figures[1], p90=figures[2], p99=figures[3],
        reliable_p99=count >= RELIABLE_P99,
    )  # fmt: skip


def _weighted(values: Floats, weights: Floats, count: int) -> Distribution:
    cumulative = np.cumsum(weights)
    at = [float(values[np.searchsorted(cumulative, q / 100.0 * cumulative[-1])]) for q in _QUANTILES]
    mean = float((values * weights).sum() / cumulative[-1])
    # bins are 1/50 decade wide: that is the resolution
    width = 10 ** (0.5 / st.GAP_PER_DECADE)
    figures = [Figure(x, x / width, x * width) for x in (mean, *at)]
    return Distribution(
        count=count, mean=figures[0], p50=figures[1], p90=figures[2], p99=figures[3],
        reliable_p99=count >= RELIABLE_P99,
    )  # fmt: skip


def _tokens_inside(req: Any, window: Window) -> float:
    """Output tokens streamed inside the window; a request streams evenly between its first and last token."""
    first = np.asarray(req.first)
    finish = np.asarray(req.finish)
    ok = np.isfinite(first) & (req.failed == 0)
    first, finish, osl = first[ok], finish[ok], np.asarray(req.osl)[ok]
    span = np.maximum(finish - first, 1e-12)
    part = (np.minimum(finish, window.end_s) - np.maximum(first, window.begin_s)) / span
    return float((np.clip(part, 0.0, 1.0) * osl).sum())


def collect(
    cluster: Cluster,
    traffics: Sequence[Traffic],
    states: Sequence[st.State],
    *,
    slo: SloTargets | None,
    wall_s: float,
) -> SimulationResult:
    """Pool the runs of all replications into one result."""
    windows = [window_of(t, s.req) for t, s in zip(traffics, states, strict=True)]
    req = np.concatenate([s.req[w.chosen] for s, w in zip(states, windows, strict=True)]).view(np.recarray)
    order = np.concatenate(
        [np.argsort(s.req.arrival[w.chosen]) for s, w in zip(states, windows, strict=True)]
    )
    offset = np.repeat(
        np.cumsum([0, *[int(w.chosen.sum()) for w in windows[:-1]]]), [int(w.chosen.sum()) for w in windows]
    )
    req = req[order + offset]
    seconds = sum(w.end_s - w.begin_s for w in windows)
    ttft = (req.first - req.arrival) * 1e3
    e2e = (req.finish - req.arrival) * 1e3
    several = req.osl > 1
    tpot = ((req.finish - req.first) * 1e3)[several] / (req.osl[several] - 1)
    rates = np.array(
        [_tokens_inside(s.req, w) / (w.end_s - w.begin_s) for s, w in zip(states, windows, strict=True)]
    )
    moved = ((req.moved_to - req.prefilled) * 1e3)[np.isfinite(req.moved_to)]
    prompt = float(req.isl.sum())
    hit = np.where(req.prefill >= 0, req.hit_prefill, req.hit).sum()
    mean_rate = float(rates.mean())
    return SimulationResult(
        cluster=cluster.name,
        workload=traffics[0].label,
        engine=cluster.engine,
        replications=len(states),
        requests=sum(t.requests for t in traffics),
        measured=len(req),
        warmup=sum(t.warmup for t in traffics),
        failed=int(sum(s.world[0].failed for s in states)),
        window_s=seconds,
        simulated_s=float(sum(s.world[0].now for s in states)),
        wall_s=wall_s,
        events=int(sum(s.world[0].events for s in states)),
        gpus=cluster.gpus,
        requests_per_s=len(req) / seconds if seconds > 0 else float("nan"),
        goodput_per_s=_goodput(req, ttft, slo, seconds),
        output_tok_s=_rate_interval(rates, mean_rate),
        total_tok_s=mean_rate * (1.0 + prompt / max(float(req.osl.sum()), 1.0)),
        ttft_ms=distribution(ttft),
        tpot_ms=distribution(tpot),
        itl_ms=_gaps(states),
        e2e_ms=distribution(e2e),
        transfer_ms=distribution(moved) if cluster.disaggregated else None,
        prefix_hit_rate=float(hit) / max(prompt, 1.0),
        prefilled_in_place=int(sum(s.world[0].not_disaggregated for s in states)),
        mean_in_flight=float(e2e.sum()) * 1e-3 / seconds if seconds > 0 else float("nan"),
        roles=_roles(cluster, states),
        series_s=tuple(states[0].series[: states[0].world[0].samples, 3, 0].tolist()),
        series=_series(cluster, states[0]),
        notes=_notes(windows, len(req)),
    )


def _goodput(req: Any, ttft: Floats, slo: SloTargets | None, seconds: float) -> float | None:
    if slo is None or (slo.ttft_ms is None and slo.tpot_limit_ms is None):
        return None
    good = np.ones(len(req), dtype=bool)
    if slo.ttft_ms is not None:
        good &= ttft <= slo.ttft_ms
    if slo.tpot_limit_ms is not None:
        good &= (req.finish - req.first) * 1e3 <= slo.tpot_limit_ms * np.maximum(req.osl - 1, 1)
    return float(good.sum()) / seconds if seconds > 0 else float("nan")


def _rate_interval(rates: Floats, mean: float) -> Figure:
    """Student interval over replications; one run has no spread to show."""
    if len(rates) < 2:
        return Figure(mean, mean, mean)
    t95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)[min(len(rates) - 2, 8)]
    half = t95 * float(rates.std(ddof=1)) / len(rates) ** 0.5
    return Figure(mean, mean - half, mean + half)


def _gaps(states: Sequence[st.State]) -> Distribution:
    weights = np.sum([s.gaps for s in states], axis=0)
    centre = st.GAP_LOW_S * 10 ** ((np.arange(st.GAP_BINS) - 0.5) / st.GAP_PER_DECADE) * 1e3
    return distribution(centre, weights)


def _roles(cluster: Cluster, states: Sequence[st.State]) -> tuple[RoleFigures, ...]:
    out = []
    total_s = sum(float(s.world[0].now) for s in states)
    for i, role in enumerate(cluster.roles):
        ranks = np.concatenate([s.rank[s.rank.role == i] for s in states]).view(np.recarray)
        groups = np.concatenate([s.group[s.group.role == i] for s in states]).view(np.recarray)
        size = role.ranks if role.lockstep else 1
        steps = int(groups.steps.sum())
        busy = float(groups.busy_s.sum())
        queried = max(int(ranks.queried.sum()), 1)
        out.append(
            RoleFigures(
                name=role.name,
                role=role.role,
                gpus=role.gpus,
                steps=steps,
                step_ms=busy / max(steps, 1) * 1e3,
                busy_share=busy / max(total_s * len(groups) / len(states), 1e-12),
                straggler_share=float(groups.straggler_s.sum()) / max(busy, 1e-12),
                dummy_share=float(groups.dummy.sum()) / max(steps * size, 1),
                dbo_share=float(groups.dbo_steps.sum()) / max(steps, 1),
                rearrangements=int(groups.rearranged.sum()),
                paused_s=float(groups.paused_s.sum()),
                hit_rate=float(ranks.hits.sum()) / queried,
                host_hit_rate=float(ranks.host_hits.sum()) / queried,
                preemptions=int(ranks.preemptions.sum()),
                expired_leases=int(ranks.expired.sum()),
                peak_kv_share=float(ranks.peak_used.max()) / role.kv_blocks,
                ranks=_ranks(states[0], i, role.kv_blocks),
            )
        )
    return tuple(out)


def _ranks(state: st.State, role: int, blocks: int) -> tuple[RankFigures, ...]:
    out = []
    for k in np.flatnonzero(state.rank.role == role):
        r = state.rank[k]
        steps = int(state.group[r.group].steps)
        out.append(
            RankFigures(
                rank=int(k),
                group=int(r.group),
                requests=int(r.requests),
                output_tokens=int(r.output_tokens),
                prefill_tokens=int(r.prefill_tokens),
                busy_share=float(r.busy_steps) / max(steps, 1),
                hit_rate=float(r.hits) / max(int(r.queried), 1),
                peak_kv_share=float(r.peak_used) / blocks,
                preemptions=int(r.preemptions),
            )
        )
    return tuple(out)


def _series(cluster: Cluster, state: st.State) -> tuple[RoleSeries, ...]:
    n = int(state.world[0].samples)
    kinds = {Role.AGGREGATED: st.AGGREGATED, Role.PREFILL: st.PREFILL, Role.DECODE: st.DECODE}
    out = []
    for role, kind in kinds.items():
        members = [r for r in cluster.roles if r.role is role]
        if not members:
            continue
        ranks = sum(r.groups * r.ranks for r in members)
        blocks = sum(r.groups * r.ranks * r.kv_blocks for r in members)
        data = state.series[:n, kind]
        out.append(
            RoleSeries(
                role=role,
                waiting=tuple(data[:, 0].tolist()),
                running=tuple(data[:, 1].tolist()),
                kv_share=tuple((data[:, 2] / blocks).tolist()),
                busy_share=tuple((data[:, 3] / ranks).tolist()),
            )
        )
    return tuple(out)


def _notes(windows: Sequence[Window], measured: int) -> tuple[str, ...]:
    notes = []
    if not all(w.steady for w in windows):
        notes.append(
            "No steady state: new requests enter for too short a time; figures include the run-down."
        )
    if measured < RELIABLE_P99:
        notes.append(f"P99 rests on {measured} requests; below {RELIABLE_P99} it is noise. Raise --requests.")
    return tuple(notes)


def trace(traffic: Traffic, state: st.State) -> tuple[RequestTrace, ...]:
    """Every request's life, in request order."""
    chosen = window_of(traffic, state.req).chosen
    out = []
    for i in range(traffic.requests):
        r = state.req[i]
        out.append(
            RequestTrace(
                request=i,
                session=int(traffic.session[i]),
                arrival_s=float(r.arrival),
                prefilled_s=float(r.prefilled),
                transfer_from_s=float(r.moved_from),
                transfer_to_s=float(r.moved_to),
                first_token_s=float(r.first),
                finish_s=float(r.finish),
                isl=int(r.isl),
                osl=int(r.osl),
                prefill_rank=int(r.prefill),
                serving_rank=int(r.serve),
                hit_tokens=int(r.hit_prefill if r.prefill >= 0 else r.hit),
                preemptions=int(r.preempted),
                failed=bool(r.failed),
                measured=bool(chosen[i]),
            )
        )
    return tuple(out)
