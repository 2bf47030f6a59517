"""The one interface between operator curves and everything that adds them up.

An `OperatorSource` answers for one GPU type, one fabric and one engine. All loads are arrays and broadcast;
all times are microseconds per call on one rank. Shapes are after sharding: what one rank runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.model import Attention
from planner.domain.provenance import Provenance

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class OpTime(NamedTuple):
    """Result of an operator query.

    `us`: microseconds, broadcast shape of the loads. `provenance`: of the curve used.
    `within`: True where the load and shape lie inside the data behind the curve.
    """

    us: FloatArray
    provenance: Provenance
    within: BoolArray


class Collective(StrEnum):
    """Collectives of a tensor-parallel or DP group."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShape:
    """Routed experts on one rank. `intermediate` is after the expert tensor split."""

    fmt: WeightFormat
    hidden: int
    intermediate: int
    matrices: int
    experts_local: int
    experts_total: int
    top_k: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeShape:
    """MoE dispatch or combine: `ranks_per_domain` ranks of the EP group share a scale-up domain."""

    ep: int
    ranks_per_domain: int
    hidden: int
    top_k: float
    experts_total: int
    fmt: WeightFormat  # of the expert GEMM; decides the dispatch payload (fp8 + scales, nvfp4 + scales, bf16)


class OperatorSource(Protocol):
    """Times of kernels and collectives on one GPU type, fabric and engine."""

    def gemm(self, fmt: WeightFormat, *, n: int, k: int, m: FloatArray) -> OpTime:
        """``[m, k] x [k, n]`` dense GEMM, activation quantisation included."""
        ...

    def experts(self, shape: ExpertShape, *, slots: FloatArray) -> OpTime:
        """Grouped expert GEMMs of one MoE layer (gate, up, activation, down).

        `slots`: token-expert pairs this rank computes (tokens of the EP group x top_k / ep when balanced).
        Distinct local experts touched follow uniform routing of the slots.
        """
        ...

    def attention_prefill(
        self, attention: Attention, *, tp: int, kv: KvDtype, new_tokens: FloatArray, prefix: FloatArray
    ) -> OpTime:
        """Core attention of one layer for one sequence's chunk of `new_tokens` after `prefix` cached tokens.

        Projections are separate GEMMs. Recurrent mixers: the scan and convolution.
        """
        ...

    def attention_decode(
        self, attention: Attention, *, tp: int, kv: KvDtype, batch: FloatArray, context: FloatArray
    ) -> OpTime:
        """Core attention of one layer for `batch` sequences of mean length `context`, one query token each.

        Includes the absorbed MLA up/down batched products and the indexer of sparse layers.
        """
        ...

    def collective(
        self, kind: Collective, *, gpus: int, ranks_per_domain: int, payload_bytes: FloatArray, graph: bool
    ) -> OpTime:
        """A collective over `gpus` ranks; `payload_bytes` is the full tensor (all-reduce size, gathered output).

        `graph`: launched inside a CUDA graph (no eager host cost).
        """
        ...

    def dispatch(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """MoE dispatch of one layer, `tokens` per rank."""
        ...

    def combine(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """MoE combine of one layer, `tokens` per rank."""
        ...

    def memory_pass(self, *, bytes_moved: FloatArray) -> OpTime:
        """Elementwise kernel (norm, rope, activation, residual) that moves `bytes_moved` through HBM."""
        ...
