"""Studies as one JSON document: problem, plans, studies and trials, to be put into another database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue
from planner.domain.problem import PlanningProblem
from planner.domain.study import Study, Trial
from planner.storage.codec import decode, encode
from planner.storage.store import Store
from planner.storage.studies import FinishedTrial

SCHEMA: Final = "wideplan.study-bundle/v1"
_OWNER: Final = "bundle"

T = TypeVar("T")


def dump_studies(store: Store, names: Sequence[str]) -> str:
    """The studies `names`, with what they refer to and the studies of their long runs. MissingDataError ``study.unknown``."""
    children = [s.study.name for s in store.studies.list() if s.study.parent in names]
    studies = [store.studies.get(n) for n in (*names, *reversed(children))]
    trials = [t for s in studies for t in store.studies.trials(s.name) if t.state.finished]
    plans = sorted({t.outcome.plan_hash for t in trials if t.outcome.plan_hash is not None})
    problems = sorted({s.problem_hash for s in studies})
    document = {
        "schema": SCHEMA,
        "problems": {h: _plain(store.problems.get(h)) for h in problems},
        "plans": {h: _plain(store.plans.get(h)) for h in plans},
        "studies": [_plain(s) for s in studies],
        "trials": [_plain(t) for t in trials],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def load_studies(store: Store, text: str) -> tuple[str, ...]:
    """Store every study of a bundle; returns their names. Trials keep their order and outcomes, not their times.

    Content hashes are taken anew: a later version may add fields to what they cover. Raises InputError
    ``study.bundle``, ``study.exists``, StoreError ``store.document``.
    """
    document = _document(text)
    problems = {h: store.problems.save(p) for h, p in _keyed(document, "problems", PlanningProblem).items()}
    plans = {h: store.plans.save(p) for h, p in _keyed(document, "plans", DeploymentPlan).items()}
    trials = _listed(document, "trials", Trial)
    studies = _listed(document, "studies", Study)
    for study in studies:
        store.studies.create(
            replace(study, problem_hash=problems.get(study.problem_hash, study.problem_hash))
        )
        own = sorted((t for t in trials if t.study == study.name), key=lambda t: t.number)
        store.studies.record(study.name, [_finished(t, plans) for t in own], owner=_OWNER)
    return tuple(s.name for s in studies)


def _finished(trial: Trial, plans: Mapping[str, str]) -> FinishedTrial:
    plan = trial.outcome.plan_hash
    outcome = trial.outcome if plan is None else replace(trial.outcome, plan_hash=plans.get(plan, plan))
    return FinishedTrial(spec_hash=trial.spec_hash, parameters=trial.parameters, outcome=outcome)


def _plain(value: object) -> Any:
    return json.loads(encode(value))


def _document(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(_invalid(str(error))) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(_invalid(f"its schema is not {SCHEMA}"))
    return document


def _listed(document: Mapping[str, Any], key: str, cls: type[T]) -> tuple[T, ...]:
    rows = document.get(key)
    if not isinstance(rows, list):
        raise InputError(_invalid(f"'{key}' is not a list"))
    return tuple(decode(json.dumps(row), cls) for row in rows)


def _keyed(document: Mapping[str, Any], key: str, cls: type[T]) -> dict[str, T]:
    rows = document.get(key)
    if not isinstance(rows, dict):
        raise InputError(_invalid(f"'{key}' is not an object"))
    return {name: decode(json.dumps(row), cls) for name, row in rows.items()}


def _invalid(why: str) -> Issue:
    return Issue(
        code="study.bundle",
        what="this is no bundle of studies",
        why=why,
        fix="take a document written by the same or an older version",
    )
