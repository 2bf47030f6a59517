"""The application: routes behind the guard, services opened at start and closed at the end."""

from __future__ import annotations

import getpass
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from console.api import failures, login
from console.api.access import Access
from console.api.answers import Answers
from console.api.guard import App, Guard
from console.api.redact import RedactingFilter, Redactor
from console.api.routes import frontier, pages, plans
from console.api.settings import Settings
from console.api.state import ConsoleState, Keeper, LocalKeeper
from planner import __version__
from planner.storage.store import open_store

OPENAPI = "/api/v1/openapi.json"


def create_app(settings: Settings, *, access: Access | None = None, keeper: Keeper | None = None) -> App:
    """The console as an ASGI application. `access` holds the secrets; the caller shows the one-time address."""
    access = access or Access(user=getpass.getuser())
    keeper = keeper or LocalKeeper(access)
    redactor = Redactor(access.secrets)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "wideplan.console", "asyncio"):
        logging.getLogger(name).addFilter(RedactingFilter(redactor))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with open_store(settings.store) as store:
            answers = Answers(profiles=settings.profiles, uploads=settings.uploads)
            app.state.console = ConsoleState(
                settings=settings, keeper=keeper, redactor=redactor, answers=answers, store=store
            )
            try:
                yield
            finally:
                answers.close()

    app = FastAPI(
        title="wideplan",
        version=__version__,
        lifespan=lifespan,
        openapi_url=OPENAPI,
        docs_url=None,  # both load scripts from elsewhere
        redoc_url=None,
        # fastapi would otherwise send traces to whatever OTEL_* in the environment names
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    failures.install(app, redactor)
    app.include_router(login.router)
    app.include_router(pages.router)
    app.include_router(frontier.router)
    app.include_router(plans.router)
    return Guard(app, hosts=settings.hosts, cookie=settings.cookie, keeper=keeper)
