"""Run the console under uvicorn: bind, print the one-time address, serve until stopped."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn

from console.api.access import Access
from console.api.app import create_app
from console.api.guard import Guard
from console.api.in_cluster import ACCOUNT, ApiServer, TokenKeeper
from console.api.settings import DEFAULT_RECIPE, LOOPBACK, Settings
from console.cluster.open import Opening, make_source
from planner.domain.errors import ClusterError, InputError, Issue, did_you_mean

GRACE_S: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The command line's choices."""

    host: str
    port: int
    recipe: str | None
    allowed: tuple[str, ...]
    profiles: Path | None
    behind_tls: bool
    open_browser: bool
    cluster: Opening | None
    in_cluster: bool
    allow_apply: bool = False


def run(serving: Serving, *, say: Callable[[str], None]) -> None:
    """Serve until interrupted. Raises InputError ``serve.port``, ``recipe.unknown``."""
    listener = _bind(serving.host, serving.port)
    port = int(listener.getsockname()[1])
    settings = Settings(
        host=serving.host,
        port=port,
        hosts=(*LOOPBACK, *serving.allowed),
        recipe=_recipe(serving.recipe),
        profiles=serving.profiles,
        secure_cookie=serving.behind_tls,
        in_cluster=serving.in_cluster,
        allow_apply=serving.allow_apply,
        cluster=None if serving.cluster is None else partial(make_source, serving.cluster),
    )
    if serving.in_cluster:
        keeper = _token_keeper(serving)
        say(f"console on port {port} for {', '.join(serving.allowed)}; viewers log in with their own token")
        _serve(create_app(settings, keeper=keeper, reviewer=keeper), listener)
        return
    access = Access(user=getpass.getuser())
    token_file = _write_token(access.bearer, port)
    shown = f"[{serving.host}]" if ":" in serving.host else serving.host
    address = f"http://{shown}:{port}/login?token={access.login}"
    say(f"console at {address}  (works once)")
    say(f"programs: Authorization: Bearer, token in {token_file}")
    if serving.behind_tls:
        say("listening beyond this machine: TLS in front is yours to provide")
    if serving.open_browser:
        webbrowser.open(address)
    try:
        _serve(create_app(settings, access=access), listener)
    finally:
        token_file.unlink(missing_ok=True)


def _serve(app: Guard, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        access_log=False,  # addresses may hold the one-time token
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=1000,
        lifespan="on",
    )
    # uvicorn raises the signal that ended it again: it must not end us before the token file is gone
    signal.signal(signal.SIGTERM, _leave)
    uvicorn.Server(config).run(sockets=[listener])


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _token_keeper(serving: Serving) -> TokenKeeper:
    """Reviews viewers' tokens with the API server of the cluster we run in. Raises ClusterError ``cluster.not-inside``."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        raise ClusterError(
            Issue(
                code="cluster.not-inside",
                what="--in-cluster outside a cluster",
                why="KUBERNETES_SERVICE_HOST is not set",
                fix="planner serve --manifests prints the objects that run it in a cluster; on your own machine use --cluster",
                where="--in-cluster",
            )
        )
    shown = f"[{host}]" if ":" in host else host
    server = ApiServer(
        address=f"https://{shown}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}",
        authority=ACCOUNT / "ca.crt" if (ACCOUNT / "ca.crt").is_file() else None,
    )
    namespace = None if serving.cluster is None else serving.cluster.namespace
    return TokenKeeper(server, namespace=namespace)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as e:
        listener.close()
        raise InputError(
            Issue(
                code="serve.port",
                what=f"{host}:{port} cannot be listened on",
                why=e.strerror or str(e),
                fix="choose another --port, or --port 0 for a free one",
                where="--port",
            )
        ) from None
    listener.listen(512)
    return listener


def _recipe(name: str | None) -> str:
    from planner.catalog.recipes import list_recipes

    known = list_recipes()
    if name is not None and name not in known:
        raise InputError(
            Issue(
                code="recipe.unknown",
                what=f"recipe '{name}'",
                why="there is no recipe of that name",
                fix=did_you_mean(name, known),
            )
        )
    return name or DEFAULT_RECIPE


def _write_token(token: str, port: int) -> Path:
    """The API token in a file that only this user can read; it goes with the process."""
    from platformdirs import user_data_path

    folder = user_data_path("wideplan") / "run"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"console-{port}.token"
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as f:
        f.write(token + "\n")
    return path
