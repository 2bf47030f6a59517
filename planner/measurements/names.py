"""Canonical names from the catalogue, for what tools and people call models and GPUs."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from planner.catalog.lookup import find_file, unknown
from planner.catalog.models import list_models
from planner.domain.errors import InputError, Issue

# a GPU as Kubernetes labels it: NVIDIA-H100-80GB-HBM3, NVIDIA-H200; or as InferenceX names runners: b200-dgxc, h200-nv
_LABEL = re.compile(r"(?:nvidia|amd|instinct)[-_ ]+", re.IGNORECASE)
# a release of the same structure
_DATED = re.compile(r"-\d{4}$")
_RUNNER = re.compile(r"[-_ ].*$")


class CatalogueNames:
    """Ids of the catalogue. A model it does not know is kept under its name; a GPU it does not know is refused."""

    def __init__(self, *, profiles: Path | None = None) -> None:
        self._profiles = profiles
        self._gpus: dict[str, str] = {}

    def model(self, name: str) -> str:
        """Id of the model with this id, alias or bare name; a release date such as ``-0528`` may be left out."""
        known = _models(self._profiles)
        wanted = name.strip().lower()
        return known.get(wanted) or known.get(_DATED.sub("", wanted)) or name

    def gpu(self, name: str) -> str:
        """Id of the GPU with this id, alias, Kubernetes label or runner name."""
        if name not in self._gpus:
            self._gpus[name] = self._find_gpu(name)
        return self._gpus[name]

    def unknown_gpu(self, name: str) -> Issue | None:
        """``gpu.unknown`` with near names, unless the catalogue has the GPU."""
        if find_file("gpus", self.gpu(name), overlay=self._profiles) is not None:
            return None
        return unknown("gpus", name, noun="gpu", overlay=self._profiles)

    def known_gpu(self, name: str) -> str:
        """Id of a GPU that a user asks for; InputError ``gpu.unknown``."""
        issue = self.unknown_gpu(name)
        if issue is not None:
            raise InputError(issue)
        return self.gpu(name)

    def _find_gpu(self, name: str) -> str:
        bare = _LABEL.sub("", name.strip())
        for attempt in (name, bare, _RUNNER.sub("", bare)):
            path = find_file("gpus", attempt, overlay=self._profiles)
            if path is not None:
                return path.stem
        return name


@cache
def _models(profiles: Path | None) -> dict[str, str]:
    entries = list_models(overlay=profiles)
    found = {e.id.lower(): e.id for e in entries}
    for e in entries:
        for alias in e.aliases:
            found.setdefault(alias.lower(), e.id)
    bare = Counter(e.id.rsplit("/", 1)[-1].lower() for e in entries)
    for e in entries:
        name = e.id.rsplit("/", 1)[-1].lower()
        if bare[name] == 1:  # two publishers of one name are told apart by the full id only
            found.setdefault(name, e.id)
    return found
