"""From Python types to JSON Schema: dataclasses, enumerations, and shapes that code puts together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"}, bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"},
    NoneType: {"type": "null"}, Path: {"type": "string"}, object: {}, Any: {},
    datetime: {"type": "string", "format": "date-time"}, date: {"type": "string", "format": "date"},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An object that code puts together: the fields of a dataclass, less `drop`, with `plus`; or `plus` alone.

    `maybe`: keys of `plus` that may be absent. `nulls`: numbers that are not finite are written as null.
    """

    base: type | None = None
    drop: tuple[str, ...] = ()
    plus: Mapping[str, Any] = field(default_factory=dict)
    maybe: Mapping[str, Any] = field(default_factory=dict)
    nulls: bool = False


@dataclass(frozen=True)
class Many:
    """A list of shapes."""

    item: Any


@dataclass(frozen=True)
class Maybe:
    """A shape or null."""

    item: Any


@dataclass(frozen=True)
class Keyed:
    """An object whose keys are members of an enumeration; each may be absent."""

    keys: type[Enum]
    item: Any


class Either:
    """One of several shapes."""

    def __init__(self, *items: Any) -> None:
        self.items = items


@dataclass(frozen=True, kw_only=True)
class Document:
    """One published document: who writes it, and its content beside ``schema``."""

    title: str
    written_by: str
    content: Any


class Builder:
    """Turns types into schemas; dataclasses and enumerations become ``$defs``."""

    def __init__(self) -> None:
        self.defs: dict[str, dict[str, Any]] = {}
        self._taken: dict[str, tuple[Any, bool]] = {}
        self.nulls = False

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type expression."""
        if isinstance(kind, Shape):
            return self.shape(kind)
        if isinstance(kind, Many):
            return {"type": "array", "items": self.of(kind.item)}
        if isinstance(kind, Maybe):
            return {"anyOf": [self.of(kind.item), {"type": "null"}]}
        if isinstance(kind, Either):
            return {"anyOf": [self.of(i) for i in kind.items]}
        if isinstance(kind, Keyed):
            names = [m.value for m in kind.keys]
            return {"type": "object", "properties": {n: self.of(kind.item) for n in names}}
        if kind in SCALARS:
            if kind is float and self.nulls:
                return {"type": ["number", "null"]}
            return dict(SCALARS[kind])
        origin, args = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return self._union(args)
        if origin is Literal:
            return {"enum": list(args)}
        if origin is tuple and args[-1] is not Ellipsis:
            return {
                "type": "array", "prefixItems": [self.of(a) for a in args], "minItems": len(args), "maxItems": len(args)
            }  # fmt: skip
        if origin in (tuple, list, Sequence):
            return {"type": "array", "items": self.of(args[0])}
        if origin in (dict, Mapping):
            made: dict[str, Any] = {"type": "object", "additionalProperties": self.of(args[1])}
            if isinstance(args[0], type) and issubclass(args[0], Enum):
                made["propertyNames"] = self.of(args[0])
            return made
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._named(kind, lambda: {"enum": [m.value for m in kind], **_about(kind)})
        if is_dataclass(kind):
            return self._named(kind, lambda: self.shape(Shape(base=kind)))
        msg = f"no schema for {kind!r}"
        raise TypeError(msg)

    def shape(self, shape: Shape) -> dict[str, Any]:
        """The schema of an object."""
        before, self.nulls = self.nulls, self.nulls or shape.nulls
        properties: dict[str, Any] = {}
        about: dict[str, Any] = {}
        if shape.base is not None:
            about = _about(shape.base)
            hints = get_type_hints(shape.base)
            for f in fields(shape.base):
                if f.name not in shape.drop and f.name not in shape.plus:
                    properties[f.name] = self.of(hints[f.name])
        for key, kind in shape.plus.items():
            properties[key] = self.of(kind)
        required = list(properties)
        for key, kind in shape.maybe.items():
            properties[key] = self.of(kind)
        self.nulls = before
        return {**about, "type": "object", "properties": properties, "required": required}

    def _union(self, args: tuple[Any, ...]) -> dict[str, Any]:
        parts = [self.of(a) for a in args]
        if all(set(p) == {"type"} and isinstance(p["type"], str) for p in parts):
            return {"type": list(dict.fromkeys(p["type"] for p in parts))}
        return {"anyOf": parts}

    def _named(self, kind: type, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        name = kind.__name__ + ("Nullable" if self.nulls and is_dataclass(kind) else "")
        taken = self._taken.setdefault(name, (kind, self.nulls))
        if taken[0] is not kind:
            name = f"{kind.__module__.rsplit('.', 1)[-1]}.{name}"
        if name not in self.defs:
            self.defs[name] = {}  # a type may hold itself
            self.defs[name] = make()
        return {"$ref": f"#/$defs/{name}"}


def _about(kind: type) -> dict[str, str]:
    text = inspect.getdoc(kind) or ""
    first = " ".join(text.split("\n\n", 1)[0].split())
    return {"description": first} if first and not first.startswith(f"{kind.__name__}(") else {}
