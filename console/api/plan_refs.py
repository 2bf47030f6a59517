"""Which plan an address means: a point of an answer, or a plan saved in the store; with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from console.api.answers import Answer
from console.api.queries import MAX_POINT, QuestionQuery, Text
from console.api.state import ConsoleState
from console.views.metrics import Axis
from console.views.points import PlanPoints
from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue
from planner.domain.evaluation import Evaluation


class PlanQuery(QuestionQuery):
    """A point of the question's answer, or the hash or name of a saved plan."""

    point: Annotated[int, Field(ge=0, le=MAX_POINT)] | None = None
    saved: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """A plan with its numbers. `answer` and `point` are None for a saved plan."""

    plan: DeploymentPlan
    evaluation: Evaluation
    answer: Answer | None = None
    point: int | None = None


async def meant_by(state: ConsoleState, query: PlanQuery) -> Meant:
    """The plan of an address. Raises InputError ``plan.point``, ``plan.reference``, MissingDataError ``plan.unknown``."""
    if query.saved:
        return await state.answers.run(_saved, state, query.saved)
    if query.point is None:
        raise InputError(
            Issue(
                code="plan.reference",
                what="no plan is named",
                why="a plan is a point of an answer, or saved",
                fix="give point=NUMBER or saved=HASH",
            )
        )
    answer = await state.answers.answer(query.question(state))
    check_points(answer.points, query.point)
    return await state.answers.run(_at, answer, query.point)


def check_points(points: PlanPoints, *numbers: int) -> None:
    """Raise InputError ``plan.point`` unless all `numbers` are points of the answer."""
    wrong = [n for n in numbers if n >= len(points)]
    if wrong:
        raise InputError(
            Issue(
                code="plan.point",
                what=f"point {wrong[0]}",
                why=f"this answer has {len(points):,} points",
                fix="open the frontier again: points are numbered anew when the model or a profile changes",
            )
        )


def _at(answer: Answer, point: int) -> Meant:
    return Meant(
        plan=answer.points.plan_at(point),
        evaluation=answer.points.evaluation_at(point),
        answer=answer,
        point=point,
    )


def _saved(state: ConsoleState, reference: str) -> Meant:
    from planner.search.price import price_plan

    plan = state.store.plans.get(reference)
    priced = price_plan(plan, concurrency=None, profiles=state.settings.profiles, usd=None)
    return Meant(plan=plan, evaluation=priced.evaluation)


def dominated_by(points: PlanPoints, point: int) -> str:
    """The plan with the highest rate among those at least as fast for a user; empty when the point is on that front."""
    speed = points.values(Axis.TOK_S_USER)
    faster = speed >= speed[point]
    best = int(np.argmax(np.where(faster, points.rate, -1.0)))
    if points.rate[best] <= points.rate[point]:
        return ""
    return points.label(best)
