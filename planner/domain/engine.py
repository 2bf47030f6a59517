"""Engine profiles: versioned defaults and constants of vLLM, SGLang and TensorRT-LLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.provenance import Source


class EngineName(StrEnum):
    """Engines that can be priced; planning and export stay on vLLM."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """Defaults and constants of one engine version. `sources` has an entry for every figure, keyed by field name."""

    id: str
    engine: EngineName
    version: str
    gpu_memory_utilization: float
    context_and_nccl_gib: float  # CUDA context, NCCL and allocator residue per rank
    graphs_gib: float
    deepep_ht_buffer_gib: float  # NVLink buffer; doubled when the EP group spans nodes
    deepep_ll_buffer_gib: float
    default_max_num_seqs: int
    dbo_decode_threshold: int
    dbo_prefill_threshold: int
    dbo_comm_sms: int
    host_step_us: float
    host_per_sequence_us: float
    frontend_ms: float  # request parsing, tokenisation, first-chunk delivery
    async_scheduling: bool
    sources: Mapping[str, Source]
    max_num_batched_tokens_by_gib: Mapping[int, int] = field(
        default_factory=dict
    )  # device GiB from -> default
    deepep_ll_hidden_sizes: tuple[int, ...] = ()
