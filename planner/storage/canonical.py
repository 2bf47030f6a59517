"""Canonical JSON and content hashes: equal values have equal text, so equal specifications are found again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def canonical_json(value: Json) -> str:
    """Compact JSON with sorted keys, UTF-8 text kept as it is and ``1.0`` written as ``1``.

    Raises ValueError for NaN and infinities, which JSON cannot express.
    """
    return json.dumps(
        _normalise(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(value: Json) -> str:
    """sha256 of the canonical JSON of `value`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def bytes_hash(data: bytes) -> str:
    """sha256 of raw bytes, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _normalise(value: Json) -> Json:
    # 8 and 8.0 are the same width or rate to a user; they must not be two specifications
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {k: _normalise(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_normalise(v) for v in value]
    return value
