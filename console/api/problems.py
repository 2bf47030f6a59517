"""A question as it stands in an address: a recipe and the form's fields laid over it. Text from outside, so checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from console.views.problem_form import BY_KEY, FIELDS, FormState, Kind, check_form, values_of
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.search.ask import Request

_NAME: Final = re.compile(r"[\w.+-]{1,96}(/[\w.+-]{1,96})?", re.ASCII)
UPLOADED: Final = re.compile(r"upload:([0-9a-f]{16})")
MAX_TEXT: Final = 256
KEYS: Final = ("recipe", *BY_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A recipe's name (or none) and texts of fields, in the form's order. Equal questions have equal answers."""

    recipe: str | None = None
    values: tuple[tuple[str, str], ...] = ()

    def query(self) -> dict[str, str]:
        """The parts of an address that say the same."""
        return {**({"recipe": self.recipe} if self.recipe else {}), **dict(self.values)}


def question_of(query: Mapping[str, str], *, default: str | None) -> Question:
    """The question in `query`; other keys are ignored. `default` is the recipe when nothing is asked."""
    values = tuple((f.key, query[f.key].strip()) for f in FIELDS if query.get(f.key, "").strip())
    recipe = query.get("recipe", "").strip() or None
    asked = any(key in {"model", "gpu", "node", "prefill_gpu"} for key, _ in values)
    return Question(recipe=recipe if recipe or asked else default, values=values)


def form_of(question: Question, *, profiles: Path | None, uploads: Path) -> FormState:
    """The checked form of `question`. Raises InputError ``recipe.unknown``."""
    base = Request(profiles=profiles)
    if question.recipe is not None:
        base = _recipe(question.recipe, base)
    values = {**values_of(base), **dict(question.values)}
    issues = [i for key, text in question.values if (i := _unsafe(key, text)) is not None]
    if issues:
        raise InputError(*issues)
    model = values["model"]
    uploaded = UPLOADED.fullmatch(model)
    if uploaded is not None:
        values["model"] = str(uploads / uploaded[1] / "config.json")
    state = check_form(values, base=base)
    if uploaded is None:
        return state
    # what is shown names the upload, never the folder it lies in
    fields = tuple(replace(f, text=model) if f.spec.key == "model" else f for f in state.fields)
    command = state.command.replace(values["model"], "config.json")
    return replace(state, fields=fields, command=command)


def request_of(question: Question, *, profiles: Path | None, uploads: Path) -> Request:
    """The request, or InputError with everything that is wrong with the form."""
    state = form_of(question, profiles=profiles, uploads=uploads)
    if state.request is None or not state.ready:
        raise InputError(*state.issues)
    name = None
    if question.recipe is not None and not question.values:
        name = question.recipe
    return replace(state.request, name=name)


def _recipe(name: str, base: Request) -> Request:
    from planner.catalog.recipes import list_recipes
    from planner.search.from_recipe import request_of as from_recipe

    known = list_recipes()
    if name not in known:  # never a path: this text comes from outside
        raise InputError(
            Issue(
                code="recipe.unknown",
                what=f"recipe '{name[:80]}'",
                why="there is no recipe of that name",
                fix=did_you_mean(name, known),
                where="--recipe",
            )
        )
    return from_recipe(name, base)


def _unsafe(key: str, text: str) -> Issue | None:
    """Names from outside never reach the file system as paths."""
    spec = BY_KEY[key]
    if len(text) > MAX_TEXT:
        return _issue(spec.flag, text, f"it is longer than {MAX_TEXT} characters", "shorten it")
    if spec.kind is not Kind.TEXT or (key == "model" and UPLOADED.fullmatch(text)):
        return None
    path_like = ".." in text or text.lower().endswith((".json", ".yaml", ".yml")) or Path(text).exists()
    if _NAME.fullmatch(text) is None or path_like:
        fix = "name an entry of the catalogue" + (", or upload its config.json" if key == "model" else "")
        return _issue(spec.flag, text, "the console takes names, not paths or addresses", fix)
    return None


def _issue(flag: str, text: str, why: str, fix: str) -> Issue:
    return Issue(code="form.value", what=f"{flag} '{text[:80]}'", why=why, fix=fix, where=flag)
