"""One imagined benchmark run, written down the way each tool would write it.

16 GPUs as one engine group (tp1, dp16, ep16), 8192/1024 tokens, 256 requests in flight. The engine drafts with MTP and
streams three tokens per chunk, so that ITL is three times TPOT.
"""

from __future__ import annotations

import json
from typing import Any

GPUS = 16
ISL, OSL, CONCURRENCY = 8192, 1024, 256
OUTPUT_TOK_S, INPUT_TOK_S = 6400.0, 51200.0
REQUESTS_PER_S = 6.25
TTFT = {"mean": 950.0, "p50": 812.0, "p90": 1500.0, "p95": 1800.0, "p99": 2600.0}
TPOT = {"mean": 32.1, "p50": 31.5, "p90": 34.0, "p95": 35.0, "p99": 38.0}
ITL = {"mean": 96.3, "p50": 94.5, "p90": 101.0, "p95": 103.0, "p99": 120.0}
E2E = {"mean": 33788.3, "p50": 33036.5, "p90": 36000.0, "p95": 37000.0, "p99": 41000.0}
NTPOT = {"mean": 33.0, "p50": 32.3, "p90": 35.2, "p95": 36.1, "p99": 40.0}
COMPLETED, FAILED = 1024, 0


def scaled(stats: dict[str, float], factor: float, *, median: str = "p50") -> dict[str, float]:
    return {median if k == "p50" else k: v * factor for k, v in stats.items()}


def vllm(**changes: Any) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, stats in (("ttft", TTFT), ("tpot", TPOT), ("itl", ITL), ("e2el", E2E)):
        for k, v in stats.items():
            flat[f"{'median' if k == 'p50' else k}_{name}_ms"] = v
    return {
        "date": "20260901-120000", "endpoint_type": "openai", "backend": "openai", "label": None,
        "model_id": "deepseek-ai/DeepSeek-R1-0528", "tokenizer_id": "deepseek-ai/DeepSeek-R1-0528",
        "num_prompts": COMPLETED + FAILED, "request_rate": "inf", "burstiness": 1.0,
        "max_concurrency": CONCURRENCY, "duration": 163.84, "completed": COMPLETED, "failed": FAILED,
        "total_input_tokens": COMPLETED * ISL, "total_output_tokens": COMPLETED * OSL,
        "request_throughput": REQUESTS_PER_S, "request_goodput": None, "output_throughput": OUTPUT_TOK_S,
        "total_token_throughput": OUTPUT_TOK_S + INPUT_TOK_S, "gpu": "H200", "engine": "vllm",
        "engine_version": "0.33.0", "tensor_parallel_size": "1", "data_parallel_size": "16",
        "enable_expert_parallel": "true", "num_warmups": "32", "mtp": "on",
        **flat, **changes,
    }  # fmt: skip


def guidellm(**changes: Any) -> dict[str, Any]:
    def both(stats: dict[str, float]) -> dict[str, Any]:
        percentiles = {k: v for k, v in stats.items() if k != "mean"}
        summary = {"mean": stats["mean"], "median": stats["p50"], "std_dev": 0.0, "percentiles": percentiles}
        # what failed requests look like must never leak into the result
        worse = {"mean": 1e9, "median": 1e9, "percentiles": dict.fromkeys(percentiles, 1000000000.0)}
        return {"successful": summary, "errored": worse, "incomplete": worse, "total": worse}

    def rate(value: float) -> dict[str, Any]:
        return both(dict.fromkeys(("mean", "p50", "p90", "p95", "p99"), value))

    benchmark: dict[str, Any] = {
        "type_": "generative_benchmark",
        "config": {
            "id_": "b0", "run_id": "r", "run_index": 0, "backend": {"model": "deepseek-ai/DeepSeek-R1-0528"},
            "strategy": {"type_": "concurrent", "streams": CONCURRENCY},
        },
        "start_time": 1788264000.0, "end_time": 1788264163.84, "duration": 163.84, "warmup_duration": 20.0,
        "metrics": {
            "request_totals": {"successful": COMPLETED, "errored": FAILED, "incomplete": 3, "total": 1027},
            "requests_per_second": rate(REQUESTS_PER_S), "output_tokens_per_second": rate(OUTPUT_TOK_S),
            "prompt_tokens_per_second": rate(INPUT_TOK_S),
            "tokens_per_second": rate(INPUT_TOK_S + OUTPUT_TOK_S),
            "prompt_token_count": rate(ISL), "output_token_count": rate(OSL),
            "time_to_first_token_ms": both(TTFT), "inter_token_latency_ms": both(TPOT),
            "time_per_output_token_ms": both(NTPOT), "request_latency": both(scaled(E2E, 1e-3)),
        },
    }  # fmt: skip
    benchmark.update(changes)
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {}, "benchmarks": [benchmark]}


def aiperf(**changes: Any) -> dict[str, Any]:
    def metric(stats: dict[str, float], unit: str, factor: float = 1.0) -> dict[str, Any]:
        return {
            "unit": unit,
            **{("avg" if k == "mean" else k): v * factor for k, v in stats.items()},
            "count": COMPLETED,
        }

    return {
        "schema_version": "1.5", "aiperf_version": "0.13.0", "benchmark_id": "x",
        "request_throughput": {"unit": "requests/sec", "avg": REQUESTS_PER_S},
        "request_count": {"unit": "requests", "avg": float(COMPLETED)},
        "error_request_count": {"unit": "requests", "avg": float(FAILED)},
        "time_to_first_token": metric(TTFT, "ms"), "inter_token_latency": metric(TPOT, "ms"),
        "inter_chunk_latency": metric(ITL, "ms"), "request_latency": metric(E2E, "sec", 1e-3),
        "output_token_throughput": {"unit": "tokens/sec", "avg": OUTPUT_TOK_S},
        "input_sequence_length": {"unit": "tokens", "avg": float(ISL), "std": 0.0},
        "output_sequence_length": {"unit": "tokens", "avg": float(OSL), "std": 0.0},
        "benchmark_duration": {"unit": "sec", "avg": 163.84},
        "warmup_metrics": {"request_count": {"unit": "requests", "avg": 32.0}},
        "input_config": {
            "models": {"items": [{"name": "deepseek-ai/DeepSeek-R1-0528"}]},
            "phases": [{"warmup": {"concurrency": 7}}, {"profiling": {"concurrency": CONCURRENCY}}],
        },
        "start_time": "2026-09-01T12:00:00Z", "was_cancelled": False, **changes,
    }  # fmt: skip


def inference_perf(**changes: Any) -> dict[str, Any]:
    seconds = {
        name: scaled(stats, 1e-3, median="median")
        for name, stats in (
            ("time_to_first_token", TTFT),
            ("time_per_output_token", TPOT),
            ("inter_token_latency", ITL),
            ("request_latency", E2E),
            ("normalized_time_per_output_token", NTPOT),
        )
    }
    return {
        "benchmark_time_seconds": 163.84,
        "load_summary": {
            "count": COMPLETED, "send_duration": 160.0, "requested_rate": 50.0, "achieved_rate": 6.4,
            "concurrency": CONCURRENCY,
        },
        "successes": {
            "count": COMPLETED, "latency": seconds,
            "throughput": {
                "input_tokens_per_sec": INPUT_TOK_S, "output_tokens_per_sec": OUTPUT_TOK_S,
                "total_tokens_per_sec": INPUT_TOK_S + OUTPUT_TOK_S, "requests_per_sec": REQUESTS_PER_S,
            },
            "prompt_tokens": {"total": COMPLETED * ISL, "cached": 0.0, "mean": float(ISL)},
            "output_tokens": {"total": COMPLETED * OSL, "mean": float(OSL)},
        },
        "failures": {"count": FAILED, "by_label": {}}, **changes,
    }  # fmt: skip


def llm_d_0_2(**changes: Any) -> dict[str, Any]:
    def block(stats: dict[str, float], unit: str, factor: float) -> dict[str, Any]:
        return {"units": unit, **scaled(stats, factor)}

    def rate(value: float, unit: str = "tokens/s") -> dict[str, Any]:
        return {"units": unit, "mean": value}

    return {
        "version": "0.2.1",
        "run": {"uid": "u", "time": {"start": "2026-09-01T12:00:00+00:00", "duration": "PT2M43.84S"}},
        "scenario": {
            "stack": [
                {
                    "metadata": {"label": "epp", "cfg_id": "0"},
                    "standardized": {"kind": "generic", "tool": "router", "tool_version": "x:1"}, "native": {},
                },
                {
                    "metadata": {"label": "vllm", "cfg_id": "1"},
                    "standardized": {
                        "kind": "inference_engine", "tool": "vllm", "tool_version": "0.33.0", "role": "replica",
                        "replicas": 1, "model": {"name": "deepseek-ai/DeepSeek-R1-0528"},
                        "accelerator": {
                            "model": "H200", "count": 8,
                            "parallelism": {"tp": 1, "dp": 16, "dp_local": 8, "workers": 2, "ep": 16, "pp": 1},
                        },
                    },
                    "native": {"args": {"--speculative-config": {"method": "mtp"}}},
                },
            ],
            "load": {
                "metadata": {},
                "standardized": {
                    "tool": "inference-perf", "tool_version": "0.7.0", "source": "random",
                    "input_seq_len": {"distribution": "fixed", "value": ISL},
                    "output_seq_len": {"distribution": "fixed", "value": OSL}, "concurrency": CONCURRENCY,
                },
                "native": {},
            },
        },
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {"total": COMPLETED + FAILED, "failures": FAILED},
                    "latency": {
                        "time_to_first_token": block(TTFT, "s", 1e-3),
                        "time_per_output_token": block(TPOT, "ms/token", 1.0),
                        "inter_token_latency": block(ITL, "s/token", 1e-3),
                        "request_latency": block(E2E, "ms", 1.0),
                    },
                    "throughput": {
                        "output_token_rate": rate(OUTPUT_TOK_S), "input_token_rate": rate(INPUT_TOK_S),
                        "request_rate": rate(REQUESTS_PER_S, "queries/s"),
                    },
                }
            }
        },
        **changes,
    }  # fmt: skip


def llm_d_0_1() -> dict[str, Any]:
    newer = llm_d_0_2()["results"]["request_performance"]["aggregate"]
    return {
        "version": "0.1",
        "scenario": {
            "model": {"name": "deepseek-ai/DeepSeek-R1-0528"},
            "host": {
                "type": ["replica"],
                "accelerator": [
                    {"model": "H200", "count": 8, "parallelism": {"tp": 1, "dp": 16, "ep": 16, "pp": 1}}
                ],
            },
            "platform": {"engine": [{"name": "vllm", "version": "0.33.0"}]},
            "load": {
                "name": "vllm-benchmark",
                "args": {"max_concurrency": CONCURRENCY, "request_rate": "inf"},
            },
        },
        "metrics": {
            "time": {"start": 1788264000, "duration": 163.84},
            "requests": {
                "total": COMPLETED, "failures": FAILED,
                "input_length": {"units": "count", "mean": float(ISL)},
                "output_length": {"units": "count", "mean": float(OSL)},
            },
            "latency": newer["latency"],
            "throughput": {
                "output_tokens_per_sec": OUTPUT_TOK_S, "total_tokens_per_sec": INPUT_TOK_S + OUTPUT_TOK_S,
                "requests_per_sec": REQUESTS_PER_S,
            },
        },
    }  # fmt: skip


def inferencex(**changes: Any) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, stats in (("ttft", TTFT), ("tpot", TPOT), ("itl", ITL), ("e2el", E2E)):
        for k, v in stats.items():
            flat[f"{'median' if k == 'p50' else k}_{name}"] = v / 1e3
    for k, v in TPOT.items():
        flat[f"{'median' if k == 'p50' else k}_intvty"] = 1000.0 / v
    return {
        "hw": "h200", "conc": CONCURRENCY, "image": "vllm/vllm-openai:v0.33.0",
        "model": "deepseek-ai/DeepSeek-R1-0528", "infmax_model_prefix": "dsr1", "framework": "vllm",
        "precision": "fp8", "spec_decoding": "mtp", "disagg": False,
        "isl": 9102, "osl": 1138,  # nominal; requests average 0.9 of it
        "is_multinode": True, "tp": GPUS, "ep": GPUS, "dp_attention": "true",
        "tput_per_gpu": (OUTPUT_TOK_S + INPUT_TOK_S) / GPUS, "output_tput_per_gpu": OUTPUT_TOK_S / GPUS,
        "input_tput_per_gpu": INPUT_TOK_S / GPUS, "std_intvty": 99.0, **flat, **changes,
    }  # fmt: skip


def inferencex_disaggregated(**changes: Any) -> dict[str, Any]:
    """The same rates from 8 prefill GPUs (2 workers) and 16 decode GPUs."""
    base = inferencex()
    for key in ("tp", "ep", "dp_attention"):
        del base[key]
    return {
        **base, "disagg": True,
        "prefill_tp": 4, "prefill_ep": 4, "prefill_dp_attention": "true", "prefill_num_workers": 2,
        "num_prefill_gpu": 8,
        "decode_tp": 16, "decode_ep": 16, "decode_dp_attention": "true", "decode_num_workers": 1,
        "num_decode_gpu": 16,
        "tput_per_gpu": (OUTPUT_TOK_S + INPUT_TOK_S) / 24, "output_tput_per_gpu": OUTPUT_TOK_S / 16,
        "input_tput_per_gpu": INPUT_TOK_S / 8, **changes,
    }  # fmt: skip


CSV_COLUMNS = [
    "id",
    "source",
    "date",
    "model",
    "quantization",
    "gpu",
    "gpus_per_node",
    "scale_up",
    "scale_out",
    "engine",
    "engine_version",
    "mode",
    "prefill_workers",
    "prefill_tp",
    "prefill_dp",
    "prefill_ep",
    "decode_workers",
    "decode_tp",
    "decode_dp",
    "decode_ep",
    "total_gpus",
    "isl",
    "osl",
    "prefix_hit_or_shared_tokens",
    "turns",
    "concurrency",
    "request_rate",
    "dbo",
    "eplb",
    "mtp",
    "output_tok_s_per_gpu",
    "input_tok_s_per_gpu",
    "total_tok_s",
    "ttft_ms_mean",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_mean",
    "tpot_ms_p50",
    "tpot_ms_p99",
    "tok_s_user",
    "notes",
]


def csv_row(**changes: Any) -> dict[str, Any]:
    row = dict.fromkeys(CSV_COLUMNS, "")
    row.update(
        id="T-1", source="our bench", date="2026-09-01", model="deepseek-ai/DeepSeek-R1-0528", gpu="H200",
        engine="vllm", engine_version="v0.33.0", mode="agg", decode_workers="1", decode_tp="1", decode_dp="16",
        decode_ep="16", total_gpus="16", isl=str(ISL), osl=str(OSL), concurrency=str(CONCURRENCY),
        request_rate="inf", dbo="unknown", eplb="unknown", mtp="on (1 token)",
        output_tok_s_per_gpu=str(OUTPUT_TOK_S / GPUS), input_tok_s_per_gpu=str(INPUT_TOK_S / GPUS),
        total_tok_s=str(OUTPUT_TOK_S + INPUT_TOK_S), ttft_ms_mean="950", ttft_ms_p50="812", ttft_ms_p99="2600",
        tpot_ms_mean="32.1", tpot_ms_p50="31.5", tpot_ms_p99="38",
    )  # fmt: skip
    row.update(changes)
    return row


def csv_text(*rows: dict[str, Any]) -> str:
    def cell(value: Any) -> str:
        return f'"{value}"' if "," in str(value) else str(value)

    lines = [",".join(CSV_COLUMNS)]
    lines += [",".join(cell(r[c]) for c in CSV_COLUMNS) for r in rows]
    return "\n".join(lines) + "\n"


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()
