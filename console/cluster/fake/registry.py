"""Operations on objects: create, replace, patch, apply, delete, with the server's order of checks."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from console.cluster.fake import managers as owners
from console.cluster.fake import metadata, rules, schema
from console.cluster.fake.fields import Shape
from console.cluster.fake.managers import Manager
from console.cluster.fake.resources import Resource
from console.cluster.fake.scale import check_scale
from console.cluster.fake.status import (
    INVALID,
    MODIFIED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    UNSUPPORTED,
    Cause,
    already_exists,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
)
from console.cluster.fake.store import Store

Object = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Admission = Callable[[Resource, Object, Mapping[str, Any] | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Options of a write."""

    manager: str
    dry_run: bool = False
    validation: str = "Warn"  # Ignore, Warn, Strict
    force: bool = False
    subresource: str = ""


@dataclass(slots=True)
class Written:
    """Result of a write."""

    object: Mapping[str, Any]
    created: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Registry:
    """Objects with the rules of their kinds. `clock` gives UTC times; `admission` may change or refuse objects."""

    store: Store
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    new_uid: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))
    admission: Admission | None = None

    def now(self) -> str:
        """RFC 3339 in whole seconds."""
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- reading ---

    def get(self, res: Resource, namespace: str, name: str) -> Mapping[str, Any]:
        """One object. Raises 404."""
        found = self.store.get((res.group, res.plural), (namespace, name))
        if found is None:
            raise not_found(res.group, res.plural, name)
        return self.as_version(res, found)

    @staticmethod
    def as_version(res: Resource, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object under the version asked for."""
        return obj if obj["apiVersion"] == res.api_version else {**obj, "apiVersion": res.api_version}

    # --- writing ---

    def create(self, res: Resource, namespace: str, body: Object, how: Write) -> Written:
        """POST."""
        body, warnings = self._decode(res, body, how)
        meta = body.setdefault("metadata", {})
        self._check_namespace(res, meta, namespace)
        if meta.get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + self.new_uid()[:5]
        self._drop_status(res, body, None, how)
        obj = self._prepared(res, body, None, namespace)
        if self.store.get((res.group, res.plural), (namespace, obj["metadata"].get("name", ""))) is not None:
            self._validate(res, obj, None)
            raise already_exists(res.group, res.plural, obj["metadata"]["name"])
        held = owners.update(
            None,
            obj,
            managers={},
            by=Manager(how.manager, "Update", self._stored(res)),
            shape=shape_of(res),
            now=self.now(),
        )
        return self._save(res, obj, None, held, how, warnings, namespace)

    def replace(self, res: Resource, namespace: str, name: str, body: Object, how: Write) -> Written:
        """PUT."""
        body, warnings = self._decode(res, body, how)
        meta = body.setdefault("metadata", {})
        if meta.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            )
        self._check_namespace(res, meta, namespace)
        old = self.get(res, namespace, name)
        if not meta.get("resourceVersion"):
            if res.custom:
                raise invalid(
                    res.group, res.plural, name,
                    [Cause(INVALID, "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")],
                )  # fmt: skip
        elif meta["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise conflict(res.group, res.plural, name, MODIFIED)
        return self._update(res, namespace, body, old, how, warnings)

    def patch(
        self, res: Resource, namespace: str, name: str, change: Callable[[Object], Any], how: Write
    ) -> Written:
        """PATCH other than apply: `change` maps the stored object to the new one."""
        old = self.get(res, namespace, name)
        body = change(copy.deepcopy(dict(old)))
        if not isinstance(body, dict):
            raise bad_request("the patch does not give an object")
        body, warnings = self._decode(res, body, how)
        meta = body.setdefault("metadata", {})
        if meta.get("resourceVersion") not in (None, old["metadata"]["resourceVersion"]):
            raise conflict(res.group, res.plural, name, MODIFIED)
        return self._update(res, namespace, body, old, how, warnings)

    def _update(
        self,
        res: Resource,
        namespace: str,
        body: Object,
        old: Mapping[str, Any],
        how: Write,
        warnings: list[str],
    ) -> Written:
        self._drop_status(res, body, old, how)
        obj = self._prepared(res, body, old, namespace)
        held = owners.update(
            dict(old),
            obj,
            managers=owners.read(old["metadata"].get("managedFields")),
            by=Manager(how.manager, "Update", self._stored(res), how.subresource),
            shape=shape_of(res),
            now=self.now(),
        )
        return self._save(res, obj, old, held, how, warnings, namespace)

    def apply(self, res: Resource, namespace: str, name: str, body: Object, how: Write) -> Written:
        """Server-side apply."""
        meta = body.setdefault("metadata", {})
        self._check_apply(res, namespace, name, body)
        meta["name"], meta["namespace"] = name, namespace
        if not res.namespaced:
            del meta["namespace"]
        old = self.store.get((res.group, res.plural), (namespace, name))
        if old is None and how.subresource:
            raise not_found(res.group, res.plural, name)
        given = meta.get("resourceVersion")
        if old is not None and given and given != old["metadata"]["resourceVersion"]:
            raise conflict(res.group, res.plural, name, MODIFIED)
        self._check_uid(res, meta, old, name)
        if res.schema is not None:
            self._check_typed(res, body)
        config = copy.deepcopy(body)
        self._drop_status(res, config, None, how)
        if how.subresource == "status":
            config.pop("spec", None)
        applied = owners.apply(
            dict(old) if old is not None else None,
            config,
            managers=owners.read((old or {}).get("metadata", {}).get("managedFields")),
            by=Manager(how.manager, "Apply", self._stored(res), how.subresource),
            shape=shape_of(res),
            force=how.force,
            now=self.now(),
        )
        new = applied.object
        if how.manager == "kubectl" and LAST_APPLIED in (new["metadata"].get("annotations") or {}):
            # The server keeps the note of earlier client-side applies up to date.
            note = {k: v for k, v in body.items() if k != "status"}
            text = json.dumps(note, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
            new["metadata"]["annotations"] = {**new["metadata"]["annotations"], LAST_APPLIED: text}
        if old is None:
            new["metadata"].pop("resourceVersion", None)
        obj = self._prepared(res, new, old, namespace)
        return self._save(res, obj, old, applied.managers, how, [], namespace)

    def _check_apply(self, res: Resource, namespace: str, name: str, body: Object) -> None:
        meta = body["metadata"]
        kind, version = body.get("kind", ""), body.get("apiVersion", "")
        if version != res.api_version or kind != res.kind:
            raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
        if meta.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            )
        self._check_namespace(res, meta, namespace)
        if meta.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")

    def _check_uid(self, res: Resource, meta: Object, old: Mapping[str, Any] | None, name: str) -> None:
        uid = meta.get("uid")
        if not uid:
            return
        if old is None:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(res.group, res.plural, name, why)
        if uid != old["metadata"]["uid"]:
            held = old["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held}"
            raise conflict(res.group, res.plural, name, why)

    def _check_typed(self, res: Resource, body: Object) -> None:
        unknown = [
            f".metadata.{k}: field not declared in schema"
            for k in body["metadata"]
            if k not in schema.META_FIELDS
        ]
        errors = unknown + list(schema.typed_errors(res.schema or {}, body))
        if errors:
            text = errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {e}" for e in errors)
            where = f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"
            raise internal(
                f"failed to create typed patch object ({where}; {res.api_version}, Kind={res.kind}): {text}"
            )

    # --- shared steps ---

    def _decode(self, res: Resource, body: Object, how: Write) -> tuple[Object, list[str]]:
        """Drop undeclared fields, with a warning or an error."""
        body = copy.deepcopy(body)
        repeated = body.pop("\0repeated", [])
        unknown: list[str] = []
        if res.schema is not None:
            unknown = schema.prune(res.schema, body) + schema.prune_metadata(body.get("metadata"))
            schema.drop_nulls(res.schema, body)
        found = [f'duplicate field "{p}"' for p in repeated] + [
            f'unknown field "{p}"' for p in sorted(unknown)
        ]
        if found and how.validation == "Strict":
            raise bad_request(
                f'{res.kind} in version "{res.version}" cannot be handled as a {res.kind}: strict decoding error: '
                + ", ".join(found)
            )
        return body, found if how.validation == "Warn" else []

    @staticmethod
    def _check_namespace(res: Resource, meta: Object, namespace: str) -> None:
        if res.namespaced and meta.get("namespace") not in (None, "", namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    @staticmethod
    def _drop_status(res: Resource, body: Object, old: Mapping[str, Any] | None, how: Write) -> None:
        """The main resource ignores status; the status subresource ignores everything but status."""
        if not res.status:
            return
        if how.subresource == "status" and old is not None:
            status = body.get("status")
            meta = body.get("metadata", {})
            body.clear()
            body.update(copy.deepcopy(dict(old)))
            body["metadata"]["managedFields"] = meta.get(
                "managedFields", old["metadata"].get("managedFields")
            )
            body.pop("status", None)
            if status is not None:
                body["status"] = status
        elif how.subresource != "status":
            body.pop("status", None)
            if old is not None and "status" in old:
                body["status"] = copy.deepcopy(old["status"])

    def _prepared(self, res: Resource, body: Object, old: Mapping[str, Any] | None, namespace: str) -> Object:
        """System fields set, defaults filled."""
        meta = dict(body.get("metadata") or {})
        held = dict(old["metadata"]) if old is not None else {}
        for key in (
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            meta.pop(key, None)
            if key in held:
                meta[key] = held[key]
        meta.pop("managedFields", None)
        for key in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not meta.get(key):
                meta.pop(key, None)
        if res.namespaced:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if old is None:
            meta["uid"] = self.new_uid()
            meta["creationTimestamp"] = self.now()
            meta["generation"] = 1
        obj = {"apiVersion": self._stored(res), "kind": res.kind, "metadata": meta} | {
            k: v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata")
        }
        if res.schema is not None:
            schema.fill_defaults(res.schema, obj)
        if self.admission is not None:
            self.admission(res, obj, old)
        return obj

    @staticmethod
    def _stored(res: Resource) -> str:
        version = res.storage or res.version
        return f"{res.group}/{version}" if res.group else version

    def _validate(self, res: Resource, obj: Object, old: Mapping[str, Any] | None) -> None:
        meta = obj["metadata"]
        causes = list(metadata.check(meta, old=old["metadata"] if old else None))
        if res.schema is not None:
            found = list(schema.validate(res.schema, obj))
            causes += found
            if res.scale is not None:
                causes += check_scale(obj, res)
            if res.has_rules:
                if any(c.reason in (UNSUPPORTED, TOO_MANY, REQUIRED, TYPE_INVALID, TOO_LONG) for c in found):
                    causes.append(rules.NOT_CHECKED)
                else:
                    causes += rules.broken(res.schema, obj, old)
        if causes:
            raise invalid(res.group, res.kind, meta.get("name", ""), causes)

    def _save(
        self,
        res: Resource,
        obj: Object,
        old: Mapping[str, Any] | None,
        held: owners.Managers,
        how: Write,
        warnings: list[str],
        namespace: str,
    ) -> Written:
        meta = obj["metadata"]
        if old is not None and _body(obj) != _body(old) and how.subresource != "status":
            meta["generation"] = int(old["metadata"].get("generation", 1)) + 1
        self._validate(res, obj, old)
        entries = owners.write(held)
        if entries:
            meta["managedFields"] = entries
        warnings = [*warnings, *metadata.warnings(meta)]
        group, key = (res.group, res.plural), (namespace, meta["name"])
        if old is not None:
            meta["resourceVersion"] = old["metadata"]["resourceVersion"]
            if _same(obj, old):
                return Written(self.as_version(res, old), False, warnings)
            if meta.get("deletionTimestamp") and not meta.get("finalizers"):
                if not how.dry_run:
                    self.store.delete(group, key)
                return Written(self.as_version(res, obj), False, warnings)
        else:
            meta.pop("resourceVersion", None)
        if how.dry_run:
            return Written(self.as_version(res, obj), old is None, warnings)
        return Written(self.as_version(res, self.store.put(group, key, obj)), old is None, warnings)

    # --- deleting ---

    def delete(
        self, res: Resource, namespace: str, name: str, options: Mapping[str, Any], *, dry_run: bool
    ) -> Mapping[str, Any] | None:
        """DELETE one object. Returns it when a finalizer holds it, None when it is gone."""
        old = self.get(res, namespace, name)
        self._preconditions(res, old, options.get("preconditions") or {})
        meta = copy.deepcopy(dict(old["metadata"]))
        finalizers = list(meta.get("finalizers") or ())
        policy = options.get("propagationPolicy")
        wanted = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(str(policy))
        if wanted and wanted not in finalizers:
            finalizers.append(wanted)
        if not finalizers:
            if not dry_run:
                self.store.delete((res.group, res.plural), (namespace, name))
            return None
        if meta.get("deletionTimestamp"):
            return old
        meta |= {
            "finalizers": finalizers,
            "deletionTimestamp": self.now(),
            "deletionGracePeriodSeconds": 0,
            "generation": int(meta.get("generation", 1)) + 1,
        }
        obj = {**old, "metadata": meta}
        if dry_run:
            return obj
        return self.as_version(res, self.store.put((res.group, res.plural), (namespace, name), obj))

    @staticmethod
    def _preconditions(res: Resource, old: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        meta = old["metadata"]
        for key, label, tail in (
            ("uid", "UID", "The object might have been deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "The object might have been modified"),
        ):
            if wanted.get(key) and wanted[key] != meta[key]:
                why = (
                    f"the {label} in the precondition ({wanted[key]}) does not match the {label} in record "
                    f"({meta[key]}). {tail}"
                )
                raise conflict(res.group, res.kind, meta["name"], why)


def shape_of(res: Resource) -> Shape:
    """How objects of a kind merge."""
    return Shape(res.schema, res.list_keys)


def _body(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata", "status")}


def _same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    def plain(obj: Mapping[str, Any]) -> str:
        meta = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
        managed = sorted(
            json.dumps({k: v for k, v in e.items() if k != "time"}, sort_keys=True)
            for e in obj["metadata"].get("managedFields") or ()
        )
        return json.dumps([{**obj, "metadata": meta}, managed], sort_keys=True)

    return plain(new) == plain(old)
