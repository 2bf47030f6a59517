"""Names that a shell can complete: recipes and the catalogue's ids, read from file names so that Tab stays quick."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from planner.domain.errors import PlannerError

VARIABLE: Final = "_PLANNER_COMPLETE"  # set by the shell's completion function


def words_typed() -> list[str] | None:
    """The words of the line that is completed, the program's name left out; None when nothing is completed."""
    if VARIABLE not in os.environ:
        return None
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:]


def recipe_names(incomplete: str) -> list[str]:
    """Shipped recipes."""
    return _stems("recipes", incomplete)


def gpu_names(incomplete: str) -> list[str]:
    """GPU types."""
    return _stems("profiles/gpus", incomplete)


def fabric_names(incomplete: str) -> list[str]:
    """Scale-out networks."""
    return _stems("profiles/fabrics", incomplete)


def node_names(incomplete: str) -> list[str]:
    """Node shapes."""
    return [n for n in (*_stems("profiles/clusters", incomplete), "live") if n.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """Checkpoints by id."""
    try:
        index = json.loads((_root() / "profiles" / "models" / "index.json").read_text(encoding="utf-8"))
        ids = [str(m["id"]) for m in index["models"]]
    except (PlannerError, OSError, ValueError, KeyError):
        return []
    return [i for i in ids if i.startswith(incomplete)]


def schema_names(incomplete: str) -> list[str]:
    """Published documents."""
    return [n.removesuffix(".v1") for n in _stems("schemas", incomplete, suffix=".json")]


def _root() -> Path:
    from planner.catalog.locate import data_root

    return data_root()


def _stems(folder: str, incomplete: str, *, suffix: str = ".yaml") -> list[str]:
    """File names of a data folder without suffix; nothing when the installation is broken: Tab never fails."""
    try:
        return sorted(p.stem for p in (_root() / folder).glob(f"{incomplete}*{suffix}"))
    except (PlannerError, OSError):
        return []
