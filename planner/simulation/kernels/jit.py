"""Compilation of the simulation kernels: numba with an on-disk cache that follows the sources.

Every kernel is plain Python in the numba subset; with ``NUMBA_DISABLE_JIT=1`` it runs undecorated.
numba's own cache notices a change in a kernel's own file but not in the files it calls into, so the cache
folder is named after a digest of all kernel sources: an edited checkout never runs stale machine code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from planner.perf import compose

F = TypeVar("F", bound=Callable[..., Any])
_KEPT_CACHES = 3


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels for exactly these sources and this numba; created on demand."""
    digest = hashlib.sha256(f"{numba.__version__}-{sys.version_info[:3]}".encode())
    kernels = Path(__file__).parent
    routing = kernels.parent / "routing"
    for path in [*sorted(kernels.glob("*.py")), *sorted(routing.glob("*.py")), Path(compose.__file__)]:
        digest.update(path.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wideplan" / "kernels"
    try:
        base.mkdir(parents=True, exist_ok=True)
        writable = os.access(base, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        base = Path(tempfile.gettempdir()) / f"wideplan-kernels-{os.getuid()}"
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = base / digest.hexdigest()[:16]
    if not folder.exists():
        _drop_old(base)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _drop_old(base: Path) -> None:
    """Keep the few most recent caches, so that a developer's edits do not fill the disk."""
    old = sorted((p for p in base.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in old[_KEPT_CACHES - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


def is_compiled() -> bool:
    """Whether the kernels of these sources were compiled before on this machine."""
    return any(cache_folder().rglob("run.run-*.nbi"))


def kernel(function: F) -> F:
    """Compile `function` on first use; releases the GIL, so replications run in threads."""
    return _compiled(function, inline=False)


def inlined(function: F) -> F:
    """As `kernel`, and always inlined: passing the whole state to a call costs more than many bodies do."""
    return _compiled(function, inline=True)


def _compiled(function: F, *, inline: bool) -> F:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        return cast(
            "F", numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=inline)(function)
        )
    finally:
        numba.config.CACHE_DIR = before
