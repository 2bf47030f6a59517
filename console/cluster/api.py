"""The few requests we make of an API server, as a protocol; errors carry what the server said and no credential."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from planner.domain.errors import ClusterError, Issue
from planner.export.values import Json, Table, number, table

Query = Mapping[str, str]


class ApiError(Exception):
    """The server answered with an error, or could not be reached (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def gone(self) -> bool:
        """Whether the requested version is too old: list again."""
        return self.status == 410

    @property
    def denied(self) -> bool:
        """Whether RBAC or authentication refused."""
        return self.status in (401, 403)

    @classmethod
    def of_status(cls, body: Json, *, fallback: int) -> ApiError:
        """From a Status object, as a response or inside a watch."""
        status = table(body)
        code = number(status.get("code")) or fallback
        seconds = number(table(status.get("details")).get("retryAfterSeconds"))
        return cls(
            code,
            str(status.get("reason") or ""),
            str(status.get("message") or f"HTTP {code}")[:500],
            retry_after_s=float(seconds) if seconds else None,
        )


class Api(Protocol):
    """An API server. All methods raise ApiError."""

    @property
    def server(self) -> str:
        """Address, for messages."""

    async def get(self, path: str, query: Query | None = None, *, accept: str = "application/json") -> Json:
        """One JSON document."""

    async def text(self, path: str, query: Query | None = None, *, timeout_s: float = 10.0) -> str:
        """One text document, for metrics through the pod proxy."""

    def lines(
        self, path: str, query: Query, *, timeout_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A stream of lines, ended by the server or after `timeout_s` seconds of silence (ApiError status 0)."""

    async def dry_run_apply(self, path: str, body: Table, *, manager: str, force: bool = True) -> Json:
        """Server-side apply with ``dryRun=All``: what the object would become. Nothing is stored."""

    async def apply(self, path: str, body: Table, *, manager: str, force: bool = False) -> Json:
        """Server-side apply. `force` takes fields that another manager owns; without it they are a conflict (409)."""

    async def close(self) -> None:
        """Release connections."""


def unreachable(server: str, why: str) -> ClusterError:
    """The error shown when no request gets through."""
    return ClusterError(
        Issue(
            code="cluster.unreachable",
            what=f"no answer from {server}",
            why=why,
            fix="check the context (--context), the network and the VPN; kubectl version shows the same",
        )
    )


def refused(server: str, error: ApiError, what: str) -> ClusterError:
    """The error shown when the server refuses everything."""
    if error.status == 401:
        return ClusterError(
            Issue(
                code="cluster.unauthorized",
                what=f"{server} does not accept the credentials ({what})",
                why=error.message,
                fix="log in again, or choose another --context",
            )
        )
    return ClusterError(
        Issue(
            code="cluster.forbidden",
            what=f"{server} refuses {what}",
            why=error.message,
            fix="ask for the read-only role of `planner cluster rbac`",
        )
    )
