"""From scrapes to what is shown: rates and percentiles over a window, per DP rank, with their age.

A rank's counters restart at zero with its process: a decrease ends the window, it is never shown as a rate. A reading
older than `STALE_PERIODS` scrape periods is stale and carries no number that could be taken for a live one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from console.cluster.metrics.samples import Counter, Gauge, Hist, Histogram, RankSample

WINDOW_S = 60.0
STALE_PERIODS = 3.0
HISTORY_POINTS = 360  # 30 minutes at 5 s
HISTORY_BUDGET = 400_000  # points over all ranks


@dataclass(frozen=True, slots=True, order=True)
class RankKey:
    """One DP rank: the pod, the port it was scraped on, vLLM's engine label."""

    namespace: str
    pod: str
    port: int
    engine: str

    @property
    def endpoint(self) -> str:
        """``pod:port``."""
        return f"{self.pod}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReading:
    """One rank as of `at` (wall clock, s). Rates are per second over `window_s`; None = not known.

    `prefix_hit` is None without queries in the window ("no traffic" is not 0 %).
    """

    key: RankKey
    model: str
    at: float
    window_s: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    kv_tokens: float | None
    prompt_tok_s: float | None
    output_tok_s: float | None
    requests_per_s: float | None
    failed_per_s: float | None
    preemptions_per_s: float | None
    prefix_hit: float | None
    histograms: Mapping[Hist, Histogram] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What the ring keeps of a past reading."""

    at: float
    waiting: float | None
    running: float | None
    kv_usage: float | None
    output_tok_s: float | None


@dataclass(slots=True)
class _Series:
    samples: deque[tuple[float, RankSample]] = field(default_factory=deque)
    history: deque[HistoryPoint] = field(default_factory=deque)
    reading: RankReading | None = None


class RankWindows:
    """Scrapes of all ranks; `window_s` is the span of rates and percentiles."""

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self.window_s = window_s
        self._series: dict[RankKey, _Series] = {}
        self._by_pod: dict[tuple[str, str], set[RankKey]] = {}

    def add(self, key: RankKey, sample: RankSample, *, at: float) -> RankReading:
        """Take one scrape at wall time `at`; a clock that went backwards starts a new window."""
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series()
            self._by_pod.setdefault((key.namespace, key.pod), set()).add(key)
        if series.samples and (at <= series.samples[-1][0] or _restarted(series.samples[-1][1], sample)):
            series.samples.clear()
        while len(series.samples) > 1 and at - series.samples[1][0] >= self.window_s:
            series.samples.popleft()
        # A few baselines are enough: a new one only every sixth of the window.
        if len(series.samples) > 2 and series.samples[-1][0] - series.samples[-2][0] < self.window_s / 6.0:
            series.samples[-1] = (at, sample)
        else:
            series.samples.append((at, sample))
        reading = _reading(key, sample, series.samples[0], at)
        series.reading = reading
        series.history.append(
            HistoryPoint(at, reading.waiting, reading.running, reading.kv_usage, reading.output_tok_s)
        )
        limit = max(2, min(HISTORY_POINTS, HISTORY_BUDGET // max(1, len(self._series))))
        while len(series.history) > limit:
            series.history.popleft()
        return reading

    def forget(self, keep: set[tuple[str, str]]) -> None:
        """Drop ranks whose (namespace, pod) is not in `keep`."""
        for namespace, pod in [p for p in self._by_pod if p not in keep]:
            self.forget_pod(namespace, pod)

    def forget_pod(self, namespace: str, pod: str) -> None:
        """Drop the ranks of one pod."""
        for key in self._by_pod.pop((namespace, pod), ()):
            self._series.pop(key, None)

    def readings(self) -> Iterator[RankReading]:
        """The latest reading of every rank, stale ones included."""
        return (s.reading for s in self._series.values() if s.reading is not None)

    def history(self, key: RankKey) -> tuple[HistoryPoint, ...]:
        """Past readings of a rank, oldest first."""
        series = self._series.get(key)
        return tuple(series.history) if series else ()


def _restarted(before: RankSample, now: RankSample) -> bool:
    return any(now.counters.get(c, v) < v for c, v in before.counters.items())


def _reading(key: RankKey, now: RankSample, first: tuple[float, RankSample], at: float) -> RankReading:
    span = at - first[0]
    base = first[1]

    def rate(counter: Counter) -> float | None:
        if span <= 0 or counter not in now.counters:
            return None
        return (now.counters[counter] - base.counters.get(counter, 0.0)) / span

    def grown(counter: Counter) -> float:
        return now.counters.get(counter, 0.0) - base.counters.get(counter, 0.0)

    queries = grown(Counter.PREFIX_QUERIES) if span > 0 else 0.0
    waiting = now.gauges.get(Gauge.WAITING_CAPACITY, now.gauges.get(Gauge.WAITING))
    histograms = {}
    if span > 0:
        for hist, value in now.histograms.items():
            before = base.histograms.get(hist)
            delta = value.since(before) if before is not None else None
            if delta is not None:
                histograms[hist] = delta
    return RankReading(
        key=key,
        model=now.model,
        at=at,
        window_s=max(0.0, span),
        running=now.gauges.get(Gauge.RUNNING),
        waiting=waiting,
        kv_usage=now.gauges.get(Gauge.KV_USAGE),
        kv_tokens=now.gauges.get(Gauge.KV_TOKENS),
        prompt_tok_s=rate(Counter.PROMPT_TOKENS),
        output_tok_s=rate(Counter.GENERATION_TOKENS),
        requests_per_s=rate(Counter.FINISHED),
        failed_per_s=rate(Counter.FAILED),
        preemptions_per_s=rate(Counter.PREEMPTIONS),
        prefix_hit=grown(Counter.PREFIX_HITS) / queries if queries > 0 else None,
        histograms=histograms,
    )
