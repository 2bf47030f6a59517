"""The console as a user runs it, with a cluster in a box and a search, in Debian's Chromium."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

sync_api = pytest.importorskip("playwright.sync_api")

import uvicorn  # noqa: E402

from console.api.access import Access  # noqa: E402
from console.api.app import create_app  # noqa: E402
from console.api.settings import Settings  # noqa: E402
from console.cluster.fake.box import cluster_in_a_box  # noqa: E402
from console.cluster.open import Opening, make_source  # noqa: E402
from console.views.manifests import export_of  # noqa: E402
from planner.export.options import Target  # noqa: E402
from planner.search.ask import Request, build_problem  # noqa: E402
from planner.search.from_recipe import with_recipe  # noqa: E402
from planner.search.recommend import recommend  # noqa: E402
from planner.storage.store import open_store  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECIPE = "gpt-oss-120b-h200x8"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
HOSTILE = "<img src=x onerror=document.title='owned'>"


@dataclass
class Served:
    """A running console."""

    address: str
    access: Access
    store: URL
    plan: str  # hash of the plan that runs in the cluster


class Running:
    """A server in a thread, with a cluster in a box beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.up = threading.Event()
        self.stop = asyncio.Event()
        self.served: Served | None = None
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._go, daemon=True)
        self.thread.start()
        assert self.up.wait(90), self.failed
        if self.failed is not None:
            raise self.failed

    def _go(self) -> None:
        try:
            self.loop.run_until_complete(self._run())
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failed = error
            self.up.set()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    async def _run(self) -> None:
        store = URL.create("sqlite", database=str(self.folder / "store.db"))
        problem, engine = build_problem(with_recipe(RECIPE, Request()))
        pick = recommend(problem, engine).pick
        assert pick is not None
        with open_store(store) as opened:
            digest = opened.plans.save(pick.plan)
            _fill_study(opened, problem)
        made = export_of(pick.plan, Target.LLM_D, profiles=None)
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile", "namespace": "default"}, "type": "Warning",
            "reason": "FailedScheduling", "message": HOSTILE, "count": 3, "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": "Pod", "name": HOSTILE, "namespace": "default"},
        }  # fmt: skip
        async with cluster_in_a_box(nodes=2, objects=[*(m.plain() for m in made.manifests), event]) as box:
            config = self.folder / "kubeconfig"
            config.write_text(box.kubeconfig())
            access = Access(user="tester")
            settings = Settings(
                store=store, uploads=self.folder / "uploads", recipe=RECIPE, port=1,
                cluster=lambda: make_source(Opening(kubeconfig=str(config), period_s=2.0)),
            )  # fmt: skip
            server = uvicorn.Server(
                uvicorn.Config(create_app(settings, access=access), port=0, log_level="error", access_log=False,
                               timeout_graceful_shutdown=1)
            )  # fmt: skip
            task = asyncio.ensure_future(server.serve())
            while not server.started:
                await asyncio.sleep(0.05)
                assert not task.done()
            port = server.servers[0].sockets[0].getsockname()[1]
            self.served = Served(f"http://127.0.0.1:{port}", access, store, digest)
            self.up.set()
            await self.stop.wait()
            server.should_exit = True
            await task

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(20)


def _fill_study(store: Any, problem: Any) -> None:
    from planner.domain.study import StudyState, TrialOutcome, TrialState
    from planner.search.studies.runner import Settings as Search
    from planner.search.studies.runner import create_study
    from planner.storage.studies import FinishedTrial

    name = create_study(store, problem, Search(trials=40), name="sample-study").name
    store.studies.record(
        name,
        [
            FinishedTrial(
                spec_hash=f"{i:064x}", parameters={"tp": 1 + i % 8},
                outcome=TrialOutcome(
                    state=TrialState.COMPLETE, values=(100.0 + 7 * i % 60, 20.0 + 11 * i % 50),
                    constraints={"ttft_ms": -0.2 if i % 4 else 0.3},
                    attributes={"plan": f"{HOSTILE} {i}" if i == 3 else f"plan {i}", "output_tok_s_per_gpu": 100.0 + 7 * i % 60,
                                "tpot_ms": 1000.0 / (20.0 + 11 * i % 50), "ttft_ms": 300.0},
                ),
            )
            for i in range(40)
        ],
        owner="test",
    )  # fmt: skip
    store.studies.set_state(name, StudyState.INTERRUPTED)


@dataclass
class Watched:
    """A page with everything that went wrong on it."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")
        self.ready()

    def ready(self) -> None:
        """Until the page has its data, and its charts are drawn."""
        self.page.locator("#page .chart[data-drawn], #page[data-ready]").first.wait_for(
            state="attached", timeout=45_000
        )
        for chart in self.page.locator(".chart:visible").all():
            chart.locator(".main-svg").first.wait_for(timeout=45_000)


Open = Callable[..., Any]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    running = Running(tmp_path_factory.mktemp("web"))
    assert running.served is not None
    yield running.served
    running.close()


@pytest.fixture(scope="session")
def browser(served: Served) -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, served: Served) -> Iterator[Open]:
    """``opened(width=…, scheme=…)``: a logged-in page that collects errors; none may be left at the end."""
    contexts: list[Any] = []
    pages: list[Watched] = []

    def make(*, width: int = 1280, height: int = 900, scheme: str = "light") -> Watched:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.add_init_script(
            "window.violations = []; document.addEventListener('securitypolicyviolation', "
            "(e) => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));"
        )
        cookie = served.access.redeem(served.access.bearer)
        context.add_cookies(
            [
                {
                    "name": "wideplan-1",
                    "value": cookie,
                    "url": served.address,
                    "httpOnly": True,
                    "sameSite": "Strict",
                }
            ]
        )
        page = context.new_page()
        watched = Watched(page, served.address)
        page.on("pageerror", lambda error: watched.errors.append(f"page error: {error}"))
        page.on(
            "console", lambda m: watched.errors.append(f"{m.type}: {m.text}") if m.type == "error" else None
        )
        page.on(
            "requestfailed",
            lambda r: (
                watched.errors.append(f"failed: {r.url}")
                if "/events" not in r.url and "ABORTED" not in str(r.failure)
                else None
            ),
        )
        page.on(
            "request",
            lambda r: (
                watched.errors.append(f"foreign: {r.url}")
                if not r.url.startswith((served.address, "blob:", "data:"))
                else None
            ),
        )
        pages.append(watched)
        return watched

    yield make
    for watched in pages:
        watched.errors += [f"policy: {v}" for v in watched.page.evaluate("window.violations")]
    errors = [e for w in pages for e in w.errors]
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script: from its npm package, where AXE_CORE_JS or node_modules has it."""
    candidates = [Path(os.environ.get("AXE_CORE_JS", "")), ROOT / "node_modules" / "axe-core" / "axe.min.js"]
    found = next((p for p in candidates if p.is_file()), None)
    if found is None:
        pytest.skip("needs axe-core: npm install --no-save axe-core, or AXE_CORE_JS=path/to/axe.min.js")
    return found.read_text(encoding="utf-8")
