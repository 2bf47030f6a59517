"""The HTTP side: routing, content negotiation, lists in pages, watches, authentication."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from console.cluster.fake import discovery
from console.cluster.fake.access import Access
from console.cluster.fake.codec import dump_yaml
from console.cluster.fake.listing import serve_list, serve_watch, too_large
from console.cluster.fake.negotiate import Form, negotiate
from console.cluster.fake.registry import Registry
from console.cluster.fake.resources import BUILTINS, CRDS, PLAIN_SERVING, Resource, from_crd
from console.cluster.fake.scale import scale_of
from console.cluster.fake.status import StatusError, internal, not_found
from console.cluster.fake.store import Store
from console.cluster.fake.tables import check_include, columns_of, partial, table
from console.cluster.fake.writes import Writes

PLAIN_404 = "404 page not found\n"
ProxyHandler = Callable[[str, str, int, str], tuple[int, str] | None]


class FakeServer:
    """An API server. `proxy` answers ``pods/proxy`` requests: (namespace, pod, port, path) -> (status, text) or None."""

    def __init__(
        self,
        *,
        crds: Iterable[Mapping[str, Any]] = (),
        builtins: Sequence[Resource] = (*BUILTINS, *PLAIN_SERVING),
        store: Store | None = None,
        access: Access | None = None,
        proxy: ProxyHandler | None = None,
    ) -> None:
        self.store = store or Store()
        self.registry = Registry(self.store)
        self.access = access or Access()
        self.proxy = proxy
        self.requests: list[tuple[str, str]] = []  # method and path with query, for tests
        self.fault: Callable[[web.Request], StatusError | None] | None = None
        self._resources: dict[tuple[str, str, str], Resource] = {}
        for res in builtins:
            self._add(res)
        self._add(CRDS)
        for crd in crds:
            self.install(crd)
        self._writes = Writes(self.registry)
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self.port = 0

    def _add(self, res: Resource) -> None:
        self._resources[res.group, res.version, res.plural] = res

    def install(self, crd: Mapping[str, Any]) -> None:
        """Offer the kind of a CustomResourceDefinition, in place of a built-in of that name."""
        made = from_crd(crd)
        group, plural = made[0].group, made[0].plural
        for key in [k for k in self._resources if k[0] == group and k[2] == plural]:
            del self._resources[key]
        for res in made:
            self._add(res)

    def uninstall(self, group: str, plural: str) -> None:
        """The kind is gone: its objects are deleted, its watches end."""
        for key in [k for k in self._resources if k[0] == group and k[2] == plural]:
            del self._resources[key]
        self.store.drop([(group, plural)])

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        """A kind on offer."""
        return self._resources.get((group, version, plural))

    def kinds(self) -> tuple[Resource, ...]:
        """All kinds on offer."""
        return tuple(self._resources.values())

    def put(self, api_version: str, plural: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store an object as a controller would: no validation, no field ownership."""
        group, _, version = api_version.rpartition("/")
        res = self._resources[group, version, plural]
        meta = dict(obj.get("metadata") or {})
        namespace = meta.get("namespace", "") if res.namespaced else ""
        held = self.store.get((group, plural), (namespace, meta["name"]))
        kept = held["metadata"] if held else {}
        for key, made in (("uid", self.registry.new_uid), ("creationTimestamp", self.registry.now)):
            meta.setdefault(key, kept.get(key) or made())
        meta.setdefault("generation", kept.get("generation", 1))
        full = {**obj, "apiVersion": api_version, "kind": res.kind, "metadata": meta}
        return self.store.put((group, plural), (namespace, meta["name"]), full)

    def remove(self, api_version: str, plural: str, namespace: str, name: str) -> None:
        """Delete an object at once."""
        group = api_version.rpartition("/")[0]
        self.store.delete((group, plural), (namespace, name))

    # --- life ---

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen; returns the address."""
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, host, port)
        await self._site.start()
        server = self._site._server  # noqa: SLF001 - aiohttp offers no other way to the port it chose
        assert isinstance(server, asyncio.Server)  # noqa: S101
        self.port = server.sockets[0].getsockname()[1]
        return f"http://{host}:{self.port}"

    async def stop(self) -> None:
        """Stop listening and end all watches."""
        self.store.close_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, *, namespace: str = "default", token: str = "") -> str:
        """A kubeconfig for this server, as YAML."""
        return dump_yaml(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "wideplan-demo",
                "clusters": [{"name": "demo", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                "users": [{"name": "demo", "user": {"token": token} if token else {}}],
                "contexts": [
                    {
                        "name": "wideplan-demo",
                        "context": {"cluster": "demo", "user": "demo", "namespace": namespace},
                    }
                ],
            }
        )

    # --- requests ---

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        try:
            if self.fault is not None and (error := self.fault(request)) is not None:
                raise error
            return await self._route(request)
        except StatusError as error:
            return answer(error.body(), status=error.code, headers=error.headers)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        user = self.access.user(request.headers.get("Authorization"))
        parts = [p for p in path.split("/") if p]
        if path.rstrip("/") == "/version":
            return answer(dict(discovery.VERSION))
        if path == "/openapi/v2":
            # An empty document is a valid protobuf message: kubectl finds no schema there and checks nothing.
            return web.Response(
                body=b"", content_type="application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            )
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi(request, parts[2:])
        if parts and parts[0] in ("api", "apis"):
            core = parts[0] == "api"
            rest = parts[1:] if core else parts[2:]
            if len(parts) == 1:
                return self._root(request, core=core)
            if not core and len(parts) == 2:
                return self._group(parts[1])
            group = "" if core else parts[1]
            if len(rest) == 1:
                return self._resource_list(group, rest[0])
            return await self._object(request, group, rest[0], rest[1:], user)
        return web.Response(status=404, text=PLAIN_404)

    def _groups(self) -> dict[str, dict[str, list[Resource]]]:
        out: dict[str, dict[str, list[Resource]]] = {}
        for (group, version, _), res in sorted(self._resources.items()):
            out.setdefault(group, {}).setdefault(version, []).append(res)
        return out

    def _root(self, request: web.Request, *, core: bool) -> web.Response:
        groups = {g: v for g, v in self._groups().items() if (g == "") is core}
        if "as=APIGroupDiscoveryList" in request.headers.get("Accept", ""):
            return answer(discovery.aggregated(groups), content_type=discovery.AGGREGATED_TYPE)
        if core:
            return answer(
                {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [
                        {"clientCIDR": "0.0.0.0/0", "serverAddress": f"127.0.0.1:{self.port}"}
                    ],
                }
            )
        listed = [discovery.group(g, list(v)) for g, v in groups.items()]
        return answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    def _group(self, group: str) -> web.Response:
        versions = self._groups().get(group)
        if versions is None:
            return web.Response(status=404, text=PLAIN_404)
        return answer({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(group, list(versions))})

    def _resource_list(self, group: str, version: str) -> web.Response:
        resources = self._groups().get(group, {}).get(version)
        if resources is None:
            return web.Response(status=404, text=PLAIN_404)
        name = f"{group}/{version}" if group else version
        return answer(discovery.resource_list(name, resources))

    def _openapi(self, request: web.Request, parts: Sequence[str]) -> web.Response:
        documents = {
            (f"apis/{g}/{v}" if g else f"api/{v}"): discovery.openapi(g, v, r)
            for g, versions in self._groups().items()
            for v, r in versions.items()
        }
        name = "/".join(parts)
        if not name:
            paths = {
                n: {"serverRelativeURL": f"/openapi/v3/{n}?hash={discovery.document_hash(d)}"}
                for n, d in documents.items()
            }
            return answer({"paths": paths}, headers={"ETag": f'"{discovery.document_hash(paths)}"'})
        document = documents.get(name)
        if document is None:
            return web.Response(status=404, text=PLAIN_404)
        wanted, now = request.query.get("hash"), discovery.document_hash(document)
        if wanted is not None and wanted != now:
            location = f"/openapi/v3/{name}?hash={now}"
            return web.Response(
                status=301,
                headers={"Location": location, "ETag": f'"{now}"'},
                content_type="application/json",
            )
        return answer(document, headers={"ETag": f'"{now}"'})

    async def _object(
        self, request: web.Request, group: str, version: str, rest: list[str], user: str
    ) -> web.StreamResponse:
        deprecated_watch = rest[0] == "watch"
        if deprecated_watch:
            rest = rest[1:]
        namespace: str | None = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        res = self.resource(group, version, rest[0])
        if res is None or (namespace is not None and not res.namespaced):
            return web.Response(status=404, text=PLAIN_404)
        name = rest[1] if len(rest) > 1 else ""
        sub = "/".join(rest[2:])
        self.access.check(user, request, res, namespace=namespace, name=name, sub=sub)
        if sub.startswith("proxy") and res.plural == "pods":
            return self._proxied(namespace or "", name, sub)
        if not name and request.method == "GET":
            if deprecated_watch or request.query.get("watch") in ("true", "1"):
                form = negotiate(request.headers.get("Accept"), watch=True)
                return await serve_watch(self.registry, res, namespace, request, form)
            return await serve_list(
                self.registry, res, namespace, request, negotiate(request.headers.get("Accept")), self.render
            )
        if res.namespaced and namespace is None:
            return web.Response(status=404, text=PLAIN_404)
        space = namespace or ""
        if request.method == "GET":
            form = negotiate(request.headers.get("Accept"))
            await _check_get_version(self.registry, request)
            found = self._read(res, space, name, sub)
            return self.render(res, form, request, [found], single=True, scale=sub == "scale")
        code, body = await self._writes.handle(request, res, space, name, sub)
        if res is CRDS and request.method in ("POST", "PUT", "PATCH") and code < 300:
            self.install(body.object)
        form = negotiate(request.headers.get("Accept"))
        if body.status_only:
            return answer(dict(body.object), status=code, headers=body.headers)
        return self.render(
            res,
            form,
            request,
            [body.object],
            single=True,
            status=code,
            headers=body.headers,
            scale=sub == "scale",
        )

    def _read(self, res: Resource, namespace: str, name: str, sub: str) -> Mapping[str, Any]:
        found = self.registry.get(res, namespace, name)
        if sub == "scale" and res.scale is not None:
            return scale_of(res, found)
        if sub and not (sub == "status" and res.status):
            raise not_found(res.group, res.plural, name)
        return found

    def _proxied(self, namespace: str, target: str, sub: str) -> web.Response:
        pod, _, port = target.partition(":")
        res = self._resources["", "v1", "pods"]
        self.registry.get(res, namespace, pod)
        path = sub.removeprefix("proxy") or "/"
        found = self.proxy(namespace, pod, int(port or 80), path) if self.proxy else None
        if found is None:
            raise StatusError(
                503,
                "ServiceUnavailable",
                f"error trying to reach service: dial tcp {pod}:{port}: connect: connection refused",
            )
        return web.Response(status=found[0], text=found[1])

    def render(
        self,
        res: Resource,
        form: Form,
        request: web.Request,
        objects: Sequence[Mapping[str, Any]],
        *,
        single: bool = False,
        metadata: Mapping[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, Any] | None = None,
        scale: bool = False,
    ) -> web.Response:
        """Objects in the form asked for."""
        if single:
            version = objects[0].get("metadata", {}).get("resourceVersion", "")
            metadata = {"resourceVersion": version}
        metadata = metadata or {}
        body: Any
        if form.as_kind == "Table":
            include = check_include(request.query.get("includeObject"))
            body = table(
                objects, columns_of(res, scale=scale), metadata=metadata, include=include,
                now=self.registry.clock(), version=form.version,
            )  # fmt: skip
        elif form.as_kind == "PartialObjectMetadata":
            if not single:
                raise StatusError(
                    406,
                    "NotAcceptable",
                    "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)",
                )
            body = partial(objects[0], version=form.version)
        elif form.as_kind == "PartialObjectMetadataList":
            if single:
                raise internal("content is not a list")
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{form.version}",
                "metadata": {k: v for k, v in metadata.items() if v != ""},
                "items": [partial(o, version=form.version) for o in objects],
            }
        elif single:
            body = objects[0]
        else:
            body = {
                "apiVersion": res.api_version,
                "items": list(objects),
                "kind": res.list_kind,
                "metadata": dict(metadata),
            }
        if form.yaml:
            return web.Response(
                status=status, text=dump_yaml(body), content_type="application/yaml", headers=headers
            )
        return answer(body, status=status, headers=headers)


async def _check_get_version(registry: Registry, request: web.Request) -> None:
    version = request.query.get("resourceVersion", "")
    if version and not version.isdigit():
        raise internal(
            f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        )
    if version and int(version) > registry.store.version:
        raise too_large(int(version), registry.store.version)


def answer(
    body: Any,
    *,
    status: int = 200,
    headers: Mapping[str, Any] | None = None,
    content_type: str = "application/json",
) -> web.Response:
    """A JSON answer."""
    response = web.Response(status=status, body=json.dumps(body).encode())
    for key, value in (headers or {}).items():
        for item in value if isinstance(value, list) else [value]:
            response.headers.add(key, item)
    response.headers["Content-Type"] = content_type
    return response
