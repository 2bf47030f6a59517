"""Plan against cluster: each manifest by server-side dry-run, and the plan's engine flags against running engines.

The left side is what the server would make of our manifest (defaults filled, fields of others kept), so that only what we
set can differ. Where dry-run is refused, our fields are compared with the live object as they are, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.cluster.api import Api, ApiError
from console.cluster.discovery import ResourceNames
from planner.export.values import Json, Table, dig, quantity, table

MANAGER: Final = "wideplan"
_IGNORED_META: Final = (
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
)
_IGNORED_ANNOTATIONS: Final = ("wideplan/created-by", "kubectl.kubernetes.io/last-applied-configuration",
                               "deployment.kubernetes.io/revision")  # fmt: skip
_KEYS: Final = ("name", "containerPort", "mountPath", "number", "key", "type", "port")


class ObjectState(StrEnum):
    """How an object of the plan relates to the cluster."""

    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"
    NOT_SERVED = "kind not installed"
    DENIED = "not readable"
    REFUSED = "refused by the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field: `live` in the cluster, `planned` in the plan. Text; None = absent."""

    path: str
    live: str | None
    planned: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDrift:
    """One object of the plan."""

    kind: str
    name: str
    state: ObjectState
    changes: tuple[FieldChange, ...] = ()
    why: str = ""
    by_dry_run: bool = True


async def object_drift(
    api: Api, manifests: Sequence[Table], *, namespace: str, names: ResourceNames
) -> tuple[ObjectDrift, ...]:
    """Compare every manifest. Raises ApiError when the server cannot be reached at all."""
    return tuple([await _compare(api, m, namespace=namespace, names=names) for m in manifests])


async def _compare(api: Api, manifest: Table, *, namespace: str, names: ResourceNames) -> ObjectDrift:
    kind, name = str(manifest["kind"]), str(dig(manifest, "metadata", "name"))
    space = str(dig(manifest, "metadata", "namespace") or namespace)
    path = names.path(str(manifest["apiVersion"]), kind, space)
    if path is None:
        return ObjectDrift(
            kind=kind, name=name, state=ObjectState.NOT_SERVED, why=str(manifest["apiVersion"])
        )
    path = f"{path}/{name}"
    try:
        live = await api.get(path)
    except ApiError as error:
        if error.status == 404:
            return await _missing(api, path, manifest)
        if error.denied:
            return ObjectDrift(kind=kind, name=name, state=ObjectState.DENIED, why=error.message)
        raise
    try:
        wanted = await api.dry_run_apply(path, manifest, manager=MANAGER)
    except ApiError as error:
        if error.status in (403, 405, 415):
            changes = tuple(subset_changes(manifest, live))
            state = ObjectState.CHANGED if changes else ObjectState.SAME
            why = "dry-run is not allowed; server defaults are not considered"
            return ObjectDrift(kind=kind, name=name, state=state, changes=changes, why=why, by_dry_run=False)
        if error.status in (400, 409, 422, 500):
            return ObjectDrift(kind=kind, name=name, state=ObjectState.REFUSED, why=error.message)
        raise
    changes = tuple(changes_between(_clean(live), _clean(wanted)))
    return ObjectDrift(
        kind=kind, name=name, state=ObjectState.CHANGED if changes else ObjectState.SAME, changes=changes
    )


async def _missing(api: Api, path: str, manifest: Table) -> ObjectDrift:
    """An object that is not there yet: would the server take it?"""
    kind, name = str(manifest["kind"]), str(dig(manifest, "metadata", "name"))
    try:
        await api.dry_run_apply(path, manifest, manager=MANAGER)
    except ApiError as error:
        if error.status in (403, 405, 415):
            why = "dry-run is not allowed; whether the server takes it is not known"
            return ObjectDrift(kind=kind, name=name, state=ObjectState.MISSING, why=why, by_dry_run=False)
        if error.status in (400, 404, 409, 422, 500):
            return ObjectDrift(kind=kind, name=name, state=ObjectState.REFUSED, why=error.message)
        raise
    return ObjectDrift(kind=kind, name=name, state=ObjectState.MISSING)


def _clean(obj: Json) -> Table:
    meta = {k: v for k, v in table(dig(obj, "metadata")).items() if k not in _IGNORED_META}
    annotations = {k: v for k, v in table(meta.get("annotations")).items() if k not in _IGNORED_ANNOTATIONS}
    meta["annotations"] = annotations
    return {k: v for k, v in table(obj).items() if k != "status"} | {"metadata": meta}


def changes_between(live: Json, wanted: Json, path: str = "") -> Iterator[FieldChange]:
    """Every difference; list items are matched by name, port or key where they have one."""
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*live, *wanted}, key=str):
            yield from changes_between(live.get(key), wanted.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(live, list) and isinstance(wanted, list) and (key := _item_key([*live, *wanted])):
        before = {str(table(i)[key]): i for i in live}
        after = {str(table(i)[key]): i for i in wanted}
        for name in dict.fromkeys([*before, *after]):
            yield from changes_between(before.get(name), after.get(name), f"{path}[{name}]")
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for i, (a, b) in enumerate(zip(live, wanted, strict=True)):
            yield from changes_between(a, b, f"{path}[{i}]")
    elif not _equal(live, wanted):
        yield FieldChange(path=path, live=_text(live), planned=_text(wanted))


def subset_changes(wanted: Json, live: Json, path: str = "") -> Iterator[FieldChange]:
    """Differences in what `wanted` sets; what it leaves out is not compared."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key, value in wanted.items():
            if path == "metadata.annotations" and key in _IGNORED_ANNOTATIONS:
                continue
            yield from subset_changes(value, live.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(live, list) and isinstance(wanted, list) and (key := _item_key([*live, *wanted])):
        held = {str(table(i)[key]): i for i in live}
        for item in wanted:
            name = str(table(item)[key])
            yield from subset_changes(item, held.get(name), f"{path}[{name}]")
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for i, (a, b) in enumerate(zip(wanted, live, strict=True)):
            yield from subset_changes(a, b, f"{path}[{i}]")
    elif not _equal(live, wanted):
        yield FieldChange(path=path, live=_text(live), planned=_text(wanted))


def _item_key(items: Sequence[Json]) -> str | None:
    """The field that names every item of a list, if there is one."""
    for key in _KEYS:
        if items and all(isinstance(table(i).get(key), str | int) for i in items):
            values = [table(i)[key] for i in items]
            if len(set(map(str, values))) * 2 >= len(values):
                return key
    return None


def _equal(live: Json, wanted: Json) -> bool:
    if live == wanted or (not live and not wanted and not isinstance(live, bool | int | float)):
        return type(live) is not bool or type(wanted) is bool or live == wanted
    if isinstance(live, str) or isinstance(wanted, str):
        a, b = quantity(live), quantity(wanted)  # 1000m is 1, and 1Gi is 1024Mi
        return a is not None and a == b
    return False


def _text(value: Json) -> str | None:
    import json

    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
