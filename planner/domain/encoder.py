"""Vision encoders that sit before a decoder, and what an image costs in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain.provenance import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderProfile:
    """A vision transformer over image patches, then a merger into the decoder's tokens.

    `attention`: width of queries, keys and values; `merged_patches`: patches that become one token; `outputs`: vectors of
    the decoder's width per token (the last layer's and any intermediate ones). `sources` has an entry for every figure.
    """

    id: str
    name: str
    models: tuple[str, ...]
    layers: int
    hidden: int
    attention: int
    intermediate: int
    patch_px: int
    merged_patches: int
    outputs: int
    sources: Mapping[str, Source]
    notes: str = ""

    def patches(self, width_px: int, height_px: int) -> int:
        """Patches of an image, each side rounded up to whole tokens."""
        side = self.patch_px * math.isqrt(self.merged_patches)
        return -(-width_px // side) * -(-height_px // side) * self.merged_patches

    def tokens(self, width_px: int, height_px: int) -> int:
        """Prompt tokens of an image."""
        return self.patches(width_px, height_px) // self.merged_patches

    def flops(self, width_px: int, height_px: int, *, decoder_hidden: int) -> float:
        """Floating-point operations for one image: projections, MLP, full attention over all patches, mergers."""
        n = self.patches(width_px, height_px)
        layer = 2.0 * n * (4.0 * self.hidden * self.attention + 2.0 * self.hidden * self.intermediate)
        core = 4.0 * n * n * self.attention  # scores and values
        wide = self.merged_patches * self.hidden
        merger = 2.0 * (n / self.merged_patches) * (wide * wide + wide * decoder_hidden) * self.outputs
        return self.layers * (layer + core) + merger

    def output_bytes(self, width_px: int, height_px: int, *, decoder_hidden: int) -> float:
        """Bytes of an image's embeddings in bf16."""
        return 2.0 * self.tokens(width_px, height_px) * decoder_hidden * self.outputs

    def weight_bytes(self, *, decoder_hidden: int) -> float:
        """Weights in bf16, patch embedding left out."""
        wide = self.merged_patches * self.hidden
        layer = 4.0 * self.hidden * self.attention + 2.0 * self.hidden * self.intermediate
        return 2.0 * (self.layers * layer + self.outputs * (wide * wide + wide * decoder_hidden))
