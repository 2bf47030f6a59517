"""Ways to reach engine metrics: Prometheus, the API server's pod proxy, pod addresses. One round scrapes all targets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from console.cluster.api import Api, ApiError
from console.cluster.metrics.samples import COUNTER_NAMES, GAUGE_NAMES, HISTOGRAM_NAMES
from planner.domain.errors import InputError, Issue
from planner.export.values import dig, rows, table

if TYPE_CHECKING:
    import aiohttp

PROXY_CONCURRENCY = 8
PROXY_MAX_PODS = 64
DIRECT_CONCURRENCY = 32
SCRAPE_S = 8.0
PROMETHEUS_LABELS = "app.kubernetes.io/name in (prometheus,kube-prometheus-stack-prometheus)"


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """An endpoint to scrape."""

    namespace: str
    pod: str
    port: int
    ip: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What a target answered: text, or why there is none."""

    target: Target
    text: str = ""
    failed: str = ""
    denied: bool = False


class Way(Protocol):
    """How metrics are reached. `name` is shown; `max_pods` bounds one round (0 = all)."""

    name: str
    max_pods: int

    def scrape(self, targets: Sequence[Target]) -> AsyncIterator[Page]:
        """Pages in any order, one per target."""

    async def close(self) -> None:
        """Release connections."""


async def _bounded(targets: Sequence[Target], way: _PerTarget, limit: int) -> AsyncIterator[Page]:
    """At most `limit` scrapes at once; each page is handed on as soon as it is there."""
    waiting = iter(targets)
    running: set[asyncio.Task[Page]] = set()
    try:
        while True:
            while len(running) < limit and (target := next(waiting, None)) is not None:
                running.add(asyncio.create_task(way.page(target)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()


class _PerTarget(Protocol):
    async def page(self, target: Target) -> Page:
        """Scrape one target; never raises for a target that fails."""


class ProxyWay:
    """``pods/proxy`` of the API server: needs a kubeconfig only; the load passes the API server, so pods are sampled."""

    name = "API server proxy"

    def __init__(
        self, api: Api, *, max_pods: int = PROXY_MAX_PODS, concurrency: int = PROXY_CONCURRENCY
    ) -> None:
        self._api = api
        self.max_pods = max_pods
        self._concurrency = concurrency

    async def page(self, target: Target) -> Page:
        """One page through the proxy."""
        path = f"/api/v1/namespaces/{target.namespace}/pods/{target.pod}:{target.port}/proxy/metrics"
        try:
            return Page(target, await self._api.text(path, timeout_s=SCRAPE_S))
        except ApiError as error:
            denied = error.status == 403 and "pods/proxy" in error.message
            return Page(target, failed=_short(error), denied=denied)

    async def scrape(self, targets: Sequence[Target]) -> AsyncIterator[Page]:
        """All targets, a few at a time."""
        async for page in _bounded(targets, self, self._concurrency):
            yield page

    async def close(self) -> None:
        """Nothing of its own to close."""


class DirectWay:
    """Pod addresses: fastest, works inside the cluster."""

    name = "pod addresses"

    def __init__(self, *, concurrency: int = DIRECT_CONCURRENCY) -> None:
        self.max_pods = 0
        self._concurrency = concurrency
        self._session: aiohttp.ClientSession | None = None

    async def page(self, target: Target) -> Page:
        """One page from the pod."""
        import aiohttp

        if not target.ip:
            return Page(target, failed="no pod address yet")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=SCRAPE_S, sock_connect=3.0)
            )
        host = f"[{target.ip}]" if ":" in target.ip else target.ip
        try:
            async with self._session.get(f"http://{host}:{target.port}/metrics") as response:
                if response.status != 200:
                    return Page(target, failed=f"HTTP {response.status}")
                return Page(target, (await response.read()).decode("utf-8", "replace"))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Page(target, failed=type(error).__name__)

    async def scrape(self, targets: Sequence[Target]) -> AsyncIterator[Page]:
        """All targets, many at a time."""
        async for page in _bounded(targets, self, self._concurrency):
            yield page

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


class PrometheusWay:
    """A Prometheus server: two queries for all ranks. Targets are matched by ``namespace``, ``pod`` and the port."""

    max_pods = 0

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(
                Issue(
                    code="cluster.prometheus_url",
                    what=f"'{url}'",
                    why="the address of a Prometheus server starts with http:// or https://",
                    fix="e.g. http://localhost:9090 after kubectl port-forward",
                    where="--prometheus",
                )
            )
        self._url = url.rstrip("/")
        self.name = f"Prometheus at {self._url.split('//', 1)[1].rsplit('@', 1)[-1]}"

    async def scrape(self, targets: Sequence[Target]) -> AsyncIterator[Page]:
        """One instant query; every target gets the page it would have served."""
        import aiohttp

        pages: dict[tuple[str, str, int], list[str]] = {}
        problem = "not in Prometheus"
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SCRAPE_S)) as session,
                session.post(
                    f"{self._url}/api/v1/query",
                    data={"query": prometheus_query(t.namespace for t in targets)},
                ) as response,
            ):
                if response.status != 200:
                    problem = f"Prometheus answers HTTP {response.status}"
                else:
                    pages = _pages(await response.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            problem = f"Prometheus: {type(error).__name__}"
        except ValueError:
            problem = "Prometheus did not answer with JSON"
        for page in _by_target(targets, pages, problem):
            yield page

    async def close(self) -> None:
        """Each round closes its own connection."""


def prometheus_query(namespaces: Iterable[str]) -> str:
    """All families we read, of some namespaces."""
    families = "|".join(
        [*GAUGE_NAMES, "vllm:num_requests_waiting_by_reason", "vllm:cache_config_info"]
        + [f"{n}(_total)?" for n in COUNTER_NAMES]
        + [f"{n}_(bucket|sum|count)" for n in HISTOGRAM_NAMES]
    )
    wanted = "|".join(sorted(set(namespaces)))
    return f'{{__name__=~"{families}",namespace=~"{wanted}"}}'


def _by_target(
    targets: Sequence[Target], pages: Mapping[tuple[str, str, int], list[str]], problem: str
) -> Iterable[Page]:
    for target in targets:
        lines = pages.get((target.namespace, target.pod, target.port)) or pages.get(
            (target.namespace, target.pod, 0)
        )
        yield Page(target, "\n".join(lines)) if lines else Page(target, failed=problem)


def _pages(body: bytes | str) -> dict[tuple[str, str, int], list[str]]:
    out: dict[tuple[str, str, int], list[str]] = {}
    for series in map(table, rows(dig(json.loads(body), "data", "result"))):
        labels = {str(k): str(v) for k, v in table(series.get("metric")).items()}
        name = labels.pop("__name__", "")
        port = labels.get("instance", "").rpartition(":")[2]
        key = (labels.get("namespace", ""), labels.get("pod", ""), int(port) if port.isdigit() else 0)
        value = rows(series.get("value"))
        if len(value) == 2:
            inner = ",".join(f"{k}={json.dumps(v)}" for k, v in labels.items())
            out.setdefault(key, []).append(f"{name}{{{inner}}} {value[1]}")
    return out


def _short(error: ApiError) -> str:
    return f"HTTP {error.status} {error.reason}".strip() if error.status else error.message


class ProxiedPrometheusWay:
    """A Prometheus service inside the cluster, reached through the API server's service proxy."""

    max_pods = 0

    def __init__(self, api: Api, service: str) -> None:
        self._api = api
        self._path = f"{service}/proxy/api/v1/query"
        self.name = f"Prometheus ({service.rsplit('/services/', maxsplit=1)[-1]}) through the API server"

    async def scrape(self, targets: Sequence[Target]) -> AsyncIterator[Page]:
        """One instant query; every target gets the page it would have served."""
        problem, pages = "not in Prometheus", dict[tuple[str, str, int], list[str]]()
        query = prometheus_query(t.namespace for t in targets)
        try:
            pages = _pages(await self._api.text(self._path, {"query": query}, timeout_s=SCRAPE_S))
        except ApiError as error:
            problem = _short(error)
        except ValueError:
            problem = "Prometheus did not answer with JSON"
        for page in _by_target(targets, pages, problem):
            yield page

    async def close(self) -> None:
        """Nothing of its own to close."""


async def find_prometheus(api: Api, targets: Sequence[Target]) -> ProxiedPrometheusWay | None:
    """A Prometheus service that knows these engines, None when there is none or services may not be listed."""
    try:
        found = table(await api.get("/api/v1/services", {"labelSelector": PROMETHEUS_LABELS}))
    except ApiError:
        return None
    for service in map(table, rows(found.get("items"))):
        meta = table(service.get("metadata"))
        port = next((table(p).get("port") for p in rows(dig(service, "spec", "ports"))), 9090)
        path = f"/api/v1/namespaces/{meta.get('namespace')}/services/{meta.get('name')}:{port}"
        way = ProxiedPrometheusWay(api, path)
        async for page in way.scrape(targets[:1]):
            if page.text:
                return way
    return None
