"""A recipe from plan to cluster and back, through the command line."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_planner import ROOT, planner

from console.cluster.fake.box import Box, cluster_in_a_box, put
from console.cluster.fake.engines import Load
from planner.catalog.plans import save_plan
from planner.cli.cluster import live_hardware
from planner.cli.diff import render_plan
from planner.domain.deployment import (
    All2AllBackend,
    DeploymentPlan,
    Parallelism,
    Role,
    RolePlan,
    RouterPolicy,
    Strategy,
)
from planner.domain.dtypes import KvDtype
from planner.domain.workload import SloTargets, Workload

LOADS = {
    "prefill": Load(
        requests_per_s=1.0, prompt_tokens=4000, output_tokens=1, ttft_s=0.4, running=1, prefix_hit=0.0
    ),
    "decode": Load(
        requests_per_s=1.0, prompt_tokens=4000, output_tokens=1000, ttft_s=0.03, itl_s=0.03, running=32
    ),
}


class BoxThread:
    """A box in a thread; `call` runs something in its loop."""

    def __init__(self, objects: list[dict[str, Any]], *, nodes: int = 4) -> None:
        self.loop = asyncio.new_event_loop()
        self.box: Box | None = None
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(
            target=self.loop.run_until_complete, args=(self._run(objects, nodes),), daemon=True
        )
        self._thread.start()
        assert self._up.wait(10)

    async def _run(self, objects: list[dict[str, Any]], nodes: int) -> None:
        async with cluster_in_a_box(nodes=nodes, objects=objects, loads=LOADS) as box:
            self.box = box
            self._up.set()
            await self._stop.wait()

    def call(self, work: Callable[[Box], Any]) -> Any:
        done = threading.Event()
        found: list[Any] = []

        def inside() -> None:
            assert self.box is not None
            found.append(work(self.box))
            done.set()

        self.loop.call_soon_threadsafe(inside)
        assert done.wait(10)
        return found[0]

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self.loop.close()


def role(kind: Role, groups: int, dp: int, *, seqs: int) -> RolePlan:
    return RolePlan(
        role=kind,
        groups=groups,
        parallelism=Parallelism(tp=1, dp=dp, expert_parallel=True),
        gpu="h200-sxm",
        node="generic-h200-sxm",
        max_num_seqs=seqs,
        max_num_batched_tokens=8192 if kind is Role.PREFILL else 512,
        kv_dtype=KvDtype.FP8,
        all2all=All2AllBackend.DEEPEP_HIGH_THROUGHPUT
        if kind is Role.PREFILL
        else All2AllBackend.DEEPEP_LOW_LATENCY,
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DeepSeek-R1 on 32 H200: prefill 2 x DP8, decode 1 x DP16 over two pods."""
    made = DeploymentPlan(
        name="r1-e2e",
        model="deepseek-ai/DeepSeek-R1",
        strategy=Strategy.DISAGGREGATED,
        roles=(role(Role.PREFILL, 2, 8, seqs=64), role(Role.DECODE, 1, 16, seqs=128)),
        router=RouterPolicy(),
        engine="vllm",
        engine_version="0.33.0",
        fabric="ib-ndr400",
        workload=Workload(isl=4000, osl=1000),
        slo=SloTargets(ttft_ms=2000, tpot_ms=60),
        concurrency=512,
        gpus_owned=32,
        max_model_len=8192,
    )
    file = tmp_path_factory.mktemp("plan") / "r1.json"
    save_plan(made, file)
    return file


@pytest.fixture(scope="module")
def manifests(plan: Path) -> list[dict[str, Any]]:
    return [m.plain() for m in render_plan(plan)[1]]


@pytest.fixture
def box(manifests: list[dict[str, Any]], tmp_path: Path) -> Iterator[tuple[BoxThread, Path]]:
    made = BoxThread(manifests)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(made.call(lambda b: b.kubeconfig()), encoding="utf-8")
    yield made, kubeconfig
    made.close()


def status(kubeconfig: Path, *more: str) -> dict[str, Any]:
    run = planner("cluster", "status", "-o", "json", *more, kubeconfig=kubeconfig)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_32_endpoints_and_the_rank_that_queues(box: tuple[BoxThread, Path]) -> None:
    made, kubeconfig = box
    seen = status(kubeconfig)
    assert seen["schema"] == "wideplan.cluster-status/v1"
    assert (seen["endpoints_ready"], len(seen["endpoints"])) == (32, 32)
    assert {(r["role"], r["ready"], r["wanted"], r["gpus"]) for r in seen["roles"]} == {
        ("prefill", 2, 2, 16), ("decode", 1, 1, 16),
    }  # fmt: skip
    assert seen["blockers"] == []
    assert not any(r["hot"] for r in seen["ranks"])
    pod = next(r["pod"] for r in seen["ranks"] if r["role"] == "decode" and r["engine"] == "11")
    port = next(r["port"] for r in seen["ranks"] if r["pod"] == pod and r["engine"] == "11")

    def queue(b: Box) -> None:
        b.engines.queued[pod, port] = 60

    made.call(queue)
    hot = [r for r in status(kubeconfig)["ranks"] if r["hot"]]
    assert [(r["pod"], r["port"], r["engine"], r["waiting"]) for r in hot] == [(pod, port, "11", 60.0)]
    table = planner("cluster", "status", kubeconfig=kubeconfig)
    said = " ".join(table.stdout.split())
    assert f":{port} (rank 11) queues 60 requests" in said
    assert f"kubectl delete pod {pod}" in said  # what to do about it


def test_no_drift_then_a_changed_plan_then_a_changed_engine(
    box: tuple[BoxThread, Path], plan: Path, manifests: list[dict[str, Any]], tmp_path: Path
) -> None:
    made, kubeconfig = box
    clean = planner("diff", str(plan), kubeconfig=kubeconfig)
    assert (clean.returncode, clean.stdout.strip().splitlines()[-1]) == (0, "no difference"), clean.stderr
    document = json.loads(plan.read_text(encoding="utf-8"))
    decode = next(r for r in document["plan"]["roles"] if r["role"] == "decode")
    decode["max_num_seqs"] = 96
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document), encoding="utf-8")
    run = planner("diff", str(other), "--json", kubeconfig=kubeconfig)
    assert run.returncode == 1, run.stderr
    drift = json.loads(run.stdout)
    flags = {(a["role"], a["flag"], a["planned"], a["pods"]) for a in drift["arguments"]}
    assert flags == {("decode", "--max-num-seqs", "96", 2)}
    assert [o["kind"] for o in drift["objects"] if o["state"] == "changed"] == ["DisaggregatedSet"]

    def remove_pool(b: Box) -> None:
        name = next(m["metadata"]["name"] for m in manifests if m["kind"] == "InferencePool")
        b.server.remove("inference.networking.k8s.io/v1", "inferencepools", "default", name)

    made.call(remove_pool)
    run = planner("diff", str(plan), kubeconfig=kubeconfig)
    assert run.returncode == 1
    assert "missing" in run.stdout


def test_diff_without_the_right_to_dry_run(box: tuple[BoxThread, Path], plan: Path) -> None:
    made, kubeconfig = box

    def forbid(b: Box) -> None:
        b.server.access.denied |= {("patch", r.plural) for r in b.server.kinds()}

    made.call(forbid)
    run = planner("diff", str(plan), kubeconfig=kubeconfig)
    assert run.returncode == 0, run.stdout
    assert "dry-run needs the verb patch" in run.stderr


def test_a_recording_replays_to_the_same_status(box: tuple[BoxThread, Path], tmp_path: Path) -> None:
    _, kubeconfig = box
    file = tmp_path / "cluster.jsonl"
    run = planner("cluster", "record", str(file), "--for", "3", "--period", "1", kubeconfig=kubeconfig)
    assert run.returncode == 0, run.stderr
    live = status(kubeconfig)
    again = planner("cluster", "status", "-o", "json", "--replay", str(file))
    assert again.returncode == 0, again.stderr
    replayed = json.loads(again.stdout)
    for part in ("groups", "endpoints", "blockers", "endpoints_ready"):
        assert replayed[part] == live[part], part
    assert [r["running"] for r in replayed["ranks"]] == [r["running"] for r in live["ranks"]]
    again2 = planner("cluster", "status", "-o", "json", "--replay", str(file))
    assert again2.stdout == again.stdout
    watched = planner("cluster", "watch", "--replay", str(file), "--speed", "50", "--json")
    assert watched.returncode == 0, watched.stderr
    assert json.loads(watched.stdout.splitlines()[-1])["endpoints_ready"] == 32


def test_profile_names_the_hardware(box: tuple[BoxThread, Path]) -> None:
    _, kubeconfig = box
    run = planner("cluster", "profile", "--json", kubeconfig=kubeconfig)
    assert run.returncode == 0, run.stderr
    (pool,) = json.loads(run.stdout)["pools"]
    assert (pool["gpu"], pool["gpus"], pool["free_gpus"], pool["fabric"]) == ("h200-sxm", 32, 0, "ib-ndr400")
    assert any("cannot be seen" in n for n in pool["notes"])
    (found,) = live_hardware(kubeconfig=str(kubeconfig)).pools
    assert (found.pool.gpu.id, found.pool.gpus, found.pool.node.gpus_per_node) == ("h200-sxm", 32, 8)


def test_residuals_price_the_measured_load(box: tuple[BoxThread, Path], plan: Path) -> None:
    _, kubeconfig = box
    time.sleep(1)
    run = planner("cluster", "residuals", str(plan), "--window", "5", "--json", kubeconfig=kubeconfig)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    rows = {r["metric"]: r for r in found["rows"]}
    assert found["concurrency"] == 16 * 32 + 16
    assert rows["TPOT"]["measured"] == pytest.approx(30.0, rel=0.05)
    assert rows["output"]["measured"] == pytest.approx(16 * 1000 / 32, rel=0.1)
    assert rows["prompt length"]["measured"] == pytest.approx(4000, rel=0.05)
    assert 0 < rows["TTFT p50"]["measured"] < 1000
    assert found["measured"]["unsteady"]
    kept = planner("cluster", "residuals", str(plan), "--window", "5", "--import", kubeconfig=kubeconfig)
    assert kept.returncode == 1
    assert "needs a steady window" in kept.stderr


def test_what_blocks_is_the_first_cause(manifests: list[dict[str, Any]], tmp_path: Path) -> None:
    made = BoxThread(manifests, nodes=3)
    try:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(made.call(lambda b: b.kubeconfig()), encoding="utf-8")
        seen = status(kubeconfig, "--no-metrics")
        assert [b["stage"] for b in seen["blockers"]] == ["schedule"]
        assert "Insufficient nvidia.com/gpu" in seen["blockers"][0]["why"]
        assert seen["endpoints_ready"] < 32
    finally:
        made.close()


def test_a_cluster_without_model_servers_is_said_so(tmp_path: Path) -> None:
    made = BoxThread([])
    try:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(made.call(lambda b: b.kubeconfig()), encoding="utf-8")
        run = planner("cluster", "status", kubeconfig=kubeconfig)
        assert run.returncode == 0
        assert "no model server found here" in run.stdout
    finally:
        made.close()


@pytest.mark.parametrize(
    ("args", "code", "status_"),
    [
        (("cluster", "status"), "cluster.no_config", 4),
        (("cluster", "status", "--replay", "absent"), "file.not_found", 3),
        (("cluster", "rbac", "--subject", "Usr:a"), "cluster.subject_invalid", 2),
    ],
)
def test_mistakes_have_a_code_and_no_traceback(args: tuple[str, ...], code: str, status_: int) -> None:
    run = planner(*args)
    assert run.returncode == status_
    assert f"error[{code}]" in run.stderr
    assert "Traceback" not in run.stderr


def test_context_mistakes(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    entry = {"name": "prod", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    kubeconfig.write_text(yaml.safe_dump({"contexts": [entry], "clusters": [cluster], "users": [{"name": "u", "user": {}}],
                                          "current-context": "prod"}), encoding="utf-8")  # fmt: skip
    run = planner("cluster", "status", "--context", "prd", kubeconfig=kubeconfig)
    assert (run.returncode, "did you mean 'prod'?" in run.stderr) == (2, True)
    run = planner("cluster", "status", kubeconfig=kubeconfig)
    assert (run.returncode, "cluster.unreachable" in run.stderr) == (4, True), run.stderr
    kubeconfig.write_text("{[", encoding="utf-8")
    run = planner("cluster", "status", kubeconfig=kubeconfig)
    assert (run.returncode, "cluster.kubeconfig_invalid" in run.stderr) == (2, True)


def test_the_exported_role_grants_reading_only() -> None:
    run = planner("cluster", "rbac", "-n", "serving", "--subject", "User:alice")
    assert run.returncode == 0
    documents = list(yaml.safe_load_all(run.stdout))
    verbs = {v for d in documents for r in d.get("rules", ()) for v in r["verbs"]}
    resources = {x for d in documents for r in d.get("rules", ()) for x in r["resources"]}
    assert verbs == {"get", "list", "watch"}
    assert not resources & {"secrets", "nodes/proxy", "pods/exec", "*"}
    assert {"pods", "nodes", "pods/proxy", "leaderworkersets", "inferencepools"} <= resources
    assert [d["kind"] for d in documents] == ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]


def test_put_knows_every_exported_kind(manifests: list[dict[str, Any]]) -> None:
    """A kind the demo server does not offer would silently be missing from it."""
    from console.cluster.fake.server import FakeServer

    server = FakeServer()
    for manifest in manifests:
        put(server, manifest)
    kinds = {(r.api_version, r.kind) for r in server.kinds()}
    assert {(m["apiVersion"], m["kind"]) for m in manifests} <= kinds


def test_the_demo_cluster_serves_kubectl_and_never_overwrites_a_kubeconfig(
    plan: Path, tmp_path: Path
) -> None:
    import subprocess
    import sys

    mine = tmp_path / "mine"
    mine.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    refused = planner("cluster", "demo", "--kubeconfig", str(mine))
    assert (refused.returncode, "cluster.demo_kubeconfig" in refused.stderr) == (2, True)
    assert mine.read_text(encoding="utf-8").startswith("apiVersion: v1\nkind: Config\n")
    code = "from planner.cli.cluster import app; app(standalone_mode=False)"
    target = tmp_path / "demo"
    with subprocess.Popen(
        [sys.executable, "-c", code, "demo", str(plan), "--kubeconfig", str(target)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        assert demo.stdout.readline().strip() == f"export KUBECONFIG={target}"
        assert status(target, "--no-metrics")["endpoints_ready"] == 32
        demo.terminate()


def test_ctrl_c_ends_a_recording_and_keeps_it(box: tuple[BoxThread, Path], tmp_path: Path) -> None:
    import signal
    import subprocess
    import sys

    file = tmp_path / "cluster.jsonl"
    code = "import sys; from planner.cli.cluster import app; app(sys.argv[1:], standalone_mode=False)"
    with subprocess.Popen(
        [sys.executable, "-c", code, "record", str(file), "--kubeconfig", str(box[1])], stderr=subprocess.PIPE,
        text=True, cwd=ROOT,
    ) as recording:  # fmt: skip
        assert recording.stderr is not None
        assert "Ctrl-C stops" in recording.stderr.readline()
        recording.send_signal(signal.SIGINT)
        assert recording.wait(20) == 0
    replayed = planner("cluster", "status", "-o", "json", "--replay", str(file))
    assert json.loads(replayed.stdout)["endpoints_ready"] == 32
