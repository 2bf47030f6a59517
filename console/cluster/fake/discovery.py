"""Discovery documents, aggregated and group by group, and OpenAPI v3."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.cluster.fake.resources import CRD_VERBS, VERBS, Resource

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Mapping[str, str] = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35", "gitVersion": "v1.36.4", "gitCommit": "", "gitTreeState": "",
    "buildDate": "2026-11-29T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip
_SUB = ["get", "patch", "update"]


def _verbs(res: Resource) -> list[str]:
    return list(CRD_VERBS if res.custom else VERBS)


def resource_list(group_version: str, resources: Iterable[Resource]) -> dict[str, Any]:
    """APIResourceList of one group version."""
    out: list[dict[str, Any]] = []
    for res in resources:
        entry: dict[str, Any] = {
            "name": res.plural, "singularName": res.singular, "namespaced": res.namespaced, "kind": res.kind,
            "verbs": _verbs(res),
        }  # fmt: skip
        if res.short_names:
            entry["shortNames"] = list(res.short_names)
        if res.categories:
            entry["categories"] = list(res.categories)
        out.append(entry | {"storageVersionHash": res.storage_hash})
        sub = {"singularName": "", "namespaced": res.namespaced}
        if res.status:
            out.append({"name": f"{res.plural}/status", **sub, "kind": res.kind, "verbs": _SUB})
        if res.scale is not None:
            out.append(
                {
                    "name": f"{res.plural}/scale",
                    **sub,
                    "group": "autoscaling",
                    "version": "v1",
                    "kind": "Scale",
                    "verbs": _SUB,
                }
            )
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": out}


def group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    """APIGroup without its kind."""
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def aggregated(groups: Mapping[str, Mapping[str, Sequence[Resource]]]) -> dict[str, Any]:
    """APIGroupDiscoveryList: group -> version -> resources."""
    items = []
    for name, versions in groups.items():
        items.append(
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {"version": v, "resources": [_discovered(r) for r in resources], "freshness": "Current"}
                    for v, resources in versions.items()
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _discovered(res: Resource) -> dict[str, Any]:
    own = {"group": res.group, "version": res.version, "kind": res.kind}
    out: dict[str, Any] = {
        "resource": res.plural, "responseKind": own, "scope": "Namespaced" if res.namespaced else "Cluster",
        "singularResource": res.singular, "verbs": _verbs(res),
    }  # fmt: skip
    if res.short_names:
        out["shortNames"] = list(res.short_names)
    if res.categories:
        out["categories"] = list(res.categories)
    subs: list[dict[str, Any]] = []
    if res.status:
        subs.append({"subresource": "status", "responseKind": own, "verbs": _SUB})
    if res.scale is not None:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        subs.append({"subresource": "scale", "responseKind": scale, "verbs": _SUB})
    if subs:
        out["subresources"] = subs
    return out


# --- OpenAPI v3 ---


def document_hash(document: Mapping[str, Any]) -> str:
    """Opaque and stable while the document is."""
    return hashlib.sha512(json.dumps(document, sort_keys=True).encode()).hexdigest().upper()


def openapi(group_name: str, version: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """The OpenAPI v3 document of one group version: what kubectl reads of it."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    root = f"/apis/{group_name}/{version}" if group_name else f"/api/{version}"
    for res in resources:
        name = f"{'.'.join(reversed(group_name.split('.'))) or 'io.k8s.api.core'}.{version}.{res.kind}"
        schemas[name] = _component(res)
        ref = {"$ref": f"#/components/schemas/{name}"}
        scope = f"{root}/namespaces/{{namespace}}/{res.plural}" if res.namespaced else f"{root}/{res.plural}"
        if res.namespaced:
            paths[f"{root}/{res.plural}"] = {"get": _operation(res, "list", ref)}
        paths[scope] = {
            "get": _operation(res, "list", ref),
            "post": _operation(res, "post", ref, write=True),
            "delete": _operation(res, "deletecollection", ref),
        }
        for suffix in ("", *(["/status"] if res.status else []), *(["/scale"] if res.scale else [])):
            paths[f"{scope}/{{name}}{suffix}"] = {
                "get": _operation(res, "get", ref),
                "put": _operation(res, "put", ref, write=True),
                "patch": _operation(res, "patch", ref, write=True),
            } | ({"delete": _operation(res, "delete", ref)} if not suffix else {})
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _component(res: Resource) -> dict[str, Any]:
    schema = dict(res.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    properties = dict(schema.get("properties") or {})
    properties |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    gvk = {"group": res.group, "kind": res.kind, "version": res.version}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}


def _operation(res: Resource, action: str, ref: Mapping[str, Any], *, write: bool = False) -> dict[str, Any]:
    names = ["pretty"] + (["dryRun", "fieldManager", "fieldValidation"] if write else [])
    if action == "patch":
        names.append("force")
    out: dict[str, Any] = {
        "parameters": [
            {"name": n, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for n in names
        ],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": ref}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": res.group, "kind": res.kind, "version": res.version},
    }
    if write:
        kinds = ["application/json", "application/yaml"]
        if action == "patch":
            kinds = [
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ]
        out["requestBody"] = {
            "content": {k: {"schema": ref if action != "patch" else {"type": "object"}} for k in kinds}
        }
    return out
