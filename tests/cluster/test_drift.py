"""Differences between a plan's manifests and live objects: none invented, none missed."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import World, world

from console.cluster.arguments import argument_drift
from console.cluster.discovery import resource_names
from console.cluster.drift import ObjectState, changes_between, object_drift, subset_changes
from console.cluster.fake.access import Access
from console.cluster.topology import topology

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "1", "1Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert list(changes_between(value, copy.deepcopy(value))) == []
    assert list(subset_changes(value, copy.deepcopy(value))) == []


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1), st.integers(10, 20))
@settings(max_examples=50)
def test_one_changed_field_is_one_change(value: dict[str, int], other: int) -> None:
    key = min(value)
    changed = {**value, key: other}
    (found,) = changes_between(value, changed)
    assert (found.path, found.live, found.planned) == (key, str(value[key]), str(other))
    (subset,) = subset_changes({key: other}, value)
    assert subset == found


def test_list_items_are_matched_by_name_not_by_place() -> None:
    live = {"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}
    wanted = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]}
    (found,) = changes_between(live, wanted)
    assert (found.path, found.live, found.planned) == ("env[B].value", "2", "3")


def test_equal_quantities_are_equal() -> None:
    assert list(changes_between({"cpu": "1000m", "memory": "1Gi"}, {"cpu": 1, "memory": "1024Mi"})) == []
    assert len(list(changes_between({"cpu": "1"}, {"cpu": "2"}))) == 1
    assert len(list(changes_between({"a": True}, {"a": False}))) == 1


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def compare(tmp_path: Path, work: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with world(tmp_path, **options) as w:
            return await work(w)

    return asyncio.run(run())


async def drift_of(w: World, *manifests: dict[str, Any]) -> Any:
    names = await resource_names(w.source.api, [m["apiVersion"] for m in manifests])
    return await object_drift(w.source.api, manifests, namespace="default", names=names)


def test_states_of_objects(tmp_path: Path) -> None:
    async def work(w: World) -> Any:
        w.server.put("v1", "configmaps", {**config(a="1"), "metadata": {"name": "c", "namespace": "default"}})
        before = w.server.store.version
        same, changed, missing, unknown = (
            await drift_of(w, config(a="1")),
            await drift_of(w, config(a="2")),
            await drift_of(w, {**config(), "metadata": {"name": "other"}}),
            await drift_of(w, {"apiVersion": "nosuch/v1", "kind": "X", "metadata": {"name": "x"}}),
        )
        assert w.server.store.version == before, "a diff must not write"
        return same[0], changed[0], missing[0], unknown[0]

    same, changed, missing, unknown = compare(tmp_path, work)
    assert same.state is ObjectState.SAME
    assert [(c.path, c.live, c.planned) for c in changed.changes] == [("data.a", "1", "2")]
    assert missing.state is ObjectState.MISSING
    assert unknown.state is ObjectState.NOT_SERVED


@pytest.mark.parametrize("verb", ["get", "patch"])
def test_denied_reads_and_denied_dry_runs(tmp_path: Path, verb: str) -> None:
    async def work(w: World) -> Any:
        w.server.put(
            "v1", "configmaps", {**config(a="1", b="2"), "metadata": {"name": "c", "namespace": "default"}}
        )
        return (await drift_of(w, config(a="1")))[0]

    found = compare(tmp_path, work, access=Access(denied={(verb, "configmaps")}))
    if verb == "get":
        assert found.state is ObjectState.DENIED
    else:
        assert (found.state, found.by_dry_run) == (ObjectState.SAME, False)


def test_engine_flags_of_running_pods(tmp_path: Path) -> None:
    """Order, spelling and aliases do not matter; values, presence, image and model do."""
    template = {
        "metadata": {"labels": {"llm-d.ai/role": "decode"}},
        "spec": {"containers": [{"name": "vllm", "image": "vllm:v2",
                                 "args": ["vllm serve m -dp 1 --api-key=planned --max-num-seqs 96 --port 8000 --enable-dbo"]}]},
    }  # fmt: skip
    manifest = {"kind": "LeaderWorkerSet", "spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}

    async def work(w: World) -> Any:
        return argument_drift([manifest], topology(w.source.snapshot()), name="lws")

    found = {d.flag: (d.planned, d.running) for d in compare(tmp_path, work)}
    assert found["image"] == ("vllm:v2", "vllm:v1")
    assert found["--max-num-seqs"] == ("96", None)
    assert found["--enable-dbo"] == ("on", None)
    assert "--port" not in found
