"""The scale subresource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.cluster.fake.resources import Resource
from console.cluster.fake.status import INVALID, Cause


def scale_of(res: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The Scale of an object."""
    assert res.scale is not None  # noqa: S101 - callers checked
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = dig(obj, res.scale.spec)
    status: dict[str, Any] = {"replicas": dig(obj, res.scale.status) or 0}
    if res.scale.selector is not None and (selector := dig(obj, res.scale.selector)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def dig(obj: Any, path: Sequence[str]) -> Any:
    """The value at a path of keys, None when absent."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj


def check_scale(obj: Mapping[str, Any], res: Resource) -> list[Cause]:
    """What is wrong with the replicas the scale subresource would show."""
    if res.scale is None:
        return []
    value = dig(obj, res.scale.spec)
    where = "." + ".".join(res.scale.spec)
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return [Cause(INVALID, where, f"Invalid value: {value}: should be a non-negative integer")]
    if value is not None and not isinstance(value, int):
        kind = {str: "string", float: "float64"}.get(type(value), "object")
        text = f"Invalid value: 0: {where} accessor error: {value} is of the type {kind}, expected int64"
        return [Cause(INVALID, where, text)]
    return []
