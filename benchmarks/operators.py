"""Cost of operator queries, and how far the datasheet source is from measured curves.

Prints load times, microseconds per query of 60 points, the ratio of the datasheet's answer to the measured curve on
GPUs that have both (what to expect on GPUs that have none), and both against published all-to-all points when the
development data lies beside the repository. Never fails on a clock.
"""

from __future__ import annotations

import csv
import timeit
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from planner.catalog.hardware import load_fabric, load_gpu
from planner.catalog.locate import data_root
from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.engine import EngineName
from planner.domain.model import GqaAttention, MlaAttention
from planner.perf.operators.base import Collective, ExchangeShape, ExpertShape, OperatorSource, OpTime
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.operators.library import load_operators
from planner.perf.operators.surface import load_library

LOADS = np.geomspace(1.0, 16384.0, 60)
BATCH = np.repeat([1.0, 8.0, 32.0, 64.0, 128.0, 256.0], 10)
CONTEXT = np.tile(np.geomspace(64.0, 131072.0, 10), 6)
MLA = MlaAttention(
    heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
)
GQA = GqaAttention(heads=64, kv_heads=4, head_dim=128)
EXPERTS = ExpertShape(
    fmt=WeightFormat.FP8_BLOCK,
    hidden=7168,
    intermediate=2048,
    matrices=3,
    experts_local=32,
    experts_total=256,
    top_k=8,
)
DEVELOPMENT_POINTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "all_to_all_points.csv"


def queries(s: OperatorSource) -> dict[str, Callable[[], OpTime]]:
    shape = ExchangeShape(
        ep=8, ranks_per_domain=8, hidden=7168, top_k=8, experts_total=256, fmt=WeightFormat.FP8_BLOCK
    )
    low = All2AllBackend.DEEPEP_LOW_LATENCY
    return {
        "gemm bf16": lambda: s.gemm(WeightFormat.BF16, n=7168, k=4096, m=LOADS),
        "gemm fp8_block": lambda: s.gemm(WeightFormat.FP8_BLOCK, n=7168, k=4096, m=LOADS),
        "experts fp8_block": lambda: s.experts(EXPERTS, slots=LOADS),
        "gqa decode": lambda: s.attention_decode(GQA, tp=1, kv=KvDtype.FP8, batch=BATCH, context=CONTEXT),
        "mla decode": lambda: s.attention_decode(MLA, tp=1, kv=KvDtype.FP8, batch=BATCH, context=CONTEXT),
        "gqa prefill": lambda: s.attention_prefill(
            GQA, tp=1, kv=KvDtype.BF16, new_tokens=LOADS, prefix=0.0 * LOADS
        ),
        "mla prefill, prefix": lambda: s.attention_prefill(
            MLA, tp=1, kv=KvDtype.BF16, new_tokens=BATCH * 16.0, prefix=CONTEXT
        ),
        "all-reduce": lambda: s.collective(
            Collective.ALL_REDUCE, gpus=4, ranks_per_domain=4, payload_bytes=LOADS * 7168.0, graph=True
        ),
        "dispatch": lambda: s.dispatch(low, shape, tokens=LOADS),
        "combine": lambda: s.combine(low, shape, tokens=LOADS),
    }


def main() -> None:
    folder = data_root() / "profiles" / "operators"
    libraries = sorted({f.stem for f in folder.glob("*.npz")})
    times = []
    for stem in libraries:
        gpu, _, engine = stem.rpartition("-")
        start = perf_counter()
        load_library(folder, gpu, engine)
        times.append((perf_counter() - start) * 1e3)
    size = sum(f.stat().st_size for f in folder.iterdir()) / 1e6
    print(
        f"{len(libraries)} libraries, {size:.2f} MB; load median {np.median(times):.1f} ms, worst {max(times):.1f} ms"
    )
    fabric = load_fabric("ib-ndr400")
    warm: list[float] = []
    print(f"{'query of 60 points':24}{'us':>8}   datasheet over measured: median, 10-90 %")
    ratios: dict[str, list[np.ndarray]] = {}
    for gpu_id in ("h100-sxm", "h200-sxm", "b200-sxm", "gb200", "a100-80-sxm", "l40s"):
        gpu = load_gpu(gpu_id)
        for engine in EngineName:
            best, sheet = load_operators(gpu, fabric, engine), DatasheetOperators(gpu, fabric, engine)
            for (name, measured), guess in zip(queries(best).items(), queries(sheet).values(), strict=True):
                ratios.setdefault(name, []).append(guess().us / measured().us)
    for name, query in queries(load_operators(load_gpu("h200-sxm"), fabric, EngineName.VLLM)).items():
        query()
        us = timeit.timeit(query, number=500) / 500 * 1e6
        warm.append(us)
        r = np.concatenate([x.ravel() for x in ratios[name]])
        low, mid, high = np.quantile(r, [0.1, 0.5, 0.9])
        print(f"{name:24}{us:8.1f}   {mid:.2f}, {low:.2f}-{high:.2f}")
    print(f"mean {np.mean(warm):.1f} us, {60.0 / np.mean(warm):.1f} times faster than 60 us")
    if DEVELOPMENT_POINTS.exists():
        compare_published()


def compare_published() -> None:
    """Published low-latency DeepEP points over ConnectX-7 (EP 16 to 256) beside ours."""
    with DEVELOPMENT_POINTS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    source = load_operators(load_gpu("h800-sxm"), load_fabric("ib-ndr400"), EngineName.VLLM)
    print("published DeepEP low-latency points (128 tokens, hidden 7168): ours / published us")
    for row in rows:
        known = row["library"] == "DeepEP" and row["nic"].startswith("CX7") and row["mode"] == "low_latency"
        if not known or row["latency_us"] == "" or row["tokens_per_rank"] != "128" or float(row["ep"]) <= 8:
            continue
        shape = ExchangeShape(
            ep=int(float(row["ep"])),
            ranks_per_domain=8,
            hidden=7168,
            top_k=8,
            experts_total=256,
            fmt=WeightFormat.FP8_BLOCK,
        )
        call = source.dispatch if row["op"] == "dispatch" else source.combine
        ours = call(All2AllBackend.DEEPEP_LOW_LATENCY, shape, tokens=np.array([128.0])).us[0]
        print(f"  EP{row['ep']:>4} {row['op']:9}{ours:7.0f} / {float(row['latency_us']):.0f}")


if __name__ == "__main__":
    main()
