"""How engines run prefill and decode together: the part of an engine that is scheduling, not kernels.

vLLM and TensorRT-LLM put prompt chunks and decode tokens into one step; SGLang runs prompts in steps of their own and
lets decodes wait (its mixed chunk is off by default). Decode steps replay CUDA graphs everywhere; steps with prompts do
not, so the host that launches their kernels layer by layer sets a floor. The figures are priors: the calibration pack
moves them per engine and GPU family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from planner.domain.engine import EngineName
from planner.domain.hardware import GpuProfile

GRACE_HOST_FACTOR: Final = 1.8  # eager all-reduce launches: 40-45 us on Grace hosts against 18-24 us on x86


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Scheduling of one engine.

    `layer_launch_us`: host time to launch one decoder layer outside a CUDA graph (x86 host). `balance_steps`: decode
    steps a prompt waits for company on other ranks under attention DP (TensorRT-LLM's balancing).
    """

    engine: EngineName
    separate_prefill: bool
    layer_launch_us: float
    balance_steps: float = 0.0


DIALECTS: Final[Mapping[EngineName, Dialect]] = MappingProxyType(
    {
        EngineName.VLLM: Dialect(engine=EngineName.VLLM, separate_prefill=False, layer_launch_us=350.0),
        EngineName.SGLANG: Dialect(engine=EngineName.SGLANG, separate_prefill=True, layer_launch_us=700.0),
        EngineName.TRTLLM: Dialect(
            engine=EngineName.TRTLLM, separate_prefill=False, layer_launch_us=700.0, balance_steps=50.0
        ),
    }
)


def launch_floor_ms(engine: EngineName, gpu: GpuProfile, layers: int) -> float:
    """Host time of one step outside CUDA graphs, milliseconds."""
    factor = GRACE_HOST_FACTOR if gpu.host_arch == "arm64" else 1.0
    return DIALECTS[engine].layer_launch_us * factor * layers / 1000.0
