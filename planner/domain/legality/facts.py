"""Widths of a model that rules divide, derived once per model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from planner.domain.dtypes import WeightFormat
from planner.domain.memo import IdentityMemo
from planner.domain.model import (
    Attention,
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    LinearAttention,
    LinearKind,
    MlaAttention,
    ModelSpec,
    MoeMlp,
)

# Weights of one quantisation group lie along a row; a shard must hold whole groups. MXFP4 experts are padded by the
# engine instead.
GROUP_WIDTH = {
    WeightFormat.FP8_BLOCK: 128,
    WeightFormat.NVFP4: 16,
    WeightFormat.NVFP4_A16: 16,
    WeightFormat.INT4: 32,
    WeightFormat.MXFP8: 32,
}


class Width(NamedTuple):
    """A dimension that TP divides. `group`: a shard must be a multiple of it."""

    name: str
    size: int
    group: int


class BadShard(NamedTuple):
    """A dimension, the shard it would get and the multiple it should be of."""

    name: str
    size: int
    shard: float
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What rules ask of a model.

    `heads`: distinct query-head counts; `kv_heads`: distinct KV-head counts of GQA layers; `mixer_heads`: head
    counts of recurrent mixers. `widths`: TP-sharded dimensions outside routed experts; `shared_widths` those of
    shared experts, which stay whole under sequence-parallel MoE. `moe` is the routed-expert shape.
    """

    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    mixer_heads: tuple[int, ...]
    widths: tuple[Width, ...]
    shared_widths: tuple[Width, ...]
    moe: MoeMlp | None
    expert_format: WeightFormat
    formats: tuple[WeightFormat, ...]
    is_mla: bool
    is_hybrid: bool
    has_window: bool
    multimodal: bool
    mtp_layers: int
    max_position: int
    # Filled on first use; rules ask the same few widths thousands of times.
    _legal: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)
    _bad: dict[tuple[int, bool], BadShard | None] = field(default_factory=dict, compare=False, repr=False)

    def bad_shard(self, tp: int, *, shared_whole: bool) -> BadShard | None:
        """The first dimension that `tp` ways do not divide into whole quantisation groups."""
        key = (tp, shared_whole)
        if key not in self._bad:
            widths = self.widths if shared_whole else self.widths + self.shared_widths
            self._bad[key] = next((b for w in widths if (b := bad_split(w, tp)) is not None), None)
        return self._bad[key]

    def legal_tp(self, limit: int) -> tuple[int, ...]:
        """TP widths up to `limit` that divide heads and dimensions."""
        if limit not in self._legal:
            self._legal[limit] = tuple(
                t
                for t in range(1, limit + 1)
                if all(h % t == 0 for h in self.heads + self.mixer_heads)
                and all(k % t == 0 or t % k == 0 for k in self.kv_heads)
                and self.bad_shard(t, shared_whole=False) is None
            )
        return self._legal[limit]


def bad_split(width: Width, ways: int) -> BadShard | None:
    """Why `ways` ways do not divide `width`; None when they do."""
    if ways == 1:
        return None
    shard = width.size / ways
    if shard % width.group == 0:
        return None
    return BadShard(width.name, width.size, shard, width.group)


def _attention_widths(a: Attention, model: ModelSpec) -> list[Width]:
    q = model.quantization
    into, out = GROUP_WIDTH.get(q.of_projections(a), 1), GROUP_WIDTH.get(q.of_output(a), 1)
    if isinstance(a, GqaAttention):
        # Key and value shards are exempt from the group multiple: MiMo-V2-Flash (block fp8, KV head of 192) is
        # documented at TP 4. The KV-head rule covers them.
        return [
            Width("query projection", a.heads * a.head_dim, into),
            Width("attention output projection", a.output_width, out),
        ]
    if isinstance(a, MlaAttention):
        return [
            Width("query projection", a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim), into),
            Width("latent up-projection", a.heads * (a.qk_nope_head_dim + a.v_head_dim), into),
            Width("attention output projection", a.output_width, out),
        ]
    if isinstance(a, CompressedAttention):
        return [Width("query projection", a.heads * a.head_dim, into)]
    return [Width("mixer output projection", a.output_width, out)]


def _derive(model: ModelSpec) -> ModelFacts:
    q = model.quantization
    widths: dict[Width, None] = {}
    shared: dict[Width, None] = {}
    heads: set[int] = set()
    kv_heads: set[int] = set()
    mixers: set[int] = set()
    window = False
    dense_group = GROUP_WIDTH.get(q.dense_mlp, 1)
    for g in model.layers:
        a = g.attention
        if a is not None:
            widths.update(dict.fromkeys(_attention_widths(a, model)))
        if isinstance(a, LinearAttention):
            mixers.add(a.heads)
            # Mamba2 replicates its B/C groups when TP does not divide them; GDN and KDA split key heads.
            if a.kind is not LinearKind.MAMBA2:
                mixers.add(a.key_heads)
        elif a is not None:
            heads.add(a.heads)
        if isinstance(a, GqaAttention):
            kv_heads.add(a.kv_heads)
            window = window or a.window is not None
        window = window or isinstance(a, CompressedAttention)
        m = g.mlp
        if isinstance(m, DenseMlp):
            widths[Width("dense intermediate", m.intermediate, dense_group)] = None
        elif isinstance(m, MoeMlp):
            if m.dense_intermediate:
                widths[Width("dense intermediate", m.dense_intermediate, dense_group)] = None
            if m.shared_intermediate:
                group = GROUP_WIDTH.get(q.shared_experts, 1)
                shared[Width("shared-expert intermediate", m.shared_intermediate, group)] = None
    formats = {q.attention, q.attention_output, q.linear_attention, q.dense_mlp, q.shared_experts}
    if model.moe is not None:
        formats.add(q.experts)
    return ModelFacts(
        heads=tuple(sorted(heads)),
        kv_heads=tuple(sorted(kv_heads)),
        mixer_heads=tuple(sorted(mixers)),
        widths=tuple(widths),
        shared_widths=tuple(shared),
        moe=model.moe,
        expert_format=q.experts,
        formats=tuple(sorted(f for f in formats if f is not None)),
        is_mla=model.is_mla,
        is_hybrid=model.is_hybrid,
        has_window=window,
        multimodal=model.encoder,
        mtp_layers=model.mtp_layers,
        max_position=model.max_position,
    )


model_facts = IdentityMemo(_derive)
