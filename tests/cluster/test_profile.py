"""Nodes of many clusters as hardware: what is seen is used, what is assumed is said."""

from __future__ import annotations

from typing import Any

import pytest

from console.cluster import parse
from console.cluster.fake.box import node
from console.cluster.objects import NodeView, PodView
from console.cluster.profile import pool_from_nodes
from planner.domain.errors import MissingDataError


def nodes(count: int, **more: Any) -> list[NodeView]:
    labels = more.pop("labels", {})
    made = []
    for i in range(count):
        raw = node(f"n{i}", **more)
        raw["metadata"]["labels"] |= labels
        made.append(parse.node(raw))
    return made


def test_bare_metal_with_infiniband() -> None:
    (found,) = pool_from_nodes(nodes(4)).pools
    assert (found.pool.gpu.id, found.pool.gpus, found.pool.gpus_per_node) == ("h200-sxm", 32, 8)
    assert (found.pool.fabric.id, found.pool.node.rdma_resource) == ("ib-ndr400", "rdma/ib")
    assert (found.pool.node.cpu_allocatable, found.pool.node.memory_gib_allocatable) == (192, 2015)
    assert any("cannot be seen" in n for n in found.notes)


@pytest.mark.parametrize(
    ("labels", "rdma", "product", "shape", "fabric"),
    [
        ({"node.kubernetes.io/instance-type": "p5en.48xlarge"}, {"vpc.amazonaws.com/efa": "16"}, "NVIDIA-H200",
         "eks-p5en", "efa-v3"),
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"}, {"rdma/ib": "1"}, "NVIDIA-H100-80GB-HBM3",
         "aks-nd96isr-h100-v5", "ib-ndr400"),
        ({"node.coreweave.cloud/class": "gpu"}, {"rdma/ib": "1"}, "NVIDIA-B200", "coreweave-b200", "ib-ndr400"),
        ({}, {"rdma/roce_gdr": "8"}, "NVIDIA-H100-80GB-HBM3", "generic-h100-sxm", "roce-400"),
        ({}, {}, "NVIDIA-H100-80GB-HBM3", "generic-h100-sxm", "ethernet-100"),
    ],
)  # fmt: skip
def test_clouds_are_told_apart(
    labels: dict[str, str], rdma: dict[str, str], product: str, shape: str, fabric: str
) -> None:
    (found,) = pool_from_nodes(nodes(2, labels=labels, rdma=rdma, product=product)).pools
    assert (found.pool.node.id, found.pool.fabric.id) == (shape, fabric)
    exact = "instance-type" in str(labels)
    assert exact or found.notes, "an assumption is always said"


def test_two_gpus_of_one_product_name_differ_by_memory() -> None:
    small = pool_from_nodes(
        nodes(1, gpus=1, product="NVIDIA-GH200-480GB", labels={"nvidia.com/gpu.memory": "97871"})
    )
    large = pool_from_nodes(
        nodes(1, gpus=1, product="NVIDIA-GH200-480GB", labels={"nvidia.com/gpu.memory": "147456"})
    )
    assert (small.pools[0].pool.gpu.id, large.pools[0].pool.gpu.id) == ("gh200", "gh200-144")


def test_several_pools_largest_first_and_what_is_left_out() -> None:
    mixed = [*nodes(2), *nodes(3, product="NVIDIA-H100-80GB-HBM3")]
    broken = node("broken")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cordoned = node("cordoned")
    cordoned["spec"]["unschedulable"] = True
    odd = node("odd", product="NVIDIA-Z9000")
    found = pool_from_nodes([*mixed, *map(parse.node, (broken, cordoned, odd))])
    assert [(p.pool.gpu.id, p.pool.gpus) for p in found.pools] == [("h100-sxm", 24), ("h200-sxm", 16)]
    assert found.left_out["broken"] == "not ready"
    assert found.left_out["cordoned"] == "unschedulable"
    assert "NVIDIA-Z9000" in found.left_out["odd"]


def pod(name: str, where: str, gpus: int, phase: str = "Running") -> PodView:
    return parse.pod(
        {
            "metadata": {"name": name, "namespace": "x"},
            "spec": {
                "nodeName": where,
                "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
            },
            "status": {"phase": phase},
        }
    )


def test_free_gpus_count_what_running_pods_ask_for() -> None:
    pods = [pod("a", "n0", 8), pod("b", "n1", 2), pod("done", "n2", 8, phase="Succeeded")]
    (found,) = pool_from_nodes(nodes(4), pods=pods).pools
    assert (found.pool.gpus, found.free_gpus) == (32, 22)
    (free,) = pool_from_nodes(nodes(4), pods=pods, only_free=True).pools
    assert free.pool.gpus == 16
    (unknown,) = pool_from_nodes(nodes(4)).pools
    assert unknown.free_gpus is None  # not zero: nobody could look


def test_no_gpu_node_and_unknown_gpus_are_errors_with_a_way_out() -> None:
    with pytest.raises(MissingDataError) as none:
        pool_from_nodes(nodes(2, gpus=0))
    assert none.value.issues[0].code == "cluster.no_gpu_nodes"
    with pytest.raises(MissingDataError) as unknown:
        pool_from_nodes(nodes(2, product="NVIDIA-H200X"))
    issue = unknown.value.issues[0]
    assert issue.code == "cluster.gpu_unknown"
    assert "NVIDIA-H200" in issue.fix


def test_quantities_as_device_plugins_write_them() -> None:
    view = parse.node(node("n", rdma={"rdma/ib": "1k", "rdma/roce": "63"}))
    assert (view.extended["rdma/ib"], view.extended["rdma/roce"]) == (1000, 63)
