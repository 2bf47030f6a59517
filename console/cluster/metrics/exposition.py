"""Prometheus text to one `RankSample` per `engine` label.

One regular expression picks the families we need out of a page of which nine tenths are of no interest. Names match as a
whole: a prefix match would also catch ``num_requests_waiting_by_reason``.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from console.cluster.metrics.samples import (
    COUNTER_NAMES,
    GAUGE_NAMES,
    HISTOGRAM_NAMES,
    OLD_NAMES,
    Counter,
    Gauge,
    Hist,
    Histogram,
    RankSample,
    shared_bounds,
)

WAITING_BY_REASON: Final = "vllm:num_requests_waiting_by_reason"
CACHE_CONFIG: Final = "vllm:cache_config_info"
_LABELS = r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\}'
_PLAIN = "|".join(re.escape(n) for n in (*GAUGE_NAMES, WAITING_BY_REASON, CACHE_CONFIG))
_COUNTERS = "|".join(re.escape(n) for n in COUNTER_NAMES)
_HISTOGRAMS = "|".join(re.escape(n) for n in HISTOGRAM_NAMES)
_LINE = re.compile(
    rf"^(?:({_PLAIN})|({_COUNTERS})(?:_total)?|({_HISTOGRAMS})_(bucket|sum|count))(?:{_LABELS})?[ \t]+(\S+)",
    re.MULTILINE,
)
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_FAILED_REASONS = frozenset({"abort", "error"})


class NotMetrics(ValueError):  # noqa: N818 - a statement about the text
    """The text holds no vLLM metric: a wrong port, a login page, garbage."""


@lru_cache(maxsize=16384)
def _labels(text: str) -> tuple[str, str, str, str, str]:
    """engine, model, le, reason and finished_reason of one label set."""
    found = dict(_LABEL.findall(text))
    return (
        found.get("engine", "0"),
        found.get("model_name", ""),
        found.get("le", ""),
        found.get("reason", ""),
        found.get("finished_reason", ""),
    )


@dataclass(slots=True)
class _Buckets:
    counts: dict[float, float] = field(default_factory=dict)
    sum: float = 0.0
    total: float | None = None


@dataclass(slots=True)
class _Draft:
    model: str = ""
    gauges: dict[Gauge, float] = field(default_factory=dict)
    counters: dict[Counter, float] = field(default_factory=dict)
    counter_names: dict[Counter, str] = field(default_factory=dict)
    histograms: dict[str, _Buckets] = field(default_factory=dict)


def parse_exposition(text: str) -> tuple[RankSample, ...]:
    """All ranks on one page, by rank. Values that are no finite number are skipped. Raises `NotMetrics`."""
    drafts: dict[str, _Draft] = {}
    for plain, counter, histogram, part, labels, number in _LINE.findall(text):
        try:
            value = float(number)
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        engine, model, le, reason, finished = _labels(labels)
        draft = drafts.get(engine)
        if draft is None:
            draft = drafts[engine] = _Draft()
        draft.model = draft.model or model
        if histogram:
            _histogram(draft, histogram, part, le, value)
        elif counter:
            _counter(draft, counter, value, failed=finished in _FAILED_REASONS)
        else:
            _plain(draft, plain, value, reason=reason, labels=labels)
    if not drafts:
        raise NotMetrics("no vllm: metric found")
    return tuple(_finish(e, d) for e, d in sorted(drafts.items(), key=lambda i: (len(i[0]), i[0])))


def _plain(draft: _Draft, name: str, value: float, *, reason: str, labels: str) -> None:
    if name == WAITING_BY_REASON:
        if reason == "capacity":
            draft.gauges[Gauge.WAITING_CAPACITY] = value
    elif name == CACHE_CONFIG:
        found = dict(_LABEL.findall(labels))
        for key, gauge in (("num_gpu_blocks", Gauge.BLOCKS), ("kv_cache_size_tokens", Gauge.KV_TOKENS)):
            if found.get(key, "").isdigit():
                draft.gauges[gauge] = float(found[key])
    elif name not in OLD_NAMES or GAUGE_NAMES[name] not in draft.gauges:
        draft.gauges[GAUGE_NAMES[name]] = value


def _counter(draft: _Draft, name: str, value: float, *, failed: bool) -> None:
    counter = COUNTER_NAMES[name]
    known = draft.counter_names.get(counter)
    if known is not None and known != name:
        if name in OLD_NAMES:
            return
        draft.counters[counter] = 0.0
    draft.counter_names[counter] = name
    draft.counters[counter] = draft.counters.get(counter, 0.0) + value
    if failed:
        draft.counters[Counter.FAILED] = draft.counters.get(Counter.FAILED, 0.0) + value


def _histogram(draft: _Draft, name: str, part: str, le: str, value: float) -> None:
    buckets = draft.histograms.get(name)
    if buckets is None:
        buckets = draft.histograms[name] = _Buckets()
    if part == "bucket":
        try:
            bound = float(le)
        except ValueError:
            return
        buckets.counts[bound] = buckets.counts.get(bound, 0.0) + value
    elif part == "sum":
        buckets.sum += value
    else:
        buckets.total = (buckets.total or 0.0) + value


def _finish(engine: str, draft: _Draft) -> RankSample:
    made: dict[Hist, Histogram] = {}
    for name, buckets in draft.histograms.items():
        hist = HISTOGRAM_NAMES[name]
        if not buckets.counts or (hist in made and name in OLD_NAMES):
            continue
        bounds = tuple(sorted(b for b in buckets.counts if b != math.inf))
        top = buckets.counts.get(math.inf, buckets.total)
        counts = array("d", (buckets.counts[b] for b in bounds))
        counts.append(top if top is not None else (counts[-1] if counts else 0.0))
        if any(b < a for a, b in pairwise(counts)):
            continue  # not cumulative: garbage
        made[hist] = Histogram(shared_bounds(bounds), counts, counts[-1], buckets.sum)
    return RankSample(
        engine=engine, model=draft.model, gauges=draft.gauges, counters=draft.counters, histograms=made
    )
