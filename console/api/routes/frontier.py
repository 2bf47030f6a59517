"""The frontier: one view of the answer per request, made once and remembered as bytes."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from console.api.answers import Answer
from console.api.documents import tagged
from console.api.queries import AskedFrontier, AskedQuestion, FrontierQuery, State
from console.api.state import ConsoleState
from console.api.wire import (
    AssumptionOut,
    AxisOut,
    ExclusionOut,
    FrontierOut,
    command_of,
    groups_out,
    row_of,
    without_keys,
)
from console.views.frontier import frontier_view
from console.views.metrics import METRICS, Axis
from planner.analytic.evaluate import MODEL_VERSION
from planner.storage.measured import StoredMeasurement

if TYPE_CHECKING:
    from console.figures.frontier import MeasuredMark

SAME_LENGTH = 0.1
router = APIRouter(prefix="/api/v1", tags=["frontier"])


@router.get("/frontier", response_model=FrontierOut)
async def frontier(request: Request, state: State, query: AskedFrontier) -> Response:
    """Figure, table rows and summary of the answer to a question."""
    key: tuple[object, ...] = ("frontier", query.question(state), query)
    stored: tuple[StoredMeasurement, ...] = ()
    if query.measured:
        answer = await state.answers.answer(query.question(state))
        stored = await state.answers.run(_measured, state, answer)
        key = (*key, tuple(s.hash for s in stored))
    body = state.answers.known(key)
    if body is None:
        answer = await state.answers.answer(query.question(state))
        body = await state.answers.text(key, partial(_document, answer, query, stored))
    return tagged(request, body)


def _measured(state: ConsoleState, answer: Answer) -> tuple[StoredMeasurement, ...]:
    """Stored measurements of the same model, GPU and request lengths (within a tenth)."""
    problem = answer.problem
    w = problem.workload
    return tuple(
        s
        for s in state.store.measurements.list(model=problem.model.id, gpu=problem.decode_pool.gpu.id)
        if abs(s.measurement.workload.isl / w.isl - 1.0) <= SAME_LENGTH
        and abs(s.measurement.workload.osl / w.osl - 1.0) <= SAME_LENGTH
    )


def _marks(answer: Answer, query: FrontierQuery, stored: tuple[StoredMeasurement, ...]) -> list[MeasuredMark]:
    """Where the measurements lie on the two axes; those that lack one are left out."""
    from console.figures.frontier import MeasuredMark

    price = answer.points.usd_per_gpu_hour
    marks = []
    for s in stored:
        m = s.measurement
        rate = m.result.output_tok_s_per_gpu
        values = {
            Axis.TOK_S_USER: m.result.tok_s_user,
            Axis.RATE: rate,
            Axis.TTFT: m.result.ttft.typical_ms,
            Axis.TPOT: m.result.tpot.typical_ms,
            Axis.COST: price / (rate * 3600.0) * 1e6 if price and rate else None,
            Axis.CONCURRENCY: m.load.concurrency,
        }
        x, y = values[query.x], values[query.y]
        if x and y:
            where = f"{m.label()}, {m.gpus} GPUs, {m.engine.value} {m.engine_version}, {m.origin.file}"
            marks.append(MeasuredMark(x=x, y=y, label=where))
    return marks


def _document(answer: Answer, query: FrontierQuery, stored: tuple[StoredMeasurement, ...]) -> bytes:
    from console.figures.frontier import frontier_figure

    points = answer.points
    view = frontier_view(points, query.options(points.slo))
    shown = view.rows[query.offset : query.offset + query.limit]
    said: list[AssumptionOut] = []
    unsure: list[AssumptionOut] = []
    for a in answer.problem.assumptions:
        (unsure if a.why.startswith("not confirmed") else said).append(AssumptionOut.model_validate(a))
    out = FrontierOut(
        title=view.title,
        question=view.question,
        summary=without_keys(view.summary),
        query=answer.question.query(),
        command=command_of(answer.question),
        axes=tuple(
            AxisOut(key=m.axis.value, label=m.label, short=m.short, unit=m.unit,
                    higher_is_better=m.higher_is_better)
            for m in METRICS.values()
        ),
        groups=groups_out(view),
        figure=frontier_figure(view, _marks(answer, query, stored)),
        measured=len(stored),
        rows=tuple(row_of(points, r) for r in shown),
        rows_total=len(view.rows),
        offset=query.offset,
        best=None if view.best is None else row_of(points, view.best),
        total=view.total,
        shown=view.shown,
        meeting=view.meeting,
        usd_per_gpu_hour=points.usd_per_gpu_hour,
        assumptions=tuple(said),
        unconfirmed=tuple(unsure),
        exclusions=tuple(ExclusionOut.model_validate(e) for e in answer.space.exclusions),
        role_configurations=answer.space.role_configurations,
        legal=answer.space.legal,
        model_version=MODEL_VERSION,
    )  # fmt: skip
    return out.model_dump_json().encode()


@router.get("/recommendation", response_class=Response)
async def recommendation(request: Request, state: State, query: AskedQuestion) -> Response:
    """The whole answer as ``wideplan.recommendation/v1``, as ``planner recommend --json`` prints it."""
    question = query.question(state)
    key = ("recommendation", question)
    body = state.answers.known(key)
    if body is None:
        answer = await state.answers.answer(question)
        body = await state.answers.text(key, partial(_recommendation, answer))
    return tagged(request, body)


def _recommendation(answer: Answer) -> bytes:
    from planner.catalog.wire import unstructure
    from planner.search.recommend import recommend

    made = unstructure(recommend(answer.problem, answer.engine))
    document = {"schema": "wideplan.recommendation/v1", **made}
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
