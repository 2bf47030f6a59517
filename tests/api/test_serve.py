"""`planner serve` as a user runs it: what it prints, that it serves, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = "import typer; from planner.cli.serve import serve; a = typer.Typer(pretty_exceptions_enable=False); a.command()(serve); a()"


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "XDG_DATA_HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(folder / "none"),
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[str], float]]:
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "--port", "0"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=ROOT, env=_environment(tmp_path),
    )  # fmt: skip
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(2)]
    yield process, lines, time.perf_counter() - started
    if process.poll() is None:
        process.kill()
    process.communicate()


def _wait_for(address: str) -> None:
    for _ in range(200):
        try:
            httpx.get(f"{address}/healthz")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server did not come up")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_from_the_printed_address_to_the_frontier_and_out(
    server: tuple[subprocess.Popen[str], list[str], float], tmp_path: Path, ending: signal.Signals
) -> None:
    process, lines, seconds = server
    found = re.search(r"(http://127\.0\.0\.1:\d+)(/login\?token=\S+)  \(works once\)", lines[0])
    assert found is not None, lines
    file = Path(lines[1].split("token in ")[1].strip())
    assert file.is_relative_to(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    _wait_for(found[1])
    print(f"first line after {seconds:.2f} s")
    with httpx.Client(base_url=found[1], follow_redirects=True, timeout=60) as client:
        page = client.get(found[2])
        assert page.status_code == 200
        assert "token" not in str(page.url)
        assert client.get("/api/v1/frontier", params={"recipe": "gpt-oss-120b-h200x8"}).status_code == 200
    bearer = {"authorization": f"Bearer {file.read_text().strip()}"}
    assert httpx.get(f"{found[1]}/api/v1/studies", headers=bearer).status_code == 200
    assert httpx.get(f"{found[1]}/api/v1/studies").status_code == 401
    process.send_signal(ending)
    out, err = process.communicate(timeout=20)
    assert out == ""
    assert "token=" not in err
    assert "Traceback" not in err
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--host", "0.0.0.0"], "serve.open-address"),  # noqa: S104 - refused
        (["no-such-recipe"], "recipe.unknown"),
        (["--in-cluster"], "serve.allow-host"),
        (["--manifests"], "serve.image"),
        (["--manifests", "--image", "x"], "serve.allow-host"),
        (["--in-cluster", "--allow-host", "x.example"], "cluster.not-inside"),
        (["--host", "203.0.113.7", "--behind-tls"], "serve.port"),
    ],
)
def test_mistakes_are_said_before_anything_listens(arguments: list[str], code: str, tmp_path: Path) -> None:
    script = f"from planner.domain.errors import PlannerError\ntry:\n    exec({CODE!r})\nexcept PlannerError as e:\n    print(e.issues[0].code)"
    environment = _environment(tmp_path)
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env=environment,
    )
    assert done.stdout.strip() == code, done.stderr
