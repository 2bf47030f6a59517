"""A plot of lines over time."""

from __future__ import annotations

from typing import ClassVar

from textual_plot import HiResMode, PlotWidget

from console.tui.themes import Palette
from console.tui.widgets.plot import LEFT, AxisTicks
from console.views.simulation import TimeSeries


class LinesPlot(PlotWidget):
    """Shows a `TimeSeries`."""

    help_text: ClassVar[str] = (
        "Occupancy over simulated time. + and - zoom, arrows pan, r fits the axes again."
    )

    def on_mount(self) -> None:
        """As little margin as the labels need."""
        super().on_mount()
        self.margin_top = 0
        self.margin_bottom = 1
        self.margin_left = LEFT

    def show_series(self, series: TimeSeries, palette: Palette) -> None:
        """Draw `series`; lines differ in colour and are named beside the plot."""
        self.clear()
        self.set_xlimits(series.x_axis.low, series.x_axis.high)
        self.set_ylimits(series.y_axis.low, series.y_axis.high)
        self.set_x_formatter(AxisTicks(series.x_axis))
        self.set_y_formatter(AxisTicks(series.y_axis))
        for line in series.lines:
            self.plot(line.x, line.y, palette.style(line.group), HiResMode.BRAILLE)
            if line.x:
                # a marker at the end names the line without colour
                self.scatter(line.x[-1:], line.y[-1:], palette.marker(line.group), palette.style(line.group))
