"""Where the data files are: a repository checkout, an installed wheel, or a user's own folder laid over them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from planner.domain.errors import InputError, Issue, MissingDataError

PROFILE_KINDS: Final = (
    "gpus", "fabrics", "clusters", "models", "encoders", "engines", "operators", "calibration",
)  # fmt: skip


@cache
def data_root() -> Path:
    """Folder that holds ``profiles/`` and ``recipes/``.

    Inside a wheel that is ``planner/_data``; in a checkout it is the top of the repository.
    Raises MissingDataError ``data.missing`` when neither is there (a broken installation).
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_data", package.parent):
        if (root / "profiles").is_dir():
            return root
    raise MissingDataError(
        Issue(
            code="data.missing",
            what=f"no profiles folder beside {package}",
            why="the data files are part of the installation and are not here",
            fix="reinstall wideplan, or run from a complete checkout",
        )
    )


def profile_dirs(kind: str, overlay: Path | None = None) -> tuple[Path, ...]:
    """Folders to look for profiles of `kind` in, the user's overlay first.

    `kind` is one of `PROFILE_KINDS`. An overlay folder has the same layout as ``profiles/``; kinds it does not
    hold come from the shipped catalogue. Raises InputError ``profiles.overlay_missing`` when `overlay` is not a
    folder and ``profiles.overlay_layout`` when it holds none of the known kinds.
    """
    shipped = data_root() / "profiles" / kind
    if overlay is None:
        return (shipped,)
    if not overlay.is_dir():
        raise InputError(
            Issue(
                code="profiles.overlay_missing",
                what=f"--profiles {overlay}: no such folder",
                why="an overlay is a folder laid out like profiles/",
                fix="name an existing folder, or leave --profiles out",
                where="--profiles",
            )
        )
    if not any((overlay / k).is_dir() for k in PROFILE_KINDS):
        raise InputError(
            Issue(
                code="profiles.overlay_layout",
                what=f"--profiles {overlay}: holds none of {', '.join(PROFILE_KINDS)}",
                why="files are looked up in sub-folders named by kind, so nothing here would be used",
                fix=f"move the files into {overlay}/gpus, {overlay}/clusters and so on",
                where="--profiles",
            )
        )
    own = overlay / kind
    return (own, shipped) if own.is_dir() else (shipped,)


def recipe_dir() -> Path:
    """Folder of the shipped recipes."""
    return data_root() / "recipes"
