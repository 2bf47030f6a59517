"""Apply a plan's manifests: first every object by dry-run, then one by one. Nothing is ever deleted.

A first pass without force finds what the server refuses and which fields another manager owns, so that a deployment is
not left half applied for a reason that could be known before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from console.cluster.api import Api, ApiError
from console.cluster.discovery import ResourceNames
from console.cluster.drift import MANAGER
from planner.export.values import Table, dig


class Outcome(StrEnum):
    """What became of one object."""

    APPLIED = "applied"
    REFUSED = "refused"
    CONFLICT = "owned by another manager"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One object and what the server said."""

    kind: str
    name: str
    outcome: Outcome
    why: str = ""


async def rehearse(
    api: Api, manifests: Sequence[Table], *, namespace: str, names: ResourceNames, force: bool
) -> tuple[Applied, ...]:
    """Objects that would not be applied, by dry-run of all of them. Raises ApiError when the server is gone."""
    found = []
    for manifest in manifests:
        path = _path(manifest, namespace=namespace, names=names)
        if path is None:
            found.append(_said(manifest, Outcome.REFUSED, f"{manifest['apiVersion']} is not installed"))
            continue
        try:
            await api.dry_run_apply(path, manifest, manager=MANAGER, force=force)
        except ApiError as error:
            found.append(_of_error(manifest, error))
    return tuple(found)


async def apply_objects(
    api: Api, manifests: Sequence[Table], *, namespace: str, names: ResourceNames, force: bool
) -> tuple[Applied, ...]:
    """Apply in the order given; the first refusal ends it. Never raises ApiError: what was done is always known."""
    done: list[Applied] = []
    for manifest in manifests:
        path = _path(manifest, namespace=namespace, names=names)
        if done and done[-1].outcome is not Outcome.APPLIED:
            break
        if path is None:
            done.append(_said(manifest, Outcome.REFUSED, f"{manifest['apiVersion']} is not installed"))
            continue
        try:
            await api.apply(path, manifest, manager=MANAGER, force=force)
        except ApiError as error:
            done.append(_of_error(manifest, error, last=True))
        else:
            done.append(_said(manifest, Outcome.APPLIED))
    return (*done, *(_said(m, Outcome.NOT_TRIED) for m in manifests[len(done) :]))


def _path(manifest: Table, *, namespace: str, names: ResourceNames) -> str | None:
    space = str(dig(manifest, "metadata", "namespace") or namespace)
    path = names.path(str(manifest["apiVersion"]), str(manifest["kind"]), space)
    return None if path is None else f"{path}/{dig(manifest, 'metadata', 'name')}"


def _said(manifest: Table, outcome: Outcome, why: str = "") -> Applied:
    return Applied(
        kind=str(manifest["kind"]), name=str(dig(manifest, "metadata", "name")), outcome=outcome, why=why
    )


def _of_error(manifest: Table, error: ApiError, *, last: bool = False) -> Applied:
    if error.status == 0 and not last:
        raise error
    outcome = Outcome.CONFLICT if error.status == 409 else Outcome.REFUSED
    return _said(manifest, outcome, error.message)
