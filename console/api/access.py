"""Who may use the console: a one-time address for the browser, a bearer for programs, nothing kept on disk but on demand."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from dataclasses import dataclass, field
from typing import Final

TOKEN_BYTES: Final = 32


def new_token() -> str:
    """256 random bits as text that is safe in an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Someone who was let in. `token` is the viewer's own Kubernetes token in a cluster, and empty elsewhere."""

    name: str
    token: str = field(default="", repr=False)


class Access:
    """The secrets of one run of the server; each comparison takes constant time."""

    def __init__(self, *, user: str, bearer: str | None = None) -> None:
        self.user = user
        self.bearer = bearer or new_token()
        self._login: str | None = new_token()
        self._session = new_token()
        self._lock = threading.Lock()

    @property
    def login(self) -> str | None:
        """The token of the one-time address; None once it was used."""
        return self._login

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must never be written anywhere."""
        return tuple(s for s in (self.bearer, self._session, self._login) if s)

    def redeem(self, token: str) -> str | None:
        """Exchange the one-time token, or the bearer, for the value of the session cookie."""
        with self._lock:
            if self._login is not None and _same(token, self._login):
                self._login = None
                return self._session
        return self._session if _same(token, self.bearer) else None

    def by_cookie(self, value: str) -> Viewer | None:
        """The viewer whose session cookie this is."""
        return Viewer(name=self.user) if _same(value, self._session) else None

    def by_bearer(self, value: str) -> Viewer | None:
        """The viewer of an ``Authorization: Bearer`` header."""
        return Viewer(name=self.user) if _same(value, self.bearer) else None


def _same(given: str, wanted: str) -> bool:
    # digests have one length, so the comparison tells nothing about the length either
    a = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
    return hmac.compare_digest(a, hashlib.sha256(wanted.encode()).digest())
