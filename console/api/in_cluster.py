"""Inside a cluster: viewers come with their own Kubernetes token, and see only what that token may list.

The server keeps no token: it lies in the viewer's cookie (HttpOnly, Secure, SameSite=Strict) or comes in each request's
``Authorization`` header from a proxy. What is remembered, for a minute, is the answer about a token, under its hash.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from console.api.access import Viewer
from planner.domain.errors import ClusterError, Issue

REMEMBERED_S: Final = 60.0
KEPT: Final = 1024
LONGEST_TOKEN: Final = 3800  # a cookie holds 4,096 bytes with its name and attributes
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_MAY: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """Where tokens are reviewed."""

    address: str
    authority: Path | None = None  # certificate authority; None: the system's

    def tls(self) -> ssl.SSLContext | bool:
        """How the server's certificate is checked."""
        return True if self.authority is None else ssl.create_default_context(cafile=str(self.authority))


class _Remembered:
    """Answers about tokens, by hash, for a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: OrderedDict[bytes, tuple[float, Any]] = OrderedDict()

    def get(self, token: str) -> Any | None:
        key = _digest(token)
        held = self._held.get(key)
        if held is None or held[0] < self._clock():
            self._held.pop(key, None)
            return None
        return held[1]

    def put(self, token: str, answer: Any) -> None:
        self._held[_digest(token)] = (self._clock() + REMEMBERED_S, answer)
        while len(self._held) > KEPT:
            self._held.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class TokenKeeper:
    """Lets in whoever the API server knows, and asks it what they may read."""

    def __init__(
        self, server: ApiServer, *, namespace: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._namespace = namespace
        self._names = _Remembered(clock)
        self._readers = _Remembered(clock)

    async def by_cookie(self, value: str) -> Viewer | None:
        """The viewer whose token the cookie holds."""
        return await self.by_bearer(value)

    async def by_bearer(self, value: str) -> Viewer | None:
        """The viewer of a token; None when the API server does not accept it."""
        if not value or len(value) > LONGEST_TOKEN or not value.isascii() or not value.isprintable():
            return None
        name = self._names.get(value)
        if name is None:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = await self._ask(_WHO, review, value)
            info = (answer or {}).get("status", {}).get("userInfo", {})
            name = str(info.get("username") or "")
            if not name or name == "system:anonymous":
                return None
            self._names.put(value, name)
        return Viewer(name=name, token=value)

    async def redeem(self, token: str) -> str | None:
        """The cookie's value: the token itself, once the API server accepts it."""
        return None if await self.by_bearer(token) is None else token

    async def may_read(self, viewer: Viewer) -> None:
        """Raise ClusterError ``cluster.forbidden`` unless the viewer may list the pods that are shown."""
        allowed = self._readers.get(viewer.token)
        if allowed is None:
            attributes = {"verb": "list", "resource": "pods", "group": ""}
            if self._namespace is not None:
                attributes["namespace"] = self._namespace
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
            answer = await self._ask(_MAY, review, viewer.token)
            allowed = bool((answer or {}).get("status", {}).get("allowed"))
            self._readers.put(viewer.token, allowed)
        if not allowed:
            raise ClusterError(
                Issue(
                    code="cluster.forbidden",
                    what=f"{viewer.name} may not list pods in namespace {self._namespace or '(all)'}",
                    why="the console shows the cluster only to those who could read it themselves",
                    fix="ask for the read-only role of `planner cluster rbac`",
                )
            )

    async def _ask(self, path: str, review: dict[str, Any], token: str) -> dict[str, Any] | None:
        """The answer to a review made as the viewer; None when the token is not accepted."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.post(
                    self._server.address + path, json=review, headers=headers, ssl=self._server.tls(), allow_redirects=False
                ) as response,
            ):  # fmt: skip
                if response.status not in (200, 201):
                    return None
                answer: dict[str, Any] = await response.json()
                return answer
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None  # nobody is let in while the API server cannot be asked
