"""KV-cache layout of one rank: what a request holds, at the physical minimum and in the engine's blocks.

The block arithmetic follows vLLM 0.33: layers of one cache type form groups, all groups draw from one pool of
equal blocks, a block belongs to one group. Known limits: DeepSeek-V4 grouping is inferred, from one published
capacity; chunked local layers (Llama 4) are given full pages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from planner.domain.dtypes import KvDtype
from planner.domain.memo import IdentityMemo
from planner.domain.model import (
    CompressedAttention,
    GqaAttention,
    LayerGroup,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    compressed_entry_bytes,
)
from planner.perf.memory.weights import mtp_layer_group

# Kernel block alignment of the attention block when it is raised to the size of a recurrent state page.
_ALIGN_TOKENS = 16
_ALIGN_TOKENS_LATENT = 64
# DeepSeek-V4 stores 8 bytes of scales beside the 576 of an fp8 entry (vLLM 0.33: 584 B per state).
_COMPRESSED_SCALE_BYTES = 8.0
_CONV_ELEMENT_BYTES = 2.0
_WINDOW_BLOCK_PART = 1.0 / 4.0


class CacheKind(StrEnum):
    """How the cache of a layer grows with context."""

    FULL = "full"
    WINDOW = "window"
    STATE = "state"


class LayerCache(NamedTuple):
    """`layers` layers with the same cache on one rank.

    `bytes_per_token` of one layer (FULL, WINDOW); `window` tokens (WINDOW); `state_bytes` of one layer (STATE).
    `chunked`: a window the engine's block manager does not exploit. `block_part`: share of the block size that a
    page covers. `stretches`: the page may cover a longer stretch that is not a whole multiple.
    """

    kind: CacheKind
    layers: int
    bytes_per_token: float = 0.0
    window: int = 0
    state_bytes: float = 0.0
    chunked: bool = False
    block_part: float = 1.0
    stretches: bool = False


class CacheGroups(NamedTuple):
    """`groups` block tables of one cache type; one block of each covers `block_tokens` tokens of a sequence."""

    kind: CacheKind
    groups: int
    block_tokens: int
    window: int


class LayoutKey(NamedTuple):
    """What the layout depends on beside the model. `draft_tokens` is 0 without speculation."""

    tp: int
    dcp: int
    kv: KvDtype
    block_size: int
    draft_tokens: int
    hybrid_manager: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """Cache of one rank: the layers as they are, and the engine's blocks over them.

    `block_bytes`: bytes of one block of the pool, over the layers of a group.
    """

    caches: tuple[LayerCache, ...]
    groups: tuple[CacheGroups, ...]
    block_bytes: float
    dcp: int
    state_blocks: int  # blocks a recurrent group holds per request

    def request_bytes(self, tokens: int) -> float:
        """Fewest bytes one request of `tokens` tokens can hold on this rank (physical minimum)."""
        total = 0.0
        for c in self.caches:
            if c.kind is CacheKind.FULL:
                total += c.layers * c.bytes_per_token * tokens / self.dcp
            elif c.kind is CacheKind.WINDOW:
                total += c.layers * c.bytes_per_token * min(c.window, tokens)
            else:
                total += c.layers * c.state_bytes
        return total

    def request_blocks(self, tokens: int, *, in_flight_tokens: int) -> int:
        """Blocks the engine sets aside for one request of `tokens` tokens.

        `in_flight_tokens`: tokens that may be scheduled before a window slides (batched tokens x batches).
        """
        blocks = 0
        for g in self.groups:
            if g.kind is CacheKind.FULL:
                blocks += g.groups * math.ceil(math.ceil(tokens / self.dcp) / g.block_tokens)
            elif g.kind is CacheKind.WINDOW:
                held = min(g.window - 1 + in_flight_tokens, tokens)
                blocks += g.groups * (math.ceil(held / g.block_tokens) + 1)
            else:
                blocks += g.groups * self.state_blocks
        return blocks

    def chunk_blocks(self, tokens: int) -> int:
        """Blocks that `tokens` tokens of prompts in flight hold beyond the windows of their requests."""
        return sum(
            g.groups * math.ceil(tokens / g.block_tokens) for g in self.groups if g.kind is CacheKind.WINDOW
        )

    def pool_blocks(self, available_bytes: float) -> int:
        """Blocks of the pool; one of them, the null block, is never given to a request."""
        if self.block_bytes <= 0.0:
            return 0
        return max(0, int(available_bytes // self.block_bytes))


def kv_layout(model: ModelSpec, key: LayoutKey) -> KvLayout:
    """Return the cache layout of one rank of `model`; computed once per model and key."""
    known = _layouts(model)
    layout = known.get(key)
    if layout is None:
        layout = known[key] = _build(model, key)
    return layout


def _no_layouts(model: ModelSpec) -> dict[LayoutKey, KvLayout]:  # noqa: ARG001 - filled by kv_layout
    return {}


_layouts = IdentityMemo(_no_layouts)


def _build(model: ModelSpec, key: LayoutKey) -> KvLayout:
    layers = model.layers
    if key.draft_tokens and (extra := mtp_layer_group(model)) is not None:
        layers = (*layers, extra)
    caches = _merge([c for g in layers for c in _layer_caches(model, g, key)])
    engine = [_engine_view(c, hybrid_manager=key.hybrid_manager) for c in caches]
    groups, block_bytes = _group(_merge(engine), key.block_size, latent=model.is_mla)
    return KvLayout(
        caches=caches,
        groups=groups,
        block_bytes=block_bytes,
        dcp=key.dcp,
        # One block for the running state and one for the aligned checkpoint of the prefix cache.
        state_blocks=2 + key.draft_tokens,
    )


def _layer_caches(model: ModelSpec, group: LayerGroup, key: LayoutKey) -> list[LayerCache]:
    a = group.attention
    if isinstance(a, GqaAttention):
        heads = max(1.0, a.kv_heads / key.tp)
        per_token = (heads * (a.head_dim + a.value_dim) + a.extra_kv_elements) * key.kv.bytes_per_element
        if a.window is None:
            return [LayerCache(CacheKind.FULL, group.count, per_token)]
        return [LayerCache(CacheKind.WINDOW, group.count, per_token, a.window, chunked=a.chunked)]
    if isinstance(a, MlaAttention):
        return [LayerCache(CacheKind.FULL, group.count, model.layer_kv_bytes_per_token(group, key.kv))]
    if isinstance(a, CompressedAttention):
        # The window is always stored packed, whatever the cache dtype (see ModelSpec.fixed_state_bytes).
        entry = compressed_entry_bytes(a, KvDtype.FP8) + _COMPRESSED_SCALE_BYTES
        # One page holds as many window entries as compressed entries of a block: a quarter of its tokens.
        caches = [LayerCache(CacheKind.WINDOW, group.count, entry, a.window, block_part=_WINDOW_BLOCK_PART)]
        if a.ratio is not None:
            growing = model.layer_kv_bytes_per_token(group, key.kv)
            if key.kv is KvDtype.FP8:
                growing += _COMPRESSED_SCALE_BYTES / a.ratio
            caches.append(LayerCache(CacheKind.FULL, group.count, growing, stretches=True))
        return caches
    if isinstance(a, LinearAttention):
        return [LayerCache(CacheKind.STATE, group.count, state_bytes=engine_state_bytes(a) / key.tp)]
    return []


def engine_state_bytes(a: LinearAttention) -> float:
    """State of one recurrent layer and sequence as vLLM stores it, unsharded.

    The convolution keeps kernel - 1 columns (bf16); `state_bytes_per_seq` counts all `conv_kernel` of them.
    """
    column = (2 * a.key_heads * a.key_dim + a.heads * a.value_dim) * _CONV_ELEMENT_BYTES
    if a.state_bytes_per_seq <= column * a.conv_kernel:
        return a.state_bytes_per_seq
    return a.state_bytes_per_seq - column


def _engine_view(cache: LayerCache, *, hybrid_manager: bool) -> LayerCache:
    """Without the hybrid manager a windowed layer gets pages for the whole context."""
    if cache.kind is CacheKind.WINDOW and (cache.chunked or not hybrid_manager):
        return LayerCache(CacheKind.FULL, cache.layers, cache.bytes_per_token)
    return cache


def _merge(caches: list[LayerCache]) -> tuple[LayerCache, ...]:
    counts: dict[LayerCache, int] = {}
    for c in caches:
        shape = c._replace(layers=0)
        counts[shape] = counts.get(shape, 0) + c.layers
    return tuple(shape._replace(layers=n) for shape, n in counts.items())


def _group(
    caches: tuple[LayerCache, ...], block_size: int, *, latent: bool
) -> tuple[tuple[CacheGroups, ...], float]:
    """Form block tables; return them with the bytes of one block.

    Full attention only: one table for all layers, whatever their widths. Otherwise layers of each type are cut
    into tables of g layers, g = layers of the rarest type, or of the most common one when that is less than 1.5
    times as many; the last table of a type is padded. All tables share one page size.
    """
    if not caches:
        return (), 0.0
    if all(c.kind is CacheKind.FULL for c in caches):
        layer_bytes = sum(c.layers * c.bytes_per_token for c in caches)
        return (CacheGroups(CacheKind.FULL, 1, block_size, 0),), block_size * layer_bytes
    smallest = min(c.layers for c in caches)
    largest = max(c.layers for c in caches)
    size = largest if largest < 1.5 * smallest else smallest
    state = max((c.state_bytes for c in caches), default=0.0)
    widest = max((c.bytes_per_token * c.block_part for c in caches), default=0.0)
    block = block_size
    if state > block * widest > 0.0:
        align = _ALIGN_TOKENS_LATENT if latent else _ALIGN_TOKENS
        block = math.ceil(state / (widest * align)) * align
    page = max(block * widest, state)
    groups = []
    for c in caches:
        tokens = block
        if c.kind is not CacheKind.STATE:
            covers = max(int(block * c.block_part), 1)
            ratio = page / (covers * c.bytes_per_token)
            # A narrower layer gets a longer block when the ratio is whole; otherwise its page is padded.
            whole = abs(ratio - round(ratio)) < 1e-9
            tokens = covers * (round(ratio) if whole else int(ratio) if c.stretches else 1)
        groups.append(CacheGroups(c.kind, math.ceil(c.layers / size), tokens, c.window))
    return tuple(groups), size * page
