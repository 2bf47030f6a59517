"""Domain values to and from JSON documents. Unions carry a ``type`` tag; a shared pool stays shared."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from cattrs import BaseValidationError, transform_error
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from cattrs.preconf.json import JsonConverter, make_converter
from cattrs.strategies import configure_tagged_union

from planner.domain.errors import Issue
from planner.domain.model import Attention, DenseMlp, MoeMlp
from planner.domain.problem import PlanningProblem
from planner.storage.canonical import canonical_json, content_hash
from planner.storage.errors import StoreError

T = TypeVar("T")

_SAME_POOL = "decode_pool"
_TAG = "type"


def _build() -> JsonConverter:
    converter = make_converter(omit_if_default=False)
    # LayerGroup's optional unions; the tag is the class name
    optional_unions: tuple[tuple[Any, Any], ...] = (
        (Attention | None, Attention),
        (DenseMlp | MoeMlp | None, DenseMlp | MoeMlp),
    )
    for union, members in optional_unions:
        configure_tagged_union(members, converter, tag_name=_TAG)
        _optional(converter, union, members)
    _shared_pool(converter)
    return converter


def _optional(converter: JsonConverter, union: Any, members: Any) -> None:
    converter.register_unstructure_hook(
        union, lambda v: None if v is None else converter.unstructure(v, unstructure_as=members)
    )
    converter.register_structure_hook(
        union, lambda v, _: None if v is None else converter.structure(v, members)
    )


def _shared_pool(converter: JsonConverter) -> None:
    # `PlanningProblem.gpus` tells one shared pool from two equal ones by identity, which JSON would lose
    plain_out = make_dict_unstructure_fn(PlanningProblem, converter)
    plain_in = make_dict_structure_fn(PlanningProblem, converter)

    def unstructure(problem: PlanningProblem) -> dict[str, Any]:
        document = dict(plain_out(problem))
        if problem.prefill_pool is problem.decode_pool:
            document["prefill_pool"] = _SAME_POOL
        return document

    def structure(document: dict[str, Any], cls: type[PlanningProblem]) -> PlanningProblem:
        shared = document.get("prefill_pool") == _SAME_POOL
        source = {**document, "prefill_pool": document["decode_pool"]} if shared else document
        problem = plain_in(source, cls)
        if shared:
            object.__setattr__(problem, "prefill_pool", problem.decode_pool)
        return problem

    converter.register_unstructure_hook(PlanningProblem, unstructure)
    converter.register_structure_hook(PlanningProblem, structure)


CONVERTER = _build()


def encode(value: object) -> str:
    """Canonical JSON document of a domain value."""
    return canonical_json(CONVERTER.unstructure(value))


def decode(document: str, cls: type[T]) -> T:
    """Domain value of a stored document; StoreError when it does not fit the class."""
    try:
        return CONVERTER.structure(json.loads(document), cls)
    except (BaseValidationError, KeyError, ValueError) as e:
        raise _unreadable(cls, e) from e


def domain_hash(value: object) -> str:
    """Content hash of a domain value."""
    return content_hash(CONVERTER.unstructure(value))


def _unreadable(cls: type[Any], error: Exception) -> StoreError:
    details = transform_error(error) if isinstance(error, BaseValidationError) else [str(error)]
    return StoreError(
        Issue(
            code="store.document",
            what=f"a stored {cls.__name__} cannot be read",
            why="; ".join(details[:5]),
            fix="it was written by an incompatible version: delete it, or open the database with that version",
        )
    )
