"""What we keep of each Kubernetes object: small frozen views, made once at the edge.

Environment variables, managed fields and most annotations are never kept. `created` and other times are RFC 3339 text as
the server wrote it. `uid` tells a re-created object from a changed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Identity of an object. `namespace` is empty for cluster-scoped kinds."""

    name: str
    namespace: str = ""
    uid: str = ""
    created: str = ""
    generation: int = 0
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""  # Kind/name of the controller

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One status condition; `of` names the parent that reports it (a Gateway), when there are several."""

    type: str
    status: str  # True, False or Unknown
    reason: str = ""
    message: str = ""
    of: str = ""

    @property
    def holds(self) -> bool:
        """Whether the status is True."""
        return self.status == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """One container of a pod. `command` holds command and args with secrets removed."""

    name: str
    image: str
    init: bool = False
    ready: bool = False
    started: bool = False
    restarts: int = 0
    waiting: str = ""  # reason, e.g. ImagePullBackOff
    waiting_message: str = ""
    exit_code: int | None = None  # of the last termination
    exit_reason: str = ""
    command: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod. `gpus` and `rdma` are requested amounts of extended resources."""

    meta: Meta
    phase: str
    node: str = ""
    ip: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    unschedulable: str = ""  # the scheduler's text, empty when scheduled
    gpus: int = 0
    rdma: Mapping[str, int] = field(default_factory=dict)
    containers: tuple[ContainerView, ...] = ()
    active_ports: tuple[int, ...] = ()  # of the llm-d.ai/active-ports annotation
    group_size: int | None = None  # of the LeaderWorkerSet annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. Resource amounts are allocatable; memory in GiB."""

    meta: Meta
    ready: bool
    unschedulable: bool = False
    pressure: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    cpu: float = 0.0
    memory_gib: float = 0.0
    ephemeral_gib: float = 0.0
    extended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetView:
    """A LeaderWorkerSet. `replicas` counts groups, `size` pods per group; ready and updated count groups."""

    meta: Meta
    replicas: int
    size: int
    restart_policy: str = ""
    startup_policy: str = ""
    status_replicas: int = 0
    ready: int = 0
    updated: int = 0
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRole:
    """One role of a DisaggregatedSet, wanted and observed; None when the status does not list it."""

    name: str
    replicas: int
    size: int
    scaling: str = "Static"
    status_replicas: int | None = None
    ready: int | None = None
    updated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedSetView:
    """A DisaggregatedSet; replicas of a role are per slice."""

    meta: Meta
    slices: int
    roles: tuple[SetRole, ...]
    placement: str = "None"
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleScalerView:
    """A DisaggregatedSetRoleScaler."""

    meta: Meta
    replicas: int
    status_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """An InferencePool: which pods, which ports, which endpoint picker."""

    meta: Meta
    selector: Mapping[str, str]
    target_ports: tuple[int, ...]
    picker: str = ""
    picker_port: int | None = None
    failure_mode: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """A Gateway."""

    meta: Meta
    gateway_class: str = ""
    addresses: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """An HTTPRoute: its parents and the backends it names as ``Kind/name``."""

    meta: Meta
    parents: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """A Deployment: engines of a single-pod plan, or the endpoint picker (`picker_for` names its pool)."""

    meta: Meta
    replicas: int
    ready: int = 0
    updated: int = 0
    available: int = 0
    observed_generation: int | None = None
    images: tuple[str, ...] = ()
    picker_for: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfigView:
    """A ConfigMap that holds an EndpointPickerConfig: a digest of its text and what it switches on."""

    meta: Meta
    digest: str  # first 12 hex digits of sha256
    plugins: tuple[str, ...] = ()
    flow_control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """A Kubernetes event about one object."""

    meta: Meta
    type: str
    reason: str
    message: str
    count: int
    last: str
    about_kind: str
    about_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedWorkloadView:
    """A Kueue Workload."""

    meta: Meta
    queue: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerView:
    """A HorizontalPodAutoscaler or a KEDA ScaledObject; None where the object does not say."""

    meta: Meta
    target: str  # Kind/name
    minimum: int | None = None
    maximum: int | None = None
    current: int | None = None
    desired: int | None = None
    conditions: tuple[Condition, ...] = ()


View = (
    PodView
    | NodeView
    | GroupSetView
    | DisaggregatedSetView
    | RoleScalerView
    | PoolView
    | GatewayView
    | RouteView
    | DeploymentView
    | RouterConfigView
    | EventView
    | QueuedWorkloadView
    | AutoscalerView
)
