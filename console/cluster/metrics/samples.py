"""Metric families we read, and one scrape of one DP rank.

Names: vLLM `v1/metrics/loggers.py` (0.33), renames by PR 18354 and 29330; older servers send the old name, some both. A
counter may or may not end in ``_total``, depending on the exporter.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


class Gauge(StrEnum):
    """Values of the moment."""

    RUNNING = "running"
    WAITING = "waiting"
    WAITING_CAPACITY = "waiting_capacity"
    KV_USAGE = "kv_usage"  # 0..1
    KV_TOKENS = "kv_tokens"  # capacity of the rank
    BLOCKS = "blocks"


class Counter(StrEnum):
    """Ever-growing counts."""

    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PREFIX_QUERIES = "prefix_queries"  # tokens
    PREFIX_HITS = "prefix_hits"  # tokens
    EXTERNAL_QUERIES = "external_queries"
    EXTERNAL_HITS = "external_hits"
    PREEMPTIONS = "preemptions"
    FINISHED = "finished"  # requests, all reasons
    FAILED = "failed"  # requests that ended in abort or error
    TRANSFER_FAILURES = "transfer_failures"
    KV_EXPIRED = "kv_expired"


class Hist(StrEnum):
    """Histograms, in seconds unless named otherwise."""

    TTFT = "ttft"
    ITL = "itl"
    E2E = "e2e"
    QUEUE = "queue"
    PREFILL = "prefill"
    DECODE = "decode"
    TPOT = "tpot"
    TRANSFER = "transfer"
    TRANSFER_BYTES = "transfer_bytes"
    PROMPT_LENGTH = "prompt_length"  # tokens
    OUTPUT_LENGTH = "output_length"  # tokens


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative buckets. `bounds` are upper bounds without +Inf; `counts` has one more entry, for +Inf."""

    bounds: tuple[float, ...]
    counts: array[float]
    total: float
    sum: float

    def since(self, earlier: Histogram) -> Histogram | None:
        """What was observed after `earlier`; None when the buckets changed or the process restarted."""
        if self.bounds != earlier.bounds or self.total < earlier.total:
            return None
        counts = array("d", (a - b for a, b in zip(self.counts, earlier.counts, strict=True)))
        if any(c < 0 for c in counts):
            return None
        return Histogram(self.bounds, counts, self.total - earlier.total, self.sum - earlier.sum)

    def plus(self, other: Histogram) -> Histogram | None:
        """Both together; None when their buckets differ."""
        if self.bounds != other.bounds:
            return None
        counts = array("d", (a + b for a, b in zip(self.counts, other.counts, strict=True)))
        return Histogram(self.bounds, counts, self.total + other.total, self.sum + other.sum)

    @property
    def mean(self) -> float | None:
        """Exact mean, None without observations."""
        return self.sum / self.total if self.total > 0 else None

    def quantile(self, q: float) -> Quantile | None:
        """The `q` quantile, linear inside its bucket; None without observations."""
        if self.total <= 0:
            return None
        wanted = max(
            q * self.total, min(1.0, self.total)
        )  # the lowest one lies in the first bucket that holds any
        i = bisect_left(self.counts, wanted)
        if i >= len(self.bounds):
            last = self.bounds[-1] if self.bounds else 0.0
            return Quantile(last, last, None)
        low = self.bounds[i - 1] if i else 0.0
        below = self.counts[i - 1] if i else 0.0
        inside = self.counts[i] - below
        high = self.bounds[i]
        share = (wanted - below) / inside if inside > 0 else 1.0
        return Quantile(low + (high - low) * share, low, high)


@dataclass(frozen=True, slots=True)
class Quantile:
    """An estimate and the bucket that holds the truth; `high` None means the last bound was exceeded."""

    value: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSample:
    """One scrape of one DP rank. `engine` is vLLM's rank label, ``0`` when the server gives none."""

    engine: str
    model: str = ""
    gauges: Mapping[Gauge, float] = field(default_factory=dict)
    counters: Mapping[Counter, float] = field(default_factory=dict)
    histograms: Mapping[Hist, Histogram] = field(default_factory=dict)


@lru_cache(maxsize=256)
def shared_bounds(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """The same tuple object for equal bounds: thousands of ranks use the same buckets."""
    return bounds


GAUGE_NAMES: dict[str, Gauge] = {
    "vllm:num_requests_running": Gauge.RUNNING,
    "vllm:num_requests_waiting": Gauge.WAITING,
    "vllm:kv_cache_usage_perc": Gauge.KV_USAGE,
    "vllm:gpu_cache_usage_perc": Gauge.KV_USAGE,
}
COUNTER_NAMES: dict[str, Counter] = {
    "vllm:prompt_tokens": Counter.PROMPT_TOKENS,
    "vllm:generation_tokens": Counter.GENERATION_TOKENS,
    "vllm:prefix_cache_queries": Counter.PREFIX_QUERIES,
    "vllm:gpu_prefix_cache_queries": Counter.PREFIX_QUERIES,
    "vllm:prefix_cache_hits": Counter.PREFIX_HITS,
    "vllm:gpu_prefix_cache_hits": Counter.PREFIX_HITS,
    "vllm:external_prefix_cache_queries": Counter.EXTERNAL_QUERIES,
    "vllm:external_prefix_cache_hits": Counter.EXTERNAL_HITS,
    "vllm:num_preemptions": Counter.PREEMPTIONS,
    "vllm:request_success": Counter.FINISHED,
    "vllm:nixl_num_failed_transfers": Counter.TRANSFER_FAILURES,
    "vllm:mooncake_num_failed_transfers": Counter.TRANSFER_FAILURES,
    "vllm:nixl_num_kv_expired_reqs": Counter.KV_EXPIRED,
    "vllm:mooncake_num_kv_expired_reqs": Counter.KV_EXPIRED,
}
HISTOGRAM_NAMES: dict[str, Hist] = {
    "vllm:time_to_first_token_seconds": Hist.TTFT,
    "vllm:inter_token_latency_seconds": Hist.ITL,
    "vllm:time_per_output_token_seconds": Hist.ITL,  # the old name of ITL
    "vllm:request_time_per_output_token_seconds": Hist.TPOT,
    "vllm:e2e_request_latency_seconds": Hist.E2E,
    "vllm:request_queue_time_seconds": Hist.QUEUE,
    "vllm:request_prefill_time_seconds": Hist.PREFILL,
    "vllm:request_decode_time_seconds": Hist.DECODE,
    "vllm:nixl_xfer_time_seconds": Hist.TRANSFER,
    "vllm:mooncake_xfer_time_seconds": Hist.TRANSFER,
    "vllm:nixl_bytes_transferred": Hist.TRANSFER_BYTES,
    "vllm:mooncake_bytes_transferred": Hist.TRANSFER_BYTES,
    "vllm:request_prompt_tokens": Hist.PROMPT_LENGTH,
    "vllm:request_generation_tokens": Hist.OUTPUT_LENGTH,
}
# The new name wins where a server sends both.
OLD_NAMES = frozenset(
    {
        "vllm:gpu_cache_usage_perc",
        "vllm:gpu_prefix_cache_queries",
        "vllm:gpu_prefix_cache_hits",
        "vllm:time_per_output_token_seconds",
    }
)
