"""Solved questions, kept while they are in use. Targets and price are laid over an answer, never solved again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from console.api.documents import Document
from console.api.problems import Question, request_of
from console.views.points import PlanPoints
from planner.domain.engine import EngineProfile
from planner.domain.evaluation import Evaluation
from planner.domain.problem import PlanningProblem
from planner.domain.recommendation import Exclusion
from planner.search.ask import Request

if TYPE_CHECKING:
    from planner.search.solve import Solution

KEPT: Final = 6
TEXTS: Final = 256
_OVERLAID: Final = frozenset({"ttft_ms", "tpot_ms", "tok_s_user", "usd_per_gpu_hour"})
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Size of the space of role configurations, and what each rule left out."""

    role_configurations: int
    legal: int
    exclusions: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A question with its points. `points` carry the question's own targets and price."""

    question: Question
    request: Request
    problem: PlanningProblem
    engine: EngineProfile
    points: PlanPoints
    space: Space


class Answers:
    """Solves in threads, each question once however many ask; remembers the last few answers and documents."""

    def __init__(self, *, profiles: Path | None, uploads: Path) -> None:
        self._profiles, self._uploads = profiles, uploads
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="solve")
        # reads of the store and small views do not queue behind solving
        self._quick = ThreadPoolExecutor(max_workers=8, thread_name_prefix="quick")
        self._solved: OrderedDict[Question, asyncio.Future[Answer]] = OrderedDict()
        self._texts: OrderedDict[object, asyncio.Future[Document]] = OrderedDict()

    def close(self) -> None:
        """Give up what has not started."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._quick.shutdown(wait=False, cancel_futures=True)

    async def answer(self, question: Question) -> Answer:
        """The answer to `question`. Raises PlannerError."""
        request, problem, engine = await self.run(self._problem, question)
        key = replace(question, values=tuple(v for v in question.values if v[0] not in _OVERLAID))
        solved = await self._once(self._solved, key, KEPT, partial(self._solve, key))
        return await self.run(_laid_over, solved, question, request, problem, engine)

    def known(self, key: object) -> Document | None:
        """The document of `key`, when it was made before."""
        found = self._texts.get(key)
        if found is None or not found.done() or found.cancelled() or found.exception() is not None:
            return None
        self._texts.move_to_end(key)
        return found.result()

    async def text(self, key: object, make: Callable[[], bytes]) -> Document:
        """A document made once per `key`."""
        return await self._once(self._texts, key, TEXTS, lambda: Document.of(make()))

    async def slow_text(self, key: object, make: Callable[[], Awaitable[bytes]]) -> Document:
        """As `text`, for a document that waits for another process."""

        async def work() -> Document:
            return Document.of(await make())

        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = asyncio.ensure_future(work())
            found.add_done_callback(partial(_forget_failure, self._texts, key))
        return await asyncio.shield(found)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run `work` in a thread of this service."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, partial(work, *args))

    async def _once(
        self,
        kept: OrderedDict[T, asyncio.Future[R]],
        key: T,
        most: int,
        make: Callable[[], R],
    ) -> R:
        found = kept.get(key)
        if found is None:
            found = asyncio.get_running_loop().run_in_executor(self._pool, make)
            kept[key] = found
            found.add_done_callback(partial(_forget_failure, kept, key))
            while len(kept) > most:
                kept.popitem(last=False)
        kept.move_to_end(key)
        return await asyncio.shield(found)  # one reader that leaves must not stop the others

    def _problem(self, question: Question) -> tuple[Request, PlanningProblem, EngineProfile]:
        from planner.search.ask import build_problem

        request = request_of(question, profiles=self._profiles, uploads=self._uploads)
        problem, engine = build_problem(request)
        return request, problem, engine

    def _solve(self, question: Question) -> Answer:
        from console.views.points import points_of
        from planner.search.solve import solve

        request, problem, engine = self._problem(question)
        solution = solve(problem, engine)
        return Answer(
            question=question,
            request=request,
            problem=problem,
            engine=engine,
            points=points_of(solution),
            space=_space(solution),
        )


def _forget_failure(kept: OrderedDict[T, asyncio.Future[R]], key: T, done: asyncio.Future[R]) -> None:
    if (done.cancelled() or done.exception() is not None) and kept.get(key) is done:
        del kept[key]


def _laid_over(
    solved: Answer, question: Question, request: Request, problem: PlanningProblem, engine: EngineProfile
) -> Answer:
    """`solved` with the targets and the price of `problem`; nothing else may differ."""
    price = problem.usd_per_gpu_hour

    def evaluation_at(i: int) -> Evaluation:
        e = solved.points.evaluation_at(i)
        rate = e.output_tok_s_per_gpu.value
        cost = None if price is None or rate <= 0.0 else price / (rate * 3600.0) * 1e6
        return replace(e, usd_per_m_output_tokens=cost)

    from planner.search.recommend import question as worded

    points = replace(
        solved.points,
        name=problem.name,
        question=worded(problem),
        slo=problem.slo,
        usd_per_gpu_hour=price,
        evaluation_at=evaluation_at,
        plan_at=lambda i: replace(solved.points.plan_at(i), slo=problem.slo, name=problem.name),
    )
    return Answer(
        question=question, request=request, problem=problem, engine=engine, points=points, space=solved.space
    )


def _space(solution: Solution) -> Space:
    from planner.analytic.space import MEMORY_TITLES
    from planner.domain.legality import rule_title

    return Space(
        role_configurations=solution.role_configurations,
        legal=solution.legal,
        exclusions=tuple(
            Exclusion(code=code, title=MEMORY_TITLES.get(code) or rule_title(code), count=n)
            for code, n in sorted(solution.excluded.items(), key=lambda item: (-item[1], item[0]))
        ),
    )
