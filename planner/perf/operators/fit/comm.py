"""Samples of collectives and MoE exchanges.

`message_size` is bytes in the custom all-reduce tables and elements in the NCCL ones. DeepEP rows are SGLang's kernel
timings: the framework-level rows of vLLM and TensorRT-LLM contain host cost, which belongs to the step, not here. The
multi-node rows of H100 and H200 upstream are the same measurements; they are fitted once, relative to the exchange
formula over ConnectX-7, so that they carry over to other fabrics.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import ComputeDtype, WeightFormat
from planner.domain.engine import EngineName
from planner.domain.hardware import (
    Availability,
    FabricKind,
    FabricProfile,
    GpuKubernetes,
    GpuProfile,
    ScaleUp,
    ScaleUpKind,
    Vendor,
)
from planner.perf.operators import reference as ref
from planner.perf.operators import work
from planner.perf.operators.base import ExchangeShape, FloatArray
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.operators.fit.dense import source_of
from planner.perf.operators.fit.grid import Samples
from planner.perf.operators.fit.tables import newest, read, systems_folder
from planner.perf.operators.reference import Roofline

BYTES_AXIS: Final = 2.0 ** np.arange(7.0, 30.0)
TOKEN_AXIS: Final = 2.0 ** np.arange(0.0, 18.0)
LL_TOKEN_AXIS: Final = np.array([1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048], dtype=np.float64)
_SMS: Final = 20  # of the high-throughput kernels; 20-24 is the library's default range
_DEEPEP_RANKS: Final = {"gb200": 4, "gb300": 4}


def _flat(
    key: str, feature: FloatArray, load: FloatArray, us: FloatArray, reference: FloatArray, table: Any,
    axis: FloatArray,
) -> Samples:  # fmt: skip
    return Samples(
        key=key,
        features=np.log2(feature.reshape(len(us), -1)),
        loads=load[:, None],
        measured_us=us,
        reference_us=reference,
        offset_us=np.zeros(len(us)),
        source=source_of(table, len(us)),
        axes=(axis,),
    )


def collective_samples(system: str, engine: str, roof: Roofline) -> list[Samples]:
    """All-reduce in and outside CUDA graphs, and NCCL collectives."""
    out = []
    table = newest(system, "comm", engine, "custom_allreduce_perf")
    if table is not None:
        rows = table.frame
        modes = {"graph": rows, "eager": rows.iloc[:0]}
        if "backend" in rows:
            modes = {m: rows[rows["backend"].astype(str).str.endswith(m)] for m in ("graph", "eager")}
        for mode, part in modes.items():
            if len(part) < 10:
                continue
            gpus, size, us = _columns(part, "num_gpus", "message_size", "latency")
            out.append(
                _flat(
                    f"allreduce/{mode}",
                    gpus,
                    size,
                    us * 1e3,
                    _collective(roof, gpus, size),
                    table,
                    BYTES_AXIS,
                )
            )
    nccl = _newest_nccl(system)
    if nccl is not None:
        for name, kind in (
            ("all_reduce", "all_reduce"), ("all_gather", "all_gather"),
            ("reduce_scatter", "reduce_scatter"), ("alltoall", "all_to_all"),
        ):  # fmt: skip
            part = nccl.frame[(nccl.frame["op_name"] == name) & (nccl.frame["nccl_dtype"] == "half")]
            if len(part) < 10:
                continue
            gpus, size, us = _columns(part, "num_gpus", "message_size", "latency")
            size = size * 2.0
            out.append(
                _flat(f"nccl/{kind}", gpus, size, us * 1e3, _collective(roof, gpus, size), nccl, BYTES_AXIS)
            )
    return out


def _columns(rows: Any, *names: str) -> tuple[FloatArray, ...]:
    return tuple(rows[n].to_numpy(dtype=np.float64) for n in names)


def _collective(roof: Roofline, gpus: FloatArray, size: FloatArray) -> FloatArray:
    out = np.empty(len(size))
    for n in np.unique(gpus):
        at = gpus == n
        out[at] = ref.collective_us(roof, gpus=int(n), payload=size[at])
    return out


def _newest_nccl(system: str) -> Any:
    """Newest table that has all-reduce rows (the oldest ones lack them)."""
    for skip in range(5):
        table = newest(system, "comm", "nccl", "nccl_perf", skip=skip)
        if table is None:
            return None
        if (table.frame["op_name"] == "all_reduce").any():
            return table
    return None


def deepep_samples(system: str, roof: Roofline) -> tuple[list[Samples], int]:
    """DeepEP kernels of one scale-up domain, and relative to the formula over ConnectX-7 beyond it."""
    out: list[Samples] = []
    ranks = _DEEPEP_RANKS.get(system, 8)
    for name, stem in (("ll", "wideep_deepep_ll_perf"), ("ht", "wideep_deepep_normal_perf")):
        table = newest(system, "comm", "sglang", stem)
        if table is not None:
            out += _domain(table, name, roof)
    # one set of multi-node measurements, published under both Hopper systems
    name = "comm/sglang/0.5.6.post2/wideep_deepep_{}_perf"
    if system in {"h100_sxm", "h200_sxm"}:
        for short, word in (("ll", "ll"), ("ht", "normal")):
            path = name.format(word)
            if (systems_folder() / "data" / "h200_sxm" / f"{path}.parquet").is_file():
                out += _nodes(read(path, "h200_sxm"), short, roof)
    return out, ranks


def _kernel_columns(rows: Any, name: str, phase: str) -> FloatArray:
    if name == "ll":
        return np.asarray(rows[f"{phase}_avg_t_us"].to_numpy(dtype=np.float64))
    return np.asarray((rows[f"{phase}_transmit_us"] + rows[f"{phase}_notify_us"]).to_numpy(dtype=np.float64))


def _domain(table: Any, name: str, roof: Roofline) -> list[Samples]:
    out = []
    for phase in ("dispatch", "combine"):
        rows = table.frame[table.frame["node_num"] == 1]
        if name == "ht":
            rows = rows[rows[f"{phase}_sms"] == _SMS]
            rows = rows[rows["num_token"] <= 65536]
        hidden, top_k, tokens = _columns(rows, "hidden_size", "num_topk", "num_token")
        us = _kernel_columns(rows, name, phase)
        reference = np.empty(len(rows))
        for i in range(len(rows)):
            copy = (
                2.0 * hidden[i]
                if phase == "combine"
                else work.exchange_bytes(WeightFormat.FP8_BLOCK, int(hidden[i]))
            )
            reference[i] = float(
                ref.exchange_us(roof, bytes_per_token=copy * top_k[i], tokens=tokens[i : i + 1])[0]
            )
        axis = LL_TOKEN_AXIS if name == "ll" else TOKEN_AXIS
        feature = np.stack([hidden, top_k], axis=1)
        out.append(_flat(f"deepep-{name}/{phase}", feature, tokens, us, reference, table, axis))
    return out


def _hopper(roof: Roofline) -> DatasheetOperators:
    """The cluster the multi-node rows were taken on: HGX H100 class with one 400 Gb/s ConnectX-7 per GPU."""
    gpu = GpuProfile(
        id="hgx", name="HGX", vendor=Vendor.NVIDIA, architecture="Hopper", availability=Availability.AVAILABLE,
        memory_gib=80.0, memory_marketing_gb=80.0, hbm_gbps=roof.hbm_gbps,
        peak_tflops={ComputeDtype(k): v for k, v in roof.peak_tflops.items()},
        scale_up=ScaleUp(name="NVLink4", kind=ScaleUpKind.SWITCHED, aggregate_gbps=roof.scale_up_gbps,
                         pairwise_gbps=roof.scale_up_gbps, domain_gpus=8),
        pcie_gbps=64.0, kubernetes=GpuKubernetes(resource="", label_key=""), sources={},
        compute_capability="9.0",
    )  # fmt: skip
    fabric = FabricProfile(
        id="cx7", name="ConnectX-7", kind=FabricKind.INFINIBAND, gbps_per_gpu=50.0, achievable_fraction=0.98,
        latency_us=4.0, rdma=True, gpu_initiated=True, nics_per_gpu=1.0, gbit_per_nic=400.0, sources={},
    )  # fmt: skip
    return DatasheetOperators(gpu, fabric, EngineName.SGLANG)


def _nodes(table: Any, name: str, roof: Roofline) -> list[Samples]:
    base = _hopper(roof)
    backend = All2AllBackend.DEEPEP_LOW_LATENCY if name == "ll" else All2AllBackend.DEEPEP_HIGH_THROUGHPUT
    out = []
    for phase in ("dispatch", "combine"):
        rows = table.frame[(table.frame["node_num"] > 1) & (table.frame["num_experts"] == 256)]
        if name == "ht":
            rows = rows[(rows[f"{phase}_sms"] == rows[f"{phase}_sms"].max()) & (rows["num_token"] <= 65536)]
        nodes, tokens = _columns(rows, "node_num", "num_token")
        reference = np.empty(len(rows))
        for n in np.unique(nodes):
            at = nodes == n
            shape = ExchangeShape(
                ep=int(8 * n), ranks_per_domain=8, hidden=7168, top_k=8.0, experts_total=256,
                fmt=WeightFormat.FP8_BLOCK,
            )  # fmt: skip
            reference[at] = base.kernel_exchange_us(
                backend, shape, tokens=tokens[at], combine=phase == "combine"
            )
        axis = LL_TOKEN_AXIS if name == "ll" else TOKEN_AXIS
        us = _kernel_columns(rows, name, phase)
        out.append(_flat(f"deepep-{name}-nodes/{phase}", nodes, tokens, us, reference, table, axis))
    return out


def nvlink_samples(system: str, roof: Roofline) -> list[Samples]:
    """FlashInfer / TensorRT-LLM NVLink all-to-all of an NVL72 rack (measured on GB200, same switch in GB300)."""
    if system not in {"gb200", "gb300"}:
        return []
    table = newest("gb200", "comm", "trtllm", "trtllm_alltoall_perf")
    if table is None:
        return []
    formats = {"bfloat16": WeightFormat.BF16, "fp8": WeightFormat.FP8_BLOCK, "nvfp4": WeightFormat.NVFP4}
    out = []
    keys = ["num_tokens", "moe_ep_size"]
    for source, side in (("NVLinkOneSided", "one"), ("NVLinkTwoSided", "two")):
        rows = table.frame[table.frame["kernel_source"] == source]
        for op in ("dispatch", "combine"):
            for name, fmt in formats.items():
                part = rows[(rows["op_name"] == f"alltoall_{op}") & (rows["moe_dtype"] == name)]
                if len(part) < 20:
                    continue
                line = part.groupby(keys)["latency"].median()
                if op == "dispatch" and side == "two":
                    prepare = rows[(rows["op_name"] == "alltoall_prepare") & (rows["moe_dtype"] == name)]
                    extra = prepare.groupby(keys)["latency"].median()
                    line = (line + extra).dropna() if len(extra) else line
                merged = line.reset_index()
                tokens, ep, us = _columns(merged, "num_tokens", "moe_ep_size", "latency")
                copy = 2.0 * 7168 if op == "combine" else work.exchange_bytes(fmt, 7168)
                reference = ref.exchange_us(roof, bytes_per_token=copy * 8.0, tokens=tokens)
                key = f"nvlink-{side}/{op}-{fmt.value}"
                out.append(_flat(key, ep, tokens, us * 1e3, reference, table, TOKEN_AXIS))
    return out
