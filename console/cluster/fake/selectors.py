"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from console.cluster.fake.status import StatusError, bad_request

Match = Callable[[Mapping[str, Any]], bool]
_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"^\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*$")
_COMPARE = re.compile(rf"^\s*({_KEY})\s*(==|=|!=|>|<)\s*([^\s=!<>(),]*)\s*$")
_EXISTS = re.compile(rf"^\s*(!?)\s*({_KEY})\s*$")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def label_selector(text: str) -> Match | None:
    """A predicate on objects, None when empty. Raises 400."""
    if not text.strip():
        return None
    parts = re.split(r",(?![^(]*\))", text)
    tests = [_label_test(p, text) for p in parts]

    def match(obj: Mapping[str, Any]) -> bool:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        return all(t(labels) for t in tests)

    return match


def _label_test(part: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if m := _SET.match(part):
        key, wanted, values = m[1], m[3] == "in", {v.strip() for v in m[4].split(",")}
        if wanted:
            return lambda labels: labels.get(key) in values if key in labels else False
        return lambda labels: labels.get(key) not in values
    if m := _COMPARE.match(part):
        key, sign, value = m[1], m[3], m[4]
        if sign in "<>" and not re.fullmatch(r"-?\d+", value):
            raise _bad(text, "for 'Gt', 'Lt' operators, the value must be an integer")
        if not _VALUE.fullmatch(value):
            raise _bad(text, f"invalid label value: {value!r}")
        if sign in ("=", "=="):
            return lambda labels: labels.get(key) == value
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        bound = int(value)

        def ordered(labels: Mapping[str, str]) -> bool:
            held = labels.get(key, "")
            if not re.fullmatch(r"-?\d+", held):
                return False
            return int(held) > bound if sign == ">" else int(held) < bound

        return ordered
    if m := _EXISTS.match(part):
        absent, key = bool(m[1]), m[2]
        return lambda labels: (key in labels) is not absent
    raise _bad(text, "unable to parse requirement: found '" + part.strip() + "'")


def _bad(text: str, why: str) -> StatusError:
    del text
    return bad_request(why)


def field_selector(text: str, *, paths: tuple[str, ...]) -> Match | None:
    """A predicate on fields named in `paths`, None when empty. Raises 400."""
    if not text.strip():
        return None
    tests: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        m = re.fullmatch(r"\s*([\w.]+)\s*(==|=|!=)\s*([^=!]*)", part)
        if m is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if m[1] not in paths:
            raise bad_request(f"field label not supported: {m[1]}")
        tests.append((m[1], m[2] != "!=", m[3]))

    def match(obj: Mapping[str, Any]) -> bool:
        return all((str(_dig(obj, path)) == value) is wanted for path, wanted, value in tests)

    return match


def _dig(obj: Mapping[str, Any], path: str) -> Any:
    value: Any = obj
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, Mapping) else ""
    return value
