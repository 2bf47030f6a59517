"""Every format tells the same run; the units and definitions that differ between tools are told apart."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from planner.domain.deployment import Role, Strategy
from planner.domain.engine import EngineName
from planner.domain.errors import InputError
from planner.domain.measurement import BenchmarkFormat, Measurement, MeasurementFlag
from planner.measurements.complete import AsWritten
from planner.measurements.documents import parse
from planner.measurements.draft import Supplied, parse_role
from planner.measurements.importing import read_document
from tests.measurements import samples as s

DECODE_16 = parse_role("1x(tp1,dp16,ep16)", Role.AGGREGATED)
assert DECODE_16 is not None
ALL_SUPPLIED = Supplied(
    model="deepseek-ai/DeepSeek-R1-0528",
    gpu="H200",
    engine="vllm",
    engine_version="0.33.0",
    roles=(DECODE_16,),
)


def read(content: bytes | str, supplied: Supplied | None = None, name: str = "f") -> tuple[Measurement, ...]:
    data = content.encode() if isinstance(content, str) else content
    return read_document(
        parse(data, name=name), supplied=supplied or Supplied(), names=AsWritten()
    ).measurements


def one(content: bytes | str, supplied: Supplied | None = None) -> Measurement:
    (measurement,) = read(content, supplied)
    return measurement


def codes(content: bytes | str, supplied: Supplied | None = None) -> set[str]:
    with pytest.raises(InputError) as caught:
        read(content, supplied)
    return {i.code for i in caught.value.issues}


SAME_RUN: list[tuple[BenchmarkFormat, Any, Supplied | None]] = [
    (BenchmarkFormat.VLLM_BENCH_SERVE, s.vllm(), None),
    (BenchmarkFormat.VLLM_BENCH_SWEEP, {**s.vllm(), "run_number": 0}, None),
    (BenchmarkFormat.GUIDELLM, s.guidellm(), ALL_SUPPLIED),
    (BenchmarkFormat.AIPERF, s.aiperf(), ALL_SUPPLIED),
    (BenchmarkFormat.INFERENCE_PERF, s.inference_perf(), ALL_SUPPLIED),
    (BenchmarkFormat.LLM_D_REPORT, s.llm_d_0_2(), None),
    (BenchmarkFormat.LLM_D_REPORT, {**s.llm_d_0_2(), "version": "0.2"}, None),
    (BenchmarkFormat.LLM_D_REPORT, s.llm_d_0_1(), None),
    (BenchmarkFormat.INFERENCEX, s.inferencex(), None),
    (BenchmarkFormat.WIDEPLAN_CSV, s.csv_text(s.csv_row()), None),
]


@pytest.mark.parametrize(
    ("form", "value", "supplied"), SAME_RUN, ids=[f"{r[0]}-{i}" for i, r in enumerate(SAME_RUN)]
)
def test_all_formats_give_the_same_measurement(
    form: BenchmarkFormat, value: Any, supplied: Supplied | None
) -> None:
    m = one(value if isinstance(value, str) else s.dump(value), supplied)
    assert m.origin.format is form
    assert m.model == "deepseek-ai/DeepSeek-R1-0528"
    assert m.gpu.upper() == "H200"
    assert (m.engine, m.engine_version) == (EngineName.VLLM, "0.33.0")
    assert m.strategy is Strategy.AGGREGATED
    assert (m.label(), m.gpus) == ("1x(tp1,dp16,ep16)", 16)
    assert (m.workload.isl, m.workload.osl, m.workload.prefix_hit) == (s.ISL, s.OSL, 0.0)
    assert m.load.concurrency == s.CONCURRENCY
    assert m.load.request_rate_per_s is None
    assert m.result.output_tok_s_per_gpu == pytest.approx(s.OUTPUT_TOK_S / 16)
    assert m.result.input_tok_s_per_gpu == pytest.approx(s.INPUT_TOK_S / 16)
    assert m.result.ttft.p50_ms == pytest.approx(812.0)
    assert m.result.ttft.p99_ms == pytest.approx(2600.0)
    assert m.result.tpot.p50_ms == pytest.approx(31.5)
    assert m.result.tpot.mean_ms == pytest.approx(32.1)
    if form is not BenchmarkFormat.WIDEPLAN_CSV:  # has no column for it
        assert m.result.e2e.p50_ms == pytest.approx(33036.5)
    if form not in {BenchmarkFormat.WIDEPLAN_CSV, BenchmarkFormat.GUIDELLM}:
        assert m.result.itl.p50_ms == pytest.approx(94.5)
    assert m.result.tok_s_user == pytest.approx(1000 / 31.5)
    assert MeasurementFlag.FAILED_REQUESTS not in m.flags


def test_detection_does_not_look_at_the_name() -> None:
    document = parse(s.dump(s.guidellm()), name="result-of-aiperf.csv")
    got = read_document(document, supplied=ALL_SUPPLIED, names=AsWritten())
    assert got.raw.format is BenchmarkFormat.GUIDELLM


def test_yaml_is_read_like_json() -> None:
    assert one(yaml.safe_dump(s.llm_d_0_2())).result.ttft.p50_ms == pytest.approx(812.0)


def test_unknown_files_say_what_they_look_like() -> None:
    assert codes('{"a": 1, "b": 2}') == {"measurement.format_unknown"}
    assert codes("{broken") == {"measurement.unreadable"}
    assert codes(b"\xff\xfe\x00") == {"measurement.unreadable"}
    assert codes("just some words") == {"measurement.unreadable"}


# --- the traps, one by one ---


def test_guidellm_itl_is_tpot_and_its_tpot_is_not_used() -> None:
    m = one(s.dump(s.guidellm()), ALL_SUPPLIED)
    assert m.result.tpot.p50_ms == pytest.approx(31.5)  # not 32.3, which counts the first token
    assert not m.result.itl.known


def test_guidellm_request_latency_is_in_seconds_and_only_successes_count() -> None:
    m = one(s.dump(s.guidellm()), ALL_SUPPLIED)
    assert m.result.e2e.mean_ms == pytest.approx(33788.3)
    assert m.result.ttft.p99_ms == pytest.approx(2600.0)


def test_guidellm_old_report_version_is_refused() -> None:
    old = s.guidellm()
    old["metadata"]["version"] = 1
    assert "measurement.format_version" in codes(s.dump(old), ALL_SUPPLIED)


def test_guidellm_rate_strategy_is_an_open_load() -> None:
    report = s.guidellm()
    report["benchmarks"][0]["config"]["strategy"] = {"type_": "poisson", "rate": 6.5}
    m = one(s.dump(report), ALL_SUPPLIED)
    assert (m.load.concurrency, m.load.request_rate_per_s) == (None, 6.5)


def test_guidellm_every_benchmark_is_a_measurement() -> None:
    report = s.guidellm()
    second = s.guidellm()["benchmarks"][0]
    second["config"]["strategy"]["streams"] = 512
    report["benchmarks"].append(second)
    assert [m.load.concurrency for m in read(s.dump(report), ALL_SUPPLIED)] == [256, 512]


def test_aiperf_units_are_obeyed() -> None:
    changed = s.aiperf(
        time_to_first_token={"unit": "ns", "avg": 950e6, "p50": 812e6},
        inter_token_latency={"unit": "us", "avg": 32100.0, "p50": 31500.0},
    )
    m = one(s.dump(changed), ALL_SUPPLIED)
    assert m.result.ttft.p50_ms == pytest.approx(812.0)
    assert m.result.tpot.p50_ms == pytest.approx(31.5)


def test_aiperf_warm_up_phase_does_not_decide_the_load() -> None:
    assert one(s.dump(s.aiperf()), ALL_SUPPLIED).load.concurrency == s.CONCURRENCY


def test_inference_perf_normalised_time_per_token_is_not_tpot() -> None:
    value = s.inference_perf()
    value["successes"]["latency"]["time_per_output_token"] = None
    m = one(s.dump(value), ALL_SUPPLIED)
    assert not m.result.tpot.known


def test_inference_perf_old_token_count_names_and_cached_tokens() -> None:
    value = s.inference_perf()
    ok = value["successes"]
    ok["prompt_len"], ok["output_len"] = {"mean": 136.2}, {"mean": 128.0}
    del ok["prompt_tokens"], ok["output_tokens"]
    assert one(s.dump(value), ALL_SUPPLIED).workload.isl == 136
    cached = s.inference_perf()
    cached["successes"]["prompt_tokens"]["cached"] = 0.25 * s.COMPLETED * s.ISL
    assert one(s.dump(cached), ALL_SUPPLIED).workload.prefix_hit == pytest.approx(0.25)


def test_inference_perf_load_is_what_was_achieved_not_what_was_wished() -> None:
    value = s.inference_perf()
    value["load_summary"]["concurrency"] = None
    m = one(s.dump(value), ALL_SUPPLIED)
    assert m.load.request_rate_per_s == pytest.approx(6.4)


def test_llm_d_report_from_guidellm_carries_its_definitions() -> None:
    value = s.llm_d_0_2()
    value["scenario"]["load"]["standardized"]["tool"] = "guidellm"
    latency = value["results"]["request_performance"]["aggregate"]["latency"]
    latency["time_per_output_token"] = {"units": "ms/token", **s.NTPOT}
    latency["inter_token_latency"] = {"units": "ms/token", **s.TPOT}
    m = one(s.dump(value))
    assert m.result.tpot.p50_ms == pytest.approx(31.5)
    assert not m.result.itl.known


def test_llm_d_report_dp_is_of_the_replica_not_of_the_pod() -> None:
    assert one(s.dump(s.llm_d_0_2())).gpus == 16  # dp 16 over two pods of 8


def test_llm_d_report_roles_replicas_and_unbounded_load() -> None:
    value = s.llm_d_0_2()
    decode = value["scenario"]["stack"][1]
    prefill = {**decode, "standardized": {**decode["standardized"], "role": "prefill", "replicas": 3}}
    prefill["standardized"]["accelerator"] = {
        "model": "H100", "parallelism": {"tp": 2, "dp": 1, "ep": 1, "pp": 1},
    }  # fmt: skip
    decode["standardized"]["role"] = "decode"
    value["scenario"]["stack"].append(prefill)
    text = yaml.safe_dump(value).replace("concurrency: 256", "concurrency: .inf")
    m = one(text)
    assert m.strategy is Strategy.DISAGGREGATED
    assert m.label() == "P 3x(tp2,dp1) D 1x(tp1,dp16,ep16)"
    assert [r.gpu for r in m.roles] == ["H100", "H200"]
    assert m.load.concurrency is None
    assert m.result.output_tok_s_per_gpu == pytest.approx(s.OUTPUT_TOK_S / 22)


def test_llm_d_report_with_pipeline_stages_is_refused() -> None:
    value = s.llm_d_0_2()
    value["scenario"]["stack"][1]["standardized"]["accelerator"]["parallelism"]["pp"] = 2
    assert codes(s.dump(value)) == {"measurement.pipeline_parallel"}


def test_llm_d_report_of_an_unknown_version_is_refused() -> None:
    assert "measurement.format_version" in codes(s.dump({**s.llm_d_0_2(), "version": "9.9"}))


def test_llm_d_image_is_not_an_engine_version() -> None:
    value = s.llm_d_0_2()
    value["scenario"]["stack"][1]["standardized"].update(
        tool="llm-d", tool_version="ghcr.io/llm-d/llm-d-cuda:0.3.1"
    )
    assert one(s.dump(value)).engine_version == "llm-d-cuda:0.3.1"


def test_inferencex_rates_of_two_pools_have_their_own_denominators() -> None:
    m = one(s.dump(s.inferencex_disaggregated()))
    assert m.gpus == 24
    assert m.label() == "P 2x(tp1,dp4,ep4) D 1x(tp1,dp16,ep16)"
    assert m.result.output_tok_s_per_gpu == pytest.approx(s.OUTPUT_TOK_S / 24)
    assert m.result.input_tok_s_per_gpu == pytest.approx(s.INPUT_TOK_S / 24)


def test_inferencex_single_pool_with_real_dp_needs_the_override() -> None:
    """`tp` divided the rate; stating tp8 x dp2 keeps the total and divides it by 16."""
    value = s.inferencex(
        tp=8,
        ep=8,
        dp_attention="false",
        tput_per_gpu=7200.0,
        output_tput_per_gpu=800.0,
        input_tput_per_gpu=6400.0,
    )
    assert one(s.dump(value)).result.output_tok_s_per_gpu == pytest.approx(800.0)
    role = parse_role("tp8,dp2,ep16", Role.AGGREGATED)
    assert role is not None
    assert codes(s.dump(value), Supplied(roles=(role,))) == {"measurement.conflict"}
    m = one(s.dump(value), Supplied(roles=(role,), override=True))
    assert m.result.output_tok_s_per_gpu == pytest.approx(400.0)
    assert "roles" in m.origin.supplied


def test_inferencex_dp_attention_is_text() -> None:
    assert one(s.dump(s.inferencex(dp_attention="false"))).label() == "1x(tp16,dp1,ep16)"
    assert one(s.dump(s.inferencex(dp_attention=True))).label() == "1x(tp1,dp16,ep16)"


def test_inferencex_gpu_counts_that_contradict_are_refused() -> None:
    value = s.inferencex_disaggregated(num_decode_gpu=32)
    assert codes(s.dump(value)) == {"measurement.gpus_inconsistent"}


def test_inferencex_interactivity_stands_in_for_tpot_but_its_std_is_ignored() -> None:
    value = {k: v for k, v in s.inferencex().items() if "tpot" not in k}
    m = one(s.dump(value))
    assert m.result.tpot.p50_ms == pytest.approx(31.5)
    assert m.result.tpot.p99_ms == pytest.approx(38.0)
    assert m.result.tpot.std_ms is None
    assert MeasurementFlag.TPOT_FROM_RATE in m.flags


def test_vllm_itl_with_speculation_is_kept_apart_from_tpot() -> None:
    m = one(s.dump(s.vllm(spec_decode_acceptance_length=2.7, mtp=None)))
    assert m.result.itl.p50_ms == pytest.approx(94.5)
    assert m.result.tpot.p50_ms == pytest.approx(31.5)
    assert m.settings.mtp is True
    assert m.settings.acceptance_length == pytest.approx(2.7)


def test_vllm_stray_colon_and_unbounded_load() -> None:
    old = s.vllm(max_concurrency=None)
    old["request_goodput:"] = old.pop("request_goodput")
    m = one(s.dump(old))
    assert (m.load.concurrency, m.load.request_rate_per_s) == (None, None)


def test_vllm_append_file_has_one_run_per_line() -> None:
    lines = b"\n".join(s.dump(s.vllm(max_concurrency=c)) for c in (64, 128))
    runs = read(lines)
    assert [m.load.concurrency for m in runs] == [64, 128]
    assert [m.origin.position for m in runs] == ["line 1", "line 2"]


def test_vllm_detailed_lengths_give_their_spread() -> None:
    m = one(s.dump(s.vllm(input_lens=[4096, 12288], output_lens=[1024, 1024])))
    assert m.workload.isl == 8192
    assert m.workload.length_cv == pytest.approx(0.5)


def test_vllm_client_backend_does_not_name_the_engine() -> None:
    value = s.vllm()
    del value["engine"]
    assert codes(s.dump(value)) == {"measurement.missing_engine"}


def test_failures_missing_warm_up_and_short_runs_are_flagged_not_dropped() -> None:
    m = one(s.dump(s.vllm(failed=5, num_warmups=None, completed=300)))
    assert set(m.flags) == {
        MeasurementFlag.FAILED_REQUESTS,
        MeasurementFlag.NO_WARM_UP,
        MeasurementFlag.FEW_REQUESTS,
    }
    assert MeasurementFlag.CANCELLED in one(s.dump(s.aiperf(was_cancelled=True)), ALL_SUPPLIED).flags


# --- our CSV ---


def test_csv_reads_tp_as_worker_size_when_the_gpus_say_so() -> None:
    row = s.csv_row(decode_tp="16", decode_dp="16", total_gpus="16")
    assert one(s.csv_text(row)).label() == "1x(tp1,dp16,ep16)"
    row = s.csv_row(decode_tp="16", decode_dp="16", decode_ep="256", total_gpus="256")
    assert one(s.csv_text(row)).label() == "1x(tp16,dp16,ep256)"
    assert codes(s.csv_text(s.csv_row(total_gpus="24"))) == {"measurement.gpus_inconsistent"}


@pytest.mark.parametrize(("output", "given_input"), [(400.0, 6400.0), (6400 / 24, 51200 / 24)])
def test_csv_denominators_of_two_pools_follow_the_total(output: float, given_input: float) -> None:
    row = s.csv_row(
        mode="disagg", prefill_workers="2", prefill_tp="1", prefill_dp="4", prefill_ep="4", total_gpus="24",
        output_tok_s_per_gpu=output, input_tok_s_per_gpu=given_input,
    )  # fmt: skip
    m = one(s.csv_text(row))
    assert m.result.output_tok_s_per_gpu == pytest.approx(s.OUTPUT_TOK_S / 24)
    assert m.result.input_tok_s_per_gpu == pytest.approx(s.INPUT_TOK_S / 24)
    assert MeasurementFlag.DENOMINATOR_INFERRED not in m.flags


def test_csv_denominator_without_a_total_is_flagged() -> None:
    row = s.csv_row(
        mode="disagg", prefill_workers="2", prefill_tp="1", prefill_dp="4", prefill_ep="4", total_gpus="24",
        output_tok_s_per_gpu="100", input_tok_s_per_gpu="", total_tok_s="",
    )  # fmt: skip
    m = one(s.csv_text(row))
    assert m.result.output_tok_s_per_gpu == pytest.approx(100.0)
    assert MeasurementFlag.DENOMINATOR_INFERRED in m.flags


def test_csv_words_for_caches_drafts_and_doubts() -> None:
    row = s.csv_row(
        prefix_hit_or_shared_tokens="2048", notes="CONFIG SUSPECT: QC-FAIL", mtp="on (3)", dbo="on"
    )
    m = one(s.csv_text(row))
    assert m.workload.prefix_hit == pytest.approx(0.25)
    assert (m.settings.mtp, m.settings.draft_tokens, m.settings.dbo, m.settings.eplb) == (True, 3, True, None)
    assert set(m.flags) == {
        MeasurementFlag.SUSPECT_CONFIGURATION,
        MeasurementFlag.QUALITY_CHECK_FAILED,
    }
    percent = one(s.csv_text(s.csv_row(prefix_hit_or_shared_tokens="92.2% hit")))
    assert percent.workload.prefix_hit == pytest.approx(0.922)


def test_csv_blank_expert_width_is_unknown_not_one() -> None:
    assert codes(s.csv_text(s.csv_row(decode_ep=""))) == {"measurement.missing_roles"}
    single = s.csv_row(decode_tp="1", decode_dp="", decode_ep="", total_gpus="1")
    assert one(s.csv_text(single)).label() == "1x(tp1,dp1)"


def test_csv_phase_alone_is_marked() -> None:
    m = one(s.csv_text(s.csv_row(mode="decode_only")))
    assert m.roles[0].role is Role.DECODE
    assert MeasurementFlag.SINGLE_PHASE in m.flags


# --- what is missing ---


def test_everything_missing_is_asked_for_at_once_with_its_flag() -> None:
    with pytest.raises(InputError) as caught:
        read(s.dump(s.guidellm()))
    fixes = " ".join(i.fix for i in caught.value.issues)
    for flag in ("--gpu", "--engine ", "--engine-version", "--aggregated", "--prefill"):
        assert flag in fixes
    assert "--model" not in fixes
    assert all(i.where == "f @ $.benchmarks[0]" for i in caught.value.issues)


def test_what_the_user_states_is_remembered_and_must_not_contradict() -> None:
    m = one(s.dump(s.guidellm()), ALL_SUPPLIED)
    assert m.origin.supplied["gpu"] == "H200"
    assert codes(s.dump(s.vllm()), Supplied(gpu="B200")) == {"measurement.conflict"}
    assert one(s.dump(s.vllm()), Supplied(gpu="B200", override=True)).gpu == "B200"
    assert one(s.dump(s.vllm()), Supplied(gpu="H200")).origin.supplied == {}


def test_unknown_engines_and_empty_results() -> None:
    with pytest.raises(InputError) as caught:
        read(s.dump(s.vllm(engine="sglan")))
    assert "'sglang'" in caught.value.issues[0].fix
    bare = s.csv_row(output_tok_s_per_gpu="", input_tok_s_per_gpu="", total_tok_s="")
    bare.update({k: "" for k in s.CSV_COLUMNS if "_ms_" in k})
    assert codes(s.csv_text(bare)) == {"measurement.no_result"}


def test_rows_with_the_same_fault_share_a_message() -> None:
    rows = [s.csv_row(engine_version="") for _ in range(9)]
    with pytest.raises(InputError) as caught:
        read(s.csv_text(*rows))
    (issue,) = caught.value.issues
    assert issue.where == "f @ row 1 T-1, row 2 T-1, row 3 T-1 and 6 more"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("2x(tp1,dp8,ep8)", (2, 1, 8, 8)),
        ("tp8", (1, 8, 1, 1)),
        (" 3 x ( TP=2, dp=4 ) ", (3, 2, 4, 1)),
        ("2x(tp1,tp8)", None),
        ("2x(tp0)", None),
        ("eight", None),
    ],
)
def test_role_labels(label: str, expected: tuple[int, ...] | None) -> None:
    role = parse_role(label, Role.DECODE)
    assert (None if role is None else (role.groups, role.tp, role.dp, role.ep)) == expected
