"""The application: routes behind the guard, services opened at start and closed at the end."""

from __future__ import annotations

import getpass
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from fastapi import FastAPI

from console.api import failures, login
from console.api.access import Access
from console.api.answers import Answers
from console.api.children import Children
from console.api.events import Hub
from console.api.following import Following
from console.api.guard import Guard
from console.api.redact import RedactingFilter, Redactor
from console.api.routes import (
    apply,
    cluster,
    events,
    frontier,
    measurements,
    pages,
    plans,
    problems,
    simulation,
    studies,
)
from console.api.settings import Settings
from console.api.state import ConsoleState, Keeper, LocalKeeper, Reviewer
from console.api.study_data import StudyData
from planner import __version__
from planner.storage.store import open_store

OPENAPI: Final = "/api/v1/openapi.json"
STUDIES_S: Final = 1.0
CLUSTER_S: Final = 2.0
LISTED: Final = 50
LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "wideplan.console", "asyncio")


def _places(settings: Settings) -> dict[str, str]:
    """Folders of this machine that are shown by a name."""
    home = Path.home()
    return {str(settings.uploads): "uploads", **({str(home): "~"} if home != home.parent else {})}


@contextmanager
def _redacted_logs(redactor: Redactor) -> Iterator[None]:
    """Nothing is logged with a secret in it while the console runs."""
    applied = RedactingFilter(redactor)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(applied)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(applied)


async def _studies(state: ConsoleState) -> str:
    listed = await state.answers.run(studies.list_studies, state, LISTED, 0)
    return state.redactor.text(listed.model_dump_json())


async def _cluster(state: ConsoleState, following: Following) -> str:
    made = await state.answers.run(cluster.cluster_json, state, following.snapshot())
    return made.decode()


def create_app(
    settings: Settings,
    *,
    access: Access | None = None,
    keeper: Keeper | None = None,
    reviewer: Reviewer | None = None,
) -> Guard:
    """The console as an ASGI application. `access` holds the secrets; the caller shows the one-time address."""
    if keeper is None:
        access = access or Access(user=getpass.getuser())
        keeper = LocalKeeper(access)
    redactor = Redactor(access.secrets if access is not None else (), places=_places(settings))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with _redacted_logs(redactor), open_store(settings.store) as store:
            answers = Answers(profiles=settings.profiles, uploads=settings.uploads)
            state = app.state.console = ConsoleState(
                settings=settings,
                keeper=keeper,
                redactor=redactor,
                answers=answers,
                store=store,
                studies=StudyData(store),
                children=Children(settings.store),
                hub=Hub(),
                reviewer=reviewer,
            )
            state.hub.add("studies", partial(_studies, state), every_s=STUDIES_S)
            if settings.cluster is not None:
                state.cluster = Following(settings.cluster)
                state.cluster.start()
                state.hub.add("cluster", partial(_cluster, state, state.cluster), every_s=CLUSTER_S)
            try:
                yield
            finally:
                state.hub.close()
                if state.cluster is not None:
                    await state.cluster.close()
                await state.children.close()
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
    for module in (frontier, plans, problems, studies, simulation, measurements, cluster, apply, events):
        app.include_router(module.router)
    return Guard(app, hosts=settings.hosts, cookie=settings.cookie, keeper=keeper)
