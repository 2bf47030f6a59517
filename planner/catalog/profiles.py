"""All kinds of profiles behind one door: find by name whatever the kind, check any file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from planner.catalog.checks import check_engine, check_fabric, check_node
from planner.catalog.documents import Document, read_document
from planner.catalog.engines import version_key
from planner.catalog.gpu_checks import check_gpu
from planner.catalog.locate import data_root
from planner.catalog.lookup import SUFFIXES, find_file, iter_files, list_ids, load_file, misnamed
from planner.catalog.recipes import check_recipe
from planner.catalog.wire import structure
from planner.domain.engine import EngineProfile
from planner.domain.errors import InputError, Issue, PlannerError, did_you_mean
from planner.domain.hardware import FabricProfile, GpuProfile, NodeShape
from planner.domain.recipe import Recipe

Profile = GpuProfile | FabricProfile | NodeShape | EngineProfile

CLASSES: Final[Mapping[str, type[Profile]]] = {
    "gpus": GpuProfile,
    "fabrics": FabricProfile,
    "clusters": NodeShape,
    "engines": EngineProfile,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A profile with its kind and file."""

    kind: str
    path: Path
    profile: Profile

    @property
    def shipped(self) -> bool:
        """Whether the file is part of the installation (not of an overlay)."""
        return data_root() in self.path.resolve().parents


def find_profile(name: str, *, overlay: Path | None = None) -> Found:
    """Return the profile `name` of any kind: GPUs, then fabrics, node shapes, engines.

    Raises InputError ``profile.unknown``, or the file's structural problems. Figures are not judged here.
    """
    for kind, cls in CLASSES.items():
        path = find_file(kind, name, overlay=overlay)
        if path is None and kind == "engines":
            path = _newest_engine(name, overlay)
        if path is not None:
            return Found(kind, path, load_file(path, cls))
    ids = [i for kind in CLASSES for i in list_ids(kind, overlay=overlay)]
    raise InputError(
        Issue(
            code="profile.unknown",
            what=f"unknown profile '{name}'",
            why="no GPU, fabric, node shape or engine has this id or alias",
            fix=f"{did_you_mean(name, ids)} (all: planner profiles list)",
        )
    )


def all_profiles(kind: str, *, overlay: Path | None = None) -> tuple[Found, ...]:
    """Return every profile of `kind`, in id order. Raises InputError with the problems of all files at once."""
    cls = CLASSES[kind]
    found: list[Found] = []
    issues: list[Issue] = []
    for path in iter_files(kind, overlay=overlay):
        try:
            found.append(Found(kind, path, load_file(path, cls)))
        except PlannerError as e:
            issues += e.issues
    if issues:
        raise InputError(*issues)
    return tuple(found)


def check_file(path: Path, *, overlay: Path | None = None) -> tuple[str, tuple[Issue, ...]]:
    """Check structure and figures of one profile or recipe file; returns its kind and all findings.

    The kind is told by the folder the file is in (``gpus/``, ...), otherwise by its keys. Problems are returned, not
    raised, so that one bad file does not hide the next.
    """
    kind = _folder_kind(path) or "?"
    try:
        document = read_document(path)
        kind = _kind_of(path, document)
        if kind == "recipes":
            recipe = structure(document, Recipe)
            return kind, check_recipe(recipe, document=document, overlay=overlay)
        profile = structure(document, CLASSES[kind])
    except PlannerError as e:
        return kind, e.issues
    wrong_name = misnamed(profile, document, path) if _folder_kind(path) is not None else None
    return kind, ((wrong_name,) if wrong_name else ()) + _judge(profile, document, path, overlay)


def findings(found: Found, *, overlay: Path | None = None) -> tuple[Issue, ...]:
    """Return the plausibility findings of a loaded profile."""
    return _judge(found.profile, read_document(found.path), found.path, overlay)


def _judge(profile: Profile, document: Document, path: Path, overlay: Path | None) -> tuple[Issue, ...]:
    if isinstance(profile, GpuProfile):
        shipped = data_root() in path.resolve().parents
        return check_gpu(profile, document=document, compare=not shipped)
    if isinstance(profile, FabricProfile):
        return check_fabric(profile, document=document)
    if isinstance(profile, EngineProfile):
        return check_engine(profile, document=document)
    gpu_path = find_file("gpus", profile.gpu, overlay=overlay)
    gpu = load_file(gpu_path, GpuProfile) if gpu_path is not None else None
    return check_node(profile, document=document, gpu=gpu, overlay=overlay)


def _folder_kind(path: Path) -> str | None:
    name = path.resolve().parent.name
    return name if name in CLASSES or name == "recipes" else None


def _kind_of(path: Path, document: Document) -> str:
    folder = _folder_kind(path)
    if folder is not None:
        return folder
    keys = set(document.data) if isinstance(document.data, dict) else set()
    candidates: list[tuple[str, Any]] = [*CLASSES.items(), ("recipes", Recipe)]
    scores = {kind: len(keys & {f.name for f in fields(cls)}) for kind, cls in candidates}
    best = max(scores, key=lambda kind: scores[kind])
    if scores[best] < 3:
        raise InputError(
            Issue(
                code="profile.kind",
                what=f"{path}: cannot tell what this file describes",
                why="its keys are those of no GPU, fabric, node shape, engine or recipe",
                fix=f"put it in a folder named {', '.join(CLASSES)} or recipes; models: planner models check FILE",
                where=document.where(()),
            )
        )
    return best


def _newest_engine(name: str, overlay: Path | None) -> Path | None:
    prefix = f"{name.strip().lower()}-"
    versions = [i.removeprefix(prefix) for i in list_ids("engines", overlay=overlay) if i.startswith(prefix)]
    return (
        find_file("engines", prefix + max(versions, key=version_key), overlay=overlay) if versions else None
    )


def files_under(paths: list[Path]) -> list[Path]:
    """Replace folders by the profile and recipe files in them, recursively, leaving out kinds checked elsewhere."""
    out: list[Path] = []
    for path in paths:
        if path.is_dir():
            inner = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
            out += [p for p in inner if _folder_kind(p) is not None]
        else:
            out.append(path)
    return out
