"""Structural schemas of CRDs: one walk each for defaults, unknown fields, types and values.

Order on a write: unknown fields → defaults → values → CEL, as the API server does it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from console.cluster.fake.status import (
    DUPLICATE,
    INVALID,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    UNSUPPORTED,
    Cause,
)

Schema = Mapping[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
ROOT_META = ("apiVersion", "kind", "metadata")
META_FIELDS: Mapping[str, str] = {
    "name": "string", "generateName": "string", "namespace": "string", "selfLink": "string", "uid": "string",
    "resourceVersion": "string", "generation": "integer", "creationTimestamp": "string",
    "deletionTimestamp": "string", "deletionGracePeriodSeconds": "integer", "labels": "map", "annotations": "map",
    "ownerReferences": "array", "finalizers": "array", "managedFields": "array",
}  # fmt: skip


def list_keys(schema: Schema) -> tuple[str, ...] | None:
    """Keys of a list-map, None for another list."""
    if schema.get("x-kubernetes-list-type") == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return None


def child(schema: Schema, key: str) -> Schema | None:
    """Schema of a field; None when it is not declared."""
    found = (schema.get("properties") or {}).get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        return extra
    if extra is True or schema.get(PRESERVE):
        return {PRESERVE: True}
    return None


def fill_defaults(schema: Schema, value: Any) -> None:
    """Put defaults where fields are missing, and drop nulls that are not allowed where a default exists."""
    if isinstance(value, dict):
        for key, sub in (schema.get("properties") or {}).items():
            if value.get(key) is None and key in value and not sub.get("nullable"):
                if "default" in sub:
                    del value[key]
                else:
                    continue
            if key not in value and "default" in sub:
                value[key] = json.loads(json.dumps(sub["default"]))
        for key, item in value.items():
            sub_schema = child(schema, key)
            if sub_schema is not None:
                fill_defaults(sub_schema, item)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for item in value:
            fill_defaults(schema["items"], item)


def drop_nulls(schema: Schema, value: Any) -> None:
    """Remove nulls of fields that are not nullable, as decoding does for optional fields."""
    if isinstance(value, dict):
        for key in [k for k, v in value.items() if v is None]:
            sub = child(schema, key)
            if sub is not None and not sub.get("nullable") and not sub.get(PRESERVE):
                del value[key]
        for key, item in value.items():
            sub = child(schema, key)
            if sub is not None:
                drop_nulls(sub, item)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for item in value:
            drop_nulls(schema["items"], item)


def prune(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Remove undeclared fields; returns their paths."""
    dropped: list[str] = []
    if isinstance(value, dict):
        for key in list(value):
            if not path and key in ROOT_META:
                continue
            here = f"{path}.{key}" if path else key
            sub = child(schema, key)
            if sub is None:
                dropped.append(here)
                del value[key]
            else:
                dropped += prune(sub, value[key], here)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for i, item in enumerate(value):
            dropped += prune(schema["items"], item, f"{path}[{i}]")
    return dropped


def prune_metadata(metadata: Any) -> list[str]:
    """Remove undeclared fields of ``metadata``; returns their paths."""
    if not isinstance(metadata, dict):
        return []
    unknown = [k for k in metadata if k not in META_FIELDS]
    for key in unknown:
        del metadata[key]
    return [f"metadata.{k}" for k in unknown]


# --- server-side apply: typed conversion ---


def typed_errors(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """What structured merge refuses: undeclared fields, wrong types, bad list-map keys."""
    if value is None or schema.get(INT_OR_STRING):
        return
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        if not isinstance(value, dict):
            yield f"{path}: expected map, got {_go_shape(value)}"
            return
        for key in sorted(value):
            if not path and key in ROOT_META:
                continue
            sub = child(schema, key)
            if sub is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from typed_errors(sub, value[key], f"{path}.{key}")
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{path}: expected list, got {_go_shape(value)}"
            return
        yield from _typed_items(schema, value, path)
    elif kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{path}: expected numeric (int or float), got {_go_type(value)}"
    elif kind == "string":
        if not isinstance(value, str):
            yield f"{path}: expected string, got {_go_shape(value)}"
    elif kind == "boolean" and not isinstance(value, bool):
        yield f"{path}: expected boolean, got {_go_shape(value)}"


def _typed_items(schema: Schema, value: list[Any], path: str) -> Iterator[str]:
    keys, items = list_keys(schema), schema.get("items") or {}
    seen: set[str] = set()
    for i, item in enumerate(value):
        here = f"{path}[{i}]"
        if keys is not None:
            if not isinstance(item, dict):
                yield f"{path}: element {i}: associative list with keys may not have non-map elements"
                continue
            defaults = {k: (items.get("properties") or {}).get(k, {}).get("default") for k in keys}
            found = {k: item.get(k, defaults[k]) for k in keys}
            if all(v is None for v in found.values()):
                shown = "[" + " ".join(json.dumps(k) for k in keys) + "]"
                yield (
                    f"{path}: element {i}: associative list with keys has an element that omits all key fields {shown}"
                    " (and doesn't have default values for any key fields)"
                )
                continue
            label = ",".join(f"{k}={json.dumps(v)}" for k, v in found.items())
            here = f"{path}[{label}]"
            if label in seen:
                yield f"{path}: duplicate entries for key [{label}]"
            seen.add(label)
        elif schema.get("x-kubernetes-list-type") == "set":
            label = json.dumps(item, sort_keys=True)
            if label in seen:
                yield f"{path}: duplicate entries for key [{label}]"
            seen.add(label)
        yield from typed_errors(items, item, here)


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case dict():
            return "map"
        case list():
            return "list"
        case _:
            return "numeric"


def _go_shape(value: Any) -> str:
    if isinstance(value, list):
        return "&{[" + " ".join(map(str, value)) + "]}"
    if isinstance(value, dict):
        return "&{map[" + " ".join(f"{k}:{v}" for k, v in value.items()) + "]}"
    return "&{" + (str(value).lower() if isinstance(value, bool) else str(value)) + "}"


# --- values ---


def validate(schema: Schema, value: Any, path: str = "") -> Iterator[Cause]:
    """Every value that the schema refuses, all at once."""
    if schema.get(INT_OR_STRING):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _wrong_type(value, path, "integer,string")
        return
    if value is None and (schema.get("nullable") or not schema.get("type")):
        return
    kind = schema.get("type")
    if kind == "object":
        yield from _object(schema, value, path)
    elif kind == "array":
        yield from _array(schema, value, path)
    elif kind == "string":
        yield from _string(schema, value, path)
    elif kind in ("integer", "number"):
        yield from _number(schema, value, path, kind)
    elif kind == "boolean" and not isinstance(value, bool):
        yield _wrong_type(value, path, "boolean")
    if "enum" in schema and value not in schema["enum"] and (kind is None or _fits(kind, value)):
        known = ", ".join(json.dumps(e) for e in sorted(schema["enum"], key=str))
        yield Cause(UNSUPPORTED, path, f"Unsupported value: {_shown(value)}: supported values: {known}")


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return True


def _object(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, dict):
        yield _wrong_type(value, path, "object")
        return
    for key in schema.get("required") or ():
        if key not in value:
            yield Cause(REQUIRED, f"{path}.{key}" if path else key, "Required value")
    if len(value) < schema.get("minProperties", 0):
        least = schema["minProperties"]
        yield Cause(
            INVALID,
            path,
            f"Invalid value: {len(value)}: {path} in body should have at least {least} properties",
        )
    if len(value) > schema.get("maxProperties", math.inf):
        yield Cause(
            TOO_MANY, path, f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        )
    for key, item in value.items():
        if not path and key in ROOT_META:
            continue
        sub = child(schema, key)
        if sub is not None:
            yield from validate(sub, item, f"{path}.{key}" if path else key)


def _array(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, list):
        yield _wrong_type(value, path, "array")
        return
    if len(value) > schema.get("maxItems", math.inf):
        yield Cause(TOO_MANY, path, f"Too many: {len(value)}: must have at most {schema['maxItems']} items")
    if len(value) < schema.get("minItems", 0):
        yield Cause(
            INVALID,
            path,
            f"Invalid value: {len(value)}: {path} in body should have at least {schema['minItems']} items",
        )
    items, keys, seen = schema.get("items") or {}, list_keys(schema), set[str]()
    for i, item in enumerate(value):
        yield from validate(items, item, f"{path}[{i}]")
        identity: Any = None
        if keys is not None and isinstance(item, dict):
            identity = {k: item[k] for k in keys if k in item}
        elif schema.get("x-kubernetes-list-type") == "set":
            identity = item
        if identity is not None:
            label = json.dumps(identity, sort_keys=True)
            if label in seen:
                yield Cause(DUPLICATE, f"{path}[{i}]", f"Duplicate value: {label}")
            seen.add(label)


def _string(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, str):
        yield _wrong_type(value, path, "string")
        return
    if len(value) > schema.get("maxLength", math.inf):
        yield Cause(TOO_LONG, path, f"Too long: may not be more than {schema['maxLength']} bytes")
    if len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        yield Cause(
            INVALID,
            path,
            f"Invalid value: {json.dumps(value)}: {path} in body should be at least {least} chars long",
        )
    pattern = schema.get("pattern")
    if pattern is not None and not _regex(pattern).search(value):
        yield Cause(
            INVALID, path, f"Invalid value: {json.dumps(value)}: {path} in body should match '{pattern}'"
        )
    if schema.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        yield Cause(
            INVALID, path, f"Invalid value: {json.dumps(value)}: {path} in body must be of type date-time"
        )


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _number(schema: Schema, value: Any, path: str, kind: str) -> Iterator[Cause]:
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        # Go decodes it as float64 and names the format; a second check says the same without a field.
        name = schema.get("format") or kind
        text = f'Invalid value: "float64": {path} in body must be of type {name}: "float64"'
        yield Cause(TYPE_INVALID, path, text)
        if "format" in schema:
            text = f'Invalid value: "": Checked value must be of type {kind} with format {name} in {path}'
            yield Cause(INVALID, "<nil>", text)
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _wrong_type(value, path, kind)
        return
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield Cause(INVALID, path, f"Invalid value: {_shown(value)}: {path} in body should be {word} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield Cause(INVALID, path, f"Invalid value: {_shown(value)}: {path} in body should be {word} {high}")


def _wrong_type(value: Any, path: str, wanted: str) -> Cause:
    kind = {
        bool: "boolean",
        str: "string",
        int: "integer",
        float: "number",
        list: "array",
        dict: "object",
    }.get(type(value), "null")
    shown = json.dumps(value) if isinstance(value, str) else json.dumps(kind)
    return Cause(
        TYPE_INVALID,
        path,
        f"Invalid value: {shown}: {path} in body must be of type {wanted}: {json.dumps(kind)}",
    )


def _shown(value: Any) -> str:
    return json.dumps(value)
