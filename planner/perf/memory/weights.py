"""Weight bytes of one rank, by kind of layer.

What is split how (vLLM 0.33): attention heads, dense MLPs, embedding and head over the TP ranks of one DP rank; KV
projections only down to one head per rank; MLA latent projections and indexers not at all; routed experts over
the whole group, whole experts when expert parallel is on and slices otherwise; shared experts over TP, but whole
on every rank when tokens are scattered over TP before the dispatch (TP > 1, DP > 1, EP on).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.domain.deployment import Eplb, Parallelism
from planner.domain.dtypes import WeightFormat
from planner.domain.memo import IdentityMemo
from planner.domain.model import (
    Attention,
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    LayerGroup,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeMlp,
)

BF16_BYTES = 2.0
VOCAB_PADDING = 64  # vLLM pads the vocabulary to a multiple of this and of TP
# vLLM pads MXFP4 experts before swizzling them. Derived from the loaded sizes of gpt-oss-20b (13.72 GiB for a
# 12.8 GiB checkpoint) and 120b (66.0 for 60.7), which these two multiples reproduce to 1 %.
MXFP4_HIDDEN_MULTIPLE = 256
MXFP4_INTERMEDIATE_MULTIPLE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWeights:
    """Weight bytes of the fullest rank of a group.

    `other`: dense MLPs, shared experts, routers, latent projections, embedding, head, norms and, with
    speculation on, the dense parts of MTP layers. `experts` includes redundant experts and those of MTP layers.
    """

    attention: float
    experts: float
    other: float

    @property
    def total(self) -> float:
        """All weight bytes of the rank."""
        return self.attention + self.experts + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class _KvHeads:
    """Key and value projections of GQA layers: bytes of one head over those layers, and the heads."""

    heads: int
    bytes_per_head: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExpertLayers:
    """MoE layers of one shape: bytes of one whole routed expert over all of them."""

    experts: int
    hidden: int
    intermediate: int
    matrices: int
    layers: int
    bytes_per_weight: float
    padded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Byte totals of a model (or of its MTP layers), by how they are split."""

    attention_sharded: float
    attention_replicated: float
    kv_heads: tuple[_KvHeads, ...]
    experts: tuple[_ExpertLayers, ...]
    dense: float
    shared: float
    replicated: float
    vocab: int
    bytes_per_vocab_row: float

    def on_rank(self, parallelism: Parallelism, redundant: int, *, engine_padding: bool) -> RankWeights:
        """Split the totals over one rank."""
        tp = parallelism.tp
        attention = self.attention_sharded / tp + self.attention_replicated
        for kv in self.kv_heads:
            attention += kv.bytes_per_head * max(1.0, kv.heads / tp)
        experts = sum(expert_bytes(e, parallelism, redundant, padded=engine_padding) for e in self.experts)
        scattered = parallelism.expert_parallel and tp > 1 and parallelism.dp > 1
        rows = _round_up(self.vocab, VOCAB_PADDING * tp) if engine_padding else self.vocab
        other = (
            self.dense / tp
            + self.shared / (1 if scattered else tp)
            + self.replicated
            + rows * self.bytes_per_vocab_row / tp
        )
        return RankWeights(attention=attention, experts=experts, other=other)


def expert_bytes(
    layers: _ExpertLayers, parallelism: Parallelism, redundant: int, *, padded: bool = True
) -> float:
    """Routed-expert bytes on the fullest rank, redundant experts included."""
    hidden, intermediate = layers.hidden, layers.intermediate / parallelism.moe_tp
    if layers.padded and padded:
        hidden = _round_up(hidden, MXFP4_HIDDEN_MULTIPLE)
        intermediate = _round_up(intermediate, MXFP4_INTERMEDIATE_MULTIPLE)
    # A remainder of experts goes to the first ranks, so the fullest rank holds the ceiling.
    local = math.ceil((layers.experts + redundant) / parallelism.ep)
    return layers.layers * local * layers.matrices * hidden * intermediate * layers.bytes_per_weight


def weights_per_rank_bytes(
    model: ModelSpec,
    parallelism: Parallelism,
    eplb: Eplb | None = None,
    *,
    mtp: bool = False,
    engine_padding: bool = True,
) -> RankWeights:
    """Weight bytes on the fullest rank of a group of `parallelism`.

    `mtp`: load the MTP layers too (speculation on). `engine_padding`: count the padding of the vocabulary and of
    MXFP4 experts that vLLM adds on loading.
    """
    redundant = eplb.redundant_experts if eplb is not None else 0
    weights = _decoder_facts(model).on_rank(parallelism, redundant, engine_padding=engine_padding)
    if not mtp or model.mtp_layers == 0:
        return weights
    extra = _mtp_facts(model).on_rank(parallelism, redundant, engine_padding=engine_padding)
    return RankWeights(
        attention=weights.attention + extra.attention,
        experts=weights.experts + extra.experts,
        other=weights.other + extra.other,
    )


def layer_expert_bytes(model: ModelSpec, parallelism: Parallelism, eplb: Eplb) -> float:
    """Bytes of one layer's experts on one rank: the buffer EPLB moves weights through."""
    facts = _decoder_facts(model)
    return max(
        (expert_bytes(e, parallelism, eplb.redundant_experts) / e.layers for e in facts.experts), default=0.0
    )


def mtp_layer_group(model: ModelSpec) -> LayerGroup | None:
    """The layer an MTP module repeats: the decoder's last attention (never recurrent) and last MLP."""
    attention = [
        g.attention
        for g in model.layers
        if g.attention is not None and not isinstance(g.attention, LinearAttention)
    ]
    mlp = [g.mlp for g in model.layers if g.mlp is not None]
    if model.mtp_layers == 0 or not attention or not mlp:
        return None
    return LayerGroup(count=model.mtp_layers, attention=attention[-1], mlp=mlp[-1])


def _round_up(value: float, multiple: int) -> int:
    return math.ceil(value / multiple) * multiple


def _replicated_parameters(attention: Attention, hidden: int) -> float:
    """Weights every TP rank holds whole: latent down-projections and indexers."""
    if isinstance(attention, MlaAttention):
        query = attention.q_lora_rank or 0
        count = float(hidden * (query + attention.kv_lora_rank + attention.qk_rope_head_dim))
    elif isinstance(attention, CompressedAttention):
        query = attention.q_lora_rank
        count = float(hidden * (query + attention.head_dim))
    else:
        return 0.0
    indexer = attention.indexer
    if indexer is not None and indexer.owned:
        count += indexer.heads * indexer.head_dim * (query or hidden)
        count += hidden * (indexer.head_dim + indexer.heads)
    return min(count, attention.parameters)


def _output_parameters(attention: Attention, hidden: int) -> float:
    if isinstance(attention, CompressedAttention):
        rank = attention.o_lora_rank
        return float(attention.output_width * rank + attention.o_groups * rank * hidden)
    return float(attention.output_width * hidden)


def _facts_of(model: ModelSpec, groups: tuple[LayerGroup, ...], *, own_vocab: bool) -> _Facts:
    q = model.quantization
    sharded = replicated_attention = dense = shared = replicated = 0.0
    kv_heads: list[_KvHeads] = []
    experts: list[_ExpertLayers] = []
    for group in groups:
        a = group.attention
        if a is not None:
            width = q.of_projections(a).bytes_per_weight
            output = min(_output_parameters(a, model.hidden), a.parameters)
            whole = min(_replicated_parameters(a, model.hidden), a.parameters - output)
            kv = 0.0
            if isinstance(a, GqaAttention):
                per_head = model.hidden * (a.head_dim if a.key_value_shared else a.head_dim + a.value_dim)
                kv = min(float(a.kv_heads * per_head), a.parameters - output)
                kv_heads.append(
                    _KvHeads(heads=a.kv_heads, bytes_per_head=group.count * kv / a.kv_heads * width)
                )
            replicated_attention += group.count * whole * width
            sharded += group.count * (
                (a.parameters - output - whole - kv) * width + output * q.of_output(a).bytes_per_weight
            )
        m = group.mlp
        if isinstance(m, DenseMlp):
            dense += group.count * m.matrices * model.hidden * m.intermediate * q.dense_mlp.bytes_per_weight
        elif isinstance(m, MoeMlp):
            dense += group.count * 3.0 * model.hidden * m.dense_intermediate * q.dense_mlp.bytes_per_weight
            shared += (
                group.count
                * m.shared_matrices
                * model.hidden
                * m.shared_intermediate
                * q.shared_experts.bytes_per_weight
            )
            replicated += group.count * (
                m.latent_projection_parameters * q.dense_mlp.bytes_per_weight
                + model.hidden * (m.experts + m.identity_experts) * BF16_BYTES
            )
            experts.append(
                _ExpertLayers(
                    experts=m.experts,
                    hidden=m.hidden,
                    intermediate=m.intermediate,
                    matrices=m.matrices,
                    layers=group.count,
                    bytes_per_weight=q.experts.bytes_per_weight,
                    padded=q.experts is WeightFormat.MXFP4,
                )
            )
    row = 0.0
    if own_vocab:
        replicated += model.other_parameters * BF16_BYTES
        row = model.hidden * q.embedding.bytes_per_weight
        if not model.tied_embeddings:
            row += model.hidden * (q.lm_head or q.embedding).bytes_per_weight
    return _Facts(
        attention_sharded=sharded,
        attention_replicated=replicated_attention,
        kv_heads=tuple(kv_heads),
        experts=tuple(_merge(experts)),
        dense=dense,
        shared=shared,
        replicated=replicated,
        vocab=model.vocab,
        bytes_per_vocab_row=row,
    )


def _merge(experts: list[_ExpertLayers]) -> Iterator[_ExpertLayers]:
    """Join layers with the same expert shape, so that a rank is split once per shape."""
    counts: dict[_ExpertLayers, int] = {}
    for e in experts:
        shape = replace(e, layers=1)
        counts[shape] = counts.get(shape, 0) + e.layers
    for shape, layers in counts.items():
        yield replace(shape, layers=layers)


def _derive_decoder(model: ModelSpec) -> _Facts:
    return _facts_of(model, model.layers, own_vocab=True)


def _derive_mtp(model: ModelSpec) -> _Facts:
    group = mtp_layer_group(model)
    facts = _facts_of(model, (group,) if group is not None else (), own_vocab=False)
    # The 2h x h projection that joins the embedding to the hidden state is replicated.
    joint = model.mtp_layers * 2.0 * model.hidden * model.hidden * BF16_BYTES
    return replace(facts, replicated=facts.replicated + joint)


_decoder_facts = IdentityMemo(_derive_decoder)
_mtp_facts = IdentityMemo(_derive_mtp)
