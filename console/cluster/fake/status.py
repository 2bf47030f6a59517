"""Errors as the API server words them: a Status object with reason, details and causes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
UNSUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
DUPLICATE = "FieldValueDuplicate"
TYPE_INVALID = "FieldValueTypeInvalid"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class StatusError(Exception):
    """An answer that is an error. `reason` empty stands for errors the server gives no reason for."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        causes: Sequence[Cause] = (),
        headers: dict[str, str] | None = None,
        metadata: Object | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.causes = causes
        self.headers = headers or {}
        self.metadata = metadata or {}

    def body(self) -> Object:
        """The Status object."""
        out: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            out["reason"] = self.reason
        details = dict(self.details) if self.details is not None else None
        if self.causes:
            details = details or {}
            details["causes"] = [
                {"reason": c.reason, "message": c.message, "field": c.field} for c in self.causes
            ]
        if details is not None:
            out["details"] = details
        out["code"] = self.code
        return out


def named(group: str, resource: str, name: str) -> Object:
    """Details of an error about one object."""
    return {"name": name} | ({"group": group} if group else {}) | {"kind": resource}


def qualified(resource: str, group: str) -> str:
    """``leaderworkersets.leaderworkerset.x-k8s.io``."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> StatusError:
    """404 for one object."""
    return StatusError(
        404,
        "NotFound",
        f'{qualified(resource, group)} "{name}" not found',
        details=named(group, resource, name),
    )


def already_exists(group: str, resource: str, name: str) -> StatusError:
    """409 on create."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified(resource, group)} "{name}" already exists',
        details=named(group, resource, name),
    )


def conflict(group: str, resource: str, name: str, why: str) -> StatusError:
    """409 on a stale write."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        details=named(group, resource, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 with one cause per field."""
    text = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(map(str, causes)) + "]"
    details: Object = ({"name": name} if name else {}) | ({"group": group} if group else {}) | {"kind": kind}
    return StatusError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        details=details,
        causes=causes,
    )


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def internal(message: str, *, details: Object | None = None) -> StatusError:
    """500 without a reason, as plain Go errors become."""
    return StatusError(500, "", message, details=details)


def gone(message: str) -> StatusError:
    """410: list again."""
    return StatusError(410, "Expired", message)


def forbidden(
    user: str, verb: str, *, group: str, resource: str, namespace: str | None, name: str
) -> StatusError:
    """403 as RBAC words it."""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return StatusError(
        403,
        "Forbidden",
        f'{qualified(resource.split("/", maxsplit=1)[0], group)}{f" {json.dumps(name)}" if name else ""} is forbidden: User "{user}" '
        f'cannot {verb} resource "{resource}" in API group "{group}" {scope}',
        details=named(group, resource.split("/", maxsplit=1)[0], name),
    )


def unauthorized() -> StatusError:
    """401."""
    return StatusError(401, "Unauthorized", "Unauthorized")
