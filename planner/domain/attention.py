"""Attention and recurrent mixers by kind: what they store per token or sequence, and how many weights they have.

Counts are per layer; "elements" are cache entries before quantisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.dtypes import KvDtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """DSA lightning indexer: scores all keys, the core attends to the `top_k` best.

    `owned` is False for layers that re-use another layer's selection (they hold no key cache and no weights).
    """

    heads: int
    head_dim: int
    top_k: int
    owned: bool = True

    @property
    def key_bytes_per_token(self) -> float:
        """fp8 key plus one float32 scale per 128 values."""
        return self.head_dim + 4.0 * self.head_dim / 128.0 if self.owned else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GqaAttention:
    """Multi-head, grouped-query or multi-query attention, optionally windowed, chunked or block-sparse.

    `window`: tokens a layer can look back (sliding or chunked); None = all.
    `sparse_tokens`: tokens the core attends to when block-sparse (MSA), chosen by `index_heads`; None = dense.
    `key_value_shared`: K and V projections are one matrix (Gemma 4 global layers); the cache still holds both.
    `extra_kv_elements`: further cached elements per token and layer that TP does not shard (index keys of MSA).
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    window: int | None = None
    chunked: bool = False
    gated: bool = False
    key_value_shared: bool = False
    sparse_tokens: int | None = None
    index_heads: int = 0
    extra_kv_elements: float = 0.0
    parameters: float = 0.0

    @property
    def output_width(self) -> int:
        """Inputs of the output projection."""
        return self.heads * self.value_dim

    @property
    def value_dim(self) -> int:
        """Dimension of one value head."""
        return self.v_head_dim if self.v_head_dim is not None else self.head_dim

    @property
    def kv_elements_per_token(self) -> float:
        """Cached elements per token and layer over all KV heads."""
        return self.kv_heads * (self.head_dim + self.value_dim) + self.extra_kv_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention: one latent per token, shared by all heads and not sharded by TP."""

    heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    indexer: Indexer | None = None
    sparse: bool = False  # attends to the indexer's selection (own or shared)
    sparse_top_k: int | None = None
    gated: bool = False  # output gate, one more hidden x heads*v_head_dim matrix (Kimi K3)
    parameters: float = 0.0

    @property
    def output_width(self) -> int:
        """Inputs of the output projection."""
        return self.heads * self.v_head_dim

    @property
    def kv_elements_per_token(self) -> float:
        """Latent plus rope elements per token and layer."""
        return float(self.kv_lora_rank + self.qk_rope_head_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """DeepSeek-V4 shared-KV attention: one compressed entry per `ratio` tokens plus a short window.

    `ratio` 4 = CSA (with an indexer over the compressed entries), 128 = HCA, None = window only.
    """

    heads: int
    head_dim: int
    rope_dim: int
    ratio: int | None
    window: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    indexer: Indexer | None = None
    parameters: float = 0.0

    @property
    def output_width(self) -> int:
        """Inputs of the (grouped, low-rank) output projection."""
        return self.heads * self.head_dim


class LinearKind(StrEnum):
    """Recurrent mixers with a fixed state per sequence."""

    GDN = "gdn"  # gated delta net (Qwen3-Next, Qwen3.5)
    KDA = "kda"  # Kimi delta attention
    MAMBA2 = "mamba2"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """A recurrent mixer: its state does not grow with context."""

    kind: LinearKind
    heads: int  # value heads
    key_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    state_bytes_per_seq: float  # recurrent plus convolution state, per layer, unsharded
    parameters: float = 0.0

    @property
    def output_width(self) -> int:
        """Inputs of the output projection."""
        return self.heads * self.value_dim


Attention = GqaAttention | MlaAttention | CompressedAttention | LinearAttention


def compressed_entry_bytes(a: CompressedAttention, kv: KvDtype) -> float:
    """Bytes of one stored entry: bf16 values, or fp8 non-rope + bf16 rope (576 B at head dim 512, rope 64)."""
    if kv is KvDtype.BF16:
        return 2.0 * a.head_dim
    return (a.head_dim - a.rope_dim) + 2.0 * a.rope_dim


def compressed_kv_bytes_per_token(a: CompressedAttention, kv: KvDtype) -> float:
    """Growing bytes per token of one compressed-attention layer: entries and index keys at the layer's ratio."""
    if a.ratio is None:
        return 0.0
    entry = compressed_entry_bytes(a, kv)
    if a.indexer is not None:
        entry += a.indexer.head_dim * 2.0 if kv is KvDtype.BF16 else a.indexer.key_bytes_per_token
    return entry / a.ratio
