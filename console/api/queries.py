"""What may stand in an address: the question, and what is shown of its answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from console.api.problems import KEYS, Question, question_of
from console.api.state import ConsoleState, console_of
from console.views.comparison import MOST
from console.views.frontier_model import MAX_ROWS, ColourBy, FrontierOptions, TableMode
from console.views.metrics import Axis
from planner.domain.workload import SloTargets

Text = Annotated[str, Field(max_length=256)]
MAX_POINT = 2**31 - 1


class QuestionQuery(BaseModel):
    """A recipe with fields laid over it; the fields are those of ``planner recommend``."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    recipe: Text = ""
    model: Text = ""
    gpu: Text = ""
    gpus: Text = ""
    fabric: Text = ""
    node: Text = ""
    prefill_gpu: Text = ""
    prefill_gpus: Text = ""
    decode_gpu: Text = ""
    decode_gpus: Text = ""
    isl: Text = ""
    osl: Text = ""
    prefix_hit: Text = ""
    ttft_ms: Text = ""
    tpot_ms: Text = ""
    tok_s_user: Text = ""
    usd_per_gpu_hour: Text = ""
    strategy: Text = ""
    kv_dtype: Text = ""
    engine_version: Text = ""

    def question(self, state: ConsoleState) -> Question:
        """The question; the server's own recipe when nothing is asked."""
        return question_of({k: str(getattr(self, k)) for k in KEYS}, default=state.settings.recipe)


class FrontierQuery(QuestionQuery):
    """What is shown of the answer, and how."""

    x: Axis = Axis.TOK_S_USER
    y: Axis = Axis.RATE
    log_x: bool = False
    log_y: bool = False
    colour: ColourBy = ColourBy.KIND
    dominated: bool = True
    intervals: bool = False
    measured: bool = False
    table: TableMode = TableMode.RANKED
    filter: Text = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    offset: Annotated[int, Field(ge=0, le=MAX_ROWS)] = 0

    def options(self, slo: SloTargets) -> FrontierOptions:
        """The view's options under the targets `slo`."""
        return FrontierOptions(
            slo=slo,
            x=self.x,
            y=self.y,
            log_x=self.log_x,
            log_y=self.log_y,
            colour_by=self.colour,
            dominated=self.dominated,
            intervals=self.intervals,
            mode=self.table,
            filter=self.filter,
        )


class PointQuery(QuestionQuery):
    """One point of the answer."""

    point: Annotated[int, Field(ge=0, le=MAX_POINT)]


class PointsQuery(QuestionQuery):
    """Two to six points of the answer; the first is what the others are compared with."""

    points: Annotated[list[Annotated[int, Field(ge=0, le=MAX_POINT)]], Field(min_length=1, max_length=MOST)]


def needs_question(query: Annotated[QuestionQuery, Query()]) -> QuestionQuery:
    """The question in the address."""
    return query


State = Annotated[ConsoleState, Depends(console_of)]
AskedQuestion = Annotated[QuestionQuery, Query()]
AskedFrontier = Annotated[FrontierQuery, Query()]
AskedPoint = Annotated[PointQuery, Query()]
AskedPoints = Annotated[PointsQuery, Query()]
