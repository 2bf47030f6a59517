"""Finding hardware and engines by name, in the shipped catalogue and in a folder laid over it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from planner.catalog.engines import list_engines, load_engine, version_key
from planner.catalog.findings import is_warning
from planner.catalog.hardware import (
    check_gpu,
    check_node,
    default_node,
    default_price,
    list_fabrics,
    list_gpus,
    list_nodes,
    load_fabric,
    load_gpu,
    load_node,
    nodes_for,
)
from planner.catalog.locate import data_root, profile_dirs
from planner.domain.dtypes import ComputeDtype
from planner.domain.errors import ExitCode, InputError
from planner.domain.hardware import Availability, GpuProfile, Provider

GPUS_CSV = data_root().parent / "shared" / "data" / "gpus.csv"


def codes(error: InputError) -> list[str]:
    return [i.code for i in error.issues]


@pytest.mark.parametrize("name", ["h200-sxm", "H200-SXM", "h200", "H200_SXM", " h200 sxm "])
def test_ids_and_aliases_in_any_case(name: str) -> None:
    assert load_gpu(name).id == "h200-sxm"


def test_ndr_goes_by_several_names() -> None:
    assert {load_fabric(n).id for n in ("ib-ndr400", "ib-ndr", "NDR")} == {"ib-ndr400"}


@pytest.mark.parametrize(
    ("load", "name", "code", "hint"),
    [
        (load_gpu, "h2000", "gpu.unknown", "'h200'"),
        (load_gpu, "", "gpu.unknown", "planner profiles list gpus"),
        (load_gpu, "../gpus/h200-sxm", "gpu.unknown", "planner profiles list"),
        (load_fabric, "ib-ndr-400", "fabric.unknown", "'ib-ndr400'"),
        (load_node, "eks-p5enn", "node.unknown", "'eks-p5en'"),
        (load_engine, "vlm", "engine.unknown", "vllm"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(load: object, name: str, code: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name)  # type: ignore[operator]
    assert codes(caught.value) == [code]
    assert hint in caught.value.issues[0].fix
    assert caught.value.exit_code is ExitCode.USAGE


def test_every_shipped_profile_loads_without_errors() -> None:
    for gpu in list_gpus():
        assert [i for i in check_gpu(load_gpu(gpu)) if not is_warning(i)] == []
    for fabric in list_fabrics():
        load_fabric(fabric)
    for engine in list_engines():
        load_engine(engine)
    for name in list_nodes():
        node = load_node(name)
        assert [i for i in check_node(node, gpu=load_gpu(node.gpu)) if not is_warning(i)] == []
        assert load_fabric(node.fabric).id == node.fabric


def test_the_catalogue_is_as_large_as_promised() -> None:
    assert len(list_nodes()) >= 20
    assert len({load_node(n).provider for n in list_nodes()}) == len(Provider)
    assert {
        "ib-ndr400",
        "ib-hdr200",
        "ib-xdr800",
        "roce-400",
        "efa-v3",
        "gpudirect-tcpx",
        "gpudirect-tcpxo",
        "none",
    } <= set(list_fabrics())


def test_every_part_that_can_be_bought_has_a_node_shape() -> None:
    for name in list_gpus():
        gpu = load_gpu(name)
        if gpu.availability is not Availability.ANNOUNCED:
            assert nodes_for(gpu), name


def test_aliases_are_unique() -> None:
    seen: dict[str, str] = {}
    for name in list_gpus():
        for alias in {name, *(a.lower().replace("_", "-") for a in load_gpu(name).aliases)}:
            assert seen.setdefault(alias, name) == name


@pytest.mark.parametrize(
    ("gpu", "fabric", "node", "resource", "count"),
    [
        ("h200-sxm", "ib-ndr400", "generic-h200-sxm", "rdma/ib", 1),
        ("h200-sxm", "roce-400", "generic-h200-sxm", "rdma/roce_gdr", 1),
        ("h200-sxm", "none", "generic-h200-sxm", None, 0),
        ("h200-sxm", "efa-v3", "eks-p5en", "vpc.amazonaws.com/efa", 16),
        ("h100-sxm", "efa-v2", "eks-p5", "vpc.amazonaws.com/efa", 32),
        ("h100-sxm", "gpudirect-tcpxo", "gke-a3-megagpu-8g", None, 0),
        ("b200-sxm", "gke-gib", "gke-a4-highgpu-8g", None, 8),
        ("gb200", "ib-ndr400", "generic-gb200", "rdma/ib", 1),
        ("mi300x", "ib-ndr400", "generic-mi300x", "rdma/ib", 1),
        ("tpu-v6e", "tpu-ici-v6e", "gke-tpu-v6e", None, 0),
        ("b200-sxm", "efa-v3", "generic-b200-sxm", "vpc.amazonaws.com/efa", 16),
    ],
)
def test_default_node(gpu: str, fabric: str, node: str, resource: str | None, count: int) -> None:
    chosen = default_node(load_gpu(gpu), load_fabric(fabric))
    assert (chosen.id, chosen.fabric, chosen.rdma_resource, chosen.rdma_count) == (
        node,
        fabric,
        resource,
        count,
    )


@pytest.mark.parametrize(
    ("gpu", "fabric", "code"),
    [("rubin-vr200", "ib-ndr400", "node.none_for_gpu"), ("h200-sxm", "tpu-ici-v6e", "node.fabric_mismatch")],
)
def test_default_node_refuses_what_does_not_exist(gpu: str, fabric: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        default_node(load_gpu(gpu), load_fabric(fabric))
    assert codes(caught.value) == [code]


def test_prices_are_dated_inputs() -> None:
    price = default_price(load_gpu("h200-sxm"))
    assert price is not None
    assert (price.usd_per_gpu_hour, price.tier) == (3.5, "neocloud")
    assert default_price(load_gpu("h100-nvl")) is None


def test_engine_versions() -> None:
    assert load_engine("vllm").id == "vllm-0.33.0"
    assert load_engine("vllm", "0.24.0").id == load_engine("vllm-0.24.0").id == "vllm-0.24.0"
    assert load_engine("VLLM", "v0.33.0").version == "0.33.0"
    assert version_key("0.9.1") < version_key("0.33.0")
    with pytest.raises(InputError) as caught:
        load_engine("vllm", "0.33.1")
    assert codes(caught.value) == ["engine.version_unknown"]
    assert "'0.33.0'" in caught.value.issues[0].fix


def test_vllm_defaults_are_those_of_the_source() -> None:
    vllm = load_engine("vllm", "0.33.0")
    assert vllm.gpu_memory_utilization == 0.92
    assert vllm.default_max_num_seqs == 1024
    assert vllm.max_num_batched_tokens_by_gib == {0: 2048, 70: 8192, 160: 16384}
    assert (vllm.dbo_decode_threshold, vllm.dbo_prefill_threshold, vllm.dbo_comm_sms) == (32, 512, 20)
    assert vllm.deepep_ll_hidden_sizes == (2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)
    assert not vllm.sources["host_step_us"].confirmed


# --- overlay ---


def overlay_gpu(folder: Path, name: str, *edits: tuple[str, str]) -> Path:
    (folder / "gpus").mkdir(parents=True, exist_ok=True)
    text = (data_root() / "profiles" / "gpus" / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "gpus" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_an_overlay_replaces_a_profile_and_leaves_the_rest(tmp_path: Path) -> None:
    folder = overlay_gpu(tmp_path, "h200-sxm", ("memory_gib: 139.8", "memory_gib: 139.0"))
    assert load_gpu("h200", overlay=folder).memory_gib == 139.0
    assert load_gpu("h200").memory_gib == 139.8
    assert load_gpu("h100", overlay=folder).id == "h100-sxm"
    assert load_fabric("ib-ndr400", overlay=folder).id == "ib-ndr400"
    assert list_gpus(overlay=folder) == list_gpus()


def test_an_overlay_with_a_known_wrong_value_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = overlay_gpu(
        tmp_path,
        "mi325x",
        ("memory_gib: 255.5", "memory_gib: 287.5"),
        ("memory_marketing_gb: 256\n", "memory_marketing_gb: 288\n"),
    )
    with pytest.raises(InputError) as caught:
        load_gpu("mi325x", overlay=folder)
    assert codes(caught.value) == ["gpu.differs_from_catalogue"] * 2
    assert re.search(r"gpus/mi325x\.yaml:\d+ @ \$\.memory_gib", caught.value.issues[0].where or "")


def test_an_overlay_can_hold_a_new_part_by_alias(tmp_path: Path) -> None:
    folder = overlay_gpu(
        tmp_path, "h200-sxm", ("id: h200-sxm", "id: our-part"), ("name: H200 SXM 141GB", "name: Our part"),
        ("aliases: [h200, h200_sxm, h200-141gb]", "aliases:\n  - ours"),
    )  # fmt: skip
    (folder / "gpus" / "h200-sxm.yaml").rename(folder / "gpus" / "our-part.yaml")
    assert load_gpu("Ours", overlay=folder).id == "our-part"
    assert "our-part" in list_gpus(overlay=folder)


def test_an_id_that_is_not_the_file_name_is_refused(tmp_path: Path) -> None:
    folder = overlay_gpu(tmp_path, "h200-sxm", ("id: h200-sxm", "id: h200-other"))
    with pytest.raises(InputError) as caught:
        load_gpu("h200-sxm", overlay=folder)
    assert codes(caught.value) == ["profiles.id"]


def test_an_overlay_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    for folder, code in (
        (tmp_path / "none", "profiles.overlay_missing"),
        (tmp_path, "profiles.overlay_layout"),
    ):
        with pytest.raises(InputError) as caught:
            profile_dirs("gpus", folder)
        assert codes(caught.value) == [code]


# --- the table the profiles were made from ---


@pytest.mark.skipif(not GPUS_CSV.exists(), reason="the source table is not part of the repository")
def test_profiles_agree_with_the_source_table() -> None:
    def first(text: str) -> float | None:
        match = re.match(r"\s*([\d.]+)", text)
        return float(match.group(1)) if match else None

    with GPUS_CSV.open(encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    assert {r["id"] for r in rows} <= set(list_gpus())
    for row in rows:
        gpu: GpuProfile = load_gpu(row["id"])
        assert gpu.availability.value == row["status"]
        assert gpu.memory_marketing_gb == first(row["mem_gb_marketing"]), row["id"]
        assert gpu.hbm_gbps / 1000 == pytest.approx(first(row["mem_tbps"])), row["id"]
        for dtype in ComputeDtype:
            published = first(row[f"{dtype.value}_tflops_dense"])
            if published is None:
                assert dtype not in gpu.peak_tflops, (row["id"], dtype)
            else:
                assert gpu.peak_tflops[dtype] == pytest.approx(published, rel=0.04), (row["id"], dtype)
        assert gpu.kubernetes.resource == row["k8s_resource"].split(" ")[0]
        if row["mem_gib_cuda"]:
            assert gpu.memory_gib == pytest.approx(first(row["mem_gib_cuda"]), rel=0.002), row["id"]
            assert gpu.sources["memory_gib"].confirmed == (row["id"] == "h200-sxm")
