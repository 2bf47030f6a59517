"""Measurements as llm-d benchmark reports, version 0.2.1: the format to exchange results in.

What the format has no field for (DBO, EPLB, MTP, DCP) goes into the native engine arguments, where the importer finds it
again; flags, provenance and the cache hit share that is not a fixed prefix go into the run's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from planner.domain.deployment import Role
from planner.domain.measurement import Latency, MeasuredRole, Measurement
from planner.storage.canonical import content_hash

VERSION: Final = "0.2.1"
_ROLE_NAMES: Final = {Role.AGGREGATED: "replica", Role.PREFILL: "prefill", Role.DECODE: "decode"}

Tree = dict[str, Any]  # a YAML document in the making


def to_report(measurement: Measurement, *, uid: str) -> Tree:
    """Report of one measurement; `uid` identifies the run (its content hash)."""
    run: Tree = {"uid": uid, "description": _description(measurement)}
    time: Tree = {}
    if measurement.origin.measured_at is not None:
        time["start"] = measurement.origin.measured_at.isoformat()
    if measurement.result.duration_s is not None:
        time["duration"] = f"PT{measurement.result.duration_s!r}S"
    if time:
        run["time"] = time
    return {
        "version": VERSION,
        "run": run,
        "scenario": {
            "stack": [_component(measurement, r, i) for i, r in enumerate(measurement.roles)],
            "load": _load(measurement),
        },
        "results": {"request_performance": {"aggregate": _aggregate(measurement)}},
    }


def to_yaml(reports: list[Tree]) -> str:
    """YAML text of reports, one document each."""
    return yaml.safe_dump_all(reports, sort_keys=True, allow_unicode=True, width=110)


def _component(m: Measurement, role: MeasuredRole, index: int) -> Tree:
    standardized: Tree = {
        "kind": "inference_engine",
        "tool": m.engine.value,
        "tool_version": m.engine_version,
        "role": _ROLE_NAMES[role.role],
        "replicas": role.groups,
        "model": {"name": m.model},
        "accelerator": {
            "model": role.gpu,
            "count": role.gpus_per_group,
            "parallelism": {
                "tp": role.tp,
                "dp": role.dp,
                "dp_local": role.dp,
                "workers": 1,
                "ep": role.ep,
                "pp": 1,
            },
        },
    }
    native: Tree = {"args": _arguments(m, role)}
    return {
        "metadata": {
            "schema_version": "0.0.1",
            "label": f"{role.role.value}-{index}",
            "cfg_id": content_hash({"standardized": standardized, "native": native})[:32],
        },
        "standardized": standardized,
        "native": native,
    }


def _arguments(m: Measurement, role: MeasuredRole) -> Tree:
    arguments: Tree = {}
    for flag, value in (("--enable-dbo", m.settings.dbo), ("--enable-eplb", m.settings.eplb)):
        if value is not None:
            arguments[flag] = value
    if m.settings.mtp:
        speculation: Tree = {"method": "mtp"}
        if m.settings.draft_tokens is not None:
            speculation["num_speculative_tokens"] = m.settings.draft_tokens
        arguments["--speculative-config"] = speculation
    if m.settings.quantization is not None:
        arguments["--quantization"] = m.settings.quantization
    if role.dcp > 1:
        arguments["--decode-context-parallel-size"] = role.dcp
    return arguments


def _load(m: Measurement) -> Tree:
    workload = m.workload
    spread = workload.length_cv * workload.isl
    standardized: Tree = {
        "tool": m.origin.format.value,
        "tool_version": m.origin.tool_version or "unknown",
        "source": "unknown",
        "input_seq_len": _length(workload.isl, spread),
        "output_seq_len": _length(workload.osl, 0.0),
        "concurrency": float("inf") if m.load.concurrency is None else round(m.load.concurrency),
    }
    if m.load.request_rate_per_s is not None:
        standardized["rate_qps"] = m.load.request_rate_per_s
    if workload.prefix_hit > 0:
        # the format describes shared prefixes, not hit shares: one group whose prefix gives that share
        standardized["prefix"] = {
            "prefix_len": _length(round(workload.prefix_hit * workload.isl), 0.0),
            "num_groups": 1,
            "num_users_per_group": 1,
            "num_prefixes": 1,
        }
    if m.load.turns > 1:
        standardized["multi_turn"] = {"enabled": True, "max_turns": _length(m.load.turns, 0.0)}
    return {
        "metadata": {"schema_version": "0.0.1", "cfg_id": content_hash(_finite(standardized))[:32]},
        "standardized": standardized,
        "native": {},
    }


def _length(value: float, spread: float) -> Tree:
    if spread <= 0:
        return {"distribution": "fixed", "value": value}
    return {"distribution": "other", "value": value, "std_dev": spread}


def _aggregate(m: Measurement) -> Tree:
    r = m.result
    latency = {
        "time_to_first_token": _statistics(r.ttft, "ms"),
        "time_per_output_token": _statistics(r.tpot, "ms/token"),
        "inter_token_latency": _statistics(r.itl, "ms/token"),
        "request_latency": _statistics(r.e2e, "ms"),
    }
    throughput = {
        "output_token_rate": _rate(r.output_tok_s_per_gpu, m.gpus, "tokens/s"),
        "input_token_rate": _rate(r.input_tok_s_per_gpu, m.gpus, "tokens/s"),
        "total_token_rate": _rate(r.total_tok_s_per_gpu, m.gpus, "tokens/s"),
        "request_rate": _rate(r.requests_per_s, 1, "queries/s"),
    }
    aggregate: Tree = {
        "latency": {k: v for k, v in latency.items() if v is not None},
        "throughput": {k: v for k, v in throughput.items() if v is not None},
    }
    if r.completed is not None:  # the format demands a count, which not every source gives
        aggregate["requests"] = _requests(m, r.completed)
    return aggregate


def _requests(m: Measurement, completed: int) -> Tree:
    input_length: Tree = {"units": "count", "mean": float(m.workload.isl)}
    if m.workload.length_cv > 0:
        input_length["stddev"] = m.workload.length_cv * m.workload.isl
    requests: Tree = {
        "total": completed + (m.result.failed or 0),
        "input_length": input_length,
        "output_length": {"units": "count", "mean": float(m.workload.osl)},
    }
    if m.result.failed is not None:
        requests["failures"] = m.result.failed
    return requests


def _statistics(latency: Latency, units: str) -> Tree | None:
    """A statistics block; the format demands a mean, so the median stands in where no mean was reported."""
    mean = latency.mean_ms if latency.mean_ms is not None else latency.p50_ms
    if mean is None:
        return None
    block: Tree = {"units": units, "mean": mean}
    for name, value in (
        ("p50", latency.p50_ms),
        ("p90", latency.p90_ms),
        ("p95", latency.p95_ms),
        ("p99", latency.p99_ms),
        ("stddev", latency.std_ms),
    ):
        if value is not None:
            block[name] = value
    return block


def _rate(per_gpu: float | None, gpus: int, units: str) -> Tree | None:
    return None if per_gpu is None else {"units": units, "mean": per_gpu * gpus}


def _description(m: Measurement) -> str:
    parts = [f"measured with {m.origin.format.value}, file {m.origin.file} sha256 {m.origin.raw_sha256}"]
    if m.flags:
        parts.append("flags: " + ", ".join(f.value for f in m.flags))
    if m.origin.supplied:
        parts.append("supplied: " + ", ".join(f"{k}={v}" for k, v in sorted(m.origin.supplied.items())))
    if m.origin.note:
        parts.append(m.origin.note)
    return "; ".join(parts)


def _finite(tree: Mapping[str, Any]) -> Tree:
    return {k: "inf" if v == float("inf") else v for k, v in tree.items()}
