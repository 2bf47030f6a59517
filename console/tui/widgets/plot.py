"""The frontier plot: textual-plot with our ticks, targets, markers and a cursor that moves without a redraw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from textual import events
from textual.message import Message
from textual_hires_canvas import Canvas
from textual_plot import AxisFormatter, HiResMode, PlotWidget

from console.tui.themes import Palette
from console.views.axes import AxisView
from console.views.frontier_model import FrontierView, Series

PICK_DISTANCE: Final = 4.0  # cells; a click further from every point picks nothing
LEFT: Final = 7


class AxisTicks(AxisFormatter):
    """Ticks that the view has already computed; recomputed by zooming within the same set."""

    def __init__(self, axis: AxisView) -> None:
        self.labels = dict(axis.ticks)

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:  # noqa: ARG002
        """The ticks in sight."""
        return [t for t in self.labels if min_ <= t <= max_]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Their labels."""
        return [self.labels.get(t, "") for t in ticks]


@dataclass(frozen=True, slots=True)
class Spot:
    """A marked place in drawn coordinates."""

    x: float
    y: float
    char: str
    style: str


class FrontierPlot(PlotWidget):
    """Shows a `FrontierView`. Drawn series first, then the staircase, fronts, intervals and targets, the cursor last."""

    help_text: ClassVar[str] = (
        "The plot. + and - zoom, arrows pan, r fits the axes again; the wheel and dragging do the same. "
        "A click picks the nearest plan. The staircase is the frontier: nothing is interpolated between plans."
    )

    class Picked(Message):
        """A click near a point."""

        def __init__(self, point: int) -> None:
            super().__init__()
            self.point = point

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's own name
        super().__init__(id=id)
        self._view: FrontierView | None = None
        self._spots: tuple[Spot, ...] = ()
        self._covered: list[tuple[int, int, str, str]] = []

    def on_mount(self) -> None:
        """Reserve as little margin as the labels need: titles are in the panel's border."""
        super().on_mount()
        self.margin_top = 0
        self.margin_bottom = 1
        self.margin_left = LEFT

    def show_view(self, view: FrontierView, palette: Palette) -> None:
        """Draw `view`. The zoom is kept while the axes are the same."""
        same = self._view is not None and (self._view.x_axis, self._view.y_axis) == (view.x_axis, view.y_axis)
        self._view = view
        self.clear()
        if not same:
            self.set_xlimits(view.x_axis.low, view.x_axis.high)
            self.set_ylimits(view.y_axis.low, view.y_axis.high)
        self.set_x_formatter(AxisTicks(view.x_axis))
        self.set_y_formatter(AxisTicks(view.y_axis))
        for series in view.cloud:
            self._scatter(series, palette.cloud_style(series.group), hires=palette.series != ("bold",))
        if len(view.staircase) > 1:
            x, y = zip(*view.staircase, strict=True)
            self.plot(x, y, line_style=palette.edge, hires_mode=HiResMode.BRAILLE)
        for line in view.slo_lines:
            if line.vertical:
                self.plot(
                    [line.at] * 2, [view.y_axis.low, view.y_axis.high], palette.target, HiResMode.BRAILLE
                )
            else:
                self.plot(
                    [view.x_axis.low, view.x_axis.high], [line.at] * 2, palette.target, HiResMode.BRAILLE
                )
        for band in view.bands:
            self.plot([band.x] * 2, [band.low, band.high], palette.edge, HiResMode.BRAILLE)
        for series in view.fronts:
            self.scatter(series.x, series.y, palette.marker(series.group), palette.style(series.group))

    def _scatter(self, series: Series, style: str, *, hires: bool) -> None:
        if hires:
            self.scatter(series.x, series.y, marker_style=style, hires_mode=HiResMode.BRAILLE)
        else:
            self.scatter(series.x, series.y, ".", style)

    def mark(self, spots: Sequence[Spot]) -> None:
        """Show `spots` instead of the former ones, without drawing the plot again."""
        self._spots = tuple(spots)
        if not self._needs_rerender:
            self._paint_spots()

    def _render_plot(self) -> None:
        # The only hook after a redraw: the widget draws in one private step.
        super()._render_plot()
        self._covered = []
        self._paint_spots()

    def _paint_spots(self) -> None:
        canvas = self.query_one("#plot", Canvas)
        if not canvas.size.area or not self._scale_rectangle.area:
            return
        for x, y, char, style in reversed(self._covered):
            canvas.set_pixel(x, y, char, style)
        self._covered = []
        area = self._scale_rectangle
        for spot in self._spots:
            x, y = self.get_pixel_from_coordinate(spot.x, spot.y)
            if area.x <= x < area.right and area.y <= y < area.bottom:
                self._covered.append((x, y, *canvas.get_pixel(x, y)))
                canvas.set_pixel(x, y, spot.char, spot.style)

    def on_click(self, event: events.Click) -> None:
        """Pick the point nearest to the click, fronts before dominated points."""
        widget, _ = self.screen.get_widget_at(event.screen_x, event.screen_y)
        if self._view is None or widget.id != "plot":
            return
        at = event.screen_offset - self.screen.get_offset(widget)
        for group in (self._view.fronts, self._view.cloud):
            found = self._nearest(group, at.x, at.y)
            if found is not None:
                event.stop()
                self.post_message(self.Picked(found))
                return

    def _nearest(self, group: Sequence[Series], column: int, line: int) -> int | None:
        best: tuple[float, int] | None = None
        for series in group:
            for point, x, y in zip(series.points, series.x, series.y, strict=True):
                px, py = self.get_pixel_from_coordinate(x, y)
                distance = abs(px - column) / 2.0 + abs(py - line)
                if best is None or distance < best[0]:
                    best = distance, point
        return best[1] if best is not None and best[0] <= PICK_DISTANCE / 2.0 else None

    def get_content_height(self, *_: Any) -> int:
        """Fill what the layout gives."""
        return 8
