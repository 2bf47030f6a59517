"""CEL rules of a CRD (x-kubernetes-validations), when a CEL engine is installed.

The engine is `common-expression-language`, optional: without it rules are not checked, and `available` says so. Rules that
name oldSelf are skipped on create; a rule the engine cannot evaluate counts as not checked, never as passed or failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from console.cluster.fake.schema import child
from console.cluster.fake.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, Cause

Schema = Mapping[str, Any]
NOT_CHECKED = Cause(
    INVALID,
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)


def available() -> bool:
    """Whether rules can be checked."""
    return find_spec("cel") is not None


@lru_cache(maxsize=1024)
def _compiled(rule: str) -> Any:
    import cel

    try:
        return cel.compile(rule)
    except ValueError:
        return None


def broken(schema: Schema, value: Any, old: Any = None, path: str = "") -> Iterator[Cause]:
    """Every rule of `schema` that `value` breaks."""
    if not available():
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        yield from _rule(rule, value, old, path)
    if isinstance(value, dict):
        for key, item in value.items():
            sub = child(schema, key)
            if sub is not None and not (not path and key == "metadata"):
                before = old.get(key) if isinstance(old, dict) else None
                yield from broken(sub, item, before, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for i, item in enumerate(value):
            yield from broken(schema["items"], item, None, f"{path}[{i}]")


def _rule(rule: Mapping[str, Any], value: Any, old: Any, path: str) -> Iterator[Cause]:
    text = rule["rule"]
    if "oldSelf" in text and old is None:
        return
    program = _compiled(text)
    if program is None:
        return
    variables = {"self": value} | ({"oldSelf": old} if old is not None else {})
    if _evaluate(program, variables) is not False:
        return
    message = rule.get("message") or f"failed rule: {text}"
    if "messageExpression" in rule and (expression := _compiled(rule["messageExpression"])) is not None:
        found = _evaluate(expression, variables)
        message = found if isinstance(found, str) and found.strip() else message
    where = path + rule.get("fieldPath", "")
    reason = rule.get("reason", INVALID)
    if reason == REQUIRED:
        yield Cause(REQUIRED, where, f"Required value: {message}")
    elif reason == FORBIDDEN:
        yield Cause(FORBIDDEN, where, f"Forbidden: {message}")
    elif reason == DUPLICATE:
        yield Cause(DUPLICATE, where, f"Duplicate value: {json.dumps(value)}")
    else:
        yield Cause(INVALID, where, f"Invalid value: {message}")


def _evaluate(program: Any, variables: Mapping[str, Any]) -> Any:
    try:
        return program.execute(dict(variables))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return None
