"""Samples of dense and grouped expert GEMMs.

Semantics of ``moe_perf``: `num_tokens` counts tokens of the whole EP group in every framework; one rank's kernel is
given all of them and computes those routed to its experts. Two consequences, both undone here:

- kernels that take gathered tokens walk the foreign rows too (vLLM and SGLang fused kernels, not TensorRT-LLM's
  cutlass path): a cost per foreign row, estimated at wide EP and moved to the all-gather exchange;
- the DeepSeek-V3 gate selects groups first, and the collector's "balanced" logits tie between groups: four of the
  eight choices of every token then fall on the first experts of rank 0. Rows where that matters are left out.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from planner.domain.dtypes import WeightFormat
from planner.perf.operators import reference as ref
from planner.perf.operators.base import ExpertShape, FloatArray
from planner.perf.operators.fit.grid import Samples
from planner.perf.operators.fit.tables import Table, newest
from planner.perf.operators.reference import Roofline
from planner.perf.operators.surface import TableSource

FORMATS: Final = {
    "bfloat16": WeightFormat.BF16,
    "fp8": WeightFormat.FP8,
    "fp8_block": WeightFormat.FP8_BLOCK,
    "nvfp4": WeightFormat.NVFP4,
    "int4_wo": WeightFormat.INT4,
    "sq": WeightFormat.INT8,
    "w4a8_mxfp4_mxfp8": WeightFormat.MXFP4,
    "w4a16_mxfp4": WeightFormat.MXFP4,
}
M_AXIS: Final = np.array(
    [
        1,
        2,
        4,
        8,
        16,
        32,
        48,
        64,
        96,
        128,
        192,
        256,
        512,
        768,
        1024,
        1536,
        2048,
        3072,
        4096,
        8192,
        16384,
        32768,
    ],
    dtype=np.float64,
)
SLOT_AXIS: Final = np.array(
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072],
    dtype=np.float64,
)
_TIED_GATE: Final = (7168, 2048, 256, 8)  # hidden, intermediate, experts, top-k of the group-limited gate
_TIED_TOKENS: Final = 32
_WIDE_EP: Final = 16
_MIN_LATENCY_TOKENS: Final = 64


def source_of(table: Table, rows: int) -> TableSource:
    """Provenance of a surface before its held-out error is known."""
    return TableSource(
        table=table.name, engine=table.engine, version=table.version, rows=rows,
        heldout_median=None, heldout_p90=None,
    )  # fmt: skip


def gemm_samples(system: str, engine: str, roof: Roofline) -> list[Samples]:
    """Dense GEMM by format. vLLM's fp8_block rows were timed eagerly (55-240 us floor): DeepGEMM rows stand in."""
    own = newest(system, "gemm", engine, "gemm_perf")
    if own is None:
        return []
    out = []
    for name in sorted(own.frame["gemm_dtype"].unique()):
        table = own
        if engine == "vllm" and name == "fp8_block":
            for other in ("sglang", "trtllm"):
                candidate = newest(system, "gemm", other, "gemm_perf")
                if candidate is not None and (candidate.frame["gemm_dtype"] == name).any():
                    table = candidate
                    break
            else:
                continue
        fmt = FORMATS.get(name)
        if fmt is None:
            continue
        rows = table.frame[table.frame["gemm_dtype"] == name]
        n, k, m = (rows[c].to_numpy(dtype=np.float64) for c in ("n", "k", "m"))
        reference = np.empty(len(rows))
        for shape, at in rows.groupby(["n", "k"]).indices.items():
            reference[at] = ref.gemm_us(roof, fmt, n=int(shape[0]), k=int(shape[1]), m=m[at])
        out.append(
            Samples(
                key=f"gemm/{fmt.value}",
                features=np.log2(np.stack([n, k], axis=1)),
                loads=m[:, None],
                measured_us=rows["latency"].to_numpy(dtype=np.float64) * 1e3,
                reference_us=reference,
                offset_us=np.zeros(len(rows)),
                source=source_of(table, len(rows)),
                axes=(M_AXIS,),
            )
        )
    return out


def _expert_rows(system: str, engine: str) -> tuple[Any, Table] | None:
    """Balanced rows of the newest table, completed with shapes only the one before has."""
    import pandas as pd

    newest_table = newest(system, "moe", engine, "moe_perf")
    if newest_table is None:
        return None
    frames = [newest_table.frame]
    older = newest(system, "moe", engine, "moe_perf", skip=1)
    identity = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"]
    if older is not None and engine == "trtllm":
        frames.append(older.frame)
        if len(older.frame) > len(newest_table.frame):
            newest_table = older
    rows = pd.concat(frames, ignore_index=True)
    # experts split both by tensor and by expert parallelism are never planned
    whole = (rows["moe_tp_size"] == 1) | (rows["moe_ep_size"] == 1)
    rows = rows[(rows["distribution"] == "balanced") & whole]
    tied = np.ones(len(rows), dtype=np.bool_)
    for column, value in zip(("hidden_size", "inter_size", "num_experts", "topk"), _TIED_GATE, strict=True):
        tied &= (rows[column] == value).to_numpy()
    minimum = rows["kernel_source"].str.contains("min_latency").to_numpy()
    exposed = (tied & (engine != "trtllm")) | minimum
    spoiled = exposed & ((rows["num_tokens"] > _TIED_TOKENS) | (rows["moe_ep_size"] == 1)).to_numpy()
    spoiled |= minimum & (rows["num_tokens"] > _MIN_LATENCY_TOKENS).to_numpy()
    rows = rows.assign(low=minimum)[~spoiled]
    rows = _with_wide_ep(rows, system, engine)
    # an engine picks its fastest kernel for a shape and load
    rows = rows.groupby([*identity, "num_tokens", "gated", "low"], as_index=False)["latency"].min()
    return rows, newest_table


def _with_wide_ep(rows: Any, system: str, engine: str) -> Any:
    """Replace the tied gate's rows at EP 16 and wider by SGLang's DeepEP expert kernels.

    Those are DeepGEMM's masked grouped GEMMs over routed tokens only, which vLLM calls too with DeepEP.
    """
    import pandas as pd

    wide = newest(system, "moe", "sglang", "wideep_generation_moe_perf")
    if wide is None or engine == "trtllm":
        return rows
    new = wide.frame[(wide.frame["distribution"] == "uniform") & (wide.frame["moe_ep_size"] >= _WIDE_EP)]
    shapes = ("hidden_size", "inter_size", "num_experts", "topk")
    replaced = (rows["moe_dtype"] == "fp8_block") & (rows["moe_ep_size"] >= _WIDE_EP)
    for column, value in zip(shapes, _TIED_GATE, strict=True):
        replaced &= rows[column] == value
        new = new[new[column] == value]
    return pd.concat([rows[~replaced], new.assign(gated=True, low=False)], ignore_index=True)[rows.columns]


def _mark_gated(table: Table) -> None:
    kernels = table.frame["kernel_source"].astype(str)
    widths = list(zip(table.frame["hidden_size"], table.frame["inter_size"], strict=True))
    # Nemotron experts have two matrices; SGLang and vLLM name their kernels the same as gated ones
    plain = {(2688, 1856), (1024, 2688), (2048, 5120), (4096, 2688), (8192, 5120)}
    table.frame["gated"] = ~(
        kernels.str.contains("nongated").to_numpy(dtype=np.bool_) | np.array([w in plain for w in widths])
    )


def foreign_row_us_per_kib(rows: Any) -> tuple[float, FloatArray]:
    """Cost of a foreign row per KiB of bf16 hidden, and the correction in us of every row.

    From the growth between the two largest token counts at the widest EP, less the growth the rank's own slots cost
    at narrow EP.
    """
    keys = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "gated", "low"]
    correction = np.zeros(len(rows))
    rates = []
    for shape, at in rows.groupby(keys).indices.items():
        g = rows.iloc[at]
        if g["moe_ep_size"].max() < 16 or g["num_tokens"].max() < 4096:
            continue
        hidden, top_k, experts = float(shape[1]), float(shape[3]), float(shape[4])
        high, low = g["num_tokens"].max(), g["num_tokens"].max() / 2.0
        slopes = {}
        for ep, h in g.groupby("moe_ep_size"):
            t = h.set_index("num_tokens")["latency"]
            if high in t.index and low in t.index:
                slopes[float(ep)] = float(t[high] - t[low]) * 1e3 / (high - low)
        narrow = [e for e in slopes if e <= 2]
        wide = [e for e in slopes if 16 <= e <= experts / 2]
        if not narrow or not wide or min(slopes[e] for e in narrow) <= 0:
            continue
        per_slot = min(slopes[e] * e for e in narrow) / top_k
        rate = float(np.median([max(slopes[e] - per_slot * top_k / e, 0.0) / (1.0 - 1.0 / e) for e in wide]))
        rate = min(rate, per_slot * top_k)
        rates.append(rate / (hidden / 512.0))
        correction[at] = rate * (g["num_tokens"] * (1.0 - 1.0 / g["moe_ep_size"])).to_numpy()
    return (float(np.median(rates)) if rates else 0.0), correction


def expert_samples(system: str, engine: str, roof: Roofline) -> tuple[list[Samples], float]:
    """Grouped expert GEMMs by format and number of matrices, and the foreign-row cost (us per KiB row)."""
    for skip in (0, 1):
        table = newest(system, "moe", engine, "moe_perf", skip=skip)
        if table is not None and "gated" not in table.frame:
            _mark_gated(table)
    found = _expert_rows(system, engine)
    if found is None:
        return [], 0.0
    rows, table = found
    rate, correction = foreign_row_us_per_kib(rows)
    measured = rows["latency"].to_numpy(dtype=np.float64) * 1e3
    tokens, ep = rows["num_tokens"].to_numpy(dtype=np.float64), rows["moe_ep_size"].to_numpy(dtype=np.float64)
    slots = np.maximum(tokens * rows["topk"].to_numpy() / ep, 1.0)
    keys = [
        "moe_dtype",
        "gated",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
        "low",
    ]
    parts: dict[str, list[tuple[FloatArray, ...]]] = {}
    for shape, at in rows.groupby(keys).indices.items():
        name, gated, hidden, inter, top_k, experts, tp, width, low = shape
        fmt = FORMATS.get(str(name))
        if fmt is None or experts < width:
            continue
        spec = ExpertShape(
            fmt=fmt, hidden=int(hidden), intermediate=int(inter // tp), matrices=3 if gated else 2,
            experts_local=int(experts // width), experts_total=int(experts), top_k=float(top_k),
        )  # fmt: skip
        touched = np.minimum(slots[at], float(spec.experts_local))
        reference = ref.experts_us(roof, spec, slots[at], touched)
        point = np.broadcast_to(ref.expert_features(spec), (len(at), 4))
        key = f"experts{spec.matrices}{'-low' if low else ''}/{fmt.value}"
        parts.setdefault(key, []).append((point, slots[at], measured[at], reference, correction[at]))
    out = []
    for key, groups in sorted(parts.items()):
        point, load, us, reference, offset = (np.concatenate(x) for x in zip(*groups, strict=True))
        # a few shapes carry more correction than time at their largest loads: leave those rows out
        keep = offset < 0.6 * us
        out.append(
            Samples(
                key=key,
                features=point[keep],
                loads=load[keep, None],
                measured_us=us[keep],
                reference_us=reference[keep],
                offset_us=offset[keep],
                source=source_of(table, int(keep.sum())),
                axes=(SLOT_AXIS,),
            )
        )
    return out, rate
