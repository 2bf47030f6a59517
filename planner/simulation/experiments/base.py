"""An experiment: a law of the field, what was published, what the model says, and a verdict on the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Check:
    """One statement about the shape, and whether it holds."""

    statement: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one axis."""

    title: str
    x_label: str
    x: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an experiment found. `notes` explain a failure or a limit with evidence."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    checks: tuple[Check, ...]
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(c.holds for c in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named law. `run` takes the seed."""

    name: str
    law: int
    title: str
    published: str
    run: Callable[[int], Outcome] = field(repr=False)
    simulated: bool = True  # False: closed form from the performance model


def number(value: float, digits: int = 1) -> str:
    """A figure for a table."""
    return f"{value:,.{digits}f}"


def at(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """`ys` over `xs` interpolated linearly at `x`; 0 outside, as nothing was reached there."""
    pairs = sorted(zip(xs, ys, strict=True))
    for (x0, y0), (x1, y1) in pairwise(pairs):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return 0.0
