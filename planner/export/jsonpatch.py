"""RFC 6902 patches that turn one object into another: what a kustomize overlay needs for kinds without merge keys."""

from __future__ import annotations

from collections.abc import Iterator

from planner.export.yaml import Plain


def diff(old: Plain, new: Plain) -> list[Plain]:
    """Operations that turn `old` into `new`, applied in order.

    Mappings are compared by key. Lists of the same length are compared by position, others are replaced whole.
    """
    return list(_diff(old, new, ""))


def _diff(old: Plain, new: Plain, path: str) -> Iterator[Plain]:
    if old == new and type(old) is type(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
        for key, value in new.items():
            here = f"{path}/{_escape(key)}"
            if key in old:
                yield from _diff(old[key], value, here)
            else:
                yield {"op": "add", "path": here, "value": value}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _diff(a, b, f"{path}/{i}")
    else:
        yield {"op": "replace", "path": path, "value": new}


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
