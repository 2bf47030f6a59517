"""Letting a browser in: the one-time address, and a form for the API token when that address is used up."""

from __future__ import annotations

from html import escape
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from console.api.state import ConsoleState, console_of

router = APIRouter()
# a form posted under no-referrer has the origin "null", which the guard refuses
LOGIN_HEADERS: Final = {"cache-control": "no-store", "referrer-policy": "same-origin"}


def login_page(why: str, *, in_cluster: bool = False) -> str:
    """The page shown without a session; it needs no file of the console."""
    what = "Kubernetes token" if in_cluster else "API token"
    hint = (
        "Paste a token of yours, for example from <code>kubectl create token</code>. It is used for your own requests only."
        if in_cluster
        else "Open the address that <code>planner serve</code> printed: it works once. "
        "For another browser, paste the API token from the file that it named."
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in – wideplan</title><link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 34rem; margin: 12vh auto; padding: 0 1rem; }}
input {{ font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; }}
button {{ font: inherit; margin-top: .75rem; padding: .5rem 1rem; }}
</style></head>
<body><main><h1>Log in</h1><p role="status">{escape(why)}</p><p>{hint}</p>
<form method="post" action="/login"><label for="t">{what}</label>
<input id="t" name="token" type="password" autocomplete="off" required>
<button>Log in</button></form></main></body></html>"""


def _session(state: ConsoleState, value: str) -> Response:
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        state.settings.cookie,
        value,
        httponly=True,
        samesite="strict",
        path="/",
        secure=state.settings.secure_cookie,
    )
    answer.headers["cache-control"] = "no-store"
    return answer


def _refused(state: ConsoleState) -> Response:
    page = login_page("That token is not valid, or it was used before.", in_cluster=state.settings.in_cluster)
    return HTMLResponse(page, status_code=401, headers=LOGIN_HEADERS)


@router.get("/login", include_in_schema=False)
async def login(request: Request, token: Annotated[str | None, Query(max_length=4096)] = None) -> Response:
    """Exchange the one-time token for the session cookie, and leave no token in the address bar."""
    state = console_of(request)
    if token is None or state.settings.in_cluster:
        page = login_page("Not logged in.", in_cluster=state.settings.in_cluster)
        return HTMLResponse(page, headers=LOGIN_HEADERS)
    value = await state.keeper.redeem(token)
    return _refused(state) if value is None else _session(state, value)


@router.post("/login", include_in_schema=False)
async def login_form(request: Request) -> Response:
    """The same with a token from the form."""
    state = console_of(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=4)
    value = await state.keeper.redeem(fields.get("token", [""])[0].strip())
    return _refused(state) if value is None else _session(state, value)


@router.get("/healthz", include_in_schema=False)
async def healthz() -> Response:
    """That the process answers; says nothing else."""
    return PlainTextResponse("ok")
