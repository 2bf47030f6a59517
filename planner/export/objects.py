"""Typed Kubernetes objects: the parts of the API that we emit, and one conversion to plain data.

Field names are snake_case here and camelCase on the wire; `wire` in the field metadata overrides the spelling.
A field that is None, or an empty tuple or mapping, is left out; an empty *object* (``emptyDir: {}``) is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache

from planner.export.yaml import Plain


@cache
def _wire_names(kind: type) -> tuple[tuple[str, str], ...]:
    def camel(name: str) -> str:
        head, *rest = name.rstrip("_").split("_")
        return head + "".join(part.capitalize() for part in rest)

    return tuple((f.name, f.metadata.get("wire") or camel(f.name)) for f in fields(kind))


def to_plain(value: object) -> Plain:
    """`value` as JSON-like data. Raises TypeError for anything that is not part of a manifest."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return to_plain(value.value)
    if isinstance(value, str):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Plain] = {}
        for attribute, name in _wire_names(type(value)):
            item = getattr(value, attribute)
            if item is None or (isinstance(item, tuple | list | Mapping) and not item):
                continue
            out[name] = to_plain(item)
        return out
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [to_plain(v) for v in value]
    msg = f"{type(value).__name__} cannot be written to a manifest"
    raise TypeError(msg)


# --- pods ---


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRef:
    """Downward API path."""

    field_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKeyRef:
    """Key of a Secret; the Secret itself is never written."""

    name: str
    key: str
    optional: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSource:
    """Where the value of a variable comes from."""

    field_ref: FieldRef | None = None
    secret_key_ref: SecretKeyRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """One environment variable."""

    name: str
    value: str | None = None
    value_from: EnvSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    """A listening port; names are at most 15 characters."""

    container_port: int
    name: str
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGet:
    """HTTP probe handler."""

    path: str
    port: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcAction:
    """gRPC probe handler."""

    port: int
    service: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Startup, liveness or readiness probe; times in seconds."""

    http_get: HttpGet | None = None
    grpc: GrpcAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int
    timeout_seconds: int = 5
    failure_threshold: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaimRef:
    """A container's use of a pod-level claim."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests, limits and claims; quantities are strings."""

    limits: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[ResourceClaimRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Linux capabilities to add or drop."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """Container security settings."""

    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """Where a volume appears in a container."""

    name: str
    mount_path: str
    read_only: bool | None = None
    sub_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDir:
    """Scratch volume, optionally in memory."""

    medium: str | None = None
    size_limit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    """Folder of the node."""

    path: str
    type: str = "DirectoryOrCreate"


@dataclass(frozen=True, slots=True, kw_only=True)
class PvcSource:
    """An existing PersistentVolumeClaim."""

    claim_name: str
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """An OCI artifact mounted read-only (Kubernetes 1.33 and later)."""

    reference: str
    pull_policy: str = "IfNotPresent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapSource:
    """Files from a ConfigMap."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume with exactly one source."""

    name: str
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: PvcSource | None = None
    image: ImageSource | None = None
    config_map: ConfigMapSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container or init container; `restart_policy: Always` makes an init container a native sidecar."""

    name: str
    image: str
    image_pull_policy: str = "IfNotPresent"
    restart_policy: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    resources: Resources | None = None
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Taint that is accepted."""

    key: str
    operator: str = "Exists"
    effect: str | None = "NoSchedule"
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchExpression:
    """Set-based selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Expressions that must all hold."""

    match_expressions: tuple[MatchExpression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelector:
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    """Which nodes a pod may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Label selector."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[MatchExpression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityTerm:
    """Pods to be near, by topology key."""

    topology_key: str
    label_selector: LabelSelector


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPodAffinityTerm:
    """Preference with weight 1..100."""

    weight: int
    pod_affinity_term: PodAffinityTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinity:
    """Required and preferred closeness."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Placement of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResourceClaim:
    """Claim made from a template for each pod."""

    name: str
    resource_claim_template_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What runs in a pod and where."""

    service_account_name: str | None = None
    scheduler_name: str | None = None
    host_ipc: bool | None = field(default=None, metadata={"wire": "hostIPC"})
    host_pid: bool | None = field(default=None, metadata={"wire": "hostPID"})
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateMeta:
    """Labels and annotations of generated objects."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """Pod template."""

    metadata: TemplateMeta
    spec: PodSpec


# --- top level ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Identity of an object. `namespace` None leaves the choice to kubectl."""

    name: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One Kubernetes object: identity, and its top-level fields in the order they are written.

    `comments` stand above the document in the stream; they never carry meaning.
    """

    api_version: str
    kind: str
    metadata: ObjectMeta
    body: Mapping[str, object] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    def plain(self) -> dict[str, Plain]:
        """The object as JSON-like data, as it goes on the wire."""
        head: dict[str, object] = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata,
        }
        return {k: to_plain(v) for k, v in {**head, **self.body}.items()}

    @property
    def file_name(self) -> str:
        """Name for a folder export, unique per kind and name."""
        return f"{self.kind.lower()}-{self.metadata.name}.yaml"
