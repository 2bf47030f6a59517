"""Applying from the console: off by default, only what was reviewed, only after typing the namespace, always written down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console_client import make_console

from console.cluster.fake.box import cluster_in_a_box
from console.cluster.open import Opening, make_source

PLAN = {"recipe": "gpt-oss-120b-h200x8", "point": 3}


@pytest.fixture(params=[True, False], ids=["allowed", "read-only"])
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, bool]]:
    config = tmp_path / "kubeconfig"
    made = make_console(
        tmp_path, allow_apply=request.param,
        cluster=lambda: make_source(Opening(kubeconfig=str(config), metrics=False)),
        before=lambda: cluster_in_a_box(nodes=1),
        ready=lambda box: config.write_text(box.kubeconfig()),
    )  # fmt: skip
    console = next(made)
    yield console, request.param
    made.close()


def _drift(console: Any) -> dict[str, Any]:
    for _ in range(100):
        answer = console.get("/api/v1/cluster/drift", **PLAN)
        if answer.status_code == 200:
            return dict(answer.json())
        console.run(lambda: __import__("asyncio").sleep(0.05))
    pytest.fail(answer.text)


def test_only_what_was_reviewed_is_applied(inside: tuple[Any, bool]) -> None:
    console, allowed = inside
    before = _drift(console)
    assert before["drifted"]
    assert before["may_apply"] is allowed

    def post(**changes: str) -> Any:
        body = {"plan": PLAN, "namespace": "default", "seen": before["seen"], **changes}
        return console.ask("POST", "/api/v1/cluster/apply", json=body)

    if not allowed:
        answer = post()
        assert answer.json()["issues"][0]["code"] == "apply.not-allowed"
        assert _drift(console)["seen"] == before["seen"]
        return
    assert post(namespace="other").json()["issues"][0]["code"] == "apply.namespace"
    assert post(seen="0" * 64).json()["issues"][0]["code"] == "apply.changed"
    assert _drift(console)["seen"] == before["seen"]  # nothing has happened yet
    answer = post()
    assert answer.status_code == 200, answer.text
    outcomes = {o["outcome"] for o in answer.json()["objects"]}
    assert outcomes == {"applied"}, answer.text
    after = _drift(console)
    assert all(o["state"] == "same" for o in after["objects"])
    assert post().json()["issues"][0]["code"] == "apply.changed"
    actions = [e["action"] for e in console.get("/api/v1/audit").json()["entries"]]
    assert actions == ["cluster.apply.done", "cluster.apply.asked"]
