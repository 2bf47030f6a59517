"""`planner apply`: nothing without --yes, nothing by halves, nothing deleted, everything written down."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_planner import planner
from test_end_to_end import BoxThread, plan
from worlds import World, world

from console.cluster.applying import Outcome, apply_objects, rehearse
from console.cluster.discovery import resource_names
from console.cluster.fake.access import Access
from console.cluster.fake.box import Box
from planner.storage.database import URL_VARIABLE, database_url
from planner.storage.store import open_store

__all__ = ["plan"]  # a fixture, shared with the end-to-end tests


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def in_world(tmp_path: Path, work: Callable[[World], Any], **options: Any) -> Any:
    async def go() -> Any:
        async with world(tmp_path, **options) as w:
            return await work(w)

    return asyncio.run(go())


async def both(w: World, *manifests: dict[str, Any], force: bool = False) -> tuple[Any, Any]:
    api = w.source.api
    names = await resource_names(api, [m["apiVersion"] for m in manifests])
    first = await rehearse(api, manifests, namespace="default", names=names, force=force)
    version = w.server.store.version
    second = await apply_objects(api, manifests, namespace="default", names=names, force=force)
    return (first, version), second


def test_the_first_refusal_ends_it_and_says_what_was_not_tried(tmp_path: Path) -> None:
    bad = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "b"},
        "spec": {"ports": [{"port": 80}]},
    }
    denied = Access(denied={("patch", "services")})

    async def work(w: World) -> Any:
        return await both(w, config("a", x="1"), bad, config("c", x="1"))

    (rehearsed, _), applied = in_world(tmp_path, work, access=denied)
    assert [(a.name, a.outcome) for a in rehearsed] == [("b", Outcome.REFUSED)]
    assert [a.outcome for a in applied] == [Outcome.APPLIED, Outcome.REFUSED, Outcome.NOT_TRIED]
    assert applied[1].why


@pytest.mark.parametrize("force", [False, True])
def test_fields_of_another_manager_are_taken_only_by_force(tmp_path: Path, force: bool) -> None:
    async def work(w: World) -> Any:
        path = "/api/v1/namespaces/default/configmaps/a"
        await w.source.api.apply(path, config("a", x="theirs"), manager="kubectl")
        before = w.server.store.version
        (rehearsed, after), applied = await both(w, config("a", x="ours"), force=force)
        assert after == before, "a rehearsal must not write"
        held: Any = await w.source.api.get(path)
        return rehearsed, applied, held["data"]

    rehearsed, applied, data = in_world(tmp_path, work)
    assert [a.outcome for a in rehearsed] == ([] if force else [Outcome.CONFLICT])
    assert applied[0].outcome is (Outcome.APPLIED if force else Outcome.CONFLICT)
    assert data == {"x": "ours" if force else "theirs"}


def test_a_denied_patch_and_a_missing_kind_are_refusals(tmp_path: Path) -> None:
    async def work(w: World) -> Any:
        return await both(w, {"apiVersion": "nosuch/v1", "kind": "X", "metadata": {"name": "x"}}, config("a"))

    (rehearsed, _), applied = in_world(tmp_path, work, access=Access(denied={("patch", "configmaps")}))
    assert [a.outcome for a in rehearsed] == [Outcome.REFUSED, Outcome.REFUSED]
    assert [a.outcome for a in applied] == [Outcome.REFUSED, Outcome.NOT_TRIED]
    assert "not installed" in rehearsed[0].why


def test_apply_from_an_empty_cluster_to_a_changed_plan(plan: Path, tmp_path: Path) -> None:
    made = BoxThread([])
    try:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(made.call(lambda b: b.kubeconfig()), encoding="utf-8")
        store = {URL_VARIABLE: f"sqlite:///{tmp_path / 'store.db'}"}

        def pools(b: Box) -> int:
            return len(b.server.store.list(("inference.networking.k8s.io", "inferencepools"), "default"))

        shown = planner("apply", str(plan), kubeconfig=kubeconfig, timeout=90.0, **store)
        assert (shown.returncode, "--yes applies it" in shown.stderr) == (1, True), shown.stderr
        assert "no pod could be read" not in shown.stderr
        assert made.call(pools) == 0
        done = planner("apply", str(plan), "--yes", kubeconfig=kubeconfig, timeout=90.0, **store)
        assert (done.returncode, "0 unchanged" in done.stdout) == (0, True), done.stderr
        assert made.call(pools) == 1
        again = planner("apply", str(plan), "--yes", kubeconfig=kubeconfig, timeout=90.0, **store)
        assert again.stdout.strip().splitlines()[-1].startswith("0 applied")

        document = json.loads(plan.read_text(encoding="utf-8"))
        changed = copy.deepcopy(document)
        changed["plan"]["roles"][0]["max_num_seqs"] = 33
        other = tmp_path / "other.json"
        other.write_text(json.dumps(changed), encoding="utf-8")

        def forbid(b: Box) -> None:
            b.server.access.denied.add(("patch", "disaggregatedsets"))

        made.call(forbid)
        refused = planner(
            "apply", str(other), "--yes", "--json", kubeconfig=kubeconfig, timeout=90.0, **store
        )
        assert refused.returncode == 4, refused.stderr
        assert {a["outcome"] for a in json.loads(refused.stdout)["applied"]} == {"refused"}
        assert "Traceback" not in refused.stderr
        with open_store(database_url(store)) as held:
            newest, first = held.audit.list()
        assert (first.action, first.detail["result"]) == ("cluster.apply", "applied")
        assert first.actor.startswith("cli:")
        assert first.subject.endswith("/default/r1-e2e")
        assert len(str(first.detail["plan_hash"])) == 64
        assert first.detail["plan_hash"] != newest.detail["plan_hash"]
        assert str(newest.detail["result"]).startswith("DisaggregatedSet/r1-e2e: ")
    finally:
        made.close()
