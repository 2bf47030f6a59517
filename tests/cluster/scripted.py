"""An API server that answers from a script, and a sink that remembers, for reflector tests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from console.cluster.api import ApiError, Query
from console.cluster.kinds import KINDS, Kind, Served
from console.cluster.objects import View
from console.cluster.reflector import Reflector, Timing

PODS = Served(KINDS[Kind.PODS], "v1")


def pod(name: str, version: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": labels,
        },
        "spec": {"containers": [{"name": "vllm"}]},
        "status": {"phase": "Running"},
    }


def listing(*pods: Mapping[str, Any], version: str, token: str = "") -> dict[str, Any]:
    return {"items": list(pods), "metadata": {"resourceVersion": version, "continue": token}}


def event(kind: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: str) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def expired(version: int = 1) -> bytes:
    status = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": f"too old resource version: {version} (9)",
    }
    return event("ERROR", status)


@dataclass
class ScriptedApi:
    """`lists` and `watches` are consumed in order; an exception in them is raised."""

    lists: list[Any] = field(default_factory=list)
    watches: list[Any] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    server: str = "scripted"

    async def get(self, path: str, query: Query | None = None, *, accept: str = "application/json") -> Any:
        self.queries.append(dict(query or {}))
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def text(self, path: str, query: Query | None = None, *, timeout_s: float = 10.0) -> str:
        raise ApiError(404, "NotFound", path)

    @asynccontextmanager
    async def lines(
        self, path: str, query: Query, *, timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.queries.append(dict(query))
        script = self.watches.pop(0)
        if isinstance(script, Exception):
            raise script

        async def stream() -> AsyncIterator[bytes]:
            for line in script:
                if isinstance(line, Exception):
                    raise line
                yield line

        yield stream()

    async def dry_run_apply(
        self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = True
    ) -> Any:
        raise ApiError(404, "NotFound", path)

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = False) -> Any:
        raise ApiError(404, "NotFound", path)

    async def close(self) -> None:
        pass


@dataclass
class Memory:
    """A sink that holds the views and every call."""

    held: dict[str, View] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    failures: list[ApiError] = field(default_factory=list)
    contacts: int = 0

    def listed(self, views: list[View]) -> None:
        fresh = {v.meta.key: v for v in views}
        self.deleted += [k for k in self.held if k not in fresh]
        self.held = fresh

    def upsert(self, view: View) -> None:
        self.held[view.meta.key] = view

    def delete(self, key: str) -> None:
        self.deleted.append(key)
        self.held.pop(key, None)

    def contact(self) -> None:
        self.contacts += 1

    def failed(self, error: ApiError) -> None:
        self.failures.append(error)


class Clock:
    """Monotonic seconds that move only when told."""

    def __init__(self, step: float = 10.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def reflector(api: ScriptedApi, sink: Memory, *, step: float = 10.0, **timing: float) -> Reflector:
    return Reflector(
        api=api,
        served=PODS,
        namespace="ns",
        sink=sink,
        clock=Clock(step),
        random=Random(1),  # noqa: S311
        timing=Timing(**timing),
    )
