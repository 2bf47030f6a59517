"""The server-rendered shell of every page, and the files the client is made of."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from console.api.state import console_of
from console.figures.theme import CONFIG, PALETTE, THEMES, template

WEB: Final = Path(__file__).resolve().parents[2] / "web"
KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its address, its heading, and the sentence that is there before any script runs."""

    path: str
    name: str
    title: str
    about: str
    charts: bool = False
    in_menu: bool = True
    cluster: bool = False  # only when a cluster is followed


PAGES: Final = (
    Page(path="/", name="frontier", title="Frontier", charts=True,
         about="Every deployment worth running, by what a user gets and what a GPU gives."),
    Page(path="/plan", name="plan", title="Plan", charts=True, in_menu=False,
         about="One plan: where the step and the memory go, why this one, and its manifests."),
    Page(path="/new", name="new", title="New problem",
         about="Model, hardware, traffic and targets; answered at once, or searched by simulation."),
    Page(path="/studies", name="studies", title="Studies", charts=True,
         about="Searches on simulated results: what was tried, how far they are, and the best so far."),
    Page(path="/simulation", name="simulation", title="Simulation", charts=True,
         about="One plan under one traffic, once per router: queues, caches and ranks over time."),
    Page(path="/measurements", name="measurements", title="Measurements",
         about="Benchmark results of your own: import them, and see what fitting to them would change."),
    Page(path="/accuracy", name="accuracy", title="Accuracy", charts=True,
         about="Measured against predicted, with errors by engine, GPU and kind of plan."),
    Page(path="/experiments", name="experiments", title="Experiments",
         about="The laws of the field: published figures beside ours, and a verdict."),
    Page(path="/cluster", name="cluster", title="Cluster", cluster=True,
         about="What runs, per DP rank; what blocks a rollout; a plan against it. Nothing is changed."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as served: its bytes, plain and compressed, and the tag in its address."""

    body: bytes
    packed: bytes
    kind: str
    tag: str


@lru_cache(maxsize=64)
def asset(name: str) -> Asset | None:
    """The file `name` of the client, or plotly.js out of its own package; None when there is none."""
    if name == "plotly.min.js":
        from console.figures.plain import plotly_script

        path = plotly_script()
    else:
        root = WEB / "static"
        path = (root / name).resolve()
        if not path.is_relative_to(root) or path.suffix not in KINDS:
            return None
    if not path.is_file():
        return None
    body = path.read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:16]
    return Asset(body, gzip.compress(body, 6, mtime=0), KINDS[path.suffix], tag)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(WEB / "templates"), autoescape=True, undefined=StrictUndefined)


@lru_cache(maxsize=1)
def build_tag() -> str:
    """A tag over all files of the client: it is part of their addresses, so that they can be kept for ever."""
    digest = hashlib.sha256(version("plotly").encode())
    for path in sorted((WEB / "static").rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _page(request: Request, page: Page) -> Response:
    state = console_of(request)
    text = (
        _templates()
        .get_template("page.html")
        .render(
            page=page,
            pages=[p for p in PAGES if p.in_menu and (state.cluster is not None or not p.cluster)],
            build=build_tag(),
            settings=state.settings,
            appearance={
                "templates": {t.name: template(t) for t in THEMES},
                "config": CONFIG,
                "palette": PALETTE,
            },
        )
    )
    return Response(
        text, media_type="text/html; charset=utf-8", headers={"cache-control": "private, no-cache"}
    )


def add_pages(target: APIRouter) -> None:
    """One route per page."""
    for page in PAGES:

        def show(request: Request, page: Page = page) -> Response:
            return _page(request, page)

        target.add_api_route(page.path, show, methods=["GET", "HEAD"], name=f"page-{page.name}")


add_pages(router)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
def favicon() -> Response:
    """The icon, under the name that browsers ask for unasked."""
    found = asset("icon.svg")
    return Response(b"" if found is None else found.body, media_type="image/svg+xml")


@router.api_route("/static/{build}/{name:path}", methods=["GET", "HEAD"])
def static(request: Request, build: str, name: str) -> Response:
    """A file of the client. The address changes with the content, so it may be kept for ever."""
    found = asset(name)
    if found is None:
        raise HTTPException(404, f"no file {name[:80]}")
    current = build in {build_tag(), found.tag}
    headers = {
        "cache-control": "private, max-age=31536000, immutable" if current else "no-store",
        "vary": "accept-encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, media_type=found.kind, headers={**headers, "content-encoding": "gzip"})
    return Response(found.body, media_type=found.kind, headers=headers)
