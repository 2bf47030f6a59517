"""Who may do what: bearer tokens, and verbs denied per resource as RBAC would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from console.cluster.fake.resources import Resource
from console.cluster.fake.status import forbidden, unauthorized

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class Access:
    """`tokens` maps bearer tokens to users; empty = everybody may come in. `denied` holds (verb, resource) pairs;
    ``*`` as a verb stands for all, and a resource may name a subresource (``pods/proxy``)."""

    tokens: Mapping[str, str] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)

    def user(self, header: str | None) -> str:
        """The user of an Authorization header. Raises 401."""
        if not self.tokens:
            return "system:anonymous"
        scheme, _, token = (header or "").partition(" ")
        user = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def check(
        self, user: str, request: web.Request, res: Resource, *, namespace: str | None, name: str, sub: str
    ) -> None:
        """Raises 403."""
        if not self.denied:
            return
        verb = _VERBS.get(request.method, "get")
        if verb == "get" and not name:
            verb = "watch" if request.query.get("watch") in ("true", "1") else "list"
        elif verb == "delete" and not name:
            verb = "deletecollection"
        resource = f"{res.plural}/{sub.split('/', maxsplit=1)[0]}" if sub else res.plural
        if (verb, resource) in self.denied or ("*", resource) in self.denied:
            raise forbidden(
                user,
                verb,
                group=res.group,
                resource=resource,
                namespace=namespace,
                name=name.partition(":")[0],
            )
