"""What runs in the cluster, per DP rank; a plan against it; predicted against measured. Nothing is changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from console.api.documents import tagged
from console.api.plan_refs import Meant, PlanQuery, meant_by
from console.api.queries import State
from console.api.redact import HIDDEN
from console.api.state import ConsoleState, viewer_of
from console.api.wire import Wire, finite
from console.cluster.api import Api
from console.cluster.drift import FieldChange
from console.cluster.state import Snapshot, Trust
from console.views.cluster import ClusterOverview, RankRow, overview
from console.views.cluster_advice import advise
from console.views.manifests import export_of
from planner.domain.errors import Issue as DomainIssue
from planner.domain.errors import MissingDataError

if TYPE_CHECKING:
    from console.views.cluster_drift import DriftReport
    from planner.export.values import Table

router = APIRouter(prefix="/api/v1", tags=["cluster"])
EVENTS_SHOWN = 60


class RoleOut(Wire):
    """One role of a deployment. Rates are tokens/s of all its ranks."""

    namespace: str
    deployment: str
    role: str
    wanted: int | None
    groups: int
    ready: int
    updated: int | None
    pods: int
    gpus: int
    nodes: int
    ranks: int
    fresh: int
    running: float | None
    waiting: float | None
    kv_usage: float | None
    output_tok_s: float | None
    prompt_tok_s: float | None


class GroupOut(Wire):
    """One engine group."""

    id: str
    role: str
    ready: bool
    pods: int
    pods_ready: int
    size: int
    gpus: int
    nodes: tuple[str, ...]
    restarts: int
    waiting_spread: float | None


class RankOut(Wire):
    """One DP rank. `age_s` is the age of its numbers; `silent` says why there are none."""

    label: str
    role: str
    group: str
    pod: str
    port: int
    engine: str
    age_s: float | None
    running: float | None
    waiting: float | None
    kv_usage: float | None
    prefix_hit: float | None
    output_tok_s: float | None
    prompt_tok_s: float | None
    preemptions_per_min: float | None
    failed_per_min: float | None
    ttft_p99_s: float | None
    itl_mean_s: float | None
    hot: bool
    silent: str


class BlockerOut(Wire):
    """One thing that stops a rollout."""

    stage: str
    what: str
    why: str
    role: str
    count: int


class AdviceOut(Wire):
    """What is wrong, why, and what to do: blockers, hot ranks, endpoints without metrics."""

    what: str
    why: str
    fix: str


class KindOut(Wire):
    """How far objects of one kind are known."""

    kind: str
    trust: str
    count: int
    age_s: float | None
    why: str
    purpose: str


class EventOut(Wire):
    """A Kubernetes event."""

    type: str
    reason: str
    message: str
    about: str
    count: int
    last: str


class ClusterOut(Wire):
    """The cluster page."""

    context: str
    source: str
    namespace: str | None
    at: float
    endpoints: int
    endpoints_ready: int
    metrics: str
    roles: tuple[RoleOut, ...]
    groups: tuple[GroupOut, ...]
    ranks: tuple[RankOut, ...]
    blockers: tuple[BlockerOut, ...]
    advice: tuple[AdviceOut, ...]
    kinds: tuple[KindOut, ...]
    events: tuple[EventOut, ...]


class ObjectDriftOut(Wire):
    """One object of a plan against the cluster's."""

    kind: str
    name: str
    state: str
    changes: tuple[tuple[str, str | None, str | None], ...]
    why: str


class ArgumentDriftOut(Wire):
    """A flag that running pods have otherwise."""

    role: str
    flag: str
    planned: str | None
    running: str | None
    pods: int


class DriftOut(Wire):
    """A plan against the cluster."""

    name: str
    namespace: str
    drifted: bool
    seen: str
    may_apply: bool
    objects: tuple[ObjectDriftOut, ...]
    arguments: tuple[ArgumentDriftOut, ...]
    notes: tuple[str, ...]


class ResidualOut(Wire):
    """One metric, predicted and measured."""

    metric: str
    unit: str
    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None
    residual: float | None
    inside: bool | None


class ResidualsOut(Wire):
    """Predicted against measured at the load that was seen."""

    concurrency: int
    window_s: float
    ranks: int
    ranks_fresh: int
    unsteady: tuple[str, ...]
    rows: tuple[ResidualOut, ...]


class DeployedQuery(PlanQuery):
    """A plan, and the name it was deployed under when that is not its own."""

    name: Annotated[str, Query(max_length=200)] = ""


async def allowed(state: ConsoleState, request: Request) -> Snapshot:
    """The cluster's state, for those who may read it. Raises MissingDataError ``cluster.none``, ClusterError."""
    if state.cluster is None:
        raise MissingDataError(
            DomainIssue(
                code="cluster.none",
                what="no cluster is followed",
                why="planner serve was started without one",
                fix="planner serve --cluster, or --replay FILE",
            )
        )
    if state.reviewer is not None:
        await state.reviewer.may_read(viewer_of(request))
    return state.cluster.snapshot()


@router.get("/cluster", response_model=ClusterOut)
async def cluster(state: State, request: Request) -> Response:
    """Roles, groups, ranks, blockers and events; readers within the same half second share one answer."""
    snapshot = await allowed(state, request)
    key = ("cluster", int(2.0 * snapshot.now))
    return tagged(request, await state.answers.text(key, partial(cluster_json, state, snapshot)))


def cluster_json(state: ConsoleState, snapshot: Snapshot) -> bytes:
    """The page's document, without what looks like a secret."""
    return state.redactor.text(cluster_out(snapshot).model_dump_json()).encode()


def cluster_out(snapshot: Snapshot) -> ClusterOut:
    """The wire form of a snapshot; names in it are hostile and are shown as text only."""
    view = overview(snapshot)
    events = sorted(snapshot.events.values(), key=lambda e: e.last, reverse=True)[:EVENTS_SHOWN]
    return ClusterOut(
        context=view.context,
        source=view.source,
        namespace=view.namespace,
        at=view.now,
        endpoints=len(view.endpoints),
        endpoints_ready=view.endpoints_ready,
        metrics=_metrics(view),
        roles=tuple(RoleOut.model_validate(r) for r in view.roles),
        groups=tuple(
            GroupOut(
                id=f"{g.id.deployment}/{g.id.group}", role=g.id.role, ready=g.ready, pods=g.pods, pods_ready=g.pods_ready,
                size=g.size, gpus=g.gpus, nodes=g.nodes, restarts=g.restarts, waiting_spread=g.waiting_spread,
            )
            for g in view.groups
        ),
        ranks=tuple(_rank(r) for r in view.ranks),
        blockers=tuple(
            BlockerOut(stage=b.stage.words, what=b.what, why=b.why, role=b.role, count=b.count)
            for b in view.blockers
        ),
        advice=tuple(AdviceOut(what=a.what, why=a.why, fix=a.fix) for a in advise(view)),
        kinds=tuple(
            KindOut(kind=k.kind, trust=k.trust.value, count=k.count, age_s=k.age_s, why=k.why, purpose=k.purpose)
            for k in view.kinds
            if k.trust is not Trust.ABSENT
        ),
        events=tuple(
            EventOut(
                type=e.type, reason=e.reason, message=e.message, about=f"{e.about_kind}/{e.about_name}", count=e.count,
                last=e.last,
            )
            for e in events
        ),
    )  # fmt: skip


def _rank(r: RankRow) -> RankOut:
    def rounded(value: float | None) -> float | None:
        return None if value is None else finite(value)

    return RankOut(
        label=r.label, role=r.role, group=r.group, pod=r.pod, port=r.port, engine=r.engine, age_s=rounded(r.age_s),
        running=rounded(r.running), waiting=rounded(r.waiting), kv_usage=rounded(r.kv_usage),
        prefix_hit=rounded(r.prefix_hit), output_tok_s=rounded(r.output_tok_s), prompt_tok_s=rounded(r.prompt_tok_s),
        preemptions_per_min=rounded(r.preemptions_per_min), failed_per_min=rounded(r.failed_per_min),
        ttft_p99_s=None if r.ttft is None else rounded(r.ttft.value), itl_mean_s=rounded(r.itl_mean_s), hot=r.hot,
        silent=r.silent,
    )  # fmt: skip


def _metrics(view: ClusterOverview) -> str:
    m = view.metrics
    if m is None:
        return "no metrics are read"
    failed = f", {m.failed} did not answer" if m.failed else ""
    return f"{m.targets} ranks' metrics through {m.way} every {m.period_s:.0f} s, {m.took_s:.1f} s a round{failed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A plan against the cluster. `seen` identifies the difference, so that what is applied is what was reviewed."""

    api: Api
    report: DriftReport
    manifests: tuple[Table, ...]
    subject: str
    seen: str


async def compared(state: ConsoleState, request: Request, query: DeployedQuery) -> Compared:
    """Ask the API server what applying the plan would change; nothing is changed."""
    from console.views.cluster_drift import drift_report
    from planner.export.naming import slug
    from planner.export.options import Target

    snapshot = await allowed(state, request)
    api = None if state.cluster is None else state.cluster.source.api
    if api is None:
        raise MissingDataError(
            DomainIssue(
                code="cluster.replay",
                what="a recording has no server",
                why="drift is found by asking the API server",
                fix="follow a live cluster",
            )
        )
    meant = await meant_by(state, query)
    made = await state.answers.run(
        partial(export_of, meant.plan, Target.LLM_D, profiles=state.settings.profiles)
    )
    manifests = tuple(m.plain() for m in made.manifests)
    title = query.name or slug(meant.plan.name)
    report = await drift_report(
        api, snapshot, manifests, name=title, namespace=snapshot.identity.namespace or "default"
    )
    seen = hashlib.sha256(repr((report.objects, manifests)).encode()).hexdigest()
    subject = f"{snapshot.identity.context}/{report.namespace}/{title}"
    return Compared(api=api, report=report, manifests=manifests, subject=subject, seen=seen)


@router.get("/cluster/drift")
async def drift(state: State, request: Request, query: Annotated[DeployedQuery, Query()]) -> DriftOut:
    """A plan's manifests and flags against what runs, by server-side dry run."""
    found = await compared(state, request, query)
    report = found.report
    return DriftOut(
        name=report.name,
        namespace=report.namespace,
        drifted=report.drifted,
        seen=found.seen,
        may_apply=state.settings.allow_apply,
        objects=tuple(
            ObjectDriftOut(
                kind=o.kind, name=o.name, state=o.state.value, why=o.why,
                changes=tuple(_change(c, state) for c in o.changes),
            )
            for o in report.objects
        ),
        arguments=tuple(ArgumentDriftOut.model_validate(a) for a in report.arguments),
        notes=report.notes,
    )  # fmt: skip


def _change(change: FieldChange, state: ConsoleState) -> tuple[str, str | None, str | None]:
    """A field, with what looks like a secret hidden; values of environment variables are never shown."""
    if ".env" in change.path and change.path.endswith(".value"):
        return change.path, change.live and HIDDEN, change.planned and HIDDEN
    redact = state.redactor.text
    return (
        change.path,
        None if change.live is None else redact(change.live),
        None if change.planned is None else redact(change.planned),
    )


@router.get("/cluster/residuals")
async def residuals(state: State, request: Request, query: Annotated[DeployedQuery, Query()]) -> ResidualsOut:
    """What a plan was predicted to do at the load that is seen, and what it does."""
    snapshot = await allowed(state, request)
    meant = await meant_by(state, query)
    return await state.answers.run(_residuals, state, snapshot, meant, query.name)


def _residuals(state: ConsoleState, snapshot: Snapshot, meant: Meant, name: str) -> ResidualsOut:
    from console.cluster.residuals import measured
    from console.views.cluster_residuals import residual_rows, workload_of
    from planner.export.naming import slug
    from planner.search.price import price_plan

    plan = meant.plan
    seen = measured(snapshot, plan, name=name or slug(plan.name))
    load = max(1, round(seen.in_flight)) if seen.in_flight else None
    at_traffic = replace(plan, workload=workload_of(plan, seen))
    priced = price_plan(at_traffic, concurrency=load, profiles=state.settings.profiles, usd=None)
    return ResidualsOut(
        concurrency=priced.plan.concurrency,
        window_s=seen.window_s,
        ranks=seen.ranks,
        ranks_fresh=seen.ranks_fresh,
        unsteady=seen.unsteady,
        rows=tuple(
            ResidualOut(
                metric=r.metric, unit=r.unit, predicted=r.predicted, low=r.low, high=r.high, measured=r.measured,
                residual=r.residual, inside=r.inside,
            )
            for r in residual_rows(plan, priced.evaluation, seen)
        ),
    )  # fmt: skip
