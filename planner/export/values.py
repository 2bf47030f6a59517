"""Reading plain data of unknown shape: wrong types become empty, never an exception."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Json = object
Table = Mapping[str, Json]


def table(value: Json) -> Table:
    """`value` when it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Json) -> Sequence[Json]:
    """`value` when it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def dig(value: Json, *path: str) -> Json:
    """The value below nested mappings, None when a step is missing."""
    for key in path:
        value = table(value).get(key)
    return value


def number(value: Json) -> int | None:
    """An integer, also when written as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    return None


_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def quantity(value: Json) -> float | None:
    """A Kubernetes quantity in its base unit; None when it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|[kMGT]i?|Ki|)", value) if isinstance(value, str) else None
    if match is None:
        return None
    amount = float(match[1])
    return amount / 1000 if match[2] == "m" else amount * _UNITS[match[2]]
