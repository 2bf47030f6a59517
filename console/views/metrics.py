"""The quantities a plan can be plotted, ranked and compared by; which direction is better is declared, never guessed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Axis(StrEnum):
    """A quantity of a (plan, load) point."""

    TOK_S_USER = "tok-s-user"
    RATE = "tok-s-gpu"
    TTFT = "ttft"
    TPOT = "tpot"
    COST = "cost"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """How an axis is named and read. `label` states unit and denominator; `short` heads a table column."""

    axis: Axis
    label: str
    short: str
    unit: str
    higher_is_better: bool

    @property
    def sign(self) -> float:
        """Factor that turns the metric into something to maximise."""
        return 1.0 if self.higher_is_better else -1.0


METRICS: Final = {
    m.axis: m
    for m in (
        Metric(
            axis=Axis.TOK_S_USER,
            label="tok/s/user",
            short="tok/s/user",
            unit="tok/s",
            higher_is_better=True,
        ),
        Metric(
            axis=Axis.RATE,
            label="output tok/s/GPU owned",
            short="tok/s/GPU",
            unit="tok/s",
            higher_is_better=True,
        ),
        Metric(
            axis=Axis.TTFT,
            label="TTFT p50, ms",
            short="TTFT ms",
            unit="ms",
            higher_is_better=False,
        ),
        Metric(
            axis=Axis.TPOT,
            label="TPOT p50, ms",
            short="TPOT ms",
            unit="ms",
            higher_is_better=False,
        ),
        Metric(
            axis=Axis.COST,
            label="$ per M output tokens",
            short="$/Mtok",
            unit="$",
            higher_is_better=False,
        ),
        Metric(
            axis=Axis.CONCURRENCY,
            label="requests in flight, whole plan",
            short="conc.",
            unit="",
            higher_is_better=True,
        ),
    )
}


def figure(value: float | None) -> str:
    """Three significant digits, thousands separated; a dash for what is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0.0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:,.{min(digits, 6)}f}"


def count(value: float) -> str:
    """A large whole number in three digits with k, M or G."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{figure(value / (1e3 if letter == 'k' else size))}{letter}"
    return f"{value:,.0f}"


def change(value: float, base: float) -> str:
    """Difference against `base` in percent with its sign; a dash where it has no meaning."""
    if not (math.isfinite(value) and math.isfinite(base)) or base == 0.0:
        return "–"
    percent = 100.0 * (value / base - 1.0)
    if abs(percent) < 0.05:
        return "="
    return f"{percent:+.0f} %" if abs(percent) >= 10.0 else f"{percent:+.1f} %"
