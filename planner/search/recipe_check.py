"""What a recipe is answered today, beside what it was answered when somebody last looked at the change.

The outcomes kept in ``recipes/expected/`` are written from here and compared here, so that a change of the performance
model shows as changed plans and figures in review.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log10
from pathlib import Path
from typing import Final

from planner.analytic.evaluate import MODEL_VERSION
from planner.catalog.locate import data_root
from planner.catalog.recipes import expected_path, write_beside
from planner.catalog.wire import unstructure
from planner.domain.deployment import DeploymentPlan, Strategy
from planner.domain.errors import NotFeasibleError
from planner.domain.evaluation import Evaluation
from planner.domain.provenance import Estimate
from planner.domain.recipe import OtherStrategy, PlannedFigures, PlannedOutcome
from planner.domain.recommendation import Recommendation
from planner.export.yaml import dump_document
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.notation import notation_of
from planner.search.recommend import recommend

TOLERANCE: Final = 0.005
DIGITS: Final = 4  # significant digits kept of every figure: ten times finer than the tolerance
_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between the outcome that was kept and today's; `percent` where both are numbers."""

    field: str
    expected: str
    found: str
    percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Today's outcome of a recipe, with the recommendation behind it unless arithmetic alone refused the question."""

    outcome: PlannedOutcome
    recommendation: Recommendation | None


def answer_recipe(name: str, *, profiles: Path | None = None) -> Answered:
    """Plan the recipe `name` (or the file it points to) with the shipped calibration, never the user's own.

    Raises InputError and MissingDataError as `load_recipe` and `build_problem` do; a question that has no answer is an
    outcome, not an error.
    """
    request = with_recipe(name, Request(profiles=profiles, calibration=False))
    try:
        problem, engine = build_problem(request)
        answer = recommend(problem, engine)
    except NotFeasibleError as refused:
        return Answered(outcome=_refused(request, refused), recommendation=None)
    return Answered(
        outcome=_outcome(request.name or name, f"{engine.engine.value} {engine.version}", answer),
        recommendation=answer,
    )


def compare(expected: PlannedOutcome, found: PlannedOutcome) -> tuple[Change, ...]:
    """Return what differs: plans and texts exactly, figures beyond `TOLERANCE`.

    Numbers inside the binding reason follow from the figures, so only its words are compared. A new calibration or
    model version that changes nothing else is no change.
    """
    changes = [
        Change(field=field, expected=_shown(before), found=_shown(after))
        for field, before, after in (
            ("meets the targets", expected.feasible, found.feasible),
            ("strategy", expected.strategy, found.strategy),
            ("GPUs used", expected.gpus_used, found.gpus_used),
            ("GPUs owned", expected.gpus_owned, found.gpus_owned),
            ("engine", expected.engine, found.engine),
            ("weakest source", expected.provenance, found.provenance),
            ("extrapolates in", expected.extrapolates, found.extrapolates),
        )
        if before != after
    ]
    changes += _plan_changes(expected, found)
    if _NUMBER.sub("#", expected.binding) != _NUMBER.sub("#", found.binding):
        changes.append(Change(field="binding", expected=expected.binding, found=found.binding))
    changes += _figure_changes(_figures(expected), _figures(found))
    return tuple(changes)


def write_expected(outcome: PlannedOutcome, recipe: Path) -> Path:
    """Keep `outcome` beside the recipe file `recipe`; returns the file written.

    Raises InputError ``recipe.unwritable``.
    """
    path = expected_path(recipe)
    header = "# Written by `planner recipes check --update`; a change here is a change of what the planner answers.\n"
    write_beside(path, header + dump_document(unstructure(outcome)))
    return path


@lru_cache(maxsize=1)
def calibration_hash() -> str:
    """First eight digits of the SHA-256 over the shipped calibration files."""
    digest = hashlib.sha256()
    for path in sorted((data_root() / "profiles" / "calibration").iterdir()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


# --- outcomes ---


def _outcome(name: str, engine: str, answer: Recommendation) -> PlannedOutcome:
    pick = answer.pick or (answer.shortfall.nearest if answer.shortfall else None)
    plan = pick.plan if pick else None
    binding = answer.shortfall.binding if answer.shortfall else answer.reasons[0]
    return PlannedOutcome(
        recipe=name,
        feasible=answer.pick is not None,
        strategy=plan.strategy if plan else None,
        roles=tuple(r.role.value for r in plan.roles) if plan else (),
        plan=tuple(notation_of(r) for r in plan.roles) if plan else (),
        gpus_used=plan.gpus_used if plan else 0,
        gpus_owned=plan.gpus_owned if plan else 0,
        figures=_rounded(plan, pick.evaluation) if plan and pick else None,
        binding=binding.removeprefix("binding: "),
        needed=answer.shortfall.needed if answer.shortfall else (),
        other=_other(answer, plan.strategy) if plan else None,
        provenance=pick.evaluation.provenance if pick else None,
        extrapolates=pick.evaluation.extrapolates if pick else (),
        engine=engine,
        model_version=answer.model_version,
        calibration=calibration_hash(),
    )


def _refused(request: Request, refused: NotFeasibleError) -> PlannedOutcome:
    counts = (request.gpus, request.prefill_gpus, request.decode_gpus)
    return PlannedOutcome(
        recipe=request.name or "",
        feasible=False,
        strategy=None,
        roles=(),
        plan=(),
        gpus_used=0,
        gpus_owned=sum(c for c in counts if c is not None),
        figures=None,
        binding="; ".join(f"{i.what}: {i.why}" for i in refused.issues),
        needed=tuple(i.fix for i in refused.issues),
        other=None,
        provenance=None,
        extrapolates=(),
        engine=f"vllm {request.engine_version}" if request.engine_version else "vllm",
        model_version=MODEL_VERSION,
        calibration=calibration_hash(),
    )


def _rounded(plan: DeploymentPlan, e: Evaluation) -> PlannedFigures:
    def estimate(x: Estimate) -> Estimate:
        return Estimate(significant(x.value), significant(x.low), significant(x.high))

    cost = e.usd_per_m_output_tokens
    return PlannedFigures(
        output_tok_s_per_gpu=estimate(e.output_tok_s_per_gpu),
        ttft_ms=estimate(e.ttft_ms),
        tpot_ms=estimate(e.tpot_ms),
        tok_s_user=significant(e.tok_s_user),
        concurrency=plan.concurrency,
        usd_per_m_output_tokens=None if cost is None else significant(cost),
    )


def _other(answer: Recommendation, picked: Strategy) -> OtherStrategy | None:
    best = next((r for r in answer.ranked if r.plan.strategy is not picked), None)
    if best is None:
        return None
    return OtherStrategy(
        strategy=best.plan.strategy,
        plan=best.plan.label(),
        output_tok_s_per_gpu=significant(best.evaluation.output_tok_s_per_gpu.value),
    )


def significant(value: float) -> float:
    """`value` to `DIGITS` significant digits."""
    return 0.0 if value == 0.0 else round(value, DIGITS - 1 - floor(log10(abs(value))))


# --- comparison ---


def _plan_changes(expected: PlannedOutcome, found: PlannedOutcome) -> list[Change]:
    before = dict(zip(expected.roles, expected.plan, strict=False))
    after = dict(zip(found.roles, found.plan, strict=False))
    return [
        Change(field=f"{role} plan", expected=before.get(role, "none"), found=after.get(role, "none"))
        for role in dict.fromkeys((*before, *after))
        if before.get(role) != after.get(role)
    ]


def _figures(o: PlannedOutcome) -> dict[str, float | None]:
    """Every compared number with its unit, None where there is none."""
    f = o.figures
    out: dict[str, float | None] = {}
    for name, e in (
        ("output tok/s/GPU", f.output_tok_s_per_gpu if f else None),
        ("TTFT ms", f.ttft_ms if f else None),
        ("TPOT ms", f.tpot_ms if f else None),
    ):
        out[name] = e.value if e else None
        out[f"{name} (low)"] = e.low if e else None
        out[f"{name} (high)"] = e.high if e else None
    out["tok/s/user"] = f.tok_s_user if f else None
    out["requests in flight"] = f.concurrency if f else None
    out["$/M output tokens"] = f.usd_per_m_output_tokens if f else None
    out["best of the other strategy, tok/s/GPU"] = o.other.output_tok_s_per_gpu if o.other else None
    return out


def _figure_changes(before: dict[str, float | None], after: dict[str, float | None]) -> list[Change]:
    changes: list[Change] = []
    for name, old in before.items():
        new = after[name]
        base = name.partition(" (")[0]
        if (old is None and new is None) or any(c.field == base for c in changes):
            continue  # a bound moves with its value: said once
        if old is None or new is None or abs(new - old) > TOLERANCE * max(abs(old), abs(new)):
            percent = round(100.0 * (new / old - 1.0), 2) if old and new is not None else None
            changes.append(Change(field=name, expected=_shown(old), found=_shown(new), percent=percent))
    return changes


def _shown(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(v) for v in value)
    return f"{value:,.10g}" if isinstance(value, float) else str(value)
