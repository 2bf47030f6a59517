"""The real API server, through the official asyncio client: its credentials and connections, our raw JSON.

Tokens stay inside the client's configuration: they are never logged, shown or put into an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.cluster.api import ApiError, Query
from planner.domain.errors import ClusterError, InputError, Issue, did_you_mean
from planner.export.values import Json, Table

if TYPE_CHECKING:
    import aiohttp

CONNECT_S = 10.0
REQUEST_S = 60.0
MAX_LINE_BYTES = 32 * 2**20
USER_AGENT = "wideplan"


@dataclass(frozen=True, slots=True)
class Target:
    """What was connected to: context (``in-cluster`` inside a pod) and the namespace it names."""

    context: str
    namespace: str
    server: str
    in_cluster: bool = False


class LiveApi:
    """`Api` over the official client. Credentials are read again once when the server answers 401."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._client: Any = None
        self._login = asyncio.Lock()

    @property
    def server(self) -> str:
        """Address of the server."""
        return self._loader.target.server

    @property
    def target(self) -> Target:
        """Context and namespace in use."""
        return self._loader.target

    async def _connected(self) -> Any:
        async with self._login:
            if self._client is None:
                from kubernetes.aio.client import ApiClient

                self._client = ApiClient(configuration=await self._loader.configuration())
        return self._client

    async def _relogin(self, used: Any) -> None:
        async with self._login:
            if self._client is not used:
                return  # another request has done it
            fresh = await self._loader.configuration()
            used.configuration.api_key.update(fresh.api_key)

    async def _send(
        self, method: str, path: str, query: Query | None, *, timeout: aiohttp.ClientTimeout, **more: Any
    ) -> aiohttp.ClientResponse:
        import aiohttp
        from yarl import URL

        client = await self._connected()
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **more.pop("headers", {})}
        url = str(URL(client.configuration.host + path).with_query(query or {}))
        for attempt in (1, 2):
            token = await client.configuration.get_api_key_with_prefix("BearerToken")
            sent = dict(headers)
            if token:
                sent["Authorization"] = token
            try:
                answer = await client.rest_client.request(
                    method, url, headers=sent, _request_timeout=timeout, **more
                )
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise ApiError(0, "Unreachable", explain(error)) from None
            response: aiohttp.ClientResponse = answer.response
            if response.status != 401 or attempt == 2:
                break
            response.release()
            await self._relogin(client)
        if response.status >= 400:
            raise await _refusal(response)
        return response

    async def get(self, path: str, query: Query | None = None, *, accept: str = "application/json") -> Json:
        """One JSON document."""
        return await self._json("GET", path, query, headers={"Accept": accept})

    async def _json(self, method: str, path: str, query: Query | None, **more: Any) -> Json:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=REQUEST_S)
        response = await self._send(method, path, query, timeout=timeout, **more)
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(0, "Unreachable", explain(error)) from None
        try:
            return json.loads(body)
        except ValueError:
            raise ApiError(0, "NotJson", f"{path} did not answer with JSON") from None

    async def text(self, path: str, query: Query | None = None, *, timeout_s: float = 10.0) -> str:
        """One text document."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        response = await self._send(
            "GET", path, query, timeout=timeout, headers={"Accept": "text/plain, */*"}
        )
        try:
            return (await response.read()).decode("utf-8", "replace")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(0, "Unreachable", explain(error)) from None

    @asynccontextmanager
    async def lines(
        self, path: str, query: Query, *, timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A stream of complete lines."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=timeout_s)
        response = await self._send("GET", path, query, timeout=timeout)
        try:
            yield _complete_lines(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(0, "Disconnected", explain(error)) from None
        finally:
            response.close()

    async def dry_run_apply(self, path: str, body: Table, *, manager: str, force: bool = True) -> Json:
        """Server-side apply with ``dryRun=All``: with force our value wins in the answer; nothing is stored."""
        return await self._apply(path, body, manager=manager, force=force, query={"dryRun": "All"})

    async def apply(self, path: str, body: Table, *, manager: str, force: bool = False) -> Json:
        """Server-side apply: the only request that changes something. `planner apply` alone sends it."""
        return await self._apply(path, body, manager=manager, force=force, query={})

    async def _apply(self, path: str, body: Table, *, manager: str, force: bool, query: Query) -> Json:
        more = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return await self._json("PATCH", path, {**query, **more}, headers=headers, body=body)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None


async def _complete_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines that ended in a newline; the rest of a connection cut in mid-line is dropped."""
    pending = bytearray()
    async for chunk in response.content.iter_any():
        pending += chunk
        if b"\n" not in chunk:
            if len(pending) > MAX_LINE_BYTES:
                raise ApiError(0, "BadEvent", f"a watch line is longer than {MAX_LINE_BYTES} bytes")
            continue
        *whole, rest = bytes(pending).split(b"\n")
        pending = bytearray(rest)
        for line in whole:
            yield line


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    import aiohttp

    try:
        body = await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError):
        body = b""
    try:
        status = json.loads(body)
    except ValueError:
        status = {"message": body.decode("utf-8", "replace").strip()[:200] or f"HTTP {response.status}"}
    error = ApiError.of_status(status, fallback=response.status)
    error.status = response.status
    seconds = response.headers.get("Retry-After", "")
    if error.retry_after_s is None and seconds.isdigit():
        error.retry_after_s = float(seconds)
    return error


def explain(error: BaseException) -> str:
    """A connection failure in words; never the request."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError):
        return "the server's certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio puts the address into strerror; the number says it in words
        number = error.os_error.errno
        return os.strerror(number).lower() if number else error.os_error.strerror or "connection failed"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return "the connection was cut"
    return type(error).__name__


# --- credentials ---


class _Loader:
    """Reads credentials when asked, and again when they expire."""

    def __init__(self, target: Target, files: str | None) -> None:
        self.target = target
        self._files = files

    async def configuration(self) -> Any:
        from kubernetes.aio import config
        from kubernetes.aio.client import Configuration

        made = Configuration()
        made.retries = None  # the reflector decides when to ask again
        made.connection_pool_maxsize = 100
        try:
            if self.target.in_cluster:
                config.load_incluster_config(client_configuration=made)  # type: ignore[no-untyped-call]
            else:
                await config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=self._files,
                    context=self.target.context,
                    client_configuration=made,
                    persist_config=False,
                )
        except (config.ConfigException, OSError, ValueError, KeyError) as error:
            raise ClusterError(
                Issue(
                    code="cluster.credentials",
                    what=f"the credentials of context '{self.target.context}' cannot be loaded",
                    why=f"{type(error).__name__}: {str(error)[:200]}",
                    fix="kubectl --context NAME get pods shows the same problem; log in again",
                    where="--context",
                )
            ) from None
        return made


def connect(*, context: str | None = None, kubeconfig: str | None = None) -> LiveApi:
    """Prepare a connection; nothing is sent yet.

    Order: `kubeconfig`, the KUBECONFIG variable, ``~/.kube/config``, the pod's own account. Raises ClusterError
    ``cluster.no_config`` when there is none, InputError ``cluster.context_unknown``, ``cluster.kubeconfig_invalid``.
    """
    files = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    present = [p for p in files.split(os.pathsep) if p and Path(p).is_file()]
    if not present:
        if "KUBERNETES_SERVICE_HOST" in os.environ and kubeconfig is None:
            return LiveApi(_Loader(_in_cluster(), None))
        raise ClusterError(
            Issue(
                code="cluster.no_config",
                what="no kubeconfig found",
                why=f"looked at {files} and for a pod's own account",
                fix="set KUBECONFIG, or try it without a cluster: --replay FILE",
            )
        )
    merged = os.pathsep.join(present)
    contexts = _contexts(merged)
    name = context or contexts.current
    if name not in contexts.found:
        raise InputError(
            Issue(
                code="cluster.context_unknown",
                what=f"context '{name}'" if name else "no current context",
                why=f"{files} has {len(contexts.found)} contexts",
                fix=did_you_mean(name or "", contexts.found) if contexts.found else "add a context to it",
                where="--context",
            )
        )
    namespace, server = contexts.found[name]
    return LiveApi(_Loader(Target(context=name, namespace=namespace, server=server), merged))


@dataclass(frozen=True, slots=True)
class _Contexts:
    current: str
    found: dict[str, tuple[str, str]]  # name -> namespace, server


def _in_cluster() -> Target:
    folder = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    namespace = folder / "namespace"
    host = (
        f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    )
    name = namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default"
    return Target(context="in-cluster", namespace=name, server=host, in_cluster=True)


def _contexts(files: str) -> _Contexts:
    import yaml

    current, servers, found = "", dict[str, str](), dict[str, tuple[str, str]]()
    for file in files.split(os.pathsep):
        try:
            document = yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {}
            current = current or str(document.get("current-context") or "")
            for cluster in _rows(document, "clusters"):
                servers.setdefault(cluster["name"], str((cluster.get("cluster") or {}).get("server", "")))
            for entry in _rows(document, "contexts"):
                inner = entry.get("context") or {}
                found.setdefault(
                    entry["name"], (str(inner.get("namespace") or "default"), str(inner.get("cluster")))
                )
        except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise InputError(
                Issue(
                    code="cluster.kubeconfig_invalid",
                    what=f"{file} cannot be read as a kubeconfig",
                    why=type(error).__name__,
                    fix="kubectl config view shows the same problem",
                    where=file,
                )
            ) from None
    return _Contexts(current, {n: (ns, servers.get(c, "")) for n, (ns, c) in found.items()})


def _rows(document: Any, key: str) -> Iterable[Any]:
    return document.get(key) or ()
