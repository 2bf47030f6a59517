"""Answers in other forms: Table and PartialObjectMetadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from console.cluster.fake.resources import AGE, Column, Resource
from console.cluster.fake.status import StatusError

_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client "
    "to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and "
    "configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
SCALE_COLUMNS = (
    Column("Desired", "integer", ".spec.replicas", "Number of desired replicas"),
    Column("Available", "integer", ".status.replicas", "Number of actual replicas"),
    AGE,
)


def columns_of(res: Resource, *, scale: bool = False) -> tuple[Column, ...]:
    """Printer columns after Name."""
    return SCALE_COLUMNS if scale else (res.columns or (AGE,))


def definitions(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """``columnDefinitions``."""
    name = Column("Name", "string", ".metadata.name", _NAME_TEXT, "name")
    return [
        {
            "name": c.name,
            "type": c.type,
            "format": c.format,
            "description": c.description,
            "priority": c.priority,
        }
        for c in (name, *columns)
    ]


def row(
    obj: Mapping[str, Any], columns: Sequence[Column], *, include: str, now: datetime, version: str
) -> dict[str, Any]:
    """One row; `include` is Metadata, Object or None."""
    held: Any = None
    if include == "Object":
        held = obj
    elif include == "Metadata":
        held = partial(obj, version=version)
    cells = [str(obj.get("metadata", {}).get("name", "")), *(cell(obj, c, now) for c in columns)]
    return {"cells": cells, "object": held}


def cell(obj: Mapping[str, Any], column: Column, now: datetime) -> Any:
    """The value of one cell."""
    value: Any = obj
    for key in (p for p in column.path.split(".") if p):
        value = value.get(key) if isinstance(value, Mapping) else None
    if column.type == "date":
        return age(value, now) if value else "<unknown>"
    if value is None:
        return None
    if column.type in ("integer", "number"):
        return value if isinstance(value, int | float) else None
    if column.type == "string":
        return _string(value)
    return value


def _string(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(f'"{v}"' if isinstance(v, str) else _string(v) for v in value) + "]"
    return str(value)


def age(text: str, now: datetime) -> str:
    """A short duration such as 5s, 2m3s, 4h or 12d."""
    try:
        then = datetime.strptime(text[:19] + "Z", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return "<invalid>"
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 600:
        return f"{seconds // 60}m{seconds % 60}s" if seconds % 60 else f"{seconds // 60}m"
    if seconds < 3 * 3600:
        return f"{seconds // 60}m"
    if seconds < 2 * 86400:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


def table(
    objects: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    metadata: Mapping[str, Any],
    include: str,
    now: datetime,
    version: str = "v1",
    headed: bool = True,
) -> dict[str, Any]:
    """A Table; without `headed` the column definitions are null, as in later watch events."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {k: v for k, v in metadata.items() if v not in ("", None)},
        "columnDefinitions": definitions(columns) if headed else None,
        "rows": [row(o, columns, include=include, now=now, version=version) for o in objects],
    }


def partial(obj: Mapping[str, Any], *, version: str = "v1") -> dict[str, Any]:
    """PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def check_include(value: str | None) -> str:
    """``includeObject``. Raises 400."""
    if value in (None, "", "Metadata"):
        return "Metadata"
    if value in ("None", "Object"):
        return value
    raise StatusError(
        400,
        "BadRequest",
        f"Unable to convert to Table as requested: includeObject: Invalid value: \"{value}\": must be 'Metadata', 'Object', "
        "'None', or empty",
    )
