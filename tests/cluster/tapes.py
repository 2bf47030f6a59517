"""Replays a recorded transcript against a server and compares by the rules of the recording's README."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
TAPES = SHARED / "tapes"
CRDS = SHARED / "crds"
PLACEHOLDER = re.compile(r"<(rv-\d+|uid-\d+|continue-\d+)>")
# A stock server answers /version/ and does not answer an unknown OpenAPI document with an empty page (the README says so).
QUIRKS = ("version-slash", "openapi-v3-unknown")
MESSAGES_BY_SHAPE = (
    "strict decoding",
    "typed patch object",
    "decoding YAML",
    "parse error",
    "continue key",
    "requirement",
)


def load_crds() -> list[dict[str, Any]]:
    """The CRDs the tapes were recorded with."""
    return [json.loads(p.read_text(encoding="utf-8")) for p in sorted(CRDS.glob("*.json"))]


def load(name: str) -> list[dict[str, Any]]:
    """The exchanges of a tape."""
    found: list[dict[str, Any]] = json.loads((TAPES / f"{name}.json").read_text(encoding="utf-8"))
    return [{"id": "setup", "response": {"status": 201}, **e} for e in found]


@dataclass
class Player:
    """Binds placeholders as answers come in; `problems` collects every difference."""

    base: str
    session: aiohttp.ClientSession
    bound: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def shape_only(self, exchange: dict[str, Any]) -> bool:
        """Answers the recording proxy made itself, and quirks of the recorded build."""
        return exchange.get("origin") == "proxy" or exchange["id"] in QUIRKS

    def fill(self, value: Any) -> Any:
        """Put bound values where placeholders stand."""
        if isinstance(value, str):
            return PLACEHOLDER.sub(lambda m: self.bound.get(m[0], m[0]), value)
        if isinstance(value, dict):
            return {k: self.fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        return value

    async def send(self, request: dict[str, Any]) -> aiohttp.ClientResponse:
        """Send one recorded request."""
        headers = {"User-Agent": "tape/1", **{k: v for k, v in request["headers"].items() if v is not None}}
        skip = () if "Accept" in headers else ("Accept",)
        data: Any = None
        if "body" in request:
            data = json.dumps(self.fill(request["body"])).encode()
        elif "body_text" in request:
            data = request["body_text"].encode()
        if data is None:
            skip = (*skip, "Content-Type")
        return await self.session.request(
            request["method"],
            self.base + request["path"],
            params={k: v for k, v in self.fill(request.get("query") or {}).items() if v != "<hash>"},
            headers=headers,
            data=data,
            skip_auto_headers=skip,
            allow_redirects=False,
        )

    async def play(self, exchanges: list[dict[str, Any]]) -> None:
        """Play all exchanges in order; requests recorded during a watch are made while it is open."""
        i = 0
        while i < len(exchanges):
            exchange = exchanges[i]
            inner = []
            while i + 1 < len(exchanges) and exchanges[i + 1].get("during") == exchange["id"]:
                i += 1
                inner.append(exchanges[i])
            if "events" in exchange["response"]:
                await self.watch(exchange, inner)
            else:
                await self.exchange(exchange)
            i += 1

    async def exchange(self, exchange: dict[str, Any]) -> None:
        """One request and its answer."""
        response = await self.send(exchange["request"])
        body = await response.read()
        if self.shape_only(exchange):
            return
        wanted, varies = exchange["response"], exchange.get("varies") or []
        where = exchange["id"]
        self.same(where, "status", wanted["status"], response.status)
        if response.status != wanted["status"]:
            self.problems.append(f"{where}: answered {body[:300]!r}")
            return
        media = response.headers.get("Content-Type", "").split(";")[0]
        if wanted.get("content_type") and "body_omitted" not in wanted and wanted["status"] != 301:
            self.same(where, "media type", wanted["content_type"].split(";")[0], media)
        warnings = (wanted.get("headers") or {}).get("warning")
        if warnings is not None:
            self.same(where, "warnings", sorted(warnings), sorted(response.headers.getall("Warning", [])))
        if "body" in wanted and not media.endswith("json"):
            self.problems.append(f"{where}: JSON wanted, got {body[:80]!r}")
        elif "body" in wanted:
            self.compare(where, wanted["body"], json.loads(body), varies)
        elif "body_text" in wanted and not media.endswith("yaml"):
            self.same(where, "text", wanted["body_text"], body.decode())

    async def watch(self, exchange: dict[str, Any], inner: list[dict[str, Any]]) -> None:
        """A watch, with the requests made while it was open."""
        response = await self.send(exchange["request"])
        wanted, where = exchange["response"], exchange["id"]
        self.same(where, "status", wanted["status"], response.status)
        if wanted["status"] != 200 or response.status != 200:
            return
        expected = [e for e in wanted["events"] if not _plain_bookmark(e)]
        seen: list[dict[str, Any]] = []
        pending = iter(inner)
        following = next(pending, None)
        while True:
            while following is not None and len(seen) >= _plain(wanted["events"], following["after_events"]):
                await self.exchange(following)
                following = next(pending, None)
            if len(seen) >= len(expected) and following is None:
                break
            try:
                # The count of events before a request was taken after its answer: do not wait for the event it caused.
                patience = 0.1 if following is not None else 2
                line = await asyncio.wait_for(response.content.readline(), patience)
            except TimeoutError:
                if following is not None:
                    await self.exchange(following)
                    following = next(pending, None)
                    continue
                break
            if not line:
                break
            event = json.loads(line)
            if not _plain_bookmark(event):
                seen.append(event)
                if len(seen) <= len(expected):
                    self.event(where, expected[len(seen) - 1], event)
        self.same(where, "number of events", len(expected), len(seen))
        if wanted.get("closed_by") == "server":
            try:
                rest = await asyncio.wait_for(response.content.read(), 4)
                self.same(where, "rest of the stream", b"", rest)
            except TimeoutError:
                self.problems.append(f"{where}: the server did not close the watch")
        response.close()

    def event(self, where: str, wanted: dict[str, Any], got: dict[str, Any]) -> None:
        """One watch event."""
        self.same(where, "event type", wanted["type"], got["type"])
        if wanted["type"] == "BOOKMARK":
            return
        self.compare(f"{where}/{wanted['type']}", wanted["object"], got["object"], [])

    # --- comparing ---

    def same(self, where: str, what: str, wanted: Any, got: Any) -> None:
        """Note a difference."""
        if wanted != got:
            self.problems.append(f"{where}: {what}: wanted {wanted!r}, got {got!r}"[:900])

    def bind(self, where: str, placeholder: str, value: Any) -> bool:
        """Bind a placeholder on first sight, then require equality."""
        held = self.bound.setdefault(placeholder, str(value))
        return held == str(value)

    def matches(self, where: str, wanted: Any, got: Any) -> bool:
        """Whether a recorded scalar and a value agree."""
        if isinstance(wanted, str) and PLACEHOLDER.fullmatch(wanted):
            return isinstance(got, str) and self.bind(where, wanted, got)
        if isinstance(wanted, str) and "<hash>" in wanted:
            return isinstance(got, str) and got.startswith(wanted.split("<hash>")[0])
        if wanted == "<time>":
            return isinstance(got, str) and bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", got))
        if wanted == "<age>":
            return isinstance(got, str) and bool(re.fullmatch(r"(\d+[smhd])+|<unknown>|", got))
        return bool(wanted == got) and type(wanted) is type(got)

    def compare(self, where: str, wanted: Any, got: Any, varies: list[str]) -> None:
        """An answer: Status, Table, list or object."""
        if not isinstance(wanted, dict) or not isinstance(got, dict):
            self.same(where, "body", wanted, got)
        elif wanted.get("kind") == "Status":
            self.status(where, wanted, got, varies)
        elif wanted.get("kind") == "Table":
            self.table(where, wanted, got)
        elif "paths" in wanted and "openapi" not in wanted:
            # Documents of the server itself are shape only.
            wanted = {
                k: v for k, v in wanted["paths"].items() if k not in ("apis/apiextensions.k8s.io", "version")
            }
            self.deep(where, wanted, got.get("paths"))
        elif "items" in wanted:
            self.same(
                where,
                "kind",
                (wanted["kind"], wanted["apiVersion"]),
                (got.get("kind"), got.get("apiVersion")),
            )
            self.deep(f"{where} metadata", wanted["metadata"], got.get("metadata"))
            self.same(where, "names", _names(wanted), _names(got))
        else:
            self.deep(where, _without_managed(wanted), _without_managed(got))
            self.same(where, "managedFields", _managed(wanted), _managed(got))

    def status(self, where: str, wanted: dict[str, Any], got: dict[str, Any], varies: list[str]) -> None:
        """A Status: everything but messages that are shape only."""
        for key in ("status", "reason", "code"):
            self.same(where, key, wanted.get(key), got.get(key))
        self.deep(f"{where} metadata", wanted.get("metadata"), got.get("metadata"))
        ours, theirs = got.get("details") or {}, wanted.get("details") or {}
        for key in ("name", "group", "kind", "retryAfterSeconds"):
            self.same(where, f"details.{key}", theirs.get(key), ours.get(key))
        self.same(where, "causes", _causes(theirs), _causes(ours))
        message = wanted.get("message", "")
        if "/response/body/message" in varies or any(t in message for t in MESSAGES_BY_SHAPE):
            return
        pattern = re.escape(self.fill(message))
        pattern = re.sub(r"<rv(-other|-\d+)?>|<rv\\-(other|\d+)>", r"\\d+", pattern)
        pattern = re.sub(r"<uid(\\?-\d+)>", r"[0-9a-f-]+", pattern)
        if not re.fullmatch(pattern, got.get("message", ""), re.DOTALL):
            self.same(where, "message", message, got.get("message"))

    def table(self, where: str, wanted: dict[str, Any], got: dict[str, Any]) -> None:
        """A Table: columns and cells."""
        self.same(
            where, "kind", (wanted["kind"], wanted["apiVersion"]), (got.get("kind"), got.get("apiVersion"))
        )
        self.deep(f"{where} metadata", wanted["metadata"], got.get("metadata"))
        self.same(where, "columns", _columns(wanted), _columns(got))
        theirs, ours = wanted.get("rows") or [], got.get("rows") or []
        self.same(where, "rows", len(theirs), len(ours))
        for a, b in zip(theirs, ours, strict=False):
            self.deep(f"{where} cells", a["cells"], b["cells"])
            if a.get("object") is None or b.get("object") is None:
                self.same(where, "object", a.get("object"), b.get("object"))
            else:
                self.same(where, "object kind", a["object"]["kind"], b["object"]["kind"])

    def deep(self, where: str, wanted: Any, got: Any, path: str = "$") -> None:
        """Equal after binding placeholders."""
        if isinstance(wanted, dict) and isinstance(got, dict):
            for key in sorted({*wanted, *got}):
                if key not in wanted or key not in got:
                    self.same(where, f"{path}.{key}", wanted.get(key, "(absent)"), got.get(key, "(absent)"))
                else:
                    self.deep(where, wanted[key], got[key], f"{path}.{key}")
        elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
            for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
                self.deep(where, a, b, f"{path}[{i}]")
        elif not self.matches(where, wanted, got):
            self.same(where, path, self.fill(wanted) if isinstance(wanted, str) else wanted, got)


def _plain_bookmark(event: dict[str, Any]) -> bool:
    if event["type"] != "BOOKMARK":
        return False
    return "k8s.io/initial-events-end" not in json.dumps(event) and event["object"].get("kind") != "Table"


def _plain(events: list[dict[str, Any]], count: int) -> int:
    return sum(not _plain_bookmark(e) for e in events[:count])


def _names(body: dict[str, Any]) -> list[str]:
    return [i.get("metadata", {}).get("name") for i in body.get("items") or []]


def _causes(details: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((c.get("reason", ""), c.get("field", "")) for c in details.get("causes") or [])


def _columns(body: dict[str, Any]) -> Any:
    found = body.get("columnDefinitions")
    return None if found is None else [(c["name"], c["type"], c["format"], c["priority"]) for c in found]


def _without_managed(body: dict[str, Any]) -> dict[str, Any]:
    meta = {k: v for k, v in (body.get("metadata") or {}).items() if k != "managedFields"}
    return {**body, "metadata": meta}


def _managed(body: dict[str, Any]) -> list[str]:
    return sorted(
        json.dumps({k: v for k, v in e.items() if k != "time"}, sort_keys=True)
        for e in (body.get("metadata") or {}).get("managedFields") or []
    )
