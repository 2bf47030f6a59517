"""Lists in pages and watches."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from console.cluster.fake.negotiate import Form
from console.cluster.fake.registry import Registry
from console.cluster.fake.resources import Resource
from console.cluster.fake.selectors import Match, field_selector, label_selector
from console.cluster.fake.status import (
    FORBIDDEN,
    UNSUPPORTED,
    Cause,
    StatusError,
    bad_request,
    gone,
    internal,
    invalid,
)
from console.cluster.fake.store import Entry
from console.cluster.fake.tables import check_include, columns_of, partial, table

Render = Callable[..., web.Response]
FIELDS = ("metadata.name", "metadata.namespace")
MORE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "pods": ("spec.nodeName", "status.phase", "status.podIP"),
    "events": ("involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid", "reason",
               "type"),
}  # fmt: skip
CONTINUE_VERSION = "meta.k8s.io/v1"
EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)
BOOKMARK_S = 60.0


@dataclass(frozen=True, slots=True)
class _Options:
    labels: Match | None
    fields: Match | None
    limit: int
    token: str
    version: str
    match: str
    initial: str
    timeout_s: float | None
    bookmarks: bool

    def fits(self, obj: Mapping[str, Any]) -> bool:
        return (self.labels is None or self.labels(obj)) and (self.fields is None or self.fields(obj))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _options(res: Resource, request: web.Request, *, watch: bool) -> _Options:
    q = request.query
    timeout = _integer(q["timeoutSeconds"]) if q.get("timeoutSeconds") else None
    options = _Options(
        labels=label_selector(q.get("labelSelector", "")),
        fields=field_selector(q.get("fieldSelector", ""), paths=FIELDS + MORE_FIELDS.get(res.plural, ())),
        limit=max(0, _integer(q["limit"])) if q.get("limit") else 0,
        token=q.get("continue", ""),
        version=q.get("resourceVersion", ""),
        match=q.get("resourceVersionMatch", ""),
        initial=q.get("sendInitialEvents", ""),
        timeout_s=float(timeout) if timeout else None,
        bookmarks=q.get("allowWatchBookmarks") in ("true", "1"),
    )
    causes = list(_check(options, watch=watch))
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)
    return options


def _check(o: _Options, *, watch: bool) -> list[Cause]:
    where, out = "resourceVersionMatch", list[Cause]()

    def forbid(field: str, why: str) -> None:
        out.append(Cause(FORBIDDEN, field, f"Forbidden: {why}"))

    if watch:
        if o.initial and not o.match:
            forbid(where, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        elif o.match and not o.initial:
            forbid(where, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        return out
    if o.match and not o.version:
        forbid(where, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    elif o.match and o.match not in ("Exact", "NotOlderThan"):
        out.append(
            Cause(
                UNSUPPORTED,
                where,
                f'Unsupported value: "{o.match}": supported values: "Exact", "NotOlderThan", ""',
            )
        )
    elif o.match == "Exact" and o.version == "0":
        forbid(where, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if o.initial:
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
    return out


def too_large(wanted: int, current: int) -> StatusError:
    """504 of a version from the future."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": CONTINUE_VERSION, "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, str]:
    why = "invalid continue token: continue key is not valid: "
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, start, kind = int(found["rv"]), str(found["start"]), found["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(why + str(error)) from None
    if kind != CONTINUE_VERSION:
        raise bad_request(f"{why}server does not recognize this encoded version {kind}")
    if version == 0 or not start:
        raise bad_request(f"{why}incorrect encoded start resourceVersion (version {CONTINUE_VERSION})")
    return version, start


async def serve_list(
    registry: Registry, res: Resource, namespace: str | None, request: web.Request, form: Form, render: Render
) -> web.Response:
    """GET on a collection."""
    if form.as_kind == "Table":
        check_include(request.query.get("includeObject"))
    o, store, group = _options(res, request, watch=False), registry.store, (res.group, res.plural)
    if o.token and o.version and o.version != "0":
        raise bad_request("specifying resource version is not allowed when using continue")
    version, start = store.version, ""
    if o.version and not o.version.isdigit():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{o.version}": strconv.ParseUint: parsing '
            f'"{o.version}": invalid syntax'
        )
    if o.version and int(o.version) > store.version:
        raise too_large(int(o.version), store.version)
    if o.match == "Exact":
        version = int(o.version)
    inconsistent = False
    if o.token:
        version, start = _read_token(o.token)
        inconsistent = version < 0
        version = store.version if inconsistent else version
    held = store.snapshot(group, version)
    if held is None:
        if o.token:
            raise StatusError(410, "Expired", EXPIRED_CONTINUE, metadata={"continue": _token(-1, start)})
        raise gone("The resourceVersion for the provided list is too old.")
    keys = [k for k in sorted(held) if namespace is None or k[0] == namespace]
    if start:
        keys = [k for k in keys if _start_of(k, namespace) >= start]
    fitting = [k for k in keys if o.fits(held[k])]
    limit = o.limit if o.version != "0" else 0
    page = fitting[:limit] if limit else fitting
    metadata: dict[str, Any] = {"continue": "", "resourceVersion": str(version)}
    if len(page) < len(fitting):
        metadata["continue"] = _token(version, _start_of(page[-1], namespace) + "\0")
        if o.labels is None and o.fields is None:
            metadata["remainingItemCount"] = len(fitting) - len(page)
    objects = [registry.as_version(res, held[k]) for k in page]
    return render(res, form, request, objects, metadata=metadata)


def _start_of(key: tuple[str, str], namespace: str | None) -> str:
    return key[1] if namespace is not None else "/".join(key)


class _Stream:
    """Writes watch events in the form asked for."""

    def __init__(self, registry: Registry, res: Resource, request: web.Request, form: Form) -> None:
        self.response = web.StreamResponse()
        self.response.headers["Content-Type"] = "application/json"
        self._registry, self._res, self._request, self._form = registry, res, request, form
        self._headed = False

    async def open(self) -> None:
        await self.response.prepare(self._request)

    async def send(self, kind: str, obj: Mapping[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": self._formed(kind, obj)})
        await self.response.write(line.encode() + b"\n")

    def _formed(self, kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        if kind == "ERROR" or not self._form.as_kind:
            return self._registry.as_version(self._res, obj) if kind != "ERROR" else obj
        if self._form.as_kind != "Table":
            return partial(obj, version=self._form.version)
        headed, self._headed = not self._headed, True
        return table(
            [obj],
            columns_of(self._res),
            metadata={"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")},
            include=check_include(self._request.query.get("includeObject")),
            now=self._registry.clock(),
            version=self._form.version,
            headed=headed,
        )

    async def bookmark(self, version: int, *, initial: bool = False) -> None:
        meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        await self.send(
            "BOOKMARK", {"kind": self._res.kind, "apiVersion": self._res.api_version, "metadata": meta}
        )


async def serve_watch(
    registry: Registry, res: Resource, namespace: str | None, request: web.Request, form: Form
) -> web.StreamResponse:
    """GET with ``watch=true``."""
    o, store, group = _options(res, request, watch=True), registry.store, (res.group, res.plural)
    if o.version and not o.version.isdigit():
        raise internal(
            f'resourceVersion: Invalid value: "{o.version}": strconv.ParseUint: parsing "{o.version}": invalid syntax'
        )
    stream = _Stream(registry, res, request, form)
    initial = o.initial == "true" or (o.initial == "" and o.version in ("", "0"))
    since = store.version if initial else int(o.version or "0")
    await stream.open()
    error = None if initial else store.too_old(group, since)
    if error is not None:
        await stream.send("ERROR", error.body())
        return stream.response
    if since > store.version:
        await asyncio.sleep(o.timeout_s or 3600.0)  # a version from the future: silence
        return stream.response

    def ours(obj: Mapping[str, Any]) -> bool:
        return (namespace is None or obj["metadata"].get("namespace", "") == namespace) and o.fits(obj)

    if initial:
        for obj in store.list(group, namespace):
            if o.fits(obj):
                await stream.send("ADDED", obj)
        if o.bookmarks:
            await stream.bookmark(since, initial=True)
    try:
        async with asyncio.timeout(o.timeout_s):
            await _follow(stream, registry, group, since, ours, bookmarks=o.bookmarks)
    except TimeoutError:
        pass
    except (ConnectionError, RuntimeError):
        return stream.response  # the client left
    return stream.response


async def _follow(
    stream: _Stream,
    registry: Registry,
    group: tuple[str, str],
    since: int,
    ours: Callable[[Mapping[str, Any]], bool],
    *,
    bookmarks: bool,
) -> None:
    changes = registry.store.watch(group, since)
    waiting: asyncio.Task[Entry | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(changes, None))
            done, _ = await asyncio.wait({waiting}, timeout=BOOKMARK_S)
            if not done:
                if bookmarks:
                    await stream.bookmark(registry.store.version)
                continue
            entry, waiting = waiting.result(), None
            if entry is None:
                return
            sent = _seen(entry, ours)
            if sent is not None:
                await stream.send(*sent)
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await changes.aclose()


def _seen(entry: Entry, ours: Callable[[Mapping[str, Any]], bool]) -> tuple[str, Mapping[str, Any]] | None:
    """The event a watcher with a selector sees: leaving the selection is DELETED, entering it ADDED."""
    before = entry.before is not None and ours(entry.before)
    after = entry.type != "DELETED" and ours(entry.object)
    if entry.type == "DELETED":
        return ("DELETED", entry.object) if before else None
    if after:
        return ("MODIFIED" if before else "ADDED", entry.object)
    if before and entry.before is not None:
        version = entry.object["metadata"]["resourceVersion"]
        last = {**entry.before, "metadata": {**entry.before["metadata"], "resourceVersion": version}}
        return ("DELETED", last)
    return None
