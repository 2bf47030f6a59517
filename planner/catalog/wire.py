"""Plain data to frozen domain values and back, strictly.

Structuring forbids unknown keys, never turns text into numbers, and reports every problem of a document at once, each as
an `Issue` with ``where = file:line @ $.path``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn

from planner.catalog.documents import TYPE_NAMES, Document, PathKey, json_path, read_document
from planner.domain.errors import InputError, Issue, did_you_mean

T = TypeVar("T")

Plain = dict[str, Any]


def load(path: Path, cls: type[T]) -> T:
    """Read `path` and structure its whole content as `cls`. Errors: see `read_document` and `structure`."""
    return structure(read_document(path), cls)


def structure(document: Document, cls: type[T], *, at: tuple[PathKey, ...] = ()) -> T:
    """Turn the content of `document` (or the part at path `at`) into a `cls`.

    Raises InputError with one issue per problem: ``input.unknown_key``, ``input.missing_key``, ``input.wrong_type``,
    ``input.wrong_value``.
    """
    data = document.data
    for depth, part in enumerate(at):
        if not isinstance(data, Mapping) or part not in data:
            raise InputError(_missing(document.where(at[: depth + 1]), str(part)))
        data = data[part]
    return _structure(data, cls, locate=lambda path: document.where((*at, *path)))


def structure_data(data: object, cls: type[T], *, name: str) -> T:
    """Like `structure`, for data that did not come from a file; `name` is what messages call it."""
    return _structure(data, cls, locate=lambda path: f"{name} @ {json_path(path)}")


def unstructure(value: object) -> Any:
    """Return dicts, lists, text, numbers, booleans and None, in field order; keys and times become text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: unstructure(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(unstructure(k)): unstructure(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [unstructure(v) for v in value]
    return value


# --- converter ---


class _WireError(ValueError):
    """One value of the wrong type or outside its set."""

    def __init__(self, *, what: str, why: str, fix: str, code: str = "input.wrong_type") -> None:
        super().__init__(what)
        self.what, self.why, self.fix, self.code = what, why, fix, code


def _shown(value: object) -> str:
    kind = TYPE_NAMES.get(type(value), type(value).__name__)
    if value is None or isinstance(value, dict | list):
        return kind
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({kind})"


def _expected(value: object, wanted: str, fix: str) -> _WireError:
    return _WireError(
        what=f"{_shown(value)} where {wanted} is expected", why="types are not converted", fix=fix
    )


def _text(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise _expected(value, "text", "put it in quotes" if value is not None else "give a text")
    return value


def _boolean(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise _expected(value, "true or false", "write true or false without quotes")
    return value


def _integer(value: object, _: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected(value, "a whole number", "write a whole number without quotes or decimal point")
    return value


def _number(value: object, _: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected(value, "a number", "write a plain number without quotes or unit, e.g. 4800 or 1.0e6")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _expected(value, "a finite number", "give a finite number")
    return number


def _scalar(value: object, _: object) -> float | int | str | bool:
    if not isinstance(value, bool | int | float | str):
        raise _expected(value, "text, a number or a boolean", "give a single value")
    return value


def _member(value: object, enum: type[StrEnum]) -> StrEnum:
    known = [str(m.value) for m in enum]
    if isinstance(value, str):
        for member in enum:
            if member.value == value:
                return member
    raise _WireError(
        code="input.wrong_value",
        what=f"{_shown(value)} is not one of {', '.join(known)}",
        why=f"{enum.__name__} has a fixed set of values",
        fix=did_you_mean(value, known) if isinstance(value, str) else f"use one of {', '.join(known)}",
    )


def _is_tuple(t: Any) -> bool:
    return get_origin(t) is tuple and get_args(t)[-1] is Ellipsis


def _is_mapping(t: Any) -> bool:
    return get_origin(t) is Mapping


@cache
def _converter() -> Converter:
    c = Converter(forbid_extra_keys=True, detailed_validation=True)
    c.register_structure_hook(str, _text)
    c.register_structure_hook(bool, _boolean)
    c.register_structure_hook(int, _integer)
    c.register_structure_hook(float, _number)
    c.register_structure_hook(StrEnum, _member)  # nearer than str in the method resolution order of our enums
    c.register_structure_hook_func(lambda t: t == float | int | str | bool, _scalar)
    c.register_structure_hook_factory(lambda t: isinstance(t, type) and is_dataclass(t), _object_hook)
    c.register_structure_hook_factory(_is_tuple, _tuple_hook)
    c.register_structure_hook_factory(_is_mapping, _mapping_hook)
    return c


def _object_hook(cls: type, c: Converter) -> Any:
    inner: Any = make_dict_structure_fn(
        cls, c, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True
    )

    def hook(value: object, t: type) -> Any:
        if not isinstance(value, dict):
            raise _expected(value, f"a mapping ({cls.__name__})", "write 'key: value' pairs")
        return inner(value, t)

    return hook


def _tuple_hook(t: Any, c: Converter) -> Any:
    item = get_args(t)[0]
    inner = c.get_structure_hook(item)

    def hook(value: object, _: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _expected(value, "a list", "write a list, e.g. [a, b]")
        return tuple(_each(((i, v) for i, v in enumerate(value)), lambda _, v: inner(v, item), t))

    return hook


def _mapping_hook(t: Any, c: Converter) -> Any:
    key_type, value_type = get_args(t)
    key_hook, value_hook = c.get_structure_hook(key_type), c.get_structure_hook(value_type)

    def pair(key: Any, value: Any) -> tuple[Any, Any]:
        if key_type is int and isinstance(key, str) and key.isascii() and key.isdecimal():
            key = int(key)  # JSON has text keys only
        return key_hook(key, key_type), value_hook(value, value_type)

    def hook(value: object, _: object) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _expected(value, "a mapping", "write 'key: value' pairs")
        return dict(_each(iter(value.items()), pair, t, step=str))

    return hook


def _each(items: Iterator[tuple[Any, Any]], build: Any, t: Any, *, step: type[int | str] = int) -> list[Any]:
    """Apply `build(key, value)` to all items and raise the collected errors as one group.

    `step` is how a key appears in paths: an index of a list, or the text of a mapping key.
    """
    out, errors = [], []
    for key, value in items:
        try:
            out.append(build(key, value))
        except (_WireError, ClassValidationError, IterableValidationError) as e:
            note = IterableValidationNote(f"item {key}", step(key), t)
            e.__notes__ = [*getattr(e, "__notes__", []), note]
            errors.append(e)
    if errors:
        raise IterableValidationError("items", errors, t)
    return out


# --- errors ---


def _structure(data: object, cls: type[T], *, locate: Any) -> T:
    try:
        return _converter().structure(data, cls)
    except (ClassValidationError, IterableValidationError, _WireError) as e:
        raise InputError(*_issues(e, (), locate)) from None


def _issues(error: BaseException, path: tuple[PathKey, ...], locate: Any) -> Iterator[Issue]:
    if isinstance(error, ClassValidationError | IterableValidationError):
        noted, bare = error.group_exceptions()
        for child, note in noted:
            yield from _issues(child, (*path, _step(note)), locate)
        for child in bare:
            yield from _issues(child, path, locate)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = [f.name for f in fields(error.cl)]
        for key in sorted(error.extra_fields, key=str):
            yield Issue(
                code="input.unknown_key",
                what=f"unknown key '{key}'",
                why=f"{error.cl.__name__} has no such field, so it would be ignored",
                fix=did_you_mean(str(key), known),
                where=locate((*path, key)),
            )
    elif isinstance(error, KeyError):
        yield _missing(locate(path), str(path[-1]))
    elif isinstance(error, _WireError):
        yield Issue(
            code=error.code,
            what=f"{path[-1]}: {error.what}" if path else error.what,
            why=error.why,
            fix=error.fix,
            where=locate(path),
        )
    else:
        raise error


def _step(note: AttributeValidationNote | IterableValidationNote) -> PathKey:
    if isinstance(note, AttributeValidationNote):
        return note.name
    return note.index if isinstance(note.index, int) else str(note.index)


def _missing(where: str, key: str) -> Issue:
    return Issue(
        code="input.missing_key",
        what=f"'{key}' is missing",
        why="it has no default; guessing it would hide the gap",
        fix=f"add '{key}:' with its value",
        where=where,
    )
