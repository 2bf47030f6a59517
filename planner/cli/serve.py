"""`planner serve`: the browser console."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.completing import recipe_names
from planner.domain.errors import InputError, Issue

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    recipe: Annotated[
        str | None,
        typer.Argument(help="The recipe shown first (planner recipes list).", autocompletion=recipe_names),
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
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Follow the cluster of your kubeconfig, read-only.")
    ] = False,
    context: Annotated[
        str | None, typer.Option("--context", help="Context of the kubeconfig; implies --cluster.")
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", help="Kubeconfig file; implies --cluster.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace to follow; default: the context's.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="A recording (planner cluster record) instead of a cluster."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", help="Address of a Prometheus server that scrapes the engines."),
    ] = None,
    allow_apply: Annotated[
        bool, typer.Option("--allow-apply", help="Let a reviewed plan be applied from the cluster page.")
    ] = False,
    in_cluster: Annotated[
        bool,
        typer.Option("--in-cluster", help="Run in a pod: viewers log in with their own Kubernetes token."),
    ] = False,
    manifests: Annotated[
        bool, typer.Option("--manifests", help="Print the objects that run it in a cluster, and stop.")
    ] = False,
    image: Annotated[
        str | None, typer.Option("--image", help="Container image with wideplan, for --manifests.")
    ] = None,
    profiles: o.Profiles = None,
) -> None:
    """Open the browser console: frontier, plans, studies, measurements, cluster.

    Listens on this machine only, and prints an address that works once. Nothing is changed in a cluster.
    """
    if manifests:
        _print_manifests(namespace, image, allow_host)
        return
    if allow_apply and (in_cluster or replay is not None):
        raise InputError(
            Issue(
                code="serve.allow-apply",
                what="--allow-apply in a pod or on a recording",
                why="changes are made with your own kubeconfig only",
                fix="run it on your own machine with --cluster --allow-apply",
                where="--allow-apply",
            )
        )
    if in_cluster and not allow_host:
        raise InputError(_needs_host("--in-cluster"))
    if host not in LOOPBACK and not (behind_tls or in_cluster):
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
    from console.cluster.open import Opening

    opening = Opening(
        context=context, kubeconfig=kubeconfig, namespace=namespace, replay=replay, prometheus=prometheus
    )
    followed = cluster or in_cluster or replay is not None or context is not None or kubeconfig is not None
    run(
        Serving(
            host=host,
            port=port,
            recipe=recipe,
            allowed=tuple(allow_host or ()),
            profiles=profiles,
            behind_tls=behind_tls or in_cluster,
            open_browser=open_browser,
            cluster=opening if followed else None,
            in_cluster=in_cluster,
            allow_apply=allow_apply,
        ),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )


def _print_manifests(namespace: str | None, image: str | None, hosts: list[str] | None) -> None:
    if image is None:
        raise InputError(
            Issue(
                code="serve.image",
                what="--manifests without --image",
                why="wideplan publishes no image: the cluster needs one of yours with wideplan installed",
                fix="give --image REGISTRY/NAME:TAG",
                where="--image",
            )
        )
    if not hosts:
        raise InputError(_needs_host("--manifests"))
    from console.api.deployment import console_yaml

    sys.stdout.write(console_yaml(namespace=namespace or "default", image=image, hosts=hosts))


def _needs_host(flag: str) -> Issue:
    return Issue(
        code="serve.allow-host",
        what=f"{flag} without --allow-host",
        why="the console answers only under names it was told, so that other sites cannot reach it through a browser",
        fix="give the name of your Ingress or Gateway: --allow-host console.example.com",
        where="--allow-host",
    )
