"""Export as llm-d benchmark report 0.2.1: what goes out comes back, and the format's rules are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from planner.domain.measurement import Measurement
from planner.measurements.complete import AsWritten
from planner.measurements.documents import parse
from planner.measurements.draft import Supplied
from planner.measurements.importing import read_document
from planner.measurements.report import to_report, to_yaml
from tests.measurements import samples as s


def read(content: str) -> tuple[Measurement, ...]:
    return read_document(
        parse(content.encode(), name="r"), supplied=Supplied(), names=AsWritten()
    ).measurements


def one(value: Any) -> Measurement:
    (m,) = read(value if isinstance(value, str) else s.dump(value).decode())
    return m


SOURCES = {
    "vllm": s.vllm(),
    "vllm-unbounded": s.vllm(max_concurrency=None, failed=4, num_prompts=1028),
    "vllm-open": s.vllm(max_concurrency=None, request_rate=6.5, num_speculative_tokens=3, quantization="fp8"),
    "vllm-lengths": s.vllm(input_lens=[4096, 12288], output_lens=[1000, 1048], dbo="on", eplb="off"),
    "two pools": s.inferencex_disaggregated(),
    "csv": s.csv_text(s.csv_row(prefix_hit_or_shared_tokens="2048", turns="5")),
    "report": s.llm_d_0_2(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_goes_out_comes_back(name: str) -> None:
    before = one(SOURCES[name])
    after = one(to_yaml([to_report(before, uid="u")]))
    assert after.result.output_tok_s_per_gpu == pytest.approx(before.result.output_tok_s_per_gpu)
    assert after.result.input_tok_s_per_gpu == pytest.approx(before.result.input_tok_s_per_gpu)
    for latency in ("ttft", "tpot", "itl", "e2e"):
        assert getattr(after.result, latency) == getattr(before.result, latency)
    assert (after.result.completed, after.result.duration_s) == (
        before.result.completed,
        before.result.duration_s,
    )
    assert (after.model, after.roles, after.strategy) == (before.model, before.roles, before.strategy)
    assert (after.engine, after.engine_version) == (before.engine, before.engine_version)
    assert after.load == before.load
    assert (after.workload.isl, after.workload.osl) == (before.workload.isl, before.workload.osl)
    assert after.workload.prefix_hit == pytest.approx(before.workload.prefix_hit)
    assert after.workload.length_cv == pytest.approx(before.workload.length_cv)
    assert after.settings == replace(before.settings, acceptance_length=None, mtp=before.settings.mtp or None)
    assert after.origin.measured_at == before.origin.measured_at


def test_only_fields_and_units_of_the_format_are_written() -> None:
    report = to_report(one(s.vllm()), uid="abc")
    assert report["version"] == "0.2.1"
    assert set(report) == {"version", "run", "scenario", "results"}
    aggregate = report["results"]["request_performance"]["aggregate"]
    units = {k: v["units"] for k, v in aggregate["latency"].items()}
    assert units == {
        "time_to_first_token": "ms",
        "time_per_output_token": "ms/token",
        "inter_token_latency": "ms/token",
        "request_latency": "ms",
    }
    assert all("mean" in v for v in aggregate["latency"].values())
    assert {v["units"] for v in aggregate["throughput"].values()} == {"tokens/s", "queries/s"}
    (component,) = report["scenario"]["stack"]
    assert component["standardized"]["role"] == "replica"
    assert component["standardized"]["accelerator"]["parallelism"]["ep"] == 16
    assert isinstance(report["scenario"]["load"]["standardized"]["concurrency"], int)
    assert report["run"]["uid"] == "abc"


def test_counts_nobody_gave_are_not_invented() -> None:
    report = to_report(one(s.csv_text(s.csv_row())), uid="u")
    assert "requests" not in report["results"]["request_performance"]["aggregate"]


def test_flags_and_sources_travel_in_the_description() -> None:
    m = one(s.vllm(failed=3, num_prompts=1027))
    text = to_report(m, uid="u")["run"]["description"]
    assert "failed requests" in text
    assert m.origin.raw_sha256 in text


def test_several_measurements_are_several_documents() -> None:
    reports = [to_report(one(s.vllm(max_concurrency=c)), uid=str(c)) for c in (64, 128)]
    text = to_yaml(reports)
    assert len(list(yaml.safe_load_all(text))) == 2
    assert [m.load.concurrency for m in read(text)] == [64, 128]
