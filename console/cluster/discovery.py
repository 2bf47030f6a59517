"""Which of the watched kinds a server offers, by API discovery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.cluster.api import Api, ApiError
from console.cluster.kinds import KINDS, Kind, KindInfo, Served
from planner.export.values import Json, rows, table

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@dataclass(frozen=True, slots=True)
class Discovered:
    """Kinds on offer, and groups whose discovery failed (their kinds may exist)."""

    served: Mapping[Kind, Served]
    failed: tuple[str, ...] = ()


async def discover(api: Api, kinds: Iterable[Kind] = Kind) -> Discovered:
    """Find every kind of `kinds`: aggregated discovery first, group by group on older servers. Raises ApiError."""
    found: set[tuple[str, str, str]] = set()  # group, version, resource
    legacy: list[str] = []
    failed: list[str] = []
    for root in ("/api", "/apis"):
        answer = table(await api.get(root, accept=AGGREGATED))
        if answer.get("kind") == "APIGroupDiscoveryList":
            found |= _aggregated(answer)
        elif root == "/api":
            legacy += [f"/api/{v}" for v in rows(answer.get("versions"))]
        else:
            legacy += _group_versions(answer)
    wanted = {KINDS[k].group for k in kinds}
    for path in legacy:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        if group not in wanted:
            continue
        try:
            answer = table(await api.get(path))
        except ApiError as error:
            if error.status != 404:
                failed.append(path)
            continue
        version = path.rsplit("/", 1)[-1]
        found |= {(group, version, str(table(r).get("name"))) for r in rows(answer.get("resources"))}
    served = {k: s for k in kinds if (s := _choose(KINDS[k], found)) is not None}
    return Discovered(served, tuple(failed))


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Plural and scope of every kind on offer."""

    found: Mapping[tuple[str, str], tuple[str, bool]]  # (apiVersion, kind) -> plural, namespaced

    def path(self, api_version: str, kind: str, namespace: str) -> str | None:
        """Collection path of a kind, None when the server does not offer it."""
        entry = self.found.get((api_version, kind))
        if entry is None:
            return None
        plural, namespaced = entry
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"


async def resource_names(api: Api, api_versions: Iterable[str]) -> ResourceNames:
    """Names of the kinds of some group versions. Raises ApiError."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    for api_version in sorted(set(api_versions)):
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            answer = table(await api.get(root))
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        for resource in map(table, rows(answer.get("resources"))):
            name = str(resource.get("name"))
            if "/" not in name:
                found[api_version, str(resource.get("kind"))] = (name, resource.get("namespaced") is True)
    return ResourceNames(found)


def _choose(info: KindInfo, found: set[tuple[str, str, str]]) -> Served | None:
    for version in info.versions:
        if (info.group, version, info.kind.value) in found:
            return Served(info, version)
    return None


def _aggregated(answer: Mapping[str, Json]) -> set[tuple[str, str, str]]:
    out = set()
    for item in map(table, rows(answer.get("items"))):
        group = str(table(item.get("metadata")).get("name") or "")
        for version in map(table, rows(item.get("versions"))):
            for resource in map(table, rows(version.get("resources"))):
                out.add((group, str(version.get("version")), str(resource.get("resource"))))
    return out


def _group_versions(answer: Mapping[str, Json]) -> list[str]:
    return [
        f"/apis/{table(v).get('groupVersion')}"
        for g in map(table, rows(answer.get("groups")))
        for v in rows(g.get("versions"))
    ]
