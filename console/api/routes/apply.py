"""The one way the console changes a cluster, and only with ``--allow-apply``: what was reviewed is applied, or nothing.

The difference is shown first (``/cluster/drift``). Applying names the namespace and the difference that was seen; when the cluster
has changed since, nothing is done. Nothing is ever deleted, and every try is written to the audit trail.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from console.api.audit import note
from console.api.plan_refs import PlanQuery, meant_by
from console.api.queries import State
from console.api.routes.cluster import DeployedQuery, compared
from console.api.state import ConsoleState
from console.api.wire import Wire
from console.cluster.api import ApiError, unreachable
from console.cluster.applying import Applied, Outcome, apply_objects, rehearse
from console.cluster.discovery import resource_names
from console.cluster.drift import ObjectState
from planner.domain.errors import InputError, Issue, NotFeasibleError
from planner.storage.codec import domain_hash

router = APIRouter(prefix="/api/v1", tags=["cluster"])


class ApplyPlan(BaseModel):
    """What to apply, and the proof that it was reviewed: the namespace as typed, and ``seen`` of the difference."""

    model_config = ConfigDict(extra="forbid")

    plan: PlanQuery
    name: Annotated[str, Field(max_length=200)] = ""
    namespace: Annotated[str, Field(max_length=200)]
    seen: Annotated[str, Field(max_length=64)]


class AppliedObject(Wire):
    """What came of one object."""

    kind: str
    name: str
    outcome: str
    why: str


class AppliedOut(Wire):
    """What came of all objects that differed."""

    applied: bool
    objects: tuple[AppliedObject, ...]


@router.post("/cluster/apply")
async def apply(state: State, request: Request, body: ApplyPlan) -> AppliedOut:
    """Apply a reviewed difference, server-side, after a rehearsal of every object."""
    if not state.settings.allow_apply:
        raise InputError(
            Issue(
                code="apply.not-allowed",
                what="apply",
                why="this console is read-only",
                fix="planner serve --cluster --allow-apply, or planner apply PLAN in a terminal",
            )
        )
    query = DeployedQuery(**body.plan.model_dump(), name=body.name)
    found = await compared(state, request, query)
    space = found.report.namespace
    if body.namespace != space:
        raise InputError(
            Issue(
                code="apply.namespace",
                what=f"namespace '{body.namespace[:60]}'",
                why=f"the plan would be applied in '{space}'",
                fix="type that name to confirm",
            )
        )
    if body.seen != found.seen:
        raise NotFeasibleError(
            Issue(
                code="apply.changed",
                what="the difference is not the one that was reviewed",
                why="the plan or the cluster has changed since",
                fix="look at the difference again",
            )
        )
    wanted = [
        m
        for m, o in zip(found.manifests, found.report.objects, strict=True)
        if o.state is not ObjectState.SAME
    ]
    meant = await meant_by(state, query)
    digest = domain_hash(meant.plan)
    # written down first: a change that cannot be written down is not made
    await _note(state, request, "cluster.apply.asked", found.subject, digest)
    try:
        names = await resource_names(found.api, (str(m["apiVersion"]) for m in found.manifests))
        refused = await rehearse(found.api, wanted, namespace=space, names=names, force=False)
        done = refused or await apply_objects(found.api, wanted, namespace=space, names=names, force=False)
    except ApiError as error:
        await _note(state, request, "cluster.apply.failed", found.subject, digest)
        raise unreachable(found.api.server, error.message) from None
    applied = all(a.outcome is Outcome.APPLIED for a in done)
    await _note(
        state, request, "cluster.apply.done" if applied else "cluster.apply.refused", found.subject, digest
    )
    return AppliedOut(applied=applied, objects=tuple(_out(a, state) for a in done))


async def _note(state: ConsoleState, request: Request, action: str, subject: str, digest: str) -> None:
    await state.answers.run(partial(note, state, request, action, subject, plan_hash=digest))


def _out(a: Applied, state: ConsoleState) -> AppliedObject:
    return AppliedObject(kind=a.kind, name=a.name, outcome=a.outcome.value, why=state.redactor.text(a.why))
