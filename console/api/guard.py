"""The gate before every route, method and file: host, origin, method, size, login, and the headers of every answer.

It is the outermost layer, so a route cannot be added that is not behind it (tests/api walks all of them).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from console.api.access import Viewer
from console.api.settings import MAX_JSON_BYTES, MAX_UPLOAD_BYTES

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:]+)\]|(?P<name>[a-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII)
SAFE: Final = frozenset({"GET", "HEAD"})
METHODS: Final = SAFE | {"POST", "DELETE"}
OPEN: Final = frozenset({"/login", "/healthz"})
UPLOADS: Final = "/api/v1/uploads/"
# plotly writes style rules, hence 'unsafe-inline' for styles; no script may be inline. PNG export draws through a blob.
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)


class Gatekeeper(Protocol):
    """Finds the viewer behind a cookie or a bearer."""

    async def by_cookie(self, value: str) -> Viewer | None:
        """The viewer of a session cookie."""

    async def by_bearer(self, value: str) -> Viewer | None:
        """The viewer of a bearer token."""


class Refusal(Exception):  # noqa: N818 - a way out of the checks below, never seen outside
    """A request that goes no further."""

    def __init__(self, status: int, code: str, why: str, fix: str) -> None:
        super().__init__(code)
        self.status, self.code, self.why, self.fix = status, code, why, fix


class Guard:
    """ASGI layer around the whole application."""

    def __init__(self, app: App, *, hosts: Iterable[str], cookie: str, keeper: Gatekeeper) -> None:
        self.inner = app
        self._hosts = frozenset(h.lower() for h in hosts)
        self._cookie = cookie
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, and add the headers."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        guarded = _with_headers(send, api=str(scope["path"]).startswith("/api/"))
        try:
            self._check_host(scope, headers)
            self._check_origin(scope, headers)
            limit = _check_body(scope, headers)
            viewer = await self._viewer(scope, headers)
        except Refusal as refusal:
            await _refuse(scope, headers, guarded, refusal)
            return
        scope.setdefault("state", {})["viewer"] = viewer
        await self.inner(scope, _bounded(receive, limit), guarded)

    def _check_host(self, scope: Scope, headers: Mapping[str, list[str]]) -> None:
        given = headers.get("host", [])
        name = _hostname(given[0]) if len(given) == 1 else ""
        if name in self._hosts or (scope["path"] == "/healthz" and len(given) == 1):
            return
        raise Refusal(
            403, "console.host", "the Host header names no address this console was started for",
            "open it under its own address, or allow the name with planner serve --allow-host NAME",
        )  # fmt: skip

    def _check_origin(self, scope: Scope, headers: Mapping[str, list[str]]) -> None:
        method = str(scope["method"])
        if method not in METHODS:
            raise Refusal(405, "console.method", f"{method} is not used here", "see the OpenAPI document")
        foreign = Refusal(
            403, "console.origin", "the request was made by a page of another site",
            "use the console's own pages, or a program with Authorization: Bearer",
        )  # fmt: skip
        origins = headers.get("origin", [])
        if origins and (len(origins) > 1 or not _same_site(origins[0], headers["host"][0])):
            raise foreign
        site = headers.get("sec-fetch-site", ["none"])[0].lower()
        page = method in SAFE and headers.get("sec-fetch-mode", [""])[0].lower() == "navigate"
        if site not in {"same-origin", "none"} and not (page and not scope["path"].startswith("/api/")):
            raise foreign
        if method in SAFE:
            return
        known = bool(origins) or site == "same-origin" or "authorization" in headers
        if not known:
            raise foreign

    async def _viewer(self, scope: Scope, headers: Mapping[str, list[str]]) -> Viewer | None:
        """Who asks; None only where no login is needed."""
        viewer = await self._found(headers)
        if viewer is None and scope["path"] not in OPEN:
            raise Refusal(
                401, "console.login", "this browser or program is not logged in",
                "open the address that planner serve printed; it works once",
            )  # fmt: skip
        return viewer

    async def _found(self, headers: Mapping[str, list[str]]) -> Viewer | None:
        given = headers.get("authorization", [])
        if given:
            scheme, _, value = given[0].partition(" ")
            if len(given) > 1 or scheme.lower() != "bearer":
                return None
            return await self._keeper.by_bearer(value.strip())
        for line in headers.get("cookie", []):
            try:
                found = SimpleCookie(line).get(self._cookie)
            except CookieError:
                continue
            if found is not None:
                return await self._keeper.by_cookie(found.value)
        return None


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _hostname(host: str) -> str:
    """The name without its port: ``[::1]:80`` gives ``::1``."""
    match = _HOST.fullmatch(host.strip().lower())
    return "" if match is None else (match["six"] or match["name"])


def _same_site(origin: str, host: str) -> bool:
    parts = urlsplit(origin)
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.strip().lower()


def _check_body(scope: Scope, headers: Mapping[str, list[str]]) -> int:
    """The number of bytes that may follow."""
    if scope["method"] in SAFE:
        return 0
    upload = str(scope["path"]).startswith(UPLOADS)
    limit = MAX_UPLOAD_BYTES if upload else MAX_JSON_BYTES
    lengths = headers.get("content-length", [])
    if any(not n.isdecimal() or int(n) > limit for n in lengths):
        raise Refusal(413, "console.too-large", f"more than {limit:,} bytes", "send less at a time")
    if scope["method"] == "DELETE":
        return limit
    kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    wanted = {"application/octet-stream"} if upload else {"application/json"}
    if scope["path"] == "/login":
        wanted = {"application/x-www-form-urlencoded"}
    if kind not in wanted:
        raise Refusal(
            415, "console.content-type", f"content type '{kind[:60]}'", f"send {' or '.join(wanted)}"
        )
    return limit


def _bounded(receive: Receive, limit: int) -> Receive:
    """Cut off a body that is longer than it said."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                return {"type": "http.disconnect"}
        return message

    return bounded


def _with_headers(send: Send, *, api: bool) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            extra = [*HEADERS, *([(b"cache-control", b"no-store")] if api else [])]
            message["headers"] = [
                *message.get("headers", []),
                *((n, v) for n, v in extra if n not in present),
            ]
        await send(message)

    return guarded


async def _refuse(scope: Scope, headers: Mapping[str, list[str]], send: Send, refusal: Refusal) -> None:
    """A page for people, a document for programs; neither says more than the reason."""
    wants_page = (
        scope["method"] == "GET"
        and not scope["path"].startswith("/api/")
        and "text/html" in headers.get("accept", [""])[0]
    )
    start: list[tuple[bytes, bytes]] = []
    if wants_page and refusal.status == 401:
        from console.api.login import login_page

        start.append((b"referrer-policy", b"same-origin"))
        body, kind = login_page(refusal.why).encode(), b"text/html; charset=utf-8"
    else:
        issue = {"code": refusal.code, "what": refusal.code, "why": refusal.why, "fix": refusal.fix}
        body = json.dumps({"issues": [{**issue, "where": None}]}).encode()
        kind = b"application/json"
    start += [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if refusal.status == 401:
        start.append((b"www-authenticate", b'Bearer realm="wideplan"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": start})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
