"""Blockers, topology and the simulated source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from worlds import engine_pod

from console.cluster import parse, parse_serving
from console.cluster.kinds import Kind
from console.cluster.objects import View
from console.cluster.simulated import SimulatedSource
from console.cluster.source import ClusterSource
from console.cluster.state import ClusterState, Identity, ObjectChange, Op, ScrapeChange, Snapshot
from console.cluster.topology import serving_ports, topology
from console.views.cluster import overview
from console.views.cluster_blockers import Stage

HERE = Identity(source="test", context="c", server="s", namespace=None)


def snapshot(**kinds: Iterable[View]) -> Snapshot:
    state = ClusterState(HERE)
    for name, views in kinds.items():
        state.apply(ObjectChange(at=1.0, kind=Kind[name], op=Op.LISTED, views=tuple(views)))
    return state.snapshot(2.0)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "name": "vllm",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}},
    }


NOT_READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
UNSCHEDULED = [
    {"type": "PodScheduled", "status": "False", "message": "0/9 nodes: 9 Insufficient nvidia.com/gpu."}
]


@pytest.mark.parametrize(
    ("status", "stage", "text"),
    [
        ({"phase": "Pending", "conditions": UNSCHEDULED}, Stage.SCHEDULE, "Insufficient nvidia.com/gpu"),
        ({"conditions": NOT_READY, "containerStatuses": [waiting("ImagePullBackOff", "no such tag")]}, Stage.IMAGE, "no such tag"),
        ({"conditions": NOT_READY, "containerStatuses": [waiting("CreateContainerConfigError", "secret x not found")]},
         Stage.MOUNT, "secret x"),
        ({"conditions": NOT_READY, "containerStatuses": [
            {**waiting("CrashLoopBackOff"), "restartCount": 4,
             "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}, Stage.CRASH, "OOMKilled with exit code 137, 4"),
        ({"phase": "Pending", "conditions": NOT_READY, "containerStatuses": [waiting("ContainerCreating")]},
         Stage.START, "containers start"),
        ({"conditions": NOT_READY, "containerStatuses": [{"name": "vllm", "ready": False, "restartCount": 0}]},
         Stage.READY, "vllm not ready"),
        # a container that is up again after a crash is not what the pod waits for
        ({"conditions": NOT_READY, "containerStatuses": [
            {"name": "vllm", "ready": True, "restartCount": 2, "lastState": {"terminated": {"exitCode": 1}}}]},
         Stage.READY, "a readiness gate not ready"),
        ({"phase": "Failed", "reason": "Evicted", "conditions": NOT_READY}, None, ""),
    ],
)  # fmt: skip
def test_the_first_cause_of_a_pod_that_does_not_serve(
    status: dict[str, Any], stage: Stage | None, text: str
) -> None:
    view = overview(snapshot(PODS=[parse.pod(engine_pod("lws-0", **status))]))
    if stage is None:
        assert view.groups == ()
        return
    (blocker,) = view.blockers
    assert blocker.stage is stage
    assert text in blocker.why
    assert not view.groups[0].ready


def test_equal_causes_are_counted_once_and_earlier_stages_come_first() -> None:
    pods = [
        parse.pod(engine_pod(f"a-{i}", group=i, phase="Pending", conditions=UNSCHEDULED)) for i in range(5)
    ]
    pods.append(parse.pod(engine_pod("b", group=9, conditions=NOT_READY)))
    blockers = overview(snapshot(PODS=pods)).blockers
    assert [(b.stage, b.count) for b in blockers] == [(Stage.SCHEDULE, 5), (Stage.READY, 1)]


def test_a_group_is_down_when_any_of_its_pods_is() -> None:
    def member(worker: int, **status: Any) -> View:
        raw = engine_pod(f"lws-0-{worker}", worker=worker, **status)
        raw["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "2"}
        return parse.pod(raw)

    both = overview(snapshot(PODS=[member(0), member(1)]))
    one_missing = overview(snapshot(PODS=[member(0)]))
    one_down = overview(snapshot(PODS=[member(0), member(1, conditions=NOT_READY)]))
    assert [v.groups[0].ready for v in (both, one_missing, one_down)] == [True, False, False]
    assert one_missing.blockers[0].why == "1 of 2 pods exist"
    assert (both.roles[0].health, one_down.roles[0].health) == ("ready", "down")


def test_quota_picker_pool_and_route() -> None:
    workload = {"metadata": {"name": "w"}, "spec": {"queueName": "q"},
                "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "needs 8 more"}]}}  # fmt: skip
    pool = {"metadata": {"name": "p"}, "spec": {}, "status": {"parents": [{"parentRef": {"name": "gw"}, "conditions": [
        {"type": "Accepted", "status": "False", "reason": "HTTPRouteNotAccepted"},
        {"type": "Exported", "status": "False", "reason": "NotRequested"}]}]}}  # fmt: skip
    picker = {"metadata": {"name": "epp"}, "spec": {"replicas": 1, "template": {"spec": {"containers": [
        {"args": ["--pool-name", "p"]}]}}}, "status": {}}  # fmt: skip
    blockers = overview(
        snapshot(
            QUEUED_WORKLOADS=[parse_serving.queued_workload(workload)],
            POOLS=[parse_serving.pool(pool)],
            DEPLOYMENTS=[parse.deployment(picker)],
        )
    ).blockers
    assert [b.stage for b in blockers] == [Stage.QUOTA, Stage.PICKER, Stage.POOL]
    assert "needs 8 more" in blockers[0].why
    assert "HTTPRouteNotAccepted" in blockers[2].why


def test_ports_come_from_the_pod_then_the_pool_then_the_container() -> None:
    pool = parse_serving.pool(
        {"metadata": {"name": "p", "namespace": "default"},
         "spec": {"selector": {"matchLabels": {"llm-d.ai/role": "decode"}}, "targetPorts": [{"number": 9000}, {"number": 9001}]}}
    )  # fmt: skip
    raw = engine_pod("lws-0", ports=3)
    assert serving_ports(parse.pod(raw), []) == (8000, 8001, 8002)
    assert serving_ports(parse.pod(raw), [pool]) == (9000, 9001)
    raw["metadata"]["annotations"] = {"llm-d.ai/active-ports": "9000"}
    assert serving_ports(parse.pod(raw), [pool]) == (9000,)
    headless = engine_pod("lws-0-1", worker=1)
    headless["spec"]["containers"][0]["args"] = ["vllm serve m --headless"]
    assert serving_ports(parse.pod(headless), []) == ()
    assert [e.pool for e in topology(snapshot(PODS=[parse.pod(raw)], POOLS=[pool])).endpoints] == ["p"]


def test_a_scrape_of_an_unknown_pod_leaves_nothing() -> None:
    state = ClusterState(HERE)
    state.apply(ScrapeChange(at=1.0, namespace="default", pod="ghost", port=1, failed="refused"))
    assert state.snapshot(1.0).silent == {}


def test_strange_objects_never_raise() -> None:
    from console.cluster.kinds import KINDS

    strange = [None, 1, "x", [], {}, [1], {"a": []}]
    for info in KINDS.values():
        for value in strange:
            raw = {"metadata": {"name": "x", "labels": value, "ownerReferences": value}, "spec": value, "status": value,
                   "data": value, "involvedObject": value}  # fmt: skip
            info.parse(raw)
            info.parse(
                {
                    "spec": dict.fromkeys(
                        ("containers", "roles", "targetPorts", "rules", "replicas", "taints"), value
                    )
                }
            )


def test_the_simulated_source_is_a_source_like_any_other() -> None:
    async def run() -> Snapshot:
        pod = engine_pod("lws-0")
        lws = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 1, "workerTemplate": {
                "metadata": {"labels": {"llm-d.ai/role": "decode"}}, "spec": {"containers": pod["spec"]["containers"]}}}},
        }  # fmt: skip
        source: ClusterSource = SimulatedSource([lws], nodes=1, period_s=0.2)
        await source.start()
        try:
            assert await source.ready(5.0)
            for _ in range(100):
                found = source.snapshot()
                if len(found.readings) == 2:
                    break
                await source.changed(0.1)
            return found
        finally:
            await source.close()

    found = asyncio.run(run())
    assert found.identity.source == "simulated"
    assert len(found.readings) == 2  # two ranks of the one group that fits on one node
    assert [b.stage for b in overview(found).blockers] == [Stage.SCHEDULE]
