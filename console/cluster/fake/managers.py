"""Who owns which field: managedFields, server-side apply with conflicts, and updates that take fields over."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.cluster.fake import fields as f
from console.cluster.fake.fields import Path, Shape
from console.cluster.fake.status import Cause, StatusError

# Fields nobody owns.
_UNOWNED = ("apiVersion", "kind")
_UNOWNED_META = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
                 "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str = ""

    def shown(self) -> str:
        """As conflicts name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f" with subresource {self.subresource!r}".replace("'", '"')
        return text if self.operation == "Apply" else f"{text} using {self.api_version}"


@dataclass(slots=True)
class Owned:
    """Member paths and the time of the last change."""

    paths: set[Path]
    time: str


Managers = dict[Manager, Owned]


def read(entries: Any) -> Managers:
    """From ``metadata.managedFields``."""
    return {
        Manager(
            e.get("manager", ""), e["operation"], e.get("apiVersion", ""), e.get("subresource", "")
        ): Owned(set(f.members(e.get("fieldsV1") or {})), e.get("time", ""))
        for e in entries or ()
    }


def write(managers: Managers) -> list[dict[str, Any]]:
    """As ``metadata.managedFields``: applies first, then by time and name."""
    order = sorted(
        managers.items(), key=lambda i: (i[0].operation != "Apply", i[1].time, i[0].name, i[0].subresource)
    )
    out = []
    for manager, owned in order:
        if not owned.paths:
            continue
        entry: dict[str, Any] = {
            "apiVersion": manager.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": f.from_members(owned.paths),
            "manager": manager.name,
            "operation": manager.operation,
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        out.append(entry | {"time": owned.time})
    return out


def ownable(obj: Mapping[str, Any]) -> dict[str, Any]:
    """`obj` without what nobody owns."""
    out = {k: v for k, v in obj.items() if k not in _UNOWNED}
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _UNOWNED_META}
    out.pop("metadata", None)
    return ({"metadata": meta} if meta else {}) | out


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Result of an apply or update, before defaults."""

    object: dict[str, Any]
    managers: Managers


def _object_shape(shape: Shape) -> Shape:
    """Shape of the whole object: metadata merges by its own rules."""
    if shape.schema is None:
        return shape
    properties = dict(shape.schema.get("properties") or {})
    properties["metadata"] = META_SCHEMA
    return Shape({**shape.schema, "properties": properties}, shape.names)


META_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
    "x-kubernetes-preserve-unknown-fields": True,
}


def apply(
    live: dict[str, Any] | None,
    config: dict[str, Any],
    *,
    managers: Managers,
    by: Manager,
    shape: Shape,
    force: bool,
    now: str,
) -> Applied:
    """Server-side apply of `config` over `live`. Raises the 409 of conflicting fields unless `force`."""
    shape = _object_shape(shape)
    wanted, held = ownable(config), ownable(live or {})
    mine = set(f.members(f.owned(wanted, shape)))
    merged = f.merge(held, copy.deepcopy(wanted), shape)
    last = managers[by].paths if by in managers else set()
    others = {m: o for m, o in managers.items() if m != by}
    kept = set().union(*(o.paths for o in others.values())) if others else set()
    # A field that others hold something under stays: they would lose their own otherwise.
    inner = {p[:i] for p in kept for i in range(1, len(p))}
    dropped = {p for p in last - mine if p not in kept and p not in inner}
    pruned = f.remove(merged, dropped, shape) or {}
    difference = f.compare(held, pruned, shape)
    changed = set(f.members(difference.changed))
    conflicts = {m: sorted(o.paths & changed) for m, o in others.items() if o.paths & changed}
    if conflicts and not force:
        raise _conflict(conflicts)
    out: Managers = {}
    gone = set(f.members(difference.removed))
    for manager, owned in others.items():
        lost = (set(conflicts.get(manager, ()))) | gone
        left = owned.paths - lost
        out[manager] = Owned(left, now if left != owned.paths else owned.time)
    time = managers[by].time if by in managers and managers[by].paths == mine else now
    out[by] = Owned(mine, time)
    return Applied(object=_with_identity(pruned, live or config), managers=out)


def _conflict(conflicts: dict[Manager, list[Path]]) -> StatusError:
    causes = [
        Cause("FieldManagerConflict", f.path_text(path), f"conflict with {manager.shown()}")
        for manager, paths in sorted(conflicts.items())
        for path in paths
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(
            f"conflicts with {manager.shown()}:\n" + "\n".join(f"- {f.path_text(p)}" for p in paths)
            for manager, paths in sorted(conflicts.items())
        )
    return StatusError(409, "Conflict", text, details={}, causes=causes)


def _with_identity(part: dict[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    meta = {k: v for k, v in (source.get("metadata") or {}).items() if k in _UNOWNED_META}
    out = {k: source[k] for k in _UNOWNED if k in source}
    return out | {**part, "metadata": meta | (part.get("metadata") or {})}


def update(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    managers: Managers,
    by: Manager,
    shape: Shape,
    now: str,
) -> Managers:
    """Owners after `new` replaced `live`: the writer takes what it changed, everybody loses what is gone."""
    shape = _object_shape(shape)
    # An object always has metadata: only what stands in it is owned.
    bare: dict[str, Any] = {"metadata": {}}
    difference = f.compare(bare | ownable(live or {}), bare | ownable(new), shape)
    changed, gone = set(f.members(difference.changed)), set(f.members(difference.removed))
    out: Managers = {}
    for manager, owned in managers.items():
        lost = gone if manager == by else gone | changed
        left = owned.paths - lost
        out[manager] = Owned(left, now if left != owned.paths else owned.time)
    before = out[by].paths if by in out else set()
    mine = before | changed
    if mine:
        same = by in managers and managers[by].paths == mine and not changed
        out[by] = Owned(mine, managers[by].time if same else now)
    return out
