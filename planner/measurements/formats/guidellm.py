"""guidellm reports, schema version 2.

Traps: its ``inter_token_latency_ms`` is (last - first) / (n - 1) per request, which everybody else calls TPOT; its
``time_per_output_token_ms`` includes the first token (NTPOT) and is not used; ``request_latency`` is in seconds while the
others are milliseconds; of each metric only ``successful`` counts, and rates are its mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from planner.domain.errors import Issue
from planner.domain.measurement import BenchmarkFormat, MeasuredLoad
from planner.measurements.documents import Document
from planner.measurements.draft import Draft, Totals
from planner.measurements.formats.checked import checked
from planner.measurements.values import (
    Json,
    at,
    first,
    integer,
    number,
    positive,
    rounded,
    section,
    statistics,
    text,
)

SUPPORTED_VERSION = 2
_MODEL_PATHS = (
    "config.backend.model",
    "config.spec.backend.model",
    "config.backend.spec.model",
    "config.spec.tokenizer.model",  # what the report itself falls back to
)


class GuidellmImporter:
    """Reports of guidellm, JSON or YAML."""

    format = BenchmarkFormat.GUIDELLM

    def matches(self, document: Document) -> bool:
        """A report version and a list of benchmarks."""
        value = document.value
        return (
            isinstance(at(value, "benchmarks"), list)
            and isinstance(at(value, "metadata"), Mapping)
            and ("guidellm_version" in value["metadata"] or "version" in value["metadata"])
        )

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per benchmark (load level) of the report."""
        value = document.value
        metadata = value["metadata"]
        if metadata.get("version") != SUPPORTED_VERSION:
            return (Draft(issues=(_old_version(metadata.get("version")),)),)
        return tuple(
            _draft(b, value, position=f"$.benchmarks[{i}]") for i, b in enumerate(value["benchmarks"])
        )


@checked
def _draft(benchmark: Mapping[str, Json], report: Mapping[str, Json], *, position: str) -> Draft:
    metrics = section(benchmark, "metrics")

    def successful(name: str) -> Json:
        return at(metrics, f"{name}.successful")

    def rate(name: str) -> float | None:
        return number(at(successful(name), "mean"))

    counts = section(metrics, "request_totals") or section(benchmark, "scheduler_metrics.requests_made")
    strategy = section(benchmark, "config.strategy")
    prompt = successful("prompt_token_count")
    mean_prompt = positive(at(prompt, "mean"))
    spread = number(at(prompt, "std_dev")) or 0.0
    started = number(at(benchmark, "start_time"))
    errored = integer(at(counts, "errored")) or 0
    return Draft(
        position=position,
        model=_model(benchmark, report),
        isl=rounded(mean_prompt),
        osl=rounded(at(successful("output_token_count"), "mean")),
        length_cv=spread / mean_prompt if mean_prompt else 0.0,
        load=_load(strategy),
        totals=Totals(
            output_tok_s=rate("output_tokens_per_second"),
            input_tok_s=rate("prompt_tokens_per_second"),
            total_tok_s=rate("tokens_per_second"),
            requests_per_s=rate("requests_per_second"),
        ),
        ttft=statistics(successful("time_to_first_token_ms"), to_ms=1.0),
        tpot=statistics(successful("inter_token_latency_ms"), to_ms=1.0),
        e2e=statistics(successful("request_latency"), to_ms=1e3),
        completed=integer(at(counts, "successful")),
        failed=errored,
        duration_s=positive(at(benchmark, "duration")),
        warm_up=bool(positive(at(benchmark, "warmup_duration"))),
        measured_at=datetime.fromtimestamp(started, tz=UTC) if started else None,
        tool_version=text(at(report, "metadata.guidellm_version")),
    )


def _model(benchmark: Mapping[str, Json], report: Mapping[str, Json]) -> str | None:
    for place in (benchmark, report):
        found = text(first(place, *_MODEL_PATHS))
        if found is not None:
            return found
    return None


def _load(strategy: Mapping[str, Json]) -> MeasuredLoad | None:
    kind = text(first(strategy, "type_", "kind", "type"))
    streams = positive(first(strategy, "streams", "max_concurrency"))
    if kind == "synchronous":
        return MeasuredLoad(concurrency=1)
    if kind in {"concurrent", "throughput"}:
        return MeasuredLoad(concurrency=streams)
    rate = positive(strategy.get("rate"))
    if rate is not None:
        return MeasuredLoad(request_rate_per_s=rate, concurrency=positive(strategy.get("max_concurrency")))
    return MeasuredLoad(concurrency=streams) if streams is not None else None


def _old_version(version: Json) -> Issue:
    return Issue(
        code="measurement.format_version",
        what=f"guidellm report version {version}",
        why=f"metric definitions are known for version {SUPPORTED_VERSION} only",
        fix="run the benchmark with guidellm 0.7 or newer",
    )
