"""Structure of a transformer checkpoint, as far as memory and time depend on it.

A `ModelSpec` is a set of `LayerGroup`s: layers that are identical for planning, in order of first appearance.
Parameter and byte counts are per layer unless named otherwise; "elements" are weights or cache entries before
quantisation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.domain.attention import (
    Attention,
    CompressedAttention,
    GqaAttention,
    Indexer,
    LinearAttention,
    LinearKind,
    MlaAttention,
    compressed_entry_bytes,
    compressed_kv_bytes_per_token,
)
from planner.domain.dtypes import KvDtype, WeightFormat

__all__ = [
    "Attention",
    "CompressedAttention",
    "DenseMlp",
    "GqaAttention",
    "Indexer",
    "LayerGroup",
    "LinearAttention",
    "LinearKind",
    "MlaAttention",
    "ModelSpec",
    "MoeMlp",
    "Quantization",
    "compressed_entry_bytes",
    "compressed_kv_bytes_per_token",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMlp:
    """A dense feed-forward layer; `matrices` is 3 when gated, 2 when not."""

    intermediate: int
    matrices: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeMlp:
    """A mixture-of-experts layer.

    `hidden` is the width the experts run at (the latent width for LatentMoE). `identity_experts` are
    zero-computation experts that take routed slots (LongCat). `shared_intermediate` is the total width of the
    shared experts (0 = none); `dense_intermediate` a dense MLP that runs beside the experts (Gemma 4, LongCat).
    """

    experts: int
    top_k: int
    intermediate: int
    hidden: int
    matrices: int = 3
    shared_intermediate: int = 0
    shared_matrices: int = 3
    dense_intermediate: int = 0
    identity_experts: int = 0
    latent_projection_parameters: float = 0.0

    @property
    def parameters_per_expert(self) -> float:
        """Weights of one routed expert."""
        return float(self.matrices * self.hidden * self.intermediate)

    @property
    def routed_top_k(self) -> float:
        """Mean number of real experts a token visits."""
        total = self.experts + self.identity_experts
        return self.top_k * self.experts / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """`count` layers that are identical for planning. Either part may be absent (Nemotron-H interleaves them)."""

    count: int
    attention: Attention | None
    mlp: DenseMlp | MoeMlp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Weight format per kind of matrix, plus the KV dtype the checkpoint declares, if any.

    `attention` covers the input projections of attention layers. `attention_output` (its output projection),
    `linear_attention` (recurrent mixers) and `lm_head` are None where they follow `attention` or `embedding`.
    A part whose layers differ carries the format of most of them.
    """

    attention: WeightFormat = WeightFormat.BF16
    attention_output: WeightFormat | None = None
    linear_attention: WeightFormat | None = None
    dense_mlp: WeightFormat = WeightFormat.BF16
    experts: WeightFormat = WeightFormat.BF16
    shared_experts: WeightFormat = WeightFormat.BF16
    embedding: WeightFormat = WeightFormat.BF16
    lm_head: WeightFormat | None = None
    kv_cache: KvDtype | None = None
    label: str = "bf16"

    def of_projections(self, attention: Attention) -> WeightFormat:
        """Format of a mixer's input projections."""
        if isinstance(attention, LinearAttention) and self.linear_attention is not None:
            return self.linear_attention
        return self.attention

    def of_output(self, attention: Attention) -> WeightFormat:
        """Format of a mixer's output projection."""
        if isinstance(attention, LinearAttention) or self.attention_output is None:
            return self.of_projections(attention)
        return self.attention_output


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A checkpoint: layers, widths and formats. Vision towers and MTP layers are kept out of the totals."""

    id: str
    family: str
    architecture: str
    hidden: int
    vocab: int
    max_position: int
    layers: tuple[LayerGroup, ...]
    quantization: Quantization
    tied_embeddings: bool = False
    mtp_layers: int = 0
    other_parameters: float = 0.0  # norms, routers' biases and the like, whole model, bf16
    encoder: bool = False  # multimodal: an image or sound encoder sits before the decoder
    source: str = ""
    source_date: str = ""
    confirmed: bool = True  # False: the structure was written from memory, not from a published file
    notes: str = ""
    aliases: tuple[str, ...] = field(default=())

    # --- layers ---

    @property
    def num_layers(self) -> int:
        """Decoder layers (attention or recurrent mixers and MLP-only layers each count once)."""
        return sum(g.count for g in self.layers)

    @property
    def moe(self) -> MoeMlp | None:
        """The first MoE layer's shape; the planned families have one expert shape each."""
        return next((g.mlp for g in self.layers if isinstance(g.mlp, MoeMlp)), None)

    @property
    def moe_layers(self) -> int:
        """Number of MoE layers."""
        return sum(g.count for g in self.layers if isinstance(g.mlp, MoeMlp))

    @property
    def attention_heads(self) -> int:
        """Query heads of the attention layers (0 for purely recurrent models)."""
        kinds = (GqaAttention, MlaAttention, CompressedAttention)
        return max((g.attention.heads for g in self.layers if isinstance(g.attention, kinds)), default=0)

    @property
    def kv_heads(self) -> int:
        """Smallest number of KV heads over GQA layers; 1 for latent and shared-KV attention."""
        gqa = [g.attention.kv_heads for g in self.layers if isinstance(g.attention, GqaAttention)]
        return min(gqa, default=1)

    @property
    def is_mla(self) -> bool:
        """Whether the growing cache is a latent that TP cannot shard."""
        return any(isinstance(g.attention, MlaAttention | CompressedAttention) for g in self.layers)

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers are recurrent (mamba, GDN, KDA)."""
        return any(isinstance(g.attention, LinearAttention) for g in self.layers)

    @property
    def has_sliding(self) -> bool:
        """Whether some attention layers are windowed."""
        return any(
            isinstance(g.attention, GqaAttention) and g.attention.window is not None for g in self.layers
        )

    # --- parameters ---

    @property
    def expert_parameters(self) -> float:
        """Routed-expert weights of the whole model."""
        return sum(
            g.count * g.mlp.experts * g.mlp.parameters_per_expert
            for g in self.layers
            if isinstance(g.mlp, MoeMlp)
        )

    @property
    def attention_parameters(self) -> float:
        """Weights of attention and recurrent mixers, whole model."""
        return sum(g.count * g.attention.parameters for g in self.layers if g.attention is not None)

    @property
    def dense_mlp_parameters(self) -> float:
        """Weights of dense MLPs (beside or instead of experts), latent projections included."""
        total = 0.0
        for g in self.layers:
            if isinstance(g.mlp, DenseMlp):
                total += g.count * g.mlp.matrices * self.hidden * g.mlp.intermediate
            elif isinstance(g.mlp, MoeMlp):
                total += g.count * (
                    3 * self.hidden * g.mlp.dense_intermediate + g.mlp.latent_projection_parameters
                )
        return total

    @property
    def shared_parameters(self) -> float:
        """Shared-expert weights, whole model."""
        return sum(
            g.count * g.mlp.shared_matrices * self.hidden * g.mlp.shared_intermediate
            for g in self.layers
            if isinstance(g.mlp, MoeMlp)
        )

    @property
    def router_parameters(self) -> float:
        """Router gates, whole model (kept in bf16)."""
        return sum(
            g.count * self.hidden * (g.mlp.experts + g.mlp.identity_experts)
            for g in self.layers
            if isinstance(g.mlp, MoeMlp)
        )

    @property
    def embedding_parameters(self) -> float:
        """Input embedding plus the head when untied."""
        return float(self.vocab * self.hidden * (1 if self.tied_embeddings else 2))

    @property
    def total_parameters(self) -> float:
        """All weights, MTP layers and vision towers excluded."""
        return (
            self.expert_parameters
            + self.attention_parameters
            + self.dense_mlp_parameters
            + self.shared_parameters
            + self.router_parameters
            + self.embedding_parameters
            + self.other_parameters
        )

    @property
    def active_parameters(self) -> float:
        """Weights a token touches at most, embedding and head included; never a measure of memory.

        Identity experts (LongCat) lower the mean: see `mean_active_parameters`.
        """
        routed = sum(
            g.count * g.mlp.top_k * g.mlp.parameters_per_expert
            for g in self.layers
            if isinstance(g.mlp, MoeMlp)
        )
        return self.total_parameters - self.expert_parameters + routed

    @property
    def mean_active_parameters(self) -> float:
        """Weights a token touches on average, when identity experts are chosen as often as real ones."""
        routed = sum(
            g.count * g.mlp.routed_top_k * g.mlp.parameters_per_expert
            for g in self.layers
            if isinstance(g.mlp, MoeMlp)
        )
        return self.total_parameters - self.expert_parameters + routed

    @property
    def mtp_parameters(self) -> float:
        """Weights of the MTP layers: each is the last attention and MLP of the decoder plus a 2h x h projection.

        Embedding and head are shared with the decoder. Not part of `total_parameters`.
        """
        attention = [
            g.attention
            for g in self.layers
            if g.attention is not None and not isinstance(g.attention, LinearAttention)
        ]
        mlp = [g.mlp for g in self.layers if g.mlp is not None]
        one = 2.0 * self.hidden * self.hidden
        one += attention[-1].parameters if attention else 0.0
        one += self.mlp_parameters(mlp[-1]) if mlp else 0.0
        return self.mtp_layers * one

    def mlp_parameters(self, mlp: DenseMlp | MoeMlp) -> float:
        """Weights of one feed-forward layer: experts, shared experts, router, latent projections, dense part."""
        if isinstance(mlp, DenseMlp):
            return float(mlp.matrices * self.hidden * mlp.intermediate)
        return (
            mlp.experts * mlp.parameters_per_expert
            + mlp.shared_matrices * self.hidden * mlp.shared_intermediate
            + 3.0 * self.hidden * mlp.dense_intermediate
            + self.hidden * (mlp.experts + mlp.identity_experts)
            + mlp.latent_projection_parameters
        )

    @property
    def weight_bytes(self) -> float:
        """Bytes of the whole checkpoint at its formats, MTP excluded."""
        q = self.quantization
        return (
            self.expert_parameters * q.experts.bytes_per_weight
            + self.attention_weight_bytes
            + self.dense_mlp_parameters * q.dense_mlp.bytes_per_weight
            + self.shared_parameters * q.shared_experts.bytes_per_weight
            + self.embedding_weight_bytes
            + (self.router_parameters + self.other_parameters) * WeightFormat.BF16.bytes_per_weight
        )

    @property
    def attention_weight_bytes(self) -> float:
        """Bytes of attention and recurrent mixers, whole model, input and output projections at their formats."""
        total = 0.0
        for g in self.layers:
            if g.attention is None:
                continue
            output = float(g.attention.output_width * self.hidden)
            if isinstance(
                g.attention, CompressedAttention
            ):  # low-rank: width x rank, then groups*rank x hidden
                a = g.attention
                output = float(a.output_width * a.o_lora_rank + a.o_groups * a.o_lora_rank * self.hidden)
            q = self.quantization
            total += g.count * (
                (g.attention.parameters - output) * q.of_projections(g.attention).bytes_per_weight
                + output * q.of_output(g.attention).bytes_per_weight
            )
        return total

    @property
    def embedding_weight_bytes(self) -> float:
        """Bytes of the embedding, and of the head when it is a matrix of its own."""
        one = float(self.vocab * self.hidden)
        head = 0.0 if self.tied_embeddings else one
        q = self.quantization
        return one * q.embedding.bytes_per_weight + head * (q.lm_head or q.embedding).bytes_per_weight

    # --- KV cache ---

    def kv_bytes_per_token(self, kv: KvDtype) -> float:
        """Growing KV bytes per token over all layers, unsharded, windowed layers excluded (physical minimum)."""
        return sum(g.count * self.layer_kv_bytes_per_token(g, kv) for g in self.layers)

    def layer_kv_bytes_per_token(self, group: LayerGroup, kv: KvDtype) -> float:
        """Growing KV bytes per token of one layer of `group`, unsharded; 0 for windowed and recurrent layers."""
        a = group.attention
        if a is None or isinstance(a, LinearAttention):
            return 0.0
        if isinstance(a, GqaAttention):
            if a.window is not None and not a.chunked:
                return 0.0
            return a.kv_elements_per_token * kv.bytes_per_element
        if isinstance(a, MlaAttention):
            latent = a.kv_elements_per_token * kv.bytes_per_element
            if a.sparse and kv is KvDtype.FP8:
                # vLLM/FlashMLA sparse layout: fp8 latent + 4 float32 scales + bf16 rope
                latent = a.kv_lora_rank + 16.0 + 2.0 * a.qk_rope_head_dim
            index = 0.0
            if a.indexer is not None and a.indexer.owned:
                index = a.indexer.head_dim * 2.0 if kv is KvDtype.BF16 else a.indexer.key_bytes_per_token
            return latent + index
        return compressed_kv_bytes_per_token(a, kv)

    def fixed_state_bytes(self, kv: KvDtype = KvDtype.BF16) -> float:
        """Bytes per sequence that do not grow past the window: recurrent state and windowed KV.

        DeepSeek-V4 windows are always stored in the packed layout, whatever `kv` is.
        """
        total = 0.0
        for g in self.layers:
            a = g.attention
            if isinstance(a, LinearAttention):
                total += g.count * a.state_bytes_per_seq
            elif isinstance(a, GqaAttention) and a.window is not None and not a.chunked:
                total += g.count * a.window * a.kv_elements_per_token * kv.bytes_per_element
            elif isinstance(a, CompressedAttention):
                total += g.count * a.window * compressed_entry_bytes(a, KvDtype.FP8)
        return total
