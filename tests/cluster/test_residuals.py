"""Measured against predicted, and a window as a measurement."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from worlds import engine_pod

from console.cluster import parse
from console.cluster.kinds import Kind
from console.cluster.metrics.samples import Counter, Gauge, Hist, Histogram, RankSample
from console.cluster.residuals import Measured, measured
from console.cluster.state import (
    ClusterState,
    Identity,
    MetricsChange,
    ObjectChange,
    Op,
    ScrapeChange,
    Snapshot,
)
from console.views.cluster_residuals import ResidualRow, measurement_csv, workload_of
from planner.domain.deployment import DeploymentPlan, Parallelism, Role, RolePlan, RouterPolicy, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.errors import MissingDataError
from planner.domain.workload import SloTargets, Workload
from planner.measurements.complete import AsWritten
from planner.measurements.documents import parse as parse_document
from planner.measurements.draft import Supplied
from planner.measurements.importing import read_document

BOUNDS = (0.1, 0.5, 1.0)


def plan(*, disaggregated: bool = True) -> DeploymentPlan:
    def role(kind: Role) -> RolePlan:
        return RolePlan(role=kind, groups=1, parallelism=Parallelism(dp=8, expert_parallel=True), gpu="h200-sxm",
                        node="generic-h200-sxm", max_num_seqs=64, max_num_batched_tokens=512, kv_dtype=KvDtype.FP8)  # fmt: skip

    roles = (role(Role.PREFILL), role(Role.DECODE)) if disaggregated else (role(Role.AGGREGATED),)
    return DeploymentPlan(
        name="p", model="deepseek-ai/DeepSeek-R1", roles=roles, router=RouterPolicy(), engine="vllm",
        strategy=Strategy.DISAGGREGATED if disaggregated else Strategy.AGGREGATED, engine_version="0.33.0",
        fabric="ib-ndr400", workload=Workload(isl=4000, osl=1000), slo=SloTargets(), concurrency=8,
        gpus_owned=16, max_model_len=8192,
    )  # fmt: skip


def histogram(value: float, count: float) -> Histogram:
    counts = array("d", [*(count if value <= b else 0.0 for b in BOUNDS), count])
    return Histogram(BOUNDS, counts, count, value * count)


def scrape(
    seconds: float, *, ttft: float, itl: float, tokens: float, prompt: float, failed: float = 0.0
) -> RankSample:
    done = seconds * 2
    return RankSample(
        engine="0",
        gauges={Gauge.RUNNING: 10.0, Gauge.WAITING: 0.0},
        counters={Counter.GENERATION_TOKENS: tokens * seconds, Counter.PROMPT_TOKENS: prompt * seconds,
                  Counter.FINISHED: done, Counter.FAILED: failed * seconds, Counter.PREFIX_QUERIES: prompt * seconds,
                  Counter.PREFIX_HITS: prompt * seconds * 0.25},
        histograms={Hist.TTFT: histogram(ttft, done), Hist.ITL: histogram(itl, tokens * seconds)},
    )  # fmt: skip


def world(*roles: str, window: float = 60.0, **more: Any) -> Snapshot:
    state = ClusterState(Identity(source="test", context="c", server="s", namespace=None))
    pods = []
    for i, role in enumerate(roles):
        raw = engine_pod(f"p-{role}-{i}", group=i, ports=1)
        raw["metadata"]["labels"] |= {"llm-d.ai/role": role, "disaggregatedset.x-k8s.io/name": "p"}
        pods.append(parse.pod(raw))
    state.apply(ObjectChange(at=1.0, kind=Kind.PODS, op=Op.LISTED, views=tuple(pods)))
    for at in (0.0, window):
        for pod, role in zip(pods, roles, strict=True):
            decode = role != "prefill"
            sample = scrape(100.0 + at, ttft=0.05 if decode else 0.4, itl=0.03, tokens=800.0 if decode else 2.0,
                            prompt=400.0 if decode else 8000.0, **more)  # fmt: skip
            state.apply(
                ScrapeChange(
                    at=100.0 + at, namespace="default", pod=pod.meta.name, port=8000, samples=(sample,)
                )
            )
    state.apply(MetricsChange(at=100.0 + window, way="test", period_s=10.0))
    return state.snapshot(100.0 + window)


def test_roles_of_a_disaggregated_deployment() -> None:
    seen = measured(world("prefill", "decode"), plan(), name="p")
    assert (seen.gpus, seen.ranks, seen.ranks_fresh) == (16, 2, 2)
    assert seen.output_tok_s_per_gpu == pytest.approx(800 / 16)
    assert seen.input_tok_s_per_gpu == pytest.approx(8000 / 16)
    assert seen.tpot_mean_ms == pytest.approx(30.0)
    assert seen.requests_per_s == pytest.approx(2.0)
    assert seen.prefix_hit == pytest.approx(0.25)
    assert seen.ttft_bucket_ms == (100.0, 600.0)  # 0 to 100 ms of decode plus 100 to 500 ms of prefill
    assert seen.ttft_p50_ms is not None
    assert 100.0 <= seen.ttft_p50_ms <= 600.0
    assert seen.unsteady == ()


def test_an_aggregated_deployment_is_one_role() -> None:
    seen = measured(world("prefill-decode", "prefill-decode"), plan(disaggregated=False), name="p")
    assert seen.output_tok_s_per_gpu == pytest.approx(1600 / 16)
    assert seen.ttft_bucket_ms == (0.0, 100.0)


def test_what_is_no_steady_window_says_why() -> None:
    assert "window is 20 s" in measured(world("prefill", "decode", window=20.0), plan(), name="p").unsteady[0]
    assert "requests failed" in " ".join(measured(world("decode", failed=0.1), plan(), name="p").unsteady)


def test_nothing_deployed_and_nothing_measured() -> None:
    with pytest.raises(MissingDataError) as absent:
        measured(world("decode"), plan(), name="other")
    assert absent.value.issues[0].code == "cluster.not_deployed"
    state = ClusterState(Identity(source="test", context="c", server="s", namespace=None))
    pod = parse.pod(engine_pod("lws-0"))
    state.apply(ObjectChange(at=1.0, kind=Kind.PODS, op=Op.LISTED, views=(pod,)))
    with pytest.raises(MissingDataError) as silent:
        measured(state.snapshot(2.0), plan(), name="lws")
    assert silent.value.issues[0].code == "cluster.no_metrics"


def test_residuals() -> None:
    row = ResidualRow(metric="x", unit="ms", predicted=10.0, low=8.0, high=13.0, measured=12.0)
    assert (row.residual, row.inside) == (pytest.approx(0.2), True)
    assert replace(row, measured=14.0).inside is False
    assert replace(row, measured=None).residual is None
    assert replace(row, predicted=0.0).residual is None


def test_a_window_reads_back_as_a_measurement() -> None:
    seen: Measured = measured(world("prefill", "decode"), plan(), name="p")
    at = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    text = measurement_csv(plan(), seen, at=at, source="live: c/default")
    (m,) = read_document(
        parse_document(text.encode(), name="w.csv"), supplied=Supplied(), names=AsWritten()
    ).measurements
    assert (m.model, m.gpus, m.strategy) == ("deepseek-ai/DeepSeek-R1", 16, Strategy.DISAGGREGATED)
    assert m.roles[0].label() == "1x(tp1,dp8,ep8)"
    assert m.result.output_tok_s_per_gpu == pytest.approx(50.0, rel=1e-3)
    assert m.result.tpot.mean_ms == pytest.approx(30.0, rel=1e-3)
    assert m.load.concurrency == pytest.approx(20.0)
    assert m.workload.prefix_hit == pytest.approx(0.25, abs=0.01)


def test_the_plan_is_priced_for_the_traffic_that_was_seen() -> None:
    seen = replace(
        measured(world("prefill", "decode"), plan(), name="p"), prompt_tokens=2000.4, output_tokens=None
    )
    assert workload_of(plan(), seen) == Workload(isl=2000, osl=1000, prefix_hit=pytest.approx(0.25))
