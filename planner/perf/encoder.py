"""Whether a vision encoder deserves GPUs of its own: closed form, unmeasured, with a wide interval.

Beside prefill, an image takes time on the rank that prefills its prompt, and in a lockstep group all ranks wait for the
one with most images. With `s` images per rank and step (Poisson), a step grows by E[max over R ranks] images instead of
`s`: the fewer images and the wider the group, the closer that comes to R times the work. On GPUs of its own, an image costs
its work only, a whole number of GPUs, and the transfer of its embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.domain.deployment import RolePlan
from planner.domain.dtypes import ComputeDtype
from planner.domain.encoder import EncoderProfile
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.domain.provenance import Estimate
from planner.perf.transfer import SETUP_MS, TCP_GBPS

EFFICIENCY: Final = Estimate(0.35, 0.15, 0.60)
"""Share of the dense bf16 peak that a small vision transformer reaches. A prior, not measured by us."""
UTILISATION: Final = 0.7  # of the GPUs counted, on either side; images and prompts queue beyond that


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """What comes in: `rate_per_s` requests, each with `per_request` images of one size."""

    rate_per_s: float
    per_request: float
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSizing:
    """Beside prefill against apart. Estimates are (value, low, high) over the efficiency prior.

    `wait_factor`: step time lost per image against the image's own work, 1 without lockstep. `beside_gpus`: GPUs the
    role needs more to stay as busy as before; `apart_gpus`: of a pool of its own. `beside_ms`, `apart_ms`: added to TTFT
    of a request, queueing left out.
    """

    tokens_per_image: int
    tflop_per_image: float
    image_ms: Estimate  # on one GPU
    images_per_rank_step: float
    wait_factor: float
    beside_share: Estimate  # of the role's step time
    beside_gpus: Estimate
    apart_gpus: Estimate
    beside_ms: Estimate
    apart_ms: Estimate
    transfer_ms: float
    weights_gib: float

    @property
    def pays(self) -> bool | None:
        """Whether a pool of its own takes fewer GPUs over the whole interval; None when it depends on the efficiency."""
        pairs = (
            (self.beside_gpus.value, self.apart_gpus.value),
            (self.beside_gpus.low, self.apart_gpus.low),
            (self.beside_gpus.high, self.apart_gpus.high),
        )
        wins = [apart < beside for beside, apart in pairs]
        return wins[0] if all(wins) or not any(wins) else None


def expected_maximum(ranks: int, mean: float) -> float:
    """Mean of the largest of `ranks` independent Poisson counts with mean `mean` each."""
    if mean <= 0.0:
        return 0.0
    top = int(mean + 12.0 * math.sqrt(mean) + 24.0)
    n = np.arange(top + 1)
    log_p = n * math.log(mean) - mean - np.array([math.lgamma(k + 1.0) for k in n])
    below = np.minimum(np.cumsum(np.exp(log_p)), 1.0)
    return float((1.0 - below**ranks).sum())


def size_encoder(
    encoder: EncoderProfile,
    images: Images,
    *,
    role: RolePlan,
    gpu: GpuProfile,
    encoder_gpu: GpuProfile,
    fabric: FabricProfile,
    step_ms: float,
    decoder_hidden: int,
    lockstep: bool,
) -> EncoderSizing:
    """Compare the encoder inside `role` (prefill, or the aggregated one) with a pool of `encoder_gpu`.

    `step_ms`: of the role at the planned load. Beside prefill, a rank's GPUs share an image perfectly (optimistic for that
    side); on its own, an image runs on one GPU, and a request's images run beside each other.
    """
    w, h = images.width_px, images.height_px
    work = encoder.flops(w, h, decoder_hidden=decoder_hidden)

    def image_ms(part: GpuProfile, efficiency: float) -> float:
        return work / (part.peak(ComputeDtype.BF16) * 1e12 * efficiency) * 1e3

    p = role.parallelism
    ranks = p.dp if lockstep else 1
    per_rank = images.rate_per_s * images.per_request / (role.groups * p.dp)
    s = per_rank * step_ms * 1e-3
    wait = expected_maximum(ranks, s) / s if s > 0.0 else 1.0

    def over(function: Callable[[float], float]) -> Estimate:
        return Estimate(function(EFFICIENCY.value), function(EFFICIENCY.high), function(EFFICIENCY.low))

    def share(e: float) -> float:
        return wait * s * image_ms(gpu, e) / p.tp / step_ms

    def pool(e: float) -> float:
        busy = images.rate_per_s * images.per_request * image_ms(encoder_gpu, e) * 1e-3
        return float(math.ceil(busy / UTILISATION - 1e-9))

    gbps = fabric.effective_gbps if fabric.rdma else TCP_GBPS
    out_bytes = encoder.output_bytes(w, h, decoder_hidden=decoder_hidden) * images.per_request
    transfer_ms = SETUP_MS + out_bytes / gbps / 1e6

    def apart_ms(e: float) -> float:
        rounds = math.ceil(images.per_request / max(pool(e), 1.0))
        return rounds * image_ms(encoder_gpu, e) + transfer_ms

    return EncoderSizing(
        tokens_per_image=encoder.tokens(w, h),
        tflop_per_image=work / 1e12,
        image_ms=over(lambda e: image_ms(encoder_gpu, e)),
        images_per_rank_step=s,
        wait_factor=wait,
        beside_share=over(share),
        beside_gpus=over(lambda e: share(e) * role.gpus / UTILISATION),
        apart_gpus=over(pool),
        beside_ms=over(lambda e: images.per_request * image_ms(gpu, e) / p.tp),
        apart_ms=over(apart_ms),
        transfer_ms=transfer_ms,
        weights_gib=encoder.weight_bytes(decoder_hidden=decoder_hidden) / 2**30,
    )
