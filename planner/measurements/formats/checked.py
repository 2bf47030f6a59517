"""Figures that are no numbers: said with their place, instead of being taken for absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Concatenate, Final, ParamSpec

from planner.domain.errors import Issue
from planner.measurements.draft import Draft
from planner.measurements.values import Json, unreadable_numbers

P = ParamSpec("P")
_SHOWN: Final = 40  # characters of a damaged value
_MOST_ITEMS: Final = 50  # of a list; per-request details are not read as figures


def checked(
    draft_of: Callable[Concatenate[Mapping[str, Json], P], Draft],
) -> Callable[Concatenate[Mapping[str, Json], P], Draft]:
    """Add a ``measurement.not_a_number`` issue to a draft for every text that stood where a number is wanted."""

    @wraps(draft_of)
    def read(run: Mapping[str, Json], /, *args: P.args, **kwargs: P.kwargs) -> Draft:
        with unreadable_numbers() as texts:
            draft = draft_of(run, *args, **kwargs)
        issues = [_not_a_number(t, next(_places(run, t), None)) for t in dict.fromkeys(texts)]
        return replace(draft, issues=(*draft.issues, *issues)) if issues else draft

    return read


def _places(value: Json, wanted: str, path: str = "") -> Iterator[str]:
    """Dotted paths at which `wanted` stands."""
    if isinstance(value, str):
        if value == wanted:
            yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, wanted, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence):
        for i, inner in enumerate(value[:_MOST_ITEMS]):
            yield from _places(inner, wanted, f"{path}[{i}]")


def _not_a_number(value: str, place: str | None) -> Issue:
    shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    return Issue(
        code="measurement.not_a_number",
        what=f"{place or 'a figure'} is '{shown}'",
        why="a number belongs there; the file is damaged or was edited",
        fix="correct the value, or leave it out where it is not known",
    )
