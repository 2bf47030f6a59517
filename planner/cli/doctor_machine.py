"""Checks of this machine and this installation for `planner doctor`. Nothing is written, nothing is sent."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from planner import __version__
from planner.domain.checkup import Check, fail, ok, warn
from planner.domain.errors import PlannerError

COLUMNS, LINES = 80, 24
_KUBECTL_S: Final = 3.0
_COMMANDS: Final = ("planner", "wideplan")
_ENTRY: Final = "planner.cli.main"
_SCRIPT_BYTES: Final = 4096


def check_python() -> Check:
    """The interpreter and this program's version."""
    found = f"Python {platform.python_version()}, wideplan {__version__}, {platform.system()} {platform.machine()}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied package directory skips pip's own check
        return fail("python", found, "install Python 3.11 or newer")
    if sys.platform != "linux":
        return warn("python", found, "only Linux is tested; run it in a Linux container or VM")
    return ok("python", found)


def check_terminal() -> Check:
    """Size, colour and characters of the terminal."""
    encoding = (sys.stdout.encoding or "ascii").lower()
    if "utf" not in encoding:
        return warn(
            "terminal",
            f"output is {encoding}: plots and symbols cannot be shown",
            "set a UTF-8 locale, e.g. LC_ALL=C.UTF-8",
        )
    if not sys.stdout.isatty():
        return ok("terminal", "output is not a terminal: text and --json work; planner tui needs one")
    size = shutil.get_terminal_size()
    found = f"{size.columns}x{size.lines}, {encoding}, {_colour()}"
    if size.columns < COLUMNS or size.lines < LINES:
        return warn(
            "terminal", found, f"planner tui wants at least {COLUMNS}x{LINES}; tables want 100 columns"
        )
    return ok("terminal", found)


def _colour() -> str:
    if os.environ.get("NO_COLOR"):
        return "no colour (NO_COLOR)"
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        return f"no colour (TERM={kind or 'unset'})"
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "24-bit colour"
    return "256 colours" if "256" in kind else "16 colours"


def check_kubectl() -> Check:
    """Whether kubectl is there, and its version."""
    path = shutil.which("kubectl")
    if path is None:
        return warn(
            "kubectl",
            "not on PATH: planner export works, applying its output by hand does not",
            "install kubectl, or use planner apply, which does without",
        )
    try:
        done = subprocess.run(  # noqa: S603 - the user's own kubectl, no shell
            [path, "version", "--client", "--output=json"],
            capture_output=True,
            text=True,
            timeout=_KUBECTL_S,
            check=False,
        )
        version = str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: its version cannot be read"
        return warn("kubectl", f"{path}: {why}", "run kubectl version --client to see what is wrong")
    return ok("kubectl", f"{version} ({path})")


def check_installation() -> Check:
    """The data that ships with the program."""
    from planner.catalog.locate import data_root

    try:
        root = data_root()
    except PlannerError as error:
        return fail("data", error.issues[0].what, error.issues[0].fix)
    wanted = (
        "profiles/gpus",
        "profiles/models",
        "profiles/operators",
        "profiles/calibration",
        "recipes",
        "migrations",
    )
    missing = [name for name in wanted if not (root / name).is_dir()]
    if missing:
        return fail("data", f"{root} lacks {', '.join(missing)}", "reinstall wideplan")
    gpus = len(list((root / "profiles" / "gpus").glob("*.yaml")))
    models = len(list((root / "profiles" / "models").glob("*--*.json")))
    measured = sorted(
        {p.stem.removesuffix("-vllm") for p in (root / "profiles" / "operators").glob("*-vllm.npz")}
    )
    return ok("data", f"{gpus} GPUs ({len(measured)} with measured vLLM curves), {models} models in {root}")


def check_command() -> tuple[Check, ...]:
    """Other programs called `planner` that would run instead of this one, or that share its environment."""
    found = [_on_path(name) for name in _COMMANDS]
    shared = [e for e in metadata.entry_points(group="console_scripts") if e.name == "planner"]
    foreign = sorted({e.dist.name for e in shared if e.dist is not None and e.dist.name != "wideplan"})
    if foreign:
        found.append(
            fail(
                "command",
                f"{', '.join(foreign)} installs a command planner into this environment too: they overwrite each other",
                "give each its own virtual environment, or use pipx",
            )
        )
    return tuple(c for c in found if c is not None) or (ok("command", _here()),)


def _here() -> str:
    path = shutil.which("planner")
    if path is not None:
        return f"planner is {path}"
    script = Path(sys.prefix) / "bin" / "planner"
    return f"planner is not on PATH; run {script if script.is_file() else f'{sys.executable} -m {_ENTRY}'}"


def _on_path(name: str) -> Check | None:
    """A warning when the first `name` on PATH is not this environment's."""
    found = shutil.which(name)
    if found is None:
        return None
    path = Path(found)
    mine = Path(sys.prefix).resolve()
    if path.parent.resolve() == mine / "bin":
        return None
    try:
        script = path.resolve().read_bytes()[:_SCRIPT_BYTES].decode("utf-8", "replace")
    except OSError as error:
        return warn("command", f"{path} cannot be read: {error.strerror}", f"run {mine}/bin/{name}")
    first = script.partition("\n")[0]
    if _ENTRY not in script:
        return warn(
            "command",
            f"{path} is another program of the same name",
            f"run wideplan instead of planner, or {mine}/bin/{name}; or put {mine}/bin first on PATH",
        )
    interpreter = Path(first.removeprefix("#!").strip().split(" ")[0])
    if interpreter.parent.parent.resolve() == mine:
        return None  # a link to this environment's script, as pipx makes
    return warn(
        "command",
        f"{path} runs the wideplan of another environment ({interpreter})",
        f"activate the environment you mean, or run {mine}/bin/{name}",
    )


def check_database() -> Check:
    """The place of studies and measurements; nothing is created or migrated."""
    from planner.storage.inspect import inspect_database

    try:
        state = inspect_database()
    except PlannerError as error:
        issue = error.issues[0]
        return fail("database", f"{issue.what}: {issue.why}", issue.fix)
    if state.revision is None:
        return ok("database", f"{state.shown} is not there yet; the first study or import creates it")
    size = f", {state.size_bytes / 2**20:.1f} MiB" if state.size_bytes else ""
    if not state.current:
        what = f"{state.shown}: schema {state.revision}{size}; the next command brings it to {state.head}"
        return ok("database", what)
    return ok("database", f"{state.shown}: schema {state.revision}{size}, writable")
