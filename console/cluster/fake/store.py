"""Versioned objects in memory: one counter for the whole store, history for watches, snapshots for paging."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.cluster.fake.status import StatusError, gone

Key = tuple[str, str]  # namespace, name
Group = tuple[str, str]  # API group, plural
HISTORY = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. `before` is the object as it was, None when it is new."""

    version: int
    type: str  # ADDED, MODIFIED, DELETED
    object: Mapping[str, Any]
    before: Mapping[str, Any] | None


@dataclass(slots=True)
class _Collection:
    objects: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    history: deque[Entry] = field(default_factory=lambda: deque(maxlen=HISTORY))
    watchers: set[asyncio.Queue[Entry | None]] = field(default_factory=set)
    oldest: int = 0  # watches from before this version are too old


class Store:
    """All objects. Stored objects are never changed in place."""

    def __init__(self, *, first_version: int = 1) -> None:
        self.version = first_version
        self._collections: dict[Group, _Collection] = {}
        self._snapshots: dict[tuple[Group, int], dict[Key, Mapping[str, Any]]] = {}
        self.compacted = 0

    def _of(self, group: Group) -> _Collection:
        return self._collections.setdefault(group, _Collection(oldest=self.version))

    def get(self, group: Group, key: Key) -> Mapping[str, Any] | None:
        """One object."""
        return self._of(group).objects.get(key)

    def list(self, group: Group, namespace: str | None) -> list[Mapping[str, Any]]:
        """Objects in key order."""
        held = self._of(group).objects
        return [held[k] for k in sorted(held) if namespace is None or k[0] == namespace]

    def next_version(self) -> int:
        """The version of the next write."""
        self.version += 1
        return self.version

    def put(self, group: Group, key: Key, obj: dict[str, Any]) -> dict[str, Any]:
        """Store an object under a new version."""
        collection = self._of(group)
        version = self.next_version()
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
        before = collection.objects.get(key)
        collection.objects[key] = stored
        self._publish(collection, Entry(version, "MODIFIED" if before else "ADDED", stored, before))
        return stored

    def delete(self, group: Group, key: Key) -> dict[str, Any]:
        """Remove an object; its last state carries the version of the removal."""
        collection = self._of(group)
        before = collection.objects.pop(key)
        version = self.next_version()
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(version)}}
        self._publish(collection, Entry(version, "DELETED", last, before))
        return last

    def _publish(self, collection: _Collection, entry: Entry) -> None:
        if len(collection.history) == HISTORY:
            collection.oldest = collection.history[0].version
        collection.history.append(entry)
        for queue in collection.watchers:
            queue.put_nowait(entry)

    # --- paging ---

    def snapshot(self, group: Group, version: int) -> dict[Key, Mapping[str, Any]] | None:
        """Objects as of `version`; None when it was compacted away."""
        if version <= self.compacted:
            return None
        return self._rewind(group, version)

    def _rewind(self, group: Group, version: int) -> dict[Key, Mapping[str, Any]]:
        collection = self._of(group)
        held = dict(collection.objects)
        for entry in reversed(collection.history):
            if entry.version <= version:
                break
            meta = entry.object["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            if entry.before is None:
                held.pop(key, None)
            else:
                held[key] = entry.before
        return held

    # --- test hooks ---

    def compact(self, *, watches: bool = False) -> None:
        """Forget versions before now, as etcd does; with `watches` the watch history goes too."""
        self.compacted = self.version - 1
        if watches:
            for collection in self._collections.values():
                collection.history.clear()
                collection.oldest = self.version

    def drop(self, groups: Iterable[Group]) -> None:
        """A kind is gone: objects are deleted one by one, then its watches end."""
        for group in groups:
            collection = self._collections.get(group)
            if collection is None:
                continue
            for key in sorted(collection.objects):
                self.delete(group, key)
            self.close_watches(group)

    def close_watches(self, group: Group | None = None) -> None:
        """End open watches without an event."""
        for name, collection in self._collections.items():
            if group is None or name == group:
                for queue in collection.watchers:
                    queue.put_nowait(None)

    # --- watch ---

    def too_old(self, group: Group, version: int) -> StatusError | None:
        """The 410 of a watch from before the history."""
        oldest = self._of(group).oldest
        if version < oldest:
            return gone(f"too old resource version: {version} ({oldest})")
        return None

    async def watch(self, group: Group, version: int) -> AsyncGenerator[Entry]:
        """Changes after `version`, then those to come. Ends when the kind's watches are closed."""
        collection = self._of(group)
        queue: asyncio.Queue[Entry | None] = asyncio.Queue()
        backlog = [e for e in collection.history if e.version > version]
        collection.watchers.add(queue)
        try:
            for entry in backlog:
                yield entry
            while (entry_or_end := await queue.get()) is not None:
                yield entry_or_end
        finally:
            collection.watchers.discard(queue)
