"""Sets of fields as managedFields writes them (FieldsV1), and what server-side apply computes with them.

A set is a tree of dicts. Keys are ``f:name``, ``k:{"name":"x"}`` and ``v:value``; an empty dict is a member, and a ``.`` key
makes an inner node a member too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console.cluster.fake.schema import INT_OR_STRING, PRESERVE, child
from console.cluster.fake.schema import list_keys as schema_list_keys

Schema = Mapping[str, Any]
Fields = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a value merges: by its schema, or for built-ins by the names of its lists."""

    schema: Schema | None
    names: Mapping[str, tuple[str, ...]]
    name: str = ""

    def field(self, key: str) -> Shape:
        """Shape of a field."""
        if self.schema is None:
            return Shape(None, self.names, key)
        return Shape(child(self.schema, key) or {PRESERVE: True}, self.names, key)

    def items(self) -> Shape:
        """Shape of list items."""
        if self.schema is None:
            return Shape(None, self.names)
        return Shape(self.schema.get("items") or {PRESERVE: True}, self.names)

    def keys(self, value: list[Any]) -> tuple[str, ...] | None:
        """Keys when the list merges by key."""
        if self.schema is not None:
            return schema_list_keys(self.schema)
        keys = self.names.get(self.name)
        if keys and value and all(isinstance(i, dict) and all(k in i for k in keys) for i in value):
            return keys
        return None

    @property
    def is_set(self) -> bool:
        """Whether the list is a set."""
        return (self.schema or {}).get("x-kubernetes-list-type") == "set" or self.name == "finalizers"

    @property
    def atomic(self) -> bool:
        """Whether the value is replaced as a whole."""
        if self.schema is None:
            return False
        return self.schema.get("x-kubernetes-map-type") == "atomic" or bool(self.schema.get(INT_OR_STRING))


def item_key(item: Mapping[str, Any], keys: tuple[str, ...], shape: Shape) -> str:
    """``k:{...}`` of a list item; absent keys take their default."""
    properties = (shape.schema or {}).get("properties") or {}
    found = {}
    for k in sorted(keys):
        value = item.get(k, properties.get(k, {}).get("default"))
        if value is not None:
            found[k] = value
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def children(value: Any, shape: Shape) -> list[tuple[str, Any, Shape]] | None:
    """Named parts of a value that merges part by part; None for a leaf."""
    if shape.atomic:
        return None
    if isinstance(value, dict):
        return [(f"f:{k}", v, shape.field(k)) for k, v in value.items()]
    if isinstance(value, list):
        keys = shape.keys(value)
        if keys is not None:
            items = shape.items()
            return [(item_key(i, keys, items), i, items) for i in value if isinstance(i, dict)]
        if shape.is_set:
            return [("v:" + json.dumps(i), i, Shape(None, {})) for i in value]
    return None


def owned(value: Any, shape: Shape) -> Fields:
    """Fields that an apply of `value` owns: its leaves, and the items of keyed lists."""
    out: Fields = {}
    for key, part, sub in children(value, shape) or ():
        inner = children(part, sub)
        if inner is None or not inner:
            out[key] = {}
        else:
            out[key] = ({".": {}} if key.startswith("k:") else {}) | owned(part, sub)
    return out


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two values."""

    changed: Fields  # added or modified
    removed: Fields


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """Fields of `new` that are not in `old` or differ, and fields of `old` that are gone."""
    changed: Fields = {}
    removed: Fields = {}
    before = {k: (v, s) for k, v, s in children(old, shape) or ()}
    after = {k: (v, s) for k, v, s in children(new, shape) or ()}
    for key, (value, sub) in after.items():
        if key not in before:
            changed[key] = whole(value, sub)
            continue
        previous = before[key][0]
        if children(value, sub) is None or children(previous, sub) is None:
            if value != previous or type(value) is not type(previous):
                changed[key] = {}
        else:
            inner = compare(previous, value, sub)
            if inner.changed:
                changed[key] = inner.changed
            if inner.removed:
                removed[key] = inner.removed
    for key, (value, sub) in before.items():
        if key not in after:
            removed[key] = whole(value, sub)
    return Comparison(changed, removed)


def whole(value: Any, shape: Shape) -> Fields:
    """A value with every inner node a member."""
    parts = children(value, shape)
    if not parts:
        return {}
    return {".": {}} | {k: whole(v, s) for k, v, s in parts}


# --- algebra ---


def members(fields: Fields, at: Path = ()) -> Iterator[Path]:
    """Every member path."""
    for key, sub in fields.items():
        if key == ".":
            yield at
        elif not sub:
            yield (*at, key)
        else:
            yield from members(sub, (*at, key))


def from_members(paths: set[Path]) -> Fields:
    """The tree of member paths."""
    out: Fields = {}
    for path in sorted(paths, key=lambda p: (len(p), p)):
        node = out
        for i, key in enumerate(path):
            if key in node and not node[key] and i < len(path) - 1:
                node[key] = {".": {}}  # a member that turns out to have children
            node = node.setdefault(key, {})
    return _sorted(out)


def _sorted(fields: Fields) -> Fields:
    return {k: _sorted(fields[k]) for k in sorted(fields)}


def path_text(path: Path) -> str:
    """``.spec.containers[name="c"].image``."""
    out = ""
    for key in path:
        if key.startswith("f:"):
            out += f".{key[2:]}"
        elif key.startswith("k:"):
            out += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(key[2:]).items()) + "]"
        else:
            out += f"[={key[2:]}]"
    return out


# --- merging ---


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """`applied` laid over `live`: maps and keyed lists merge, the rest is replaced."""
    if shape.atomic:
        return applied
    if isinstance(applied, dict) and isinstance(live, dict):
        out = dict(live)
        for key, value in applied.items():
            out[key] = merge(live[key], value, shape.field(key)) if key in live else value
        return out
    if isinstance(applied, list) and isinstance(live, list):
        keys = shape.keys([*live, *applied])
        if keys is not None:
            return _merge_keyed(live, applied, keys, shape.items())
        if shape.is_set:
            return [*applied, *(i for i in live if i not in applied)]
    return applied


def _merge_keyed(live: list[Any], applied: list[Any], keys: tuple[str, ...], items: Shape) -> list[Any]:
    held = {item_key(i, keys, items): i for i in live}
    new = {item_key(i, keys, items): i for i in applied}
    out = [merge(i, new[k], items) if k in new else i for k, i in held.items()]
    return out + [i for k, i in new.items() if k not in held]


def remove(value: Any, paths: set[Path], shape: Shape, at: Path = ()) -> Any:
    """`value` without the members in `paths`; a container that loses its last part goes too (None)."""
    if shape.atomic or not value:
        return value
    out: Any
    if isinstance(value, dict):
        out = {}
        for k, v in value.items():
            here = (*at, f"f:{k}")
            if here in paths:
                continue
            left = remove(v, paths, shape.field(k), here)
            if left is not None or v is None:
                out[k] = left
    elif isinstance(value, list) and (keys := shape.keys(value)) is not None:
        items = shape.items()
        out = []
        for item in value:
            here = (*at, item_key(item, keys, items))
            if here not in paths and (left := remove(item, paths, items, here)) is not None:
                out.append(left)
    elif isinstance(value, list) and shape.is_set:
        out = [i for i in value if (*at, "v:" + json.dumps(i)) not in paths]
    else:
        return value
    return out or None
