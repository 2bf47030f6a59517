"""`planner serve`: the browser console."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from planner.cli import options as o
from planner.domain.errors import InputError, Issue

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    recipe: Annotated[
        str | None, typer.Argument(help="The recipe shown first (planner recipes list).")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Another name browsers may use. Repeatable.")
    ] = None,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy ends TLS in front: any address, secure cookie.")
    ] = False,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in your browser.")
    ] = False,
    profiles: o.Profiles = None,
) -> None:
    """Open the browser console: frontier, plans, studies, measurements, cluster.

    Listens on this machine only, and prints an address that works once. Nothing is changed in a cluster.
    """
    if host not in LOOPBACK and not behind_tls:
        raise InputError(
            Issue(
                code="serve.open-address",
                what=f"--host {host}",
                why="anyone on that network could read what is sent, the login included",
                fix="keep 127.0.0.1 and use ssh -L, or put TLS in front and say --behind-tls --allow-host NAME",
                where="--host",
            )
        )
    from console.api.serve import Serving, run

    run(
        Serving(
            host=host,
            port=port,
            recipe=recipe,
            allowed=tuple(allow_host or ()),
            profiles=profiles,
            behind_tls=behind_tls,
            open_browser=open_browser,
        ),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
