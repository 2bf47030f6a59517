"""The Containerfile's claims, as far as they can be tried without a container engine."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from console.api.deployment import DATA, USER
from console.api.settings import DEFAULT_PORT
from planner.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) in order, continuation lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text())
    lines = [s for line in text.splitlines() if (s := line.strip()) and not s.startswith("#")]
    return [(name.upper(), rest) for name, _, rest in (line.partition(" ") for line in lines)]


def of(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def copied() -> list[str]:
    """Paths of the checkout that are copied in."""
    return [source for line in of("COPY") if "--from=" not in line for source in line.split()[:-1]]


def ignored(path: str) -> bool:
    """Whether .containerignore keeps `path` (relative, files) out: the last pattern that matches decides."""
    out = False
    for pattern in (ROOT / ".containerignore").read_text().splitlines():
        if not pattern or pattern.startswith("#"):
            continue
        keep, body = pattern.startswith("!"), pattern.removeprefix("!")
        names = [path, path.split("/", maxsplit=1)[0]]
        if body.startswith("**/"):
            names, body = path.split("/"), body.removeprefix("**/")
        if any(fnmatch.fnmatch(n, body) for n in names):
            out = not keep
    return out


def test_bases_are_pinned_slim_and_the_same() -> None:
    bases = {line.split()[0] for line in of("FROM")}
    (base,) = bases
    name, _, tag = base.rpartition(":")
    assert name == "docker.io/library/python"
    assert re.fullmatch(r"3\.1[1-9]-slim-[a-z]+", tag)


def test_it_runs_as_the_user_of_the_manifests() -> None:
    (user,) = of("USER")
    assert user == f"{USER}:{USER}"
    names = [name for name, _ in instructions()]
    assert names.index("USER") > max(i for i, n in enumerate(names) if n == "RUN")


def test_everything_is_written_below_data() -> None:
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(of("ENV"))))
    for key in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        assert environment[key] == DATA or environment[key].startswith(f"{DATA}/")
    assert of("VOLUME") == [DATA]
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_port_and_command() -> None:
    assert of("EXPOSE") == [str(DEFAULT_PORT)]
    assert json.loads(of("ENTRYPOINT")[-1]) == ["planner"]
    command = json.loads(of("CMD")[-1])
    assert command[0] in COMMANDS
    assert "--host" not in command  # loopback unless told otherwise


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source if (ROOT / source).is_file() else f"{source}/x.py")
    for outside in (
        "tests/conftest.py",
        ".git/config",
        "planner/__pycache__/x.pyc",
        ".venv/bin/python",
        "own.db",
    ):
        assert ignored(outside), outside


def test_what_is_copied_builds_the_whole_wheel(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    for source in copied():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, context / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, context / source)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(context)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for source in copied():
        for path in (ROOT / source).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(ROOT))
                assert name in names or f"planner/_data/{name}" in names, name


class Health(BaseHTTPRequestHandler):
    """Answers as the console does, or is ill."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_healthcheck_tells_well_from_ill(monkeypatch: pytest.MonkeyPatch, status: int, code: int) -> None:
    monkeypatch.setattr(Health, "status", status)
    (check,) = of("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        text = command[-1].replace(str(DEFAULT_PORT), str(server.server_port))
        done = subprocess.run([sys.executable, *command[1:-1], text], capture_output=True, check=False)
        server.shutdown()
        thread.join()
    assert done.returncode == code
