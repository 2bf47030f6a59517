"""Choice of the best operator source for a GPU, fabric and engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planner.catalog.locate import data_root
from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.perf.operators.base import OperatorSource
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.operators.fitted import FittedOperators
from planner.perf.operators.surface import load_library

# Parts with the silicon of a measured one: kernels reach the same share of their own peaks.
SAME_SILICON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "h800-sxm": "h100-sxm",
        "gh200": "h100-sxm",
        "gh200-144": "h200-sxm",
        "a100-40-sxm": "a100-80-sxm",
    }
)


def load_operators(gpu: GpuProfile, fabric: FabricProfile, engine: EngineName) -> OperatorSource:
    """Return measured curves where the GPU (or one with the same silicon) has them, else the datasheet roofline.

    An engine without curves on this GPU does not borrow another engine's.
    """
    folder = data_root() / "profiles" / "operators"
    library = load_library(folder, gpu.id, engine.value)
    if library is None and gpu.id in SAME_SILICON:
        library = load_library(folder, SAME_SILICON[gpu.id], engine.value)
    if library is None:
        return DatasheetOperators(gpu, fabric, engine)
    return FittedOperators(gpu, fabric, engine, library=library)
