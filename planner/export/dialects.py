"""Tested sets of versions. A dialect fixes what may be emitted; sets are never mixed.

Sources: llm-d release notes (v0.9.0) and llm-d-benchmark default values of 2026-08-21; the image components of the llm-d
guides; vLLM 0.26.0 and 0.33.0 source distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.errors import InputError, Issue, did_you_mean

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """``v0.33.0`` or ``0.33`` as numbers; anything after the digits is ignored."""
    numbers: list[int] = []
    for part in text.lstrip("vV").split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


class ImageVariant(StrEnum):
    """Which build of the engine image a deployment needs."""

    UPSTREAM = "upstream"  # vllm/vllm-openai
    LLM_D_CUDA = "llm-d-cuda"  # carries the NVSHMEM patch that RoCE needs
    EFA = "efa"
    ROCM = "rocm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Pinned image references of one dialect."""

    engine: dict[ImageVariant, str]
    sidecar: str
    router: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One tested set of versions and what they accept."""

    id: str
    title: str
    lws: Version
    gie: Version
    router: Version
    vllm: Version
    images: Images
    router_api: str  # apiVersion of EndpointPickerConfig
    objective_api: str  # apiVersion of InferenceObjective
    router_chart: str

    @property
    def group_identity(self) -> bool:
        """Whether the LeaderWorkerSet CRD knows `groupIdentity` (first in v0.11)."""
        return self.lws >= (0, 11)

    @property
    def slices(self) -> bool:
        """Whether DisaggregatedSet knows `slices` and `placementPolicy` (after v0.9.0)."""
        return self.lws >= (0, 10)

    @property
    def max_target_ports(self) -> int:
        """Entries `InferencePool.spec.targetPorts` may hold."""
        return 8 if self.gie >= (1, 3) else 1


_SIDECAR = "ghcr.io/llm-d/llm-d-router-disagg-sidecar"
_EPP = "ghcr.io/llm-d/llm-d-router-endpoint-picker"

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        id="llm-d-0.9-vllm-0.33",
        title="llm-d v0.9 router with LWS v0.11.1, GIE v1.6.0 and vLLM 0.33.0",
        lws=(0, 11, 1),
        gie=(1, 6, 0),
        router=(0, 10, 0),
        vllm=(0, 33, 0),
        images=Images(
            engine={
                ImageVariant.UPSTREAM: "docker.io/vllm/vllm-openai:v0.33.0",
                ImageVariant.ROCM: "docker.io/vllm/vllm-openai-rocm:v0.33.0",
            },
            sidecar=f"{_SIDECAR}:v0.10.0",
            router=f"{_EPP}:v0.10.0",
        ),
        router_api="llm-d.ai/v1alpha1",
        objective_api="llm-d.ai/v1alpha2",
        router_chart="v0.10.0",
    ),
    Dialect(
        id="llm-d-0.9",
        title="llm-d v0.9.0: LWS v0.10.0, GIE v1.5.0, router v0.10.0, vLLM 0.26.0",
        lws=(0, 10, 0),
        gie=(1, 5, 0),
        router=(0, 10, 0),
        vllm=(0, 26, 0),
        images=Images(
            engine={
                ImageVariant.UPSTREAM: "docker.io/vllm/vllm-openai:v0.26.0",
                ImageVariant.LLM_D_CUDA: "ghcr.io/llm-d/llm-d-cuda:v0.9.0",
                ImageVariant.EFA: "ghcr.io/llm-d/llm-d-aws:v0.9.0",
                ImageVariant.ROCM: "docker.io/vllm/vllm-openai-rocm:v0.26.0",
            },
            sidecar=f"{_SIDECAR}:v0.10.0",
            router=f"{_EPP}:v0.10.0",
        ),
        router_api="llm-d.ai/v1alpha1",
        objective_api="llm-d.ai/v1alpha2",
        router_chart="v0.10.0",
    ),
    Dialect(
        id="router-main",
        title="router after v0.10.0 (llm-d.ai/v1 configuration), LWS v0.11.1, GIE v1.6.0, vLLM 0.33.0",
        lws=(0, 11, 1),
        gie=(1, 6, 0),
        router=(0, 11, 0),
        vllm=(0, 33, 0),
        images=Images(
            engine={
                ImageVariant.UPSTREAM: "docker.io/vllm/vllm-openai:v0.33.0",
                ImageVariant.ROCM: "docker.io/vllm/vllm-openai-rocm:v0.33.0",
            },
            sidecar="",  # no release after v0.10.0 was seen: the user names the images
            router="",
        ),
        router_api="llm-d.ai/v1",
        objective_api="llm-d.ai/v1alpha2",
        router_chart="",
    ),
)
DEFAULT_DIALECT = DIALECTS[0].id


def find_dialect(name: str) -> Dialect:
    """The dialect called `name`. Raises InputError ``export.dialect_unknown``."""
    for dialect in DIALECTS:
        if dialect.id == name:
            return dialect
    known = [d.id for d in DIALECTS]
    raise InputError(
        Issue(
            code="export.dialect_unknown",
            what=f"dialect '{name}' is not known",
            why="a dialect is a tested set of LWS, GIE, router, vLLM and image versions; sets are not mixed",
            fix=f"{did_you_mean(name, known)} (known: {', '.join(known)})",
            where="--dialect",
        )
    )
