"""The least that may be granted: get, list and watch of what is shown, and ``get`` of ``pods/proxy`` for metrics.

No secrets, no exec, no ``nodes/proxy`` (its GET was a way to run code on nodes).
"""

from __future__ import annotations

from typing import Any, Final

from console.cluster.kinds import KINDS
from planner.domain.errors import InputError, Issue, did_you_mean

NAME: Final = "wideplan-reader"
_READ: Final = ["get", "list", "watch"]
_RBAC: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("User", "Group", "ServiceAccount")


def role_manifests(*, namespace: str, subject: str | None = None) -> list[dict[str, Any]]:
    """Role and ClusterRole, with bindings when `subject` (``Kind:name``) is given. Raises ``cluster.subject_invalid``."""
    groups: dict[str, list[str]] = {}
    cluster: list[str] = []
    for info in KINDS.values():
        if info.namespaced:
            groups.setdefault(info.group, []).append(info.kind.value)
        else:
            cluster.append(info.kind.value)
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(_READ)}
        for group, resources in sorted(groups.items())
    ]
    rules.append({"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]})
    nodes = [{"apiGroups": [""], "resources": sorted(cluster), "verbs": list(_READ)}]
    out: list[dict[str, Any]] = [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": namespace},
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"{NAME}-nodes"},
            "rules": nodes,
        },
    ]
    if subject is None:
        return out
    who = _subject(subject, namespace)
    for kind, ref, name, meta in (
        ("RoleBinding", "Role", NAME, {"name": NAME, "namespace": namespace}),
        ("ClusterRoleBinding", "ClusterRole", f"{NAME}-nodes", {"name": f"{NAME}-nodes"}),
    ):
        role = {"apiGroup": _RBAC, "kind": ref, "name": name}
        out.append(
            {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": [who]}
        )
    return out


def _subject(text: str, namespace: str) -> dict[str, str]:
    kind, colon, name = text.partition(":")
    if kind not in _SUBJECTS or not colon or not name:
        raise InputError(
            Issue(
                code="cluster.subject_invalid",
                what=f"subject '{text}'",
                why="a subject is written as Kind:name",
                fix=f"{did_you_mean(kind, _SUBJECTS)} e.g. User:alice",
                where="--subject",
            )
        )
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"apiGroup": _RBAC, "kind": kind, "name": name}
