"""POST, PUT, PATCH and DELETE: options, bodies and subresources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from console.cluster.fake import codec, patches
from console.cluster.fake.codec import PATCHES, STRATEGIC
from console.cluster.fake.registry import Registry, Write, Written, shape_of
from console.cluster.fake.resources import Resource
from console.cluster.fake.scale import scale_of
from console.cluster.fake.selectors import field_selector, label_selector
from console.cluster.fake.status import (
    FORBIDDEN,
    TOO_LONG,
    UNSUPPORTED,
    Cause,
    StatusError,
    bad_request,
    invalid,
    not_found,
    qualified,
)

_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(slots=True)
class Outcome:
    """What a write answers. `status_only` bodies are sent as they are, whatever form was asked for."""

    object: Mapping[str, Any]
    headers: dict[str, Any] = field(default_factory=dict)
    status_only: bool = False


def _options(request: web.Request, media: str, sub: str) -> Write:
    q = request.query
    causes: list[Cause] = []
    manager = q.get("fieldManager", "")
    if len(manager.encode()) > 128:
        causes.append(Cause(TOO_LONG, "fieldManager", "Too long: may not be more than 128 bytes"))
    dry = q.getall("dryRun", [])
    if dry and dry != ["All"]:
        shown = "[" + " ".join(json.dumps(d) for d in dry) + "]"
        causes.append(Cause(UNSUPPORTED, "dryRun", f'Unsupported value: {shown}: supported values: "All"'))
    validation = q.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        causes.append(Cause(UNSUPPORTED, "fieldValidation", text))
    if request.method == "PATCH":
        if media == APPLY and not manager:
            causes.append(
                Cause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
            )
        if media != APPLY and "force" in q:
            causes.append(Cause(FORBIDDEN, "force", "Forbidden: may not be specified for non-apply patch"))
    if causes:
        raise invalid("meta.k8s.io", _KINDS[request.method], "", causes)
    return Write(
        manager=manager or request.headers.get("User-Agent", "unknown").split("/")[0],
        dry_run=bool(dry),
        validation=validation or "Warn",
        force="force" in q and q["force"] not in ("false", "0"),
        subresource=sub,
    )


class Writes:
    """Turns requests into registry calls."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def handle(
        self, request: web.Request, res: Resource, namespace: str, name: str, sub: str
    ) -> tuple[int, Outcome]:
        """Do the write. Returns status code and answer."""
        media = request.headers.get("Content-Type", "").split(";")[0].strip()
        method = request.method
        if method == "DELETE":
            return await self._delete(request, res, namespace, name)
        if method not in _KINDS:
            raise StatusError(
                405,
                "MethodNotAllowed",
                f' is not supported on resources of kind "{qualified(res.plural, res.group)}"',
                details=({"group": res.group} if res.group else {}) | {"kind": res.plural},
            )
        if not name and method != "POST":
            raise bad_request("name must be provided")
        if sub and not (sub == "status" and res.status) and not (sub == "scale" and res.scale):
            raise not_found(res.group, res.plural, name)
        how = _options(request, media, sub)
        text = (await request.read()).decode("utf-8", "replace")
        if method == "PATCH":
            written = self._patch(res, namespace, name, sub, media, text, how)
        else:
            body = self._body(res, text, media)
            if method == "POST":
                written = self._registry.create(res, namespace, body, how)
            else:
                written = self._registry.replace(res, namespace, name, body, how)
        headers: dict[str, Any] = {}
        if written.warnings:
            headers["Warning"] = [f"299 - {json.dumps(w)}" for w in written.warnings]
        obj = written.object
        if sub == "scale":
            obj = scale_of(res, obj)
        return (201 if written.created else 200), Outcome(obj, headers)

    def _body(self, res: Resource, text: str, media: str) -> dict[str, Any]:
        if media in ("application/yaml", "application/x-yaml"):
            value, _ = codec.load_yaml(text)
            repeated: list[str] = []
        elif media in ("application/json", ""):
            try:
                value, repeated = codec.load_json(text)
            except ValueError as error:
                why = "unexpected end of JSON input" if not text else str(error)
                raise bad_request(
                    f"the object provided is unrecognized (must be of type {res.kind}): couldn't get version/kind; json "
                    f"parse error: {why} ({text or '<empty>'})"
                ) from None
        else:
            raise codec.unsupported_media(codec.ACCEPTED)
        if not isinstance(value, dict):
            raise bad_request(f"the object provided is unrecognized (must be of type {res.kind})")
        self._check_kind(res, value)
        if repeated:
            value["\0repeated"] = repeated
        return value

    @staticmethod
    def _check_kind(res: Resource, value: Mapping[str, Any]) -> None:
        version = value.get("apiVersion", res.api_version)
        if version != res.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({res.api_version})"
            )
        if value.get("kind", res.kind) != res.kind:
            raise bad_request(
                f'{value["kind"]} in version "{res.version}" cannot be handled as a {res.kind}: converting '
                f"({res.api_version}).{value['kind']} is not supported"
            )

    def _patch(
        self, res: Resource, namespace: str, name: str, sub: str, media: str, text: str, how: Write
    ) -> Written:
        if media == APPLY:
            value, repeated = codec.load_yaml(text)
            if repeated and how.validation == "Strict":
                lines = "\n".join(f'  line {line}: key "{key}" already set in map' for key, line in repeated)
                raise bad_request(
                    f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n{lines}"
                )
            if not isinstance(value, dict):
                raise bad_request("invalid object type: /, Kind=")
            return self._registry.apply(res, namespace, name, value, how)
        if media == STRATEGIC and not res.custom:
            shape = shape_of(res)
            patch = self._json(text)
            return self._registry.patch(
                res, namespace, name, lambda o: patches.strategic_patch(o, patch, shape), how
            )
        if media not in (MERGE, JSON_PATCH):
            raise codec.unsupported_media(PATCHES if res.custom else f"{PATCHES}, {STRATEGIC}")
        patch = self._json(text)
        if sub == "scale":
            return self._scale(res, namespace, name, patch, how)
        change = patches.merge_patch if media == MERGE else patches.json_patch
        return self._registry.patch(res, namespace, name, lambda o: change(o, patch), how)

    def _scale(self, res: Resource, namespace: str, name: str, patch: Any, how: Write) -> Written:
        wanted = patch.get("spec", {}).get("replicas") if isinstance(patch, dict) else None
        assert res.scale is not None  # noqa: S101 - handle() checked
        change: Any = wanted
        for key in reversed(res.scale.spec):
            change = {key: change}
        if wanted is None:
            change = {}
        return self._registry.patch(res, namespace, name, lambda o: patches.merge_patch(o, change), how)

    @staticmethod
    def _json(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise bad_request(f"error decoding patch: {error}") from None

    async def _delete(
        self, request: web.Request, res: Resource, namespace: str, name: str
    ) -> tuple[int, Outcome]:
        text = (await request.read()).decode("utf-8", "replace")
        try:
            options = json.loads(text) if text.strip() else {}
        except ValueError as error:
            raise bad_request(f"error decoding options: {error}") from None
        options = {**options, **{k: v for k, v in request.query.items() if k == "propagationPolicy"}}
        dry_run = request.query.get("dryRun") == "All" or options.get("dryRun") == ["All"]
        if not name:
            return 200, self._delete_all(request, res, namespace, options, dry_run=dry_run)
        old = self._registry.get(res, namespace, name)
        held = self._registry.delete(res, namespace, name, options, dry_run=dry_run)
        if held is not None:
            return 200, Outcome(held)
        details = {"name": name} | ({"group": res.group} if res.group else {})
        details |= {"kind": res.plural, "uid": old["metadata"]["uid"]}
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return 200, Outcome(done, status_only=True)

    def _delete_all(
        self,
        request: web.Request,
        res: Resource,
        namespace: str,
        options: Mapping[str, Any],
        *,
        dry_run: bool,
    ) -> Outcome:
        labels = label_selector(request.query.get("labelSelector", ""))
        fields = field_selector(
            request.query.get("fieldSelector", ""), paths=("metadata.name", "metadata.namespace")
        )
        found = [
            o
            for o in self._registry.store.list((res.group, res.plural), namespace)
            if (labels is None or labels(o)) and (fields is None or fields(o))
        ]
        version = str(self._registry.store.version)
        for obj in found:
            self._registry.delete(res, namespace, obj["metadata"]["name"], options, dry_run=dry_run)
        return Outcome(
            {
                "apiVersion": res.api_version,
                "items": [self._registry.as_version(res, o) for o in found],
                "kind": res.list_kind,
                "metadata": {"continue": "", "resourceVersion": version},
            },
            status_only=True,
        )
