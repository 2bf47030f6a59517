"""Kinds the server offers: from CustomResourceDefinitions, and a table of built-ins.

A built-in has no schema: its fields are taken as they come, lists that Kubernetes merges by key are merged by key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CRD_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column. `path` is a JSONPath below the object."""

    name: str
    type: str
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Paths of the scale subresource, as lists of keys."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind at one version. `schema` None = a built-in."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    schema: Schema | None = None
    status: bool = True
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    storage: str = ""  # version objects are stored and owned in
    list_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merge_name: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or the version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """Kind of a list."""
        return f"{self.kind}List"

    @property
    def custom(self) -> bool:
        """Whether it comes from a CRD."""
        return self.schema is not None

    @property
    def storage_hash(self) -> str:
        """Opaque hash of discovery."""
        text = f"{self.group}/{self.storage or self.version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()

    @property
    def has_rules(self) -> bool:
        """Whether any CEL rule stands in the schema."""
        return self.schema is not None and _has_rules(self.schema)


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return "x-kubernetes-validations" in schema or any(_has_rules(v) for v in schema.values())
    return isinstance(schema, list) and any(_has_rules(v) for v in schema)


def from_crd(crd: Mapping[str, Any]) -> tuple[Resource, ...]:
    """The served versions of a CustomResourceDefinition."""
    spec, names = crd["spec"], crd["spec"]["names"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), spec["versions"][0]["name"])
    out = []
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        columns = tuple(
            Column(
                name=c["name"],
                type=c["type"],
                path=c["jsonPath"],
                description=c.get("description")
                or f"Custom resource definition column (in JSONPath format): {c['jsonPath']}",
                format=c.get("format", ""),
                priority=c.get("priority", 0),
            )
            for c in version.get("additionalPrinterColumns") or ()
        )
        out.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                singular=names.get("singular") or names["kind"].lower(),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"},
                status="status" in subresources,
                scale=Scale(
                    _path(scale["specReplicasPath"]),
                    _path(scale["statusReplicasPath"]),
                    _path(scale["labelSelectorPath"]) if scale.get("labelSelectorPath") else None,
                )
                if scale
                else None,
                columns=columns or (AGE,),
                storage=storage,
            )
        )
    return tuple(out)


def _path(text: str) -> tuple[str, ...]:
    return tuple(p for p in text.split(".") if p)


AGE = Column(
    "Age",
    "date",
    ".metadata.creationTimestamp",
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be "
    "set in happens-before order across separate operations.",
)
_NAMED = ("name",)
LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": _NAMED, "initContainers": _NAMED, "env": _NAMED, "volumes": _NAMED, "volumeMounts": ("mountPath",),
    "imagePullSecrets": _NAMED, "resourceClaims": _NAMED, "conditions": ("type",), "secrets": _NAMED,
    "containerStatuses": _NAMED,
}  # fmt: skip


def _builtin(
    plural: str, kind: str, *short: str, group: str = "", columns: Sequence[Column] = (), **more: Any
) -> Resource:
    return Resource(
        group=group,
        version=more.pop("version", "v1"),
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        short_names=short,
        columns=(*columns, AGE),
        list_keys=LIST_KEYS,
        **more,
    )


BUILTINS: tuple[Resource, ...] = (
    _builtin("namespaces", "Namespace", "ns", namespaced=False,
             columns=(Column("Status", "string", ".status.phase"),)),
    _builtin("nodes", "Node", "no", namespaced=False),
    _builtin("pods", "Pod", "po", columns=(
        Column("Status", "string", ".status.phase"),
        Column("IP", "string", ".status.podIP", priority=1),
        Column("Node", "string", ".spec.nodeName", priority=1),
    ), categories=("all",)),
    _builtin("services", "Service", "svc", columns=(Column("Type", "string", ".spec.type"),), categories=("all",)),
    _builtin("serviceaccounts", "ServiceAccount", "sa", status=False),
    _builtin("configmaps", "ConfigMap", "cm", status=False),
    _builtin("persistentvolumeclaims", "PersistentVolumeClaim", "pvc"),
    _builtin("events", "Event", "ev", status=False, columns=(
        Column("Last Seen", "date", ".lastTimestamp"),
        Column("Type", "string", ".type"),
        Column("Reason", "string", ".reason"),
        Column("Message", "string", ".message"),
    )),
    _builtin("deployments", "Deployment", "deploy", group="apps", scale=Scale(
        ("spec", "replicas"), ("status", "replicas"), None
    ), columns=(Column("Ready", "integer", ".status.readyReplicas"),), categories=("all",)),
    _builtin("statefulsets", "StatefulSet", "sts", group="apps", categories=("all",)),
    _builtin("roles", "Role", group="rbac.authorization.k8s.io", status=False),
    _builtin("rolebindings", "RoleBinding", group="rbac.authorization.k8s.io", status=False),
    _builtin("clusterroles", "ClusterRole", group="rbac.authorization.k8s.io", status=False, namespaced=False),
    _builtin("clusterrolebindings", "ClusterRoleBinding", group="rbac.authorization.k8s.io", status=False,
             namespaced=False),
    _builtin("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", group="autoscaling", version="v2"),
)  # fmt: skip
CRDS = Resource(
    group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions",
    kind="CustomResourceDefinition", singular="customresourcedefinition", short_names=("crd", "crds"),
    categories=("api-extensions",), namespaced=False, columns=(AGE,),
)  # fmt: skip
# Kinds of other projects that the demo cluster needs when no CRD is given: their names, and no schema.
PLAIN_SERVING: tuple[Resource, ...] = (
    _builtin("leaderworkersets", "LeaderWorkerSet", "lws", group="leaderworkerset.x-k8s.io", columns=(
        Column("Ready", "integer", ".status.readyReplicas"),
        Column("Desired", "integer", ".spec.replicas"),
    )),
    _builtin("disaggregatedsets", "DisaggregatedSet", group="disaggregatedset.x-k8s.io"),
    _builtin("disaggregatedsetrolescalers", "DisaggregatedSetRoleScaler", "dsrs", group="disaggregatedset.x-k8s.io"),
    _builtin("inferencepools", "InferencePool", "infpool", group="inference.networking.k8s.io"),
    _builtin("gateways", "Gateway", "gtw", group="gateway.networking.k8s.io"),
    _builtin("httproutes", "HTTPRoute", group="gateway.networking.k8s.io"),
    _builtin("podmonitors", "PodMonitor", "pmon", group="monitoring.coreos.com", status=False),
    _builtin("inferenceobjectives", "InferenceObjective", group="llm-d.ai", version="v1alpha2"),
    _builtin("resourceclaimtemplates", "ResourceClaimTemplate", group="resource.k8s.io", status=False),
    _builtin("computedomains", "ComputeDomain", group="resource.nvidia.com", version="v1beta1"),
)  # fmt: skip
