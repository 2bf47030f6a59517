"""Errors as documents: a planner's error says what, why and fix; ours says a number and stays out of the answer."""

from __future__ import annotations

import logging
import secrets

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from console.api.redact import Redactor
from console.api.wire import Issues, issues_of
from planner.domain.errors import (
    ClusterError,
    InputError,
    Issue,
    MissingDataError,
    NotFeasibleError,
    PlannerError,
)

_LOG = logging.getLogger("wideplan.console")
_STATUS: tuple[tuple[type[PlannerError], int], ...] = (
    (InputError, 422),
    (MissingDataError, 404),
    (NotFeasibleError, 409),
    (ClusterError, 424),
)


def status_of(error: PlannerError) -> int:
    """HTTP status of a planner's error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 422)


def install(app: FastAPI, redactor: Redactor) -> None:
    """Register the handlers."""

    def answer(status: int, *issues: Issue) -> Response:
        body: Issues = issues_of(*issues)
        return Response(
            redactor.text(body.model_dump_json()), status_code=status, media_type="application/json"
        )

    @app.exception_handler(PlannerError)
    async def planner_error(_: Request, error: PlannerError) -> Response:
        return answer(status_of(error), *error.issues)

    @app.exception_handler(RequestValidationError)
    async def bad_request(_: Request, error: RequestValidationError) -> Response:
        issues = [
            Issue(
                code="request.value",
                what=".".join(str(p) for p in e["loc"]),
                why=str(e["msg"]),
                fix="see /api/v1/openapi.json",
            )
            for e in error.errors()
        ]
        return answer(422, *issues)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        issue = Issue(
            code=f"http.{error.status_code}",
            what=str(error.detail),
            why="there is no such address" if error.status_code == 404 else "the request does not fit it",
            fix="see /api/v1/openapi.json",
        )
        body = issues_of(issue).model_dump(mode="json")
        return JSONResponse(body, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def our_error(request: Request, error: Exception) -> Response:
        number = secrets.token_hex(4)
        _LOG.error("error %s in %s %s", number, request.method, request.url.path, exc_info=error)
        return answer(
            500,
            Issue(
                code="console.bug",
                what=f"error {number}",
                why="the console failed; this is our bug",
                fix="the log of planner serve has the details under this number",
            ),
        )
