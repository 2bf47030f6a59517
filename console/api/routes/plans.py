"""One plan: its numbers, manifests and findings; comparison of several; why a plan is not on the frontier."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from console.api.answers import Answer
from console.api.documents import tagged
from console.api.plan_refs import Meant, PlanQuery, check_points, dominated_by, meant_by
from console.api.queries import AskedPoints, PointsQuery, QuestionQuery, State
from console.api.wire import Wire
from console.views.comparison import comparison, manifest_diff
from console.views.metrics import Axis
from console.views.plan_detail import plan_detail
from planner.domain.deployment import DeploymentPlan
from planner.export.options import Target
from planner.storage.codec import domain_hash

router = APIRouter(prefix="/api/v1", tags=["plans"])
AskedPlan = Annotated[PlanQuery, Query()]


class ManifestQuery(PlanQuery):
    """A plan and an export format."""

    target: Target = Target.LLM_D


class WhyNotQuery(QuestionQuery):
    """A configuration in the notation of ``planner why-not``."""

    text: Annotated[str, Field(min_length=1, max_length=256)]


class FigureOut(Wire):
    """A named value with its 80 % interval."""

    name: str
    value: str
    interval: str


class SegmentOut(Wire):
    """One part of a bar."""

    name: str
    amount: float
    share: float
    source: str


class BarOut(Wire):
    """A bar of parts."""

    title: str
    unit: str
    total: float
    segments: tuple[SegmentOut, ...]
    note: str


class ScorerOut(Wire):
    """One scorer of the router."""

    role: str
    type: str
    weight: float


class PlanOut(Wire):
    """One plan in full."""

    label: str
    name: str
    headline: str
    arithmetic: tuple[str, ...]
    figures: tuple[FigureOut, ...]
    steps: tuple[BarOut, ...]
    memory: tuple[BarOut, ...]
    basis: str
    router: str
    scorers: tuple[ScorerOut, ...]
    values: dict[str, float | None]
    meets: bool | None
    dominated_by: str
    breakdown: dict[str, Any]
    command: str


class CellOut(Wire):
    """A value of one plan, and what it is against the first."""

    text: str
    change: str
    better: bool | None


class CompareRowOut(Wire):
    """One parameter or metric."""

    name: str
    cells: tuple[CellOut, ...]
    differs: bool


class CompareOut(Wire):
    """Plans side by side."""

    labels: tuple[str, ...]
    parameters: tuple[CompareRowOut, ...]
    metrics: tuple[CompareRowOut, ...]
    verdict: tuple[str, ...]


class FileOut(Wire):
    """One exported file."""

    path: str
    text: str


class FindingOut(Wire):
    """Something the linter says about the export."""

    rule: str
    severity: str
    what: str
    why: str
    fix: str
    where: str


class ManifestsOut(Wire):
    """An export."""

    title: str
    target: str
    targets: tuple[str, ...]
    files: tuple[FileOut, ...]
    notes: tuple[str, ...]
    findings: tuple[FindingOut, ...]


class DiffOut(Wire):
    """Unified diff of two exports."""

    names: tuple[str, str]
    lines: tuple[str, ...]


class WhyNotOut(Wire):
    """A verdict in words."""

    label: str
    verdict: str
    good: bool
    lines: tuple[str, ...]
    better: str


@router.get("/plan", response_model=PlanOut)
async def plan(request: Request, state: State, query: AskedPlan) -> Response:
    """A plan with its breakdowns."""
    key = ("plan", query.question(state), query.point, query.saved)
    made = state.answers.known(key)
    if made is None:
        meant = await meant_by(state, query)
        made = await state.answers.text(key, partial(_plan_document, meant))
    return tagged(request, made)


def _plan_document(meant: Meant) -> bytes:
    return _plan(meant).model_dump_json().encode()


def _plan(meant: Meant) -> PlanOut:
    from console.figures.breakdown import breakdown_figure

    detail = plan_detail(meant.plan, meant.evaluation)
    e, router_policy = meant.evaluation, meant.plan.router
    scorers = [("prefill", s) for s in router_policy.prefill_scorers]
    scorers += [("decode", s) for s in router_policy.decode_scorers]
    points = meant.answer.points if meant.answer is not None else None
    return PlanOut(
        label=detail.label,
        name=meant.plan.name,
        headline=detail.headline,
        arithmetic=detail.arithmetic,
        figures=tuple(FigureOut.model_validate(f) for f in detail.figures),
        steps=tuple(BarOut.model_validate(b) for b in detail.steps),
        memory=tuple(BarOut.model_validate(b) for b in detail.memory),
        basis=detail.basis,
        router=router_policy.kind.value,
        scorers=tuple(ScorerOut(role=role, type=s.type, weight=s.weight) for role, s in scorers),
        values={
            Axis.TOK_S_USER: e.tok_s_user,
            Axis.RATE: e.output_tok_s_per_gpu.value,
            Axis.TTFT: e.ttft_ms.value,
            Axis.TPOT: e.tpot_ms.value,
            Axis.COST: e.usd_per_m_output_tokens,
            Axis.CONCURRENCY: e.concurrency,
        },
        meets=None if points is None or meant.point is None else bool(points.meets(points.slo)[meant.point]),
        dominated_by="" if points is None or meant.point is None else dominated_by(points, meant.point),
        breakdown=breakdown_figure(detail),
        command=f"planner export {meant.plan.name}.json | kubectl apply --server-side -f -",
    )


@router.get("/plan.json")
async def plan_document(state: State, query: AskedPlan) -> Response:
    """The plan as a file for ``planner export`` and the other commands."""
    from planner.catalog.plans import dump_plan

    meant = await meant_by(state, query)
    return Response(
        dump_plan(meant.plan), media_type="application/json", headers=_attachment(f"{meant.plan.name}.json")
    )


@router.get("/compare", response_model=CompareOut)
async def compare(request: Request, state: State, query: AskedPoints) -> Response:
    """Parameters and metrics of up to six points; the first is the base."""
    key = ("compare", query.question(state), tuple(query.points))
    made = state.answers.known(key)
    if made is None:
        answer = await state.answers.answer(query.question(state))
        check_points(answer.points, *query.points)
        made = await state.answers.text(key, partial(_compare, answer, query))
    return tagged(request, made)


def _compare(answer: Answer, query: PointsQuery) -> bytes:
    points = answer.points
    made = comparison([(points.plan_at(i), points.evaluation_at(i)) for i in query.points])
    return CompareOut.model_validate(made).model_dump_json().encode()


@router.get("/manifests", response_model=ManifestsOut)
async def manifests(request: Request, state: State, query: Annotated[ManifestQuery, Query()]) -> Response:
    """The plan as manifests, with what the linter says about them."""
    meant = await meant_by(state, query)
    key = ("manifests", domain_hash(meant.plan), query.target)
    made = await state.answers.text(key, partial(_manifests, state, meant, query.target))
    return tagged(request, made)


def _manifests(state: State, meant: Meant, target: Target) -> bytes:
    from console.api.exports import findings_of
    from console.views.manifests import export_of

    made = export_of(meant.plan, target, profiles=state.settings.profiles)
    out = ManifestsOut(
        title=f"{meant.plan.name}: {meant.plan.label()}",
        target=target.value,
        targets=tuple(t.value for t in Target),
        files=tuple(FileOut.model_validate(f) for f in made.files),
        notes=made.notes,
        findings=tuple(
            FindingOut(
                rule=f.rule.id,
                severity=f.severity.value,
                what=f.what,
                why=f.rule.why,
                fix=f.fix,
                where=f"{f.object} {f.path}",
            )
            for f in findings_of(made, profiles=state.settings.profiles)
        ),
    )
    return out.model_dump_json().encode()


class DiffQuery(PointsQuery):
    """Two points and an export format."""

    target: Target = Target.LLM_D


@router.get("/diff")
async def diff(state: State, query: Annotated[DiffQuery, Query()]) -> DiffOut:
    """The manifests of the first point against those of the second."""
    answer = await state.answers.answer(query.question(state))
    check_points(answer.points, *query.points)
    first, second = query.points[0], query.points[-1]
    return await state.answers.run(
        _diff, state, answer.points.plan_at(first), answer.points.plan_at(second), query.target
    )


def _diff(state: State, first: DeploymentPlan, second: DeploymentPlan, target: Target) -> DiffOut:
    from console.views.manifests import export_of

    texts = []
    for one in (first, second):
        made = export_of(one, target, profiles=state.settings.profiles)
        texts.append(made.stream or "\n".join(f.text for f in made.files))
    names = (first.label(), second.label())
    return DiffOut(names=names, lines=manifest_diff(texts[0], texts[1], names=names))


@router.get("/why-not")
async def why_not(state: State, query: Annotated[WhyNotQuery, Query()]) -> WhyNotOut:
    """Why a configuration is not on the frontier."""
    answer = await state.answers.answer(query.question(state))
    return await state.answers.run(_why_not, answer, query.text)


def _why_not(answer: Answer, text: str) -> WhyNotOut:
    from console.views.why_not import split_roles, why_not_view
    from planner.search.price import describe
    from planner.search.why_not import why_not as ask

    aggregated, prefill, decode = split_roles(text)
    plan, problem, engine = describe(
        answer.request, aggregated=aggregated, prefill=prefill, decode=decode, concurrency=None
    )
    return WhyNotOut.model_validate(why_not_view(ask(plan, problem, engine)))


def _attachment(name: str) -> dict[str, str]:
    safe = "".join(c if c.isalnum() or c in "-._" else "-" for c in name)
    return {"content-disposition": f'attachment; filename="{safe}"'}
