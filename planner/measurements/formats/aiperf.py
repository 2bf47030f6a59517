"""aiperf (and genai-perf) profile exports.

Traps: every metric names its own unit, which is obeyed; ``inter_token_latency`` is an average per request, i.e. TPOT;
``inter_chunk_latency`` is the pooled gap, i.e. ITL; the total token rate must be derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from planner.domain.measurement import BenchmarkFormat, Latency, MeasuredLoad, MeasurementFlag
from planner.measurements.documents import Document
from planner.measurements.draft import Draft, Totals
from planner.measurements.formats.checked import checked
from planner.measurements.values import (
    Json,
    at,
    integer,
    number,
    positive,
    rounded,
    section,
    statistics,
    text,
    unit_to_ms,
)


class AiperfImporter:
    """``profile_export_aiperf.json``."""

    format = BenchmarkFormat.AIPERF

    def matches(self, document: Document) -> bool:
        """Metric objects with a unit, and aiperf's own version or configuration."""
        value = document.value
        if not isinstance(value, Mapping):
            return False
        named = "aiperf_version" in value or "input_config" in value
        return named and isinstance(at(value, "request_throughput.unit"), str)

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft: an export is one run."""
        return (_draft(document.value),)


@checked
def _draft(value: Mapping[str, Json]) -> Draft:
    config = section(value, "input_config")
    isl_mean = positive(at(value, "input_sequence_length.avg"))
    spread = number(at(value, "input_sequence_length.std")) or 0.0
    requests_per_s = number(at(value, "request_throughput.avg"))
    duration_s = positive(at(value, "benchmark_duration.avg"))
    cancelled = value.get("was_cancelled") is True or value.get("is_complete") is False
    return Draft(
        model=_model(config),
        isl=rounded(isl_mean),
        osl=rounded(at(value, "output_sequence_length.avg")),
        length_cv=spread / isl_mean if isl_mean else 0.0,
        load=_load(config),
        totals=Totals(
            output_tok_s=number(at(value, "output_token_throughput.avg")),
            input_tok_s=_input_rate(value, requests_per_s, isl_mean, duration_s),
            requests_per_s=requests_per_s,
        ),
        ttft=_latency(value, "time_to_first_token"),
        tpot=_latency(value, "inter_token_latency"),
        itl=_latency(value, "inter_chunk_latency"),
        e2e=_latency(value, "request_latency"),
        completed=integer(at(value, "request_count.avg")),
        failed=integer(at(value, "error_request_count.avg")) or 0,
        duration_s=duration_s,
        warm_up=bool(value.get("warmup_metrics")) or bool(_find(config, "warmup_request_count")),
        measured_at=_time(value.get("start_time")),
        tool_version=text(value.get("aiperf_version")),
        acceptance_length=positive(at(value, "spec_decode_acceptance_length.avg")),
        flags=(MeasurementFlag.CANCELLED,) if cancelled else (),
    )


def _latency(value: Mapping[str, Json], name: str) -> Latency:
    metric = value.get(name)
    to_ms = unit_to_ms(at(metric, "unit"))
    return Latency() if to_ms is None else statistics(metric, to_ms=to_ms, mean="avg")


def _input_rate(
    value: Mapping[str, Json], requests_per_s: float | None, isl: float | None, duration_s: float | None
) -> float | None:
    stated = number(at(value, "input_token_throughput.avg"))
    if stated is not None:
        return stated
    total = number(at(value, "total_isl.avg"))
    if total is not None and duration_s:
        return total / duration_s
    return requests_per_s * isl if requests_per_s is not None and isl is not None else None


def _model(config: Json) -> str | None:
    names = at(config, "endpoint.model_names")
    items = at(config, "models.items")
    if isinstance(names, list) and len(names) == 1:
        return text(names[0])
    if isinstance(items, list) and len(items) == 1:
        return text(at(items[0], "name"))
    return text(at(config, "model")) or text(at(config, "endpoint.model"))


def _load(config: Json) -> MeasuredLoad | None:
    concurrency = positive(_find(config, "concurrency"))
    rate = positive(_find(config, "request_rate"))
    if concurrency is None and rate is None:
        return None
    return MeasuredLoad(concurrency=concurrency, request_rate_per_s=rate)


def _find(config: Json, key: str) -> Json:
    """Value of `key` wherever it is: load settings moved between loadgen, runtime and phases across versions.

    Warm-up phases are skipped, since they may run at another load.
    """
    if isinstance(config, Mapping):
        if config.get(key) is not None and not isinstance(config[key], Mapping | list):
            return config[key]
        for name, inner in config.items():
            if "warmup" not in str(name) and (found := _find(inner, key)) is not None:
                return found
    if isinstance(config, list):
        for inner in config:
            if (found := _find(inner, key)) is not None:
                return found
    return None


def _time(value: Json) -> datetime | None:
    name = text(value)
    if name is None:
        return None
    try:
        parsed = datetime.fromisoformat(name)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
