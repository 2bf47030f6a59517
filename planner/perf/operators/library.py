"""Choice of the best operator source for a GPU, fabric and engine."""

from __future__ import annotations

from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.perf.operators.base import OperatorSource
from planner.perf.operators.datasheet import DatasheetOperators


def load_operators(gpu: GpuProfile, fabric: FabricProfile, engine: EngineName) -> OperatorSource:
    """Return measured curves where there are any, else the datasheet roofline."""
    return DatasheetOperators(gpu, fabric, engine)
