"""JSON patch, merge patch, and strategic merge for built-ins."""

from __future__ import annotations

import copy
from typing import Any

from console.cluster.fake.fields import Shape, item_key
from console.cluster.fake.status import StatusError


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def strategic_patch(target: Any, patch: Any, shape: Shape) -> Any:
    """Merge patch in which keyed lists merge; knows ``$patch: delete|replace`` and ``$deleteFromPrimitiveList``."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith(("$setElementOrder/", "$retainKeys")):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            out[name] = [i for i in out.get(name) or [] if i not in value]
        elif value is None:
            out.pop(key, None)
        elif isinstance(value, list):
            out[key] = _strategic_list(out.get(key), value, shape.field(key))
        else:
            out[key] = strategic_patch(out.get(key), value, shape.field(key))
    return out


def _strategic_list(target: Any, patch: list[Any], shape: Shape) -> Any:
    plain = [i for i in patch if not (isinstance(i, dict) and i.get("$patch") == "replace")]
    keys = shape.keys(plain)
    if keys is None or not isinstance(target, list):
        return [i for i in plain if not (isinstance(i, dict) and "$patch" in i)]
    items = shape.items()
    held = {item_key(i, keys, items): i for i in target}
    for item in plain:
        key = item_key(item, keys, items)
        if item.get("$patch") == "delete":
            held.pop(key, None)
        else:
            held[key] = strategic_patch(held.get(key), item, items)
    return list(held.values())


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. Raises the server's 422 when an operation does not apply."""
    out = copy.deepcopy(target)
    if not isinstance(operations, list):
        raise _refused()
    try:
        for operation in operations:
            out = _operation(out, operation)
    except (KeyError, IndexError, ValueError, TypeError):
        raise _refused() from None
    return out


def _refused() -> StatusError:
    return StatusError(
        422, "Invalid", "the server rejected our request due to an error in our request", details={}
    )


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]


def _find(document: Any, tokens: list[str]) -> Any:
    for token in tokens:
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


def _operation(document: Any, operation: dict[str, Any]) -> Any:
    kind, tokens = operation["op"], _tokens(operation["path"])
    if kind == "test":
        if _find(document, tokens) != operation["value"]:
            raise ValueError("test failed")
        return document
    if kind in ("move", "copy"):
        source = _tokens(operation["from"])
        value = copy.deepcopy(_find(document, source))
        if kind == "move":
            document = _operation(document, {"op": "remove", "path": operation["from"]})
        return _operation(document, {"op": "add", "path": operation["path"], "value": value})
    if not tokens:
        return operation["value"] if kind != "remove" else None
    parent = _find(document, tokens[:-1])
    last = tokens[-1]
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if kind == "add":
            if not 0 <= index <= len(parent):
                raise IndexError(index)
            parent.insert(index, operation["value"])
        elif kind == "replace":
            parent[index] = operation["value"]
        else:
            del parent[index]
    elif kind == "remove" or (kind == "replace" and last not in parent):
        del parent[last]
    else:
        parent[last] = operation["value"]
    return document
