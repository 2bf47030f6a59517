"""The wrong values found in public tools are refused, each under its own code; right ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.catalog.checks import check_fabric, check_node
from planner.catalog.findings import is_warning
from planner.catalog.hardware import check_gpu, load_fabric, load_gpu, load_node
from planner.domain.dtypes import ComputeDtype
from planner.domain.hardware import GpuProfile, ScaleUpKind


def errors(gpu: GpuProfile, *, compare: bool = False) -> set[str]:
    return {i.code for i in check_gpu(gpu, compare=compare) if not is_warning(i)}


def peak(gpu: GpuProfile, **values: float) -> GpuProfile:
    return replace(gpu, peak_tflops={**gpu.peak_tflops, **{ComputeDtype(k): v for k, v in values.items()}})


def label(gpu: GpuProfile, value: str) -> GpuProfile:
    return replace(gpu, kubernetes=replace(gpu.kubernetes, label_values=(value,)))


def scale_up(gpu: GpuProfile, **values: object) -> GpuProfile:
    return replace(gpu, scale_up=replace(gpu.scale_up, **values))  # type: ignore[arg-type]


KNOWN_WRONG: list[tuple[str, str, Callable[[GpuProfile], GpuProfile], str]] = [
    ("L40S fp8 1466, with sparsity", "l40s", lambda g: peak(g, fp8=1466), "gpu.sparse_peak"),
    ("H100 fp8 3958, with sparsity", "h100-sxm", lambda g: peak(g, fp8=3958), "gpu.sparse_peak"),
    ("H100 all peaks with sparsity", "h100-sxm", lambda g: peak(g, bf16=1979, fp8=3958), "gpu.sparse_peak"),
    ("MI300X fp8 5229, with sparsity", "mi300x", lambda g: peak(g, fp8=5229), "gpu.sparse_peak"),
    ("B200 fp4 18000, with sparsity", "b200-sxm", lambda g: peak(g, fp4=18000), "gpu.sparse_peak"),
    ("GB300 fp4 30000, with sparsity", "gb300", lambda g: peak(g, fp4=30000), "gpu.sparse_peak"),
    ("GB200 at 13,400 GB/s", "gb200", lambda g: replace(g, hbm_gbps=13400), "gpu.superchip_figure"),
    ("GB200 at a superchip's 16 TB/s", "gb200", lambda g: replace(g, hbm_gbps=16000), "gpu.superchip_figure"),
    ("H200 at 6 TB/s", "h200-sxm", lambda g: replace(g, hbm_gbps=6000), "gpu.hbm_bandwidth"),
    ("H200 in TB/s", "h200-sxm", lambda g: replace(g, hbm_gbps=4.8), "gpu.bandwidth_units"),
    ("H200 141 GB taken as GiB", "h200-sxm", lambda g: replace(g, memory_gib=141), "gpu.memory_marketing"),
    ("H200 driver MiB / 1000", "h200-sxm", lambda g: replace(g, memory_gib=143.771), "gpu.memory_units"),
    ("H200 MiB", "h200-sxm", lambda g: replace(g, memory_gib=143771), "gpu.memory_units"),
    ("H100 80 GB taken as GiB", "h100-sxm", lambda g: replace(g, memory_gib=80), "gpu.memory_marketing"),
    ("B300 at the size on the box", "b300-sxm", lambda g: replace(g, memory_gib=288), "gpu.memory_marketing"),
    ("NVLink4 both directions", "h100-sxm", lambda g: scale_up(g, aggregate_gbps=900.0, pairwise_gbps=900.0),
     "gpu.bidirectional_link"),
    ("NVLink5 both directions", "gb200", lambda g: scale_up(g, aggregate_gbps=1800.0, pairwise_gbps=1800.0),
     "gpu.bidirectional_link"),
    ("MI300X pair at the full rate", "mi300x", lambda g: scale_up(g, pairwise_gbps=448.0), "gpu.link_topology"),
    ("switch with a slow pair", "h200-sxm", lambda g: scale_up(g, pairwise_gbps=64.0), "gpu.link_topology"),
    ("H100 label of a public tool", "h100-sxm", lambda g: label(g, "NVIDIA-H100-SXM5-80GB"),
     "gpu.label_never_schedules"),
    ("label without the vendor", "h200-sxm", lambda g: label(g, "H200"), "gpu.label_never_schedules"),
    ("label with spaces", "h200-sxm", lambda g: label(g, "NVIDIA H200"), "gpu.label_form"),
    ("resource of another vendor", "mi300x",
     lambda g: replace(g, kubernetes=replace(g.kubernetes, resource="nvidia.com/gpu")), "gpu.resource"),
    ("negative bandwidth", "h200-sxm", lambda g: replace(g, hbm_gbps=-1.0), "gpu.value_range"),
    ("zero memory", "h200-sxm", lambda g: replace(g, memory_gib=0.0), "gpu.value_range"),
    ("no bf16 peak", "h200-sxm", lambda g: replace(g, peak_tflops={ComputeDtype.FP8: 1979.0}), "gpu.value_range"),
    ("achieved more than the peak", "h200-sxm",
     lambda g: replace(g, mamf_fraction={ComputeDtype.BF16: 1.2}), "gpu.value_range"),
    ("a figure without a source", "h200-sxm",
     lambda g: replace(g, sources={k: s for k, s in g.sources.items() if k != "hbm_gbps"}), "gpu.source_missing"),
    ("a source of no field", "h200-sxm",
     lambda g: replace(g, sources={**g.sources, "hbm_gbs": g.sources["hbm_gbps"]}), "gpu.source_unknown"),
    ("an undated source", "h200-sxm",
     lambda g: replace(g, sources={**g.sources, "hbm_gbps": replace(g.sources["hbm_gbps"], date="last year")}),
     "gpu.source_date"),
    ("an undated price", "h200-sxm",
     lambda g: replace(g, prices=(replace(g.prices[0], date="recently"),)), "gpu.value_range"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "gpu", "spoil", "code"), KNOWN_WRONG, ids=[row[0] for row in KNOWN_WRONG])
def test_known_wrong_values_are_refused(
    name: str, gpu: str, spoil: Callable[[GpuProfile], GpuProfile], code: str
) -> None:
    good = load_gpu(gpu)
    assert code not in errors(good)
    assert code in errors(spoil(good))


@pytest.mark.parametrize(
    ("gpu", "spoil"),
    [
        ("mi325x", lambda g: replace(g, memory_marketing_gb=288, memory_gib=287.5)),
        ("gb200", lambda g: replace(g, memory_marketing_gb=372, memory_gib=368)),
        ("b300-sxm", lambda g: replace(g, memory_marketing_gb=270, memory_gib=268)),
        ("h100-sxm", lambda g: replace(g, memory_gib=74.5)),
        ("h100-sxm", lambda g: replace(g, hbm_gbps=2000)),
        ("h200-sxm", lambda g: peak(g, bf16=756, fp8=1513)),
    ],
    ids=[
        "MI325X at 288 GB",
        "GB200 superchip memory",
        "B300 at 270 GB",
        "H100 80e9 bytes",
        "PCIe bandwidth",
        "PCIe peaks",
    ],
)
def test_figures_of_a_known_part_are_compared_with_the_catalogue(
    gpu: str, spoil: Callable[[GpuProfile], GpuProfile]
) -> None:
    good = load_gpu(gpu)
    assert "gpu.differs_from_catalogue" not in errors(good, compare=True)
    assert "gpu.differs_from_catalogue" in errors(spoil(good), compare=True)


def test_a_part_that_only_looks_alike_is_a_warning() -> None:
    gpu = replace(
        load_gpu("mi325x"), id="custom-mi325x", aliases=(), memory_marketing_gb=288, memory_gib=287.5
    )
    codes = {i.code for i in check_gpu(gpu)}
    assert "gpu.resembles_catalogue" in codes
    assert "gpu.differs_from_catalogue" not in codes


@pytest.mark.parametrize(("gpu", "low", "high"), [("b200-sxm", 7700, 8000), ("b300-sxm", 7750, 8000)])
def test_both_published_bandwidths_of_a_disputed_part_pass(gpu: str, low: float, high: float) -> None:
    good = load_gpu(gpu)
    for value in (low, high):
        assert errors(replace(good, hbm_gbps=value), compare=True) == set()


def test_unconfirmed_inputs_are_told_but_not_refused() -> None:
    issues = check_gpu(load_gpu("b200-sxm"), compare=False)
    assert {i.code for i in issues} == {"gpu.unconfirmed_input"}
    assert all(is_warning(i) for i in issues)
    assert any("memory_gib" in i.what for i in issues)
    assert check_gpu(load_gpu("h200-sxm"), compare=False) == ()


def test_announced_parts_say_so() -> None:
    assert "gpu.announced" in {i.code for i in check_gpu(load_gpu("rubin-vr200"), compare=False)}


def test_mesh_needs_its_links_to_add_up() -> None:
    gpu = load_gpu("mi300x")
    assert gpu.scale_up.kind is ScaleUpKind.MESH
    assert gpu.scale_up.group_gbps(2) == 64
    assert gpu.scale_up.group_gbps(4) == 192
    assert gpu.scale_up.group_gbps(8) == 448


def test_fabric_checks() -> None:
    good = load_fabric("ib-ndr400")
    assert check_fabric(good) == ()
    spoiled = {
        "fabric.nic_arithmetic": replace(good, gbps_per_gpu=400.0),  # Gbit/s taken as GB/s
        "fabric.value_range": replace(good, achievable_fraction=95.0),
        "fabric.gpu_initiated": replace(good, rdma=False),
        "fabric.source_missing": replace(good, sources={}),
    }
    for code, fabric in spoiled.items():
        assert code in {i.code for i in check_fabric(fabric)}


def test_node_checks() -> None:
    good, gpu = load_node("generic-h100-sxm"), load_gpu("h100-sxm")
    assert [i for i in check_node(good, gpu=gpu) if not is_warning(i)] == []
    spoiled = {
        "node.label_never_schedules": replace(
            good, node_labels={"nvidia.com/gpu.product": "NVIDIA-H100-SXM5-80GB"}
        ),
        "node.gpu_resource": replace(good, gpu_resource="amd.com/gpu"),
        "node.rdma_count": replace(good, rdma_count=0),
        "node.value_range": replace(good, gpus_per_node=0),
        "node.label_form": replace(good, node_labels={"a": "b c"}),
        "node.fabric_unknown": replace(good, fabric="token-ring"),
    }
    for code, node in spoiled.items():
        assert code in {i.code for i in check_node(node, gpu=gpu)}
    other = replace(good, node_labels={"nvidia.com/gpu.product": "NVIDIA-H200"})
    assert "node.label_never_schedules" in {i.code for i in check_node(other, gpu=gpu)}
    assert "node.gpu_unknown" in {i.code for i in check_node(replace(good, gpu="h1000"))}
