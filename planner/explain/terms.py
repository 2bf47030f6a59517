"""The glossary: all terms, checked to be consistent when the tests run."""

from __future__ import annotations

from typing import Final

from planner.explain.terms_layout import LAYOUT
from planner.explain.terms_metrics import METRICS
from planner.explain.terms_ours import OURS
from planner.explain.terms_serving import SERVING
from planner.explain.topic import Term

TERMS: Final[tuple[Term, ...]] = LAYOUT + SERVING + METRICS + OURS


def metrics() -> tuple[Term, ...]:
    """Terms that are measured in a unit and have a better direction."""
    return tuple(t for t in TERMS if t.better is not None)
