"""Explanations, offline: terms of the field, error codes, legality rules, lint rules and exit statuses."""

from planner.explain.lookup import find, topics
from planner.explain.terms import TERMS, metrics
from planner.explain.topic import Area, Better, Case, Kind, Term, Topic

__all__ = ["TERMS", "Area", "Better", "Case", "Kind", "Term", "Topic", "find", "metrics", "topics"]
