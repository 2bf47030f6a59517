"""Engine metrics: names old and new, histograms, windows, and what happens when they are not what they should be."""

from __future__ import annotations

import asyncio
import json
import math
from array import array
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ScriptedApi

from console.cluster.api import ApiError
from console.cluster.metrics.epp import parse_picker
from console.cluster.metrics.exposition import NotMetrics, parse_exposition
from console.cluster.metrics.readings import RankKey, RankWindows
from console.cluster.metrics.samples import Counter, Gauge, Hist, Histogram, RankSample
from console.cluster.metrics.ways import PrometheusWay, Target, find_prometheus
from planner.domain.errors import InputError

KEY = RankKey("ns", "pod", 8000, "0")
TAGS = 'engine="0",model_name="m"'


def test_new_names_with_and_without_total() -> None:
    (rank,) = parse_exposition(
        f"""
# HELP vllm:num_requests_running running
vllm:num_requests_running{{{TAGS}}} 7
vllm:num_requests_waiting{{{TAGS}}} 5
vllm:kv_cache_usage_perc{{{TAGS}}} 0.25
vllm:prompt_tokens_total{{{TAGS}}} 100
vllm:generation_tokens{{{TAGS}}} 40
vllm:request_success_total{{{TAGS},finished_reason="stop"}} 3
vllm:request_success_total{{{TAGS},finished_reason="abort"}} 2
vllm:cache_config_info{{{TAGS},block_size="64",weird="{{}}\\"x",kv_cache_size_tokens="5000"}} 1
"""
    )
    assert rank.model == "m"
    assert rank.gauges == {Gauge.RUNNING: 7, Gauge.WAITING: 5, Gauge.KV_USAGE: 0.25, Gauge.KV_TOKENS: 5000}
    assert rank.counters == {
        Counter.PROMPT_TOKENS: 100, Counter.GENERATION_TOKENS: 40, Counter.FINISHED: 5, Counter.FAILED: 2,
    }  # fmt: skip


def test_old_names_are_read_and_lose_to_new_ones() -> None:
    old = f"vllm:gpu_cache_usage_perc{{{TAGS}}} 0.5\nvllm:gpu_prefix_cache_queries_total{{{TAGS}}} 10\n"
    new = f"vllm:kv_cache_usage_perc{{{TAGS}}} 0.6\nvllm:prefix_cache_queries_total{{{TAGS}}} 12\n"
    for text, usage, queries in ((old, 0.5, 10), (old + new, 0.6, 12), (new + old, 0.6, 12)):
        (rank,) = parse_exposition(text)
        assert rank.gauges[Gauge.KV_USAGE] == usage
        assert rank.counters[Counter.PREFIX_QUERIES] == queries


def test_names_match_as_a_whole() -> None:
    """``waiting_by_reason`` is another family; its deferred part is an artefact of the scheduler."""
    (rank,) = parse_exposition(
        f"vllm:num_requests_waiting{{{TAGS}}} 9\n"
        f'vllm:num_requests_waiting_by_reason{{{TAGS},reason="capacity"}} 4\n'
        f'vllm:num_requests_waiting_by_reason{{{TAGS},reason="deferred"}} 5\n'
        f"vllm:num_requests_running_total_of_something{{{TAGS}}} 1000\n"
    )
    assert rank.gauges == {Gauge.WAITING: 9, Gauge.WAITING_CAPACITY: 4}
    reading = RankWindows().add(KEY, rank, at=1.0)
    assert reading.waiting == 4


def test_several_ranks_on_one_page_in_order() -> None:
    text = "".join(f'vllm:num_requests_running{{engine="{e}",model_name="m"}} {e}\n' for e in (10, 2, 0))
    assert [(r.engine, r.gauges[Gauge.RUNNING]) for r in parse_exposition(text)] == [
        ("0", 0),
        ("2", 2),
        ("10", 10),
    ]


def test_a_server_without_the_engine_label_is_rank_zero() -> None:
    (rank,) = parse_exposition('vllm:num_requests_running{model_name="m"} 3\nvllm:num_requests_waiting 1\n')
    assert rank.engine == "0"
    assert rank.gauges == {Gauge.RUNNING: 3, Gauge.WAITING: 1}


@pytest.mark.parametrize(
    "text", ["", "<html>", "process_cpu_seconds_total 1\n", "vllm:num_requests_running{x} nan\n", "\0"]
)
def test_what_is_no_metrics_page_is_refused(text: str) -> None:
    with pytest.raises(NotMetrics):
        parse_exposition(text)


@given(st.text(max_size=400))
def test_no_text_crashes_the_parser(text: str) -> None:
    for page in (
        text,
        f"vllm:num_requests_running{{{text}}} 1",
        f'vllm:kv_cache_usage_perc{{engine="{text}"}} {text}',
    ):
        try:
            ranks = parse_exposition(page)
        except NotMetrics:
            continue
        assert all(math.isfinite(v) for r in ranks for v in r.gauges.values())


# --- histograms ---


def histogram(values: list[float], bounds: tuple[float, ...]) -> Histogram:
    counts = array("d", (float(sum(v <= b for v in values)) for b in (*bounds, math.inf)))
    return Histogram(bounds, counts, counts[-1], sum(values))


BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


@given(
    st.lists(st.floats(0.0001, 4.9), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]),
)
@settings(deadline=None)
def test_a_quantile_lies_in_the_bucket_that_holds_the_true_one(values: list[float], q: float) -> None:
    found = histogram(values, BOUNDS).quantile(q)
    assert found is not None
    assert found.high is not None
    true = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    assert found.low <= true <= found.high
    assert found.low <= found.value <= found.high


def test_quantiles_beyond_the_last_bucket_say_so() -> None:
    found = histogram([100.0], BOUNDS).quantile(0.5)
    assert found is not None
    assert (found.value, found.high) == (5.0, None)


def test_no_observation_has_no_quantile_and_no_mean() -> None:
    empty = histogram([], BOUNDS)
    assert (empty.quantile(0.5), empty.mean) == (None, None)


@given(st.lists(st.floats(0.001, 4.0), max_size=30), st.lists(st.floats(0.001, 4.0), max_size=30))
@settings(deadline=None)
def test_a_delta_is_what_came_after(before: list[float], after: list[float]) -> None:
    delta = histogram(before + after, BOUNDS).since(histogram(before, BOUNDS))
    assert delta is not None
    assert list(delta.counts) == list(histogram(after, BOUNDS).counts)
    assert delta.sum == pytest.approx(sum(after), abs=1e-9)


def test_a_delta_over_a_restart_or_other_buckets_is_unknown() -> None:
    assert histogram([0.1], BOUNDS).since(histogram([0.1, 0.2], BOUNDS)) is None
    assert histogram([0.1], BOUNDS).since(histogram([], (1.0,))) is None


def test_buckets_that_are_not_cumulative_are_dropped() -> None:
    name = "vllm:time_to_first_token_seconds_bucket"
    (rank,) = parse_exposition(
        f'{name}{{{TAGS},le="1"}} 5\n{name}{{{TAGS},le="2"}} 3\n{name}{{{TAGS},le="+Inf"}} 6\n'
        f"vllm:num_requests_running{{{TAGS}}} 1\n"
    )
    assert rank.histograms == {}


# --- windows ---


def sample(
    tokens: float, *, queries: float = 0.0, hits: float = 0.0, ttft: list[float] | None = None
) -> RankSample:
    return RankSample(
        engine="0",
        counters={
            Counter.GENERATION_TOKENS: tokens,
            Counter.PREFIX_QUERIES: queries,
            Counter.PREFIX_HITS: hits,
        },
        histograms={Hist.TTFT: histogram(ttft or [], BOUNDS)},
    )


def test_rates_need_two_scrapes_and_cover_the_window() -> None:
    windows = RankWindows(window_s=60)
    assert windows.add(KEY, sample(0), at=100).output_tok_s is None
    for i in range(1, 31):
        reading = windows.add(KEY, sample(i * 50), at=100 + 5 * i)
    assert reading.output_tok_s == pytest.approx(10.0)
    assert 60 <= reading.window_s <= 75


def test_a_rate_follows_a_change_within_one_window() -> None:
    windows = RankWindows(window_s=60)
    tokens = 0.0
    for i in range(40):
        tokens += 50 if i < 20 else 500
        reading = windows.add(KEY, sample(tokens), at=5.0 * i)
    assert reading.output_tok_s == pytest.approx(100.0, rel=0.01)


def test_a_restarted_engine_starts_a_new_window() -> None:
    windows = RankWindows()
    windows.add(KEY, sample(1000), at=0)
    windows.add(KEY, sample(2000), at=10)
    reading = windows.add(KEY, sample(5), at=20)
    assert reading.output_tok_s is None
    assert windows.add(KEY, sample(105), at=30).output_tok_s == pytest.approx(10.0)


def test_no_traffic_is_not_a_hit_rate_of_zero() -> None:
    windows = RankWindows()
    windows.add(KEY, sample(0, queries=100, hits=40), at=0)
    assert windows.add(KEY, sample(0, queries=100, hits=40), at=10).prefix_hit is None
    assert windows.add(KEY, sample(0, queries=200, hits=90), at=20).prefix_hit == pytest.approx(0.5)


def test_percentiles_come_from_the_window_only() -> None:
    windows = RankWindows()
    windows.add(KEY, sample(0, ttft=[4.0] * 100), at=0)
    reading = windows.add(KEY, sample(0, ttft=[4.0] * 100 + [0.02] * 10), at=10)
    found = reading.histograms[Hist.TTFT].quantile(0.99)
    assert found is not None
    assert found.high == 0.05


def test_history_is_bounded_over_all_ranks() -> None:
    windows = RankWindows()
    for i in range(500):
        windows.add(KEY, sample(i), at=5.0 * i)
    assert len(windows.history(KEY)) == 360
    windows.forget_pod("ns", "pod")
    assert windows.history(KEY) == ()


# --- picker and Prometheus ---


def test_picker_metrics_under_both_prefixes() -> None:
    new = parse_picker(
        'llm_d_epp_ready_endpoints{name="p"} 32\nllm_d_epp_std_dev_queue_size{name="p"} 3.5\n'
        'inference_pool_average_queue_size{name="p"} 9\nllm_d_epp_average_queue_size{name="p"} 2\n'
        'llm_d_epp_per_endpoint_queue_size{name="p",model_server_endpoint="a:8000"} 7\n'
        'llm_d_epp_disagg_decision_total{decision_type="prefill-decode"} 5\n'
    )
    assert new is not None
    assert (new.ready_endpoints, new.average_queue, new.queue_spread) == (32, 2, 3.5)
    assert new.queues == {"a:8000": 7}
    assert new.decisions == {"prefill-decode": 5}
    old = parse_picker('inference_pool_ready_pods{name="p"} 4\n')
    assert old is not None
    assert old.ready_endpoints == 4
    assert parse_picker("go_goroutines 1\n") is None


def test_prometheus_gives_each_endpoint_its_page() -> None:
    async def run() -> list[tuple[str, str, str]]:
        async def query(request: web.Request) -> web.Response:
            text = (await request.post())["query"]
            assert 'namespace=~"ns"' in str(text)
            labels = {
                "namespace": "ns",
                "pod": "a",
                "instance": "10.0.0.1:8001",
                "engine": "1",
                "model_name": "m",
            }
            result = [
                {"metric": {"__name__": "vllm:num_requests_running", **labels}, "value": [0, "5"]},
                {"metric": {"__name__": "vllm:generation_tokens_total", **labels}, "value": [0, "77"]},
            ]
            return web.json_response(
                {"status": "success", "data": {"resultType": "vector", "result": result}}
            )

        app = web.Application()
        app.router.add_post("/api/v1/query", query)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        way = PrometheusWay(f"http://127.0.0.1:{runner.addresses[0][1]}/")
        pages = [p async for p in way.scrape([Target("ns", "a", 8001), Target("ns", "b", 8001)])]
        await runner.cleanup()
        return [(p.target.pod, p.text, p.failed) for p in pages]

    (a, text, failed), (b, none, why) = asyncio.run(run())
    (rank,) = parse_exposition(text)
    assert (a, failed, rank.engine, rank.counters[Counter.GENERATION_TOKENS]) == ("a", "", "1", 77)
    assert (b, none, why) == ("b", "", "not in Prometheus")


def test_a_prometheus_address_is_checked() -> None:
    with pytest.raises(InputError) as error:
        PrometheusWay("localhost:9090")
    assert error.value.issues[0].code == "cluster.prometheus_url"


def test_prometheus_behind_the_api_server_is_found_when_it_knows_the_engines() -> None:
    service = {"metadata": {"namespace": "monitoring", "name": "prom"}, "spec": {"ports": [{"port": 9090}]}}
    labels = {
        "__name__": "vllm:num_requests_running",
        "namespace": "ns",
        "pod": "a",
        "instance": "1.2.3.4:8000",
    }
    answer = {"data": {"result": [{"metric": labels, "value": [0, "5"]}]}}

    class Server(ScriptedApi):
        answers = answer

        async def text(self, path: str, query: Any = None, *, timeout_s: float = 10.0) -> str:
            assert path == "/api/v1/namespaces/monitoring/services/prom:9090/proxy/api/v1/query"
            return json.dumps(self.answers)

    async def find(server: Server) -> str | None:
        way = await find_prometheus(server, [Target("ns", "a", 8000)])
        return way.name if way else None

    found = asyncio.run(find(Server(lists=[{"items": [service]}])))
    assert found == "Prometheus (prom:9090) through the API server"
    silent = Server(lists=[{"items": [service]}])
    silent.answers = {"data": {"result": []}}
    assert asyncio.run(find(silent)) is None
    assert asyncio.run(find(Server(lists=[ApiError(403, "Forbidden", "services")]))) is None
