"""The form of a new problem, its check, models brought along, and plans kept in the store."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from console.api.audit import note
from console.api.plan_refs import PlanQuery, meant_by
from console.api.problems import form_of
from console.api.queries import AskedQuestion, State
from console.api.state import ConsoleState
from console.api.wire import Issue, Wire
from console.views.problem_form import FIELDS, suggestions

router = APIRouter(prefix="/api/v1", tags=["problems"])
KEPT_UPLOADS = 200


class FieldOut(Wire):
    """One field of the form."""

    key: str
    label: str
    group: str
    kind: str
    hint: str
    flag: str
    choices: tuple[str, ...]
    suggestions: tuple[str, ...]


class FormOut(Wire):
    """The form, and the recipes that fill it."""

    fields: tuple[FieldOut, ...]
    recipes: tuple[str, ...]


class CheckedField(Wire):
    """What stands in a field, and what is wrong with it."""

    key: str
    text: str
    issues: tuple[Issue, ...]


class CheckedOut(Wire):
    """The form after checking."""

    ready: bool
    fields: tuple[CheckedField, ...]
    general: tuple[Issue, ...]
    summary: str
    assumptions: tuple[str, ...]
    command: str


class ModelOut(Wire):
    """A model that was brought along; `model` is what to write in the form."""

    model: str
    name: str
    summary: str


class SavedOut(Wire):
    """A plan in the store."""

    hash: str
    name: str
    label: str
    model: str
    gpus: int


class SavedPlansOut(Wire):
    """One page of saved plans, newest first."""

    plans: tuple[SavedOut, ...]
    total: int


class AuditOut(Wire):
    """One action that changed something."""

    at: datetime | None
    actor: str
    action: str
    subject: str


class AuditListOut(Wire):
    """The newest actions."""

    entries: tuple[AuditOut, ...]


class SavePlan(BaseModel):
    """Which plan to keep."""

    model_config = ConfigDict(extra="forbid")

    plan: PlanQuery = Field(description="A point of an answer.")


@router.get("/form")
def form() -> FormOut:
    """The fields of a planning question, with what the catalogue knows for each."""
    from planner.catalog.recipes import list_recipes

    known = suggestions()
    return FormOut(
        fields=tuple(
            FieldOut(
                key=f.key, label=f.label, group=f.group, kind=f.kind.value, hint=f.hint, flag=f.flag, choices=f.choices,
                suggestions=() if f.choices else known.get(f.key, ()),
            )
            for f in FIELDS
        ),
        recipes=list_recipes(),
    )  # fmt: skip


@router.get("/form/check")
async def check(state: State, query: AskedQuestion) -> CheckedOut:
    """The question as a form with every mistake in its place."""
    return await state.answers.run(_check, state, query)


def _check(state: ConsoleState, query: AskedQuestion) -> CheckedOut:
    made = form_of(query.question(state), profiles=state.settings.profiles, uploads=state.settings.uploads)
    out = CheckedOut(
        ready=made.ready,
        fields=tuple(
            CheckedField(key=f.spec.key, text=f.text, issues=tuple(Issue.model_validate(i) for i in f.issues))
            for f in made.fields
        ),
        general=tuple(Issue.model_validate(i) for i in made.general),
        summary=made.summary,
        assumptions=made.assumptions,
        command=made.command,
    )
    # a token pasted into the wrong field is not repeated
    return CheckedOut.model_validate_json(state.redactor.text(out.model_dump_json()))


@router.post("/uploads/model", status_code=201)
async def upload_model(
    state: State, request: Request, name: Annotated[str, Query(max_length=200)] = "config.json"
) -> ModelOut:
    """Read a Hugging Face ``config.json`` and keep it for questions; nothing of it is executed."""
    body = await request.body()
    made = await state.answers.run(_keep_model, state, body, name)
    await state.answers.run(note, state, request, "upload.model", made.model)
    return made


def _keep_model(state: ConsoleState, body: bytes, name: str) -> ModelOut:
    from planner.catalog.models import load_model
    from planner.domain.errors import InputError
    from planner.domain.errors import Issue as DomainIssue

    root = state.settings.uploads
    digest = hashlib.sha256(body).hexdigest()[:16]
    folder = root / digest
    if not folder.exists() and root.is_dir() and sum(1 for _ in root.iterdir()) >= KEPT_UPLOADS:
        raise InputError(
            DomainIssue(
                code="upload.full",
                what=f"{KEPT_UPLOADS} models are kept already",
                why="uploads are bounded",
                fix="delete some from the console's uploads folder",
            )
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "config.json"
    path.write_bytes(body)
    try:
        spec = load_model(str(path))
    except BaseException:
        path.unlink(missing_ok=True)
        folder.rmdir()
        raise
    shown = f"{spec.total_parameters / 1e9:.0f} B parameters, {spec.num_layers} layers, {spec.weight_bytes / 2**30:.0f} GiB"
    return ModelOut(model=f"upload:{digest}", name=name[:80], summary=shown)


@router.get("/plans")
async def plans(
    state: State,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> SavedPlansOut:
    """Plans in the store."""
    return await state.answers.run(_plans, state, limit, offset)


def _plans(state: ConsoleState, limit: int, offset: int) -> SavedPlansOut:
    found = state.store.plans.list()
    return SavedPlansOut(
        plans=tuple(
            SavedOut(hash=digest, name=p.name, label=p.label(), model=p.model, gpus=p.gpus_used)
            for digest, p in found[offset : offset + limit]
        ),
        total=len(found),
    )


@router.post("/plans", status_code=201)
async def save(state: State, request: Request, body: SavePlan) -> SavedOut:
    """Keep a plan in the store, for other pages and for the terminal."""
    meant = await meant_by(state, body.plan)
    digest = await state.answers.run(state.store.plans.save, meant.plan)
    await state.answers.run(note, state, request, "plan.save", digest)
    p = meant.plan
    return SavedOut(hash=digest, name=p.name, label=p.label(), model=p.model, gpus=p.gpus_used)


@router.get("/audit")
async def audit(state: State, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> AuditListOut:
    """What was changed through the console, newest first."""
    entries = await state.answers.run(lambda: state.store.audit.list(limit=limit))
    return AuditListOut(entries=tuple(AuditOut.model_validate(e) for e in entries))
