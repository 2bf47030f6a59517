"""What the user can choose on a frontier page, and what the page shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.views.axes import AxisView, drawn
from console.views.metrics import Axis
from console.views.points import PlanPoints
from planner.domain.workload import SloTargets

Index = NDArray[np.intp]
MAX_ROWS: Final = 5000


class ColourBy(StrEnum):
    """What colour and marker tell apart."""

    KIND = "kind"
    TP = "TP"
    EP = "EP width"
    DBO = "DBO"
    GPU = "GPU"
    PROVENANCE = "provenance"


class TableMode(StrEnum):
    """What the table lists: the best load of each configuration under the targets, or the front itself."""

    RANKED = "ranked under the targets"
    FRONT = "frontier"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierOptions:
    """What the user chose. `slo` replaces the problem's targets."""

    slo: SloTargets
    x: Axis = Axis.TOK_S_USER
    y: Axis = Axis.RATE
    log_x: bool = False
    log_y: bool = False
    colour_by: ColourBy = ColourBy.KIND
    dominated: bool = True
    intervals: bool = False
    mode: TableMode = TableMode.RANKED
    filter: str = ""
    max_rows: int = MAX_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One table row. `point` identifies the entry of the points it was made from."""

    point: int
    rank: int
    plan: str
    short: str
    extras: str
    kind: str
    group: str
    gpus: str
    values: tuple[float, ...]  # in the order of Axis
    meets: bool
    on_front: bool

    def value(self, axis: Axis) -> float:
        """The row's value on `axis`."""
        return self.values[list(Axis).index(axis)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one group, in drawn coordinates. `group` numbers colours and markers; it is stable under filters."""

    label: str
    group: int
    points: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The 80 % interval of one front point on the y axis, in drawn coordinates."""

    point: int
    x: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SloLine:
    """A target, in drawn coordinates on the axis it limits."""

    vertical: bool
    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierView:
    """Everything a frontier page shows, except the details of one plan."""

    title: str
    question: str
    summary: str
    options: FrontierOptions
    x_axis: AxisView
    y_axis: AxisView
    fronts: tuple[Series, ...]
    cloud: tuple[Series, ...]
    staircase: tuple[tuple[float, float], ...]
    bands: tuple[Band, ...]
    slo_lines: tuple[SloLine, ...]
    rows: tuple[PlanRow, ...]
    best: PlanRow | None
    total: int
    shown: int
    meeting: int
    groups: tuple[str, ...]

    def drawn_at(self, row: PlanRow) -> tuple[float, float]:
        """Where `row` lies in the plot."""
        return self._drawn(row.value(self.options.x), row.value(self.options.y))

    def drawn_point(self, points: PlanPoints, point: int) -> tuple[float, float]:
        """Where entry `point` of the points behind this view lies in the plot."""
        one = np.array([point], dtype=np.intp)
        o = self.options
        return self._drawn(float(points.values(o.x, one)[0]), float(points.values(o.y, one)[0]))

    def _drawn(self, x: float, y: float) -> tuple[float, float]:
        o = self.options
        return float(drawn(np.array([x]), log=o.log_x)[0]), float(drawn(np.array([y]), log=o.log_y)[0])
