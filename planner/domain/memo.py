"""Facts derived once per object: a cache keyed by identity, for frozen values that are costly to hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class IdentityMemo(Generic[K, V]):
    """Remember `derive(key)` for the last `capacity` distinct objects.

    A deep frozen dataclass hashes all its fields on every look-up, which costs more than most rules; identity is
    enough here because the values never change. The key is kept alive, so an id cannot be re-used while cached.
    """

    def __init__(self, derive: Callable[[K], V], *, capacity: int = 64) -> None:
        self._derive = derive
        self._capacity = capacity
        self._entries: dict[int, tuple[K, V]] = {}

    def __call__(self, key: K) -> V:
        """Return the derived value, computing it on first sight of `key`."""
        entry = self._entries.get(id(key))
        if entry is not None:
            return entry[1]
        if len(self._entries) >= self._capacity:
            # pop with a default: another thread may have evicted the same oldest entry
            self._entries.pop(next(iter(self._entries)), None)
        value = self._derive(key)
        self._entries[id(key)] = (key, value)
        return value
