"""What a caller may choose about an export, and the hardware values it has to pass in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.hardware import FabricProfile, GpuProfile, NodeShape


class Target(StrEnum):
    """Export formats."""

    LLM_D = "llm-d"
    KUSTOMIZE = "kustomize"
    HELM_VALUES = "helm-values"
    KSERVE = "kserve"
    DYNAMO = "dynamo"
    COMPOSE = "compose"


class SourceKind(StrEnum):
    """Where the engine reads the checkpoint from."""

    HUB = "hub"
    PVC = "pvc"
    OCI = "oci"


class RouterForm(StrEnum):
    """How the router is written: as plain objects, not at all (Helm installs it), or left out with its pool."""

    RAW = "raw"
    HELM = "helm"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Checkpoint source: the Secret's name for `hub`, the claim and path for `pvc`, the artifact for `oci`."""

    kind: SourceKind = SourceKind.HUB
    secret: str = "llm-d-hf-token"  # noqa: S105 - names, not values
    secret_key: str = "HF_TOKEN"  # noqa: S105
    claim: str = "model-pvc"
    path: str = ""  # of the model folder inside the volume
    reference: str = ""

    @property
    def mount_path(self) -> str:
        """Folder in the container that holds a mounted checkpoint."""
        return "/models"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOverrides:
    """Image references that replace the dialect's."""

    engine: str | None = None
    sidecar: str | None = None
    router: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Everything that is not in the plan.

    `spare_groups` asserts that GPUs for one more group are free, so a rollout may surge. `startup_minutes` bounds
    weight loading and graph capture; None derives it from the checkpoint's size. `created_by` names the program version.
    """

    target: Target = Target.LLM_D
    dialect: str | None = None  # None: the newest dialect that has the images this plan needs
    provider: str | None = None  # None: from the node profile
    namespace: str | None = None
    name: str | None = None  # None: from the plan
    model_source: ModelSource = field(default_factory=ModelSource)
    images: ImageOverrides = field(default_factory=ImageOverrides)
    router: RouterForm = RouterForm.RAW
    disaggregated_set: bool = True  # False: two LeaderWorkerSets, for clusters with LWS before 0.9
    gateway: str | None = None  # name of an existing Gateway; None writes no HTTPRoute
    gateway_namespace: str | None = None
    istio: bool = False  # the Gateway is Istio: it needs a DestinationRule to reach the router over TLS
    monitoring: bool = False  # PodMonitors need the Prometheus operator
    objectives: Mapping[str, int] = field(default_factory=dict)  # InferenceObjective name -> priority
    spare_groups: bool = False
    startup_minutes: int | None = None
    created_by: str = "wideplan"
    prediction: str | None = None  # one line for the comments


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleHardware:
    """The profiles of one role's nodes."""

    gpu: GpuProfile
    node: NodeShape
    fabric: FabricProfile
