"""Strict validation against CustomResourceDefinitions, in the API server's order: defaults, then schema.

The server would prune an unknown field silently; here it is an error, because a pruned field is a setting that never
took effect. CEL rules and webhook rules are in `planner.export.rules`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.export.yaml import load_stream

Json = object


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where an object does not fit its schema."""

    path: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSet:
    """Schemas by (apiVersion, kind)."""

    schemas: Mapping[tuple[str, str], Mapping[str, Json]] = field(default_factory=dict)

    def knows(self, api_version: object, kind: object) -> bool:
        """Whether there is a schema for the kind."""
        return (str(api_version), str(kind)) in self.schemas

    def check(self, value: Mapping[str, Json]) -> tuple[Violation, ...]:
        """All violations of one object; empty when its kind has no schema here."""
        schema = self.schemas.get((str(value.get("apiVersion")), str(value.get("kind"))))
        if schema is None:
            return ()
        filled = with_defaults(value, schema)
        return tuple(_check(filled, schema, "$", root=True))


def load_schemas(folder: Path) -> SchemaSet:
    """Read every CRD (YAML or JSON) in `folder`.

    Raises MissingDataError ``crds.missing`` when the folder holds none, InputError ``crds.malformed``.
    """
    out: dict[tuple[str, str], Mapping[str, Json]] = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        if path.suffix not in (".json", ".yaml", ".yml"):
            continue
        for crd in _documents(path):
            if crd.get("kind") == "CustomResourceDefinition":
                out.update(_versions(crd, path))
    if not out:
        raise MissingDataError(
            Issue(
                code="crds.missing",
                what=f"no CustomResourceDefinition in '{folder}'",
                why="schemas are read from CRD files (.json, .yaml)",
                fix="kubectl get crd NAME -o json > FOLDER/NAME.json",
                where="--crds",
            )
        )
    return SchemaSet(schemas=out)


def _documents(path: Path) -> Sequence[Mapping[str, Json]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return [d.value for d in load_stream(text, source=str(path))]
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            Issue(
                code="crds.malformed",
                what="not readable as JSON",
                why=error.msg,
                fix="mend the file or leave it out",
                where=f"{path}:{error.lineno}",
            )
        ) from error
    return [value] if isinstance(value, dict) else []


def _versions(crd: Mapping[str, Json], path: Path) -> Iterator[tuple[tuple[str, str], Mapping[str, Json]]]:
    try:
        spec = crd["spec"]
        if not isinstance(spec, Mapping):
            raise TypeError("spec")  # noqa: TRY301
        kind = str(spec["names"]["kind"])
        for version in spec["versions"]:
            if version.get("served", True):
                schema = version["schema"]["openAPIV3Schema"]
                yield (f"{spec['group']}/{version['name']}", kind), schema
    except (KeyError, TypeError) as error:
        raise InputError(
            Issue(
                code="crds.malformed",
                what="not a CustomResourceDefinition of apiextensions.k8s.io/v1",
                why=f"missing or wrong: {error}",
                fix="mend the file or leave it out",
                where=str(path),
            )
        ) from error


def with_defaults(value: Json, schema: Mapping[str, Json]) -> Json:
    """A copy of `value` with the schema's defaults filled in, as the server does before it validates."""
    if isinstance(value, Mapping):
        out = dict(value)
        properties = _table(schema.get("properties"))
        for name, sub in properties.items():
            if name not in out and "default" in sub:
                out[name] = copy.deepcopy(sub["default"])
            if name in out:
                out[name] = with_defaults(out[name], sub)
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            out |= {k: with_defaults(v, extra) for k, v in out.items() if k not in properties}
        return out
    if isinstance(value, list):
        items = schema.get("items")
        return [with_defaults(v, items) for v in value] if isinstance(items, Mapping) else list(value)
    return value


def _table(value: Json) -> Mapping[str, Mapping[str, Json]]:
    return value if isinstance(value, Mapping) else {}


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def _check(value: Json, schema: Mapping[str, Json], path: str, *, root: bool = False) -> Iterator[Violation]:
    if value is None:
        if not schema.get("nullable"):
            yield Violation(path, "null is not allowed", "leave the field out")
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield Violation(
                path, f"{value!r} is neither an integer nor text", "write a number or a percentage"
            )
        return
    kind = schema.get("type")
    if isinstance(kind, str) and not _is(value, kind):
        yield Violation(path, f"{_shown(value)} is not of type {kind}", f"write a value of type {kind}")
        return
    enum = schema.get("enum")
    if isinstance(enum, list) and value not in enum:
        names = [str(e) for e in enum]
        yield Violation(
            path, f"{_shown(value)} is not one of {', '.join(names)}", did_you_mean(str(value), names)
        )
    for sub in schema.get("allOf") or []:  # type: ignore[attr-defined]
        yield from _check(value, sub, path)
    yield from _check_choices(value, schema, path)
    if isinstance(value, str):
        yield from _check_text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _check_number(value, schema, path)
    elif isinstance(value, list):
        yield from _check_list(value, schema, path)
    elif isinstance(value, Mapping):
        yield from _check_object(value, schema, path, root=root)


def _is(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, (object,)))


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_choices(value: Json, schema: Mapping[str, Json], path: str) -> Iterator[Violation]:
    for word, wanted in (("anyOf", None), ("oneOf", 1)):
        options = schema.get(word)
        if not isinstance(options, list):
            continue
        fits = sum(not any(True for _ in _check(value, o, path)) for o in options)
        if fits == 0 or (wanted is not None and fits != wanted):
            yield Violation(
                path, f"{_shown(value)} fits {fits} of the alternatives", "see the field's documentation"
            )
    negated = schema.get("not")
    if isinstance(negated, Mapping) and not any(True for _ in _check(value, negated, path)):
        yield Violation(path, f"{_shown(value)} is excluded", "see the field's documentation")


def _check_text(value: str, schema: Mapping[str, Json], path: str) -> Iterator[Violation]:
    low, high = schema.get("minLength"), schema.get("maxLength")
    if isinstance(low, int) and len(value) < low:
        yield Violation(path, f"{len(value)} characters, at least {low} wanted", "write a longer value")
    if isinstance(high, int) and len(value) > high:
        yield Violation(path, f"{len(value)} characters, at most {high} allowed", "write a shorter value")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not re.search(pattern, value):
        yield Violation(path, f"{_shown(value)} does not match {pattern}", "write a value of that form")


def _check_number(value: float, schema: Mapping[str, Json], path: str) -> Iterator[Violation]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and value < low:
        yield Violation(path, f"{value} is below {low}", f"use at least {low}")
    if isinstance(high, int | float) and value > high:
        yield Violation(path, f"{value} is above {high}", f"use at most {high}")


def _check_list(value: list[Json], schema: Mapping[str, Json], path: str) -> Iterator[Violation]:
    low, high = schema.get("minItems"), schema.get("maxItems")
    if isinstance(low, int) and len(value) < low:
        yield Violation(path, f"{len(value)} entries, at least {low} wanted", "add entries")
    if isinstance(high, int) and len(value) > high:
        yield Violation(path, f"{len(value)} entries, at most {high} allowed", "remove entries")
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(keys, list):
        seen: set[tuple[str, ...]] = set()
        for i, item in enumerate(value):
            identity = tuple(str(item.get(k)) for k in keys) if isinstance(item, Mapping) else (str(i),)
            if identity in seen:
                yield Violation(
                    f"{path}[{i}]", f"second entry with {', '.join(identity)}", "keep one of them"
                )
            seen.add(identity)
    items = schema.get("items")
    if isinstance(items, Mapping):
        for i, item in enumerate(value):
            yield from _check(item, items, f"{path}[{i}]")


def _check_object(
    value: Mapping[str, Json], schema: Mapping[str, Json], path: str, *, root: bool
) -> Iterator[Violation]:
    for name in schema.get("required") or []:  # type: ignore[attr-defined]
        if name not in value:
            yield Violation(f"{path}.{name}", "required field is missing", f"set {name}")
    properties = _table(schema.get("properties"))
    extra = schema.get("additionalProperties")
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for name, item in value.items():
        where = f"{path}.{name}"
        if root and name in ("apiVersion", "kind", "metadata"):
            continue
        if name in properties:
            yield from _check(item, properties[name], where)
        elif isinstance(extra, Mapping):
            yield from _check(item, extra, where)
        elif properties and not keeps and not extra:
            known = did_you_mean(name, properties)
            yield Violation(where, "unknown field: the API server would drop it silently", known)
