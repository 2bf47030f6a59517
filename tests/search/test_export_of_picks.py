"""The picks of the recipes become manifests that the CRDs accept and the linter has nothing against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

CRDS = Path(__file__).resolve().parents[3] / "shared" / "crds"
RECIPES = (
    "deepseek-r1-h200x32",
    "deepseek-r1-h200x16-aggregated",
    "qwen3-235b-h100x16",
    "gpt-oss-120b-h200x8",
    "deepseek-v3-gb200x72",
)


@pytest.fixture(scope="module", params=RECIPES)
def picked(request, planner_cli, tmp_path_factory):
    folder = tmp_path_factory.mktemp("picks")
    plan = folder / f"{request.param}.json"
    done = planner_cli("recommend", request.param, "--save", str(plan))
    assert done.returncode == 0, done.stderr
    manifests = planner_cli("export", str(plan))
    assert manifests.returncode == 0, manifests.stderr
    return json.loads(plan.read_text()), manifests.stdout


def test_stream_parses_and_asks_for_the_plans_gpus(picked) -> None:
    plan = picked[0].get("plan", picked[0])
    documents = [d for d in yaml.safe_load_all(picked[1]) if d]
    kinds = {d["kind"] for d in documents}
    assert {"ServiceAccount", "InferencePool"} <= kinds
    assert kinds & {"DisaggregatedSet", "LeaderWorkerSet", "Deployment"}
    total = sum(_gpus(d) for d in documents)
    used = sum(r["groups"] * r["parallelism"]["tp"] * r["parallelism"]["dp"] for r in plan["roles"])
    assert total == used <= plan["gpus_owned"]


def test_linter_has_no_errors(picked, planner_cli) -> None:
    done = planner_cli("lint", "-", "--exit-code", stdin=picked[1])
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(
    not CRDS.exists(), reason="needs the CRD schemas of the development data (../shared/crds)"
)
def test_custom_resource_definitions_accept_it(picked, planner_cli) -> None:
    done = planner_cli("lint", "-", "--exit-code", "--crds", str(CRDS), stdin=picked[1])
    assert done.returncode == 0, done.stdout


def _gpus(document: dict) -> int:
    """GPUs that one manifest asks for: replicas x pods x GPUs per pod."""
    spec = document.get("spec", {})
    if document["kind"] == "Deployment":
        return spec.get("replicas", 1) * _pod_gpus(spec["template"]["spec"])
    if document["kind"] == "LeaderWorkerSet":
        return _groups(spec)
    if document["kind"] == "DisaggregatedSet":
        return spec.get("slices", 1) * sum(_groups(r["spec"]) for r in spec["roles"])
    return 0


def _groups(spec: dict) -> int:
    template = spec["leaderWorkerTemplate"]
    return spec["replicas"] * template.get("size", 1) * _pod_gpus(template["workerTemplate"]["spec"])


def _pod_gpus(pod: dict) -> int:
    return sum(
        int(c.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)) for c in pod["containers"]
    )
