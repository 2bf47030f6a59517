"""Rules for ``metadata``: names, labels, annotations, finalizers, owners."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from console.cluster.fake.status import FORBIDDEN, INVALID, REQUIRED, TOO_LONG, Cause

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check(meta: Mapping[str, Any], *, old: Mapping[str, Any] | None = None) -> Iterator[Cause]:
    """Everything wrong with ``metadata``; `old` is the stored one on an update."""
    name = meta.get("name") or ""
    if not name and not meta.get("generateName"):
        yield Cause(REQUIRED, "metadata.name", "Required value: name or generateName is required")
    elif name and not _SUBDOMAIN.fullmatch(name):
        yield Cause(INVALID, "metadata.name", f"Invalid value: {json.dumps(name)}: {SUBDOMAIN_RULE}")
    if len(name) > 253:
        yield Cause(
            INVALID,
            "metadata.name",
            f"Invalid value: {json.dumps(name)}: must be no more than 253 characters",
        )
    for key, value in (meta.get("labels") or {}).items():
        yield from _key("metadata.labels", key)
        if not _VALUE.fullmatch(str(value)):
            yield Cause(INVALID, "metadata.labels", f"Invalid value: {json.dumps(value)}: {VALUE_RULE}")
        elif len(str(value)) > 63:
            yield Cause(
                INVALID,
                "metadata.labels",
                f"Invalid value: {json.dumps(value)}: must be no more than 63 bytes",
            )
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from _key("metadata.annotations", key)
    if sum(len(k) + len(str(v)) for k, v in annotations.items()) > 256 * 1024:
        yield Cause(TOO_LONG, "metadata.annotations", "Too long: may not be more than 262144 bytes")
    for owner in meta.get("ownerReferences") or ():
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield Cause(
                    INVALID,
                    f"metadata.ownerReferences.{field}",
                    f'Invalid value: "{owner.get(field, "")}": must not be empty',
                )
    if old is not None and old.get("deletionTimestamp"):
        added = [f for f in meta.get("finalizers") or () if f not in (old.get("finalizers") or ())]
        if added:
            shown = "[]string{" + ", ".join(json.dumps(a) for a in added) + "}"
            text = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            # The real server checks metadata twice for custom resources and says so twice.
            yield Cause(FORBIDDEN, "metadata.finalizers", text)
            yield Cause(FORBIDDEN, "metadata.finalizers", text)


def _key(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        yield Cause(INVALID, field, f"Invalid value: {json.dumps(key)}: prefix part {SUBDOMAIN_RULE}")
    if not _NAME_PART.fullmatch(name):
        yield Cause(INVALID, field, f"Invalid value: {json.dumps(key)}: {KEY_RULE}")
    elif len(name) > 63:
        yield Cause(
            INVALID, field, f"Invalid value: {json.dumps(key)}: name part must be no more than 63 bytes"
        )


def warnings(meta: Mapping[str, Any]) -> list[str]:
    """What the server warns about."""
    return [
        f'metadata.finalizers: "{f}": prefer a domain-qualified finalizer name to avoid accidental conflicts with other '
        "finalizer writers"
        for f in meta.get("finalizers") or ()
        if "/" not in f and f not in ("foregroundDeletion", "orphan")
    ]
