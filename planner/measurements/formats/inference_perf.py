"""inference-perf lifecycle reports (stage or summary).

Traps: seconds everywhere; the median is called ``median``, not ``p50``; ``time_per_output_token`` excludes the first token
(TPOT) while ``normalized_time_per_output_token`` includes it and is not used; older releases call token counts
``prompt_len`` and ``output_len``. The file names neither model nor engine.
"""

from __future__ import annotations

from collections.abc import Mapping

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
)


class InferencePerfImporter:
    """``stage_<n>_lifecycle_metrics.json`` and ``summary_lifecycle_metrics.json``."""

    format = BenchmarkFormat.INFERENCE_PERF

    def matches(self, document: Document) -> bool:
        """A load summary and successes."""
        value = document.value
        return isinstance(at(value, "load_summary"), Mapping) and isinstance(at(value, "successes"), Mapping)

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per file."""
        return (_draft(document.value),)


@checked
def _draft(value: Mapping[str, Json]) -> Draft:
    ok = value["successes"]
    throughput = section(ok, "throughput")
    prompt = first(ok, "prompt_tokens", "prompt_len")
    total = number(at(prompt, "total"))
    cached = number(at(prompt, "cached"))
    mean = positive(at(prompt, "mean"))
    return Draft(
        isl=rounded(mean),
        osl=rounded(at(first(ok, "output_tokens", "output_len"), "mean")),
        prefix_hit=cached / total if cached and total else 0.0,
        load=_load(value["load_summary"]),
        totals=Totals(
            output_tok_s=number(throughput.get("output_tokens_per_sec")),
            input_tok_s=number(throughput.get("input_tokens_per_sec")),
            total_tok_s=number(throughput.get("total_tokens_per_sec")),
            requests_per_s=number(throughput.get("requests_per_sec")),
        ),
        ttft=statistics(at(ok, "latency.time_to_first_token"), to_ms=1e3),
        tpot=statistics(at(ok, "latency.time_per_output_token"), to_ms=1e3),
        itl=statistics(at(ok, "latency.inter_token_latency"), to_ms=1e3),
        e2e=statistics(at(ok, "latency.request_latency"), to_ms=1e3),
        completed=integer(ok.get("count")),
        failed=integer(at(value, "failures.count")),
        duration_s=positive(value.get("benchmark_time_seconds")),
    )


def _load(summary: Mapping[str, Json]) -> MeasuredLoad | None:
    concurrency = positive(summary.get("concurrency"))
    # past saturation the achieved send rate is what the servers saw; the requested one is only a wish
    rate = positive(first(summary, "achieved_rate", "requested_rate"))
    if concurrency is None and rate is None:
        return None
    return MeasuredLoad(concurrency=concurrency, request_rate_per_s=None if concurrency is not None else rate)
