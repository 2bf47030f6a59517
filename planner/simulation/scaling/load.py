"""Load curves: requests per second over time, built in or from a file, and the arrivals they make."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.domain.errors import InputError, Issue
from planner.simulation.traffic import Arrival, Shape, Traffic, make_traffic

Floats = NDArray[np.float64]
_POINTS_PER_PERIOD = 96
MOST_REQUESTS = 1_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCurve:
    """Straight lines between (`time_s`, `rps`); two points at one time make a jump. Starts at 0 s."""

    label: str
    time_s: tuple[float, ...]
    rps: tuple[float, ...]

    @property
    def end_s(self) -> float:
        """Length of the curve, seconds."""
        return self.time_s[-1]

    @property
    def peak_rps(self) -> float:
        """Highest rate, requests per second."""
        return max(self.rps)

    @property
    def requests(self) -> float:
        """Expected requests: the area under the curve."""
        return float(np.trapezoid(self.rps, self.time_s))

    @property
    def mean_rps(self) -> float:
        """Mean rate, requests per second."""
        return self.requests / self.end_s

    def at(self, t: float) -> float:
        """Rate at `t`, requests per second; after a jump at a jump."""
        i = int(np.searchsorted(self.time_s, t, side="right"))
        if i == 0 or i == len(self.time_s):
            return self.rps[0 if i == 0 else -1]
        t0, t1 = self.time_s[i - 1], self.time_s[i]
        return self.rps[i - 1] + (self.rps[i] - self.rps[i - 1]) * (t - t0) / (t1 - t0)

    def times_at(self, expected: Floats) -> Floats:
        """Times at which the area under the curve reaches `expected` (ascending, within the curve), seconds."""
        t, r = np.asarray(self.time_s), np.asarray(self.rps)
        width = np.diff(t)
        area = np.concatenate([[0.0], np.cumsum(0.5 * (r[1:] + r[:-1]) * width)])
        i = np.clip(np.searchsorted(area, expected, side="right") - 1, 0, len(width) - 1)
        rest = expected - area[i]
        slope = np.where(width[i] > 0.0, (r[i + 1] - r[i]) / np.maximum(width[i], 1e-300), 0.0)
        # rest = r x + slope x^2 / 2, in the form that does not cancel when the slope is small
        root = np.sqrt(np.maximum(r[i] * r[i] + 2.0 * slope * rest, 0.0))
        times: Floats = np.minimum(t[i] + 2.0 * rest / np.maximum(r[i] + root, 1e-300), self.end_s)
        return times


def time_unit(end_s: float) -> tuple[str, float]:
    """Unit that suits a curve of `end_s`, and its seconds."""
    return ("h", 3600.0) if end_s >= 7200.0 else ("min", 60.0)


def length(t: float) -> str:
    """Seconds as hours or minutes."""
    name, unit = time_unit(t)
    return f"{t / unit:,.4g} {name}"


def diurnal(*, peak_rps: float, trough_rps: float, period_s: float) -> LoadCurve:
    """One period of a cosine from trough to peak and back, as 96 straight lines. Raises `InputError`."""
    issues = []
    if not (0.0 <= trough_rps <= peak_rps and peak_rps > 0.0) or not math.isfinite(peak_rps):
        issues.append(
            Issue(
                code="scaling.curve",
                what=f"a load between {trough_rps:g} and {peak_rps:g} requests/s",
                why="the peak must be positive and not below the trough",
                fix="--trough-rps 2 --peak-rps 8",
            )
        )
    if not 60.0 <= period_s <= 7 * 86_400.0:
        issues.append(
            Issue(
                code="scaling.curve",
                what=f"a period of {period_s:g} s",
                why="autoscalers act in tens of seconds: between a minute and a week can be simulated",
                fix="--period 24h",
            )
        )
    if issues:
        raise InputError(*issues)
    t = np.linspace(0.0, period_s, _POINTS_PER_PERIOD + 1)
    rate = trough_rps + (peak_rps - trough_rps) * 0.5 * (1.0 - np.cos(2.0 * math.pi * t / period_s))
    return LoadCurve(
        label=f"{trough_rps:g} to {peak_rps:g} requests/s, period {length(period_s)}",
        time_s=tuple(t.tolist()),
        rps=tuple(rate.tolist()),
    )


def read_load(path: Path) -> LoadCurve:
    """Read a CSV of seconds and requests per second, with or without a header. Raises `InputError` naming bad lines."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                (n, row) for n, row in enumerate(csv.reader(file), start=1) if any(c.strip() for c in row)
            ]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            Issue(
                code="scaling.curve_file",
                what=f"{path} cannot be read",
                why=str(error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"),
                fix="a CSV file with two columns: time_s,rps",
                where="--load-curve",
            )
        ) from None
    times: list[float] = []
    rates: list[float] = []
    issues: list[Issue] = []
    for n, (line, row) in enumerate(rows):
        values = _numbers(row)
        if values is None:
            if n > 0 or len(row) < 2:
                issues.append(_bad(path, line, ",".join(row), "expected two numbers: time_s,rps"))
            continue
        t, rate = values
        if rate < 0.0:
            issues.append(_bad(path, line, ",".join(row), "a rate cannot be negative"))
        elif times and t < times[-1]:
            issues.append(
                _bad(path, line, ",".join(row), f"times must not fall; the line before says {times[-1]:g} s")
            )
        times.append(t)
        rates.append(rate)
    if not issues and (len(times) < 2 or times[-1] - times[0] < 60.0 or max(rates) <= 0.0):
        issues.append(
            Issue(
                code="scaling.curve_file",
                what=f"{path} holds {len(times)} points over {times[-1] - times[0] if times else 0:g} s",
                why="a load curve needs two points, a minute and some requests",
                fix="a CSV file such as: time_s,rps / 0,2 / 43200,8 / 86400,2",
                where="--load-curve",
            )
        )
    if issues:
        raise InputError(*issues[:20])
    return LoadCurve(label=path.name, time_s=tuple(t - times[0] for t in times), rps=tuple(rates))


def _numbers(row: list[str]) -> tuple[float, float] | None:
    if len(row) != 2:
        return None
    try:
        t, rate = float(row[0]), float(row[1])
    except ValueError:
        return None
    return (t, rate) if math.isfinite(t) and math.isfinite(rate) else None


def _bad(path: Path, line: int, text: str, why: str) -> Issue:
    return Issue(
        code="scaling.curve_file",
        what=f"{path}:{line}: '{text}'",
        why=why,
        fix="correct the line",
        where="--load-curve",
    )


def curve_traffic(shape: Shape, curve: LoadCurve, *, seed: int) -> Traffic:
    """Requests of `shape` that arrive as a Poisson process whose rate follows `curve`; sessions where there are turns.

    Raises `InputError` for more requests than can be simulated in reasonable time, or none.
    """
    turns = len(shape.turns)
    expected = curve.requests
    if expected > MOST_REQUESTS:
        raise InputError(
            Issue(
                code="scaling.too_long",
                what=f"{expected:,.0f} requests",
                why=f"at most {MOST_REQUESTS:,} are simulated in one run",
                fix=f"a shorter --period, such as {curve.end_s * MOST_REQUESTS / expected / 3600.0:.1f}h, or lower rates",
            )
        )
    rng = np.random.default_rng([seed, 3])
    area = expected / turns
    gaps = rng.exponential(1.0, int(area + 8.0 * math.sqrt(area) + 32.0))
    arrivals = np.cumsum(gaps)
    arrivals = arrivals[arrivals < area] * turns
    if len(arrivals) == 0:
        raise InputError(
            Issue(
                code="workload.empty",
                what=f"the load curve '{curve.label}' makes no request",
                why=f"it expects {expected:.2g}",
                fix="a longer period or higher rates",
            )
        )
    traffic = make_traffic(
        shape,
        sessions=len(arrivals),
        seed=seed,
        arrival=Arrival.BURST,
        spread_s=1.0,
        warmup_share=0.0,
    )
    times = np.full(traffic.requests, np.nan)
    times[np.arange(len(arrivals)) * turns] = curve.times_at(arrivals)
    return replace(traffic, label=f"{shape.label}, {curve.label}", arrival_s=times)
