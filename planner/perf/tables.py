"""Step time of one engine group as tables over load: built once per configuration, used by L1 and L2 alike.

Both the analytic model (numpy, whole space at once) and the simulator (jitted, one step at a time) interpolate these
arrays, so there is one performance model. All times are milliseconds summed over layers, for one DP rank's view of a
lockstep step; grids are ascending and interpolated linearly in log(1 + x) of the load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.domain.provenance import Provenance
from planner.perf.operators.base import FloatArray

TOKENS: Final[FloatArray] = np.array(
    [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
     12288, 16384, 24576, 32768, 65536], dtype=np.float64,
)  # fmt: skip
BATCH: Final[FloatArray] = np.array(
    [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048], dtype=np.float64
)
CONTEXT: Final[FloatArray] = np.array(
    [64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576], dtype=np.float64
)
CHUNK: Final[FloatArray] = np.array(
    [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536], dtype=np.float64
)
PREFIX: Final[FloatArray] = np.array(
    [0, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 524288], dtype=np.float64
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DboRule:
    """When and how dual-batch overlap acts. `comm_sm_share` of the SMs is lost to compute while it overlaps."""

    decode_threshold: int
    prefill_threshold: int
    comm_sm_share: float
    sync_ms: float  # 4 hand-overs per MoE layer, whole step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTables:
    """See the module. Shapes: ``[len(TOKENS)]`` unless noted; tokens are this rank's tokens in the step."""

    attn_linear_ms: FloatArray  # attention projections, norms, rope
    dense_mlp_ms: FloatArray  # dense MLP layers and latent projections
    shared_ms: FloatArray  # shared experts and router gate
    experts_ms: FloatArray  # routed experts of the hottest rank, at tokens x ranks over the group
    dispatch_ms: FloatArray
    combine_ms: FloatArray
    collectives_ms: FloatArray  # TP all-reduces (or reduce-scatter + all-gather)
    collectives_eager_ms: FloatArray  # the same outside CUDA graphs
    head_ms: FloatArray  # LM head and sampling, over sampled sequences
    decode_attn_ms: FloatArray  # [len(BATCH), len(CONTEXT)]
    prefill_attn_ms: FloatArray  # [len(CHUNK), len(PREFIX)], one sequence's chunk
    host_step_ms: float
    host_per_seq_ms: float
    async_scheduling: bool
    moe_layer_share: float  # share of the attention-side work that sits in MoE layers (the part DBO overlaps)
    dbo: DboRule | None
    provenance: tuple[tuple[str, Provenance], ...]  # per table field
    max_tokens_within: float  # largest tokens per step inside the curves' data
    max_context_within: float
    # scheduling of the engine (planner.perf.dialects)
    launch_floor_ms: float = 0.0  # host time of a step that carries a prompt, which no CUDA graph covers
    separate_prefill: bool = False  # prompts run in steps of their own while decodes wait
    balance_steps: float = 0.0  # decode steps a prompt waits for company on the other DP ranks
    handover_ms: float = (
        0.0  # fixed time of passing a prompt from a prefill to a decode engine, transfer apart
    )
    frontend_ms: float = 0.0  # request parsing, tokenisation and delivery of the first token
