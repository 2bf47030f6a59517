"""What the routes share, and how they reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fastapi import Request

from console.api.access import Access, Viewer
from console.api.answers import Answers
from console.api.children import Children
from console.api.events import Hub
from console.api.following import Following
from console.api.redact import Redactor
from console.api.settings import Settings
from console.api.study_data import StudyData
from planner.storage.store import Store


class Keeper(Protocol):
    """Lets viewers in; locally with secrets of this run, in a cluster with the viewer's own token."""

    async def by_cookie(self, value: str) -> Viewer | None:
        """The viewer of a session cookie."""

    async def by_bearer(self, value: str) -> Viewer | None:
        """The viewer of a bearer token."""

    async def redeem(self, token: str) -> str | None:
        """The cookie's value for a token, if the token is good."""


class Reviewer(Protocol):
    """Asks whether a viewer may see what the console itself reads."""

    async def may_read(self, viewer: Viewer) -> None:
        """Raise ClusterError ``cluster.forbidden`` unless the viewer may."""


class LocalKeeper:
    """One user: whoever started the server."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def by_cookie(self, value: str) -> Viewer | None:
        """The viewer of a session cookie."""
        return self.access.by_cookie(value)

    async def by_bearer(self, value: str) -> Viewer | None:
        """The viewer of a bearer token."""
        return self.access.by_bearer(value)

    async def redeem(self, token: str) -> str | None:
        """The session for the one-time token."""
        return self.access.redeem(token)


@dataclass(slots=True, kw_only=True)
class ConsoleState:
    """Services of one running console."""

    settings: Settings
    keeper: Keeper
    redactor: Redactor
    answers: Answers
    store: Store
    studies: StudyData
    children: Children
    hub: Hub
    cluster: Following | None = None
    reviewer: Reviewer | None = None


def console_of(request: Request) -> ConsoleState:
    """The services behind a request."""
    state: ConsoleState = request.app.state.console
    return state


def viewer_of(request: Request) -> Viewer:
    """Who asks; the guard lets nobody else through."""
    viewer: Viewer = request.scope["state"]["viewer"]
    return viewer
