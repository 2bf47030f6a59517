"""Samples of attention cores: GQA, MLA, sparse and compressed variants, recurrent mixers.

Tables named "module" time a whole attention layer: projections, norms, rope, cache write and core. Their core is the
module less our own GEMM curves of the same engine and less four elementwise passes, so that projections priced as
GEMMs plus the core add up to what was measured. Errors are reported on the measured module time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    Indexer,
    LinearAttention,
    LinearKind,
    MlaAttention,
)
from planner.perf.operators import reference as ref
from planner.perf.operators.base import BoolArray, FloatArray
from planner.perf.operators.fit.dense import source_of
from planner.perf.operators.fit.grid import Samples
from planner.perf.operators.fit.tables import Table, newest
from planner.perf.operators.reference import Roofline

BATCH_AXIS: Final = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], dtype=np.float64)
CONTEXT_AXIS: Final = np.array(
    [1, 16, 64, 256, 1024, 4096, 16384, 65536, 131072, 524288, 1048576], dtype=np.float64
)
GQA_CONTEXT_AXIS: Final = np.array(
    [1, 16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], dtype=np.float64
)
GQA_BATCH_AXIS: Final = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], dtype=np.float64)
CHUNK_AXIS: Final = np.array(
    [1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768], dtype=np.float64
)
_HOST_FLOOR_US: Final = 250.0
_CONV_FLOOR_MS: Final = 0.05
_CONV_MS: Final = 0.003
PASSES_US: Final = 10.0  # norms, rope, residual and cache write, priced as memory passes by the step builder

Gemm = Callable[[WeightFormat, int, int, FloatArray], FloatArray]

_KV: Final = {"bfloat16": KvDtype.BF16, "fp8": KvDtype.FP8, "fp8_e4m3": KvDtype.FP8}
_V3: Final = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
              "v_head_dim": 128}  # fmt: skip
_GLM5: Final = {"q_lora_rank": 2048, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
                "v_head_dim": 256}  # fmt: skip
_HIDDEN: Final = {"DeepSeek-V3": 7168, "DeepSeek-V3.2": 7168, "GLM-5": 6144}


def _numbers(rows: Any, *columns: str) -> tuple[FloatArray, ...]:
    return tuple(rows[c].to_numpy(dtype=np.float64) for c in columns)


def gqa_samples(system: str, engine: str, roof: Roofline) -> list[Samples]:
    """Prefill (single prompts) and decode of grouped-query attention."""
    out = []
    for phase, stem in (("prefill", "context_attention_perf"), ("decode", "generation_attention_perf")):
        table = newest(system, "attention", engine, stem)
        if table is None:
            continue
        rows = table.frame
        if phase == "prefill":
            rows = rows[(rows["batch_size"] == 1) & (rows["step"] == 0)]
        if "window_size" not in rows:
            rows = rows.assign(window_size=0)
        for name, kv in (("bfloat16", KvDtype.BF16), ("fp8", KvDtype.FP8)):
            part = rows[rows["kv_cache_dtype"] == name]
            if phase == "prefill" and name == "fp8" and (part["attn_dtype"] == "fp8").any():
                part = part[part["attn_dtype"] == "fp8"]
            if len(part) < 20:
                continue
            out.append(_gqa(part, table, phase, kv, roof))
    return out


def _gqa(rows: Any, table: Table, phase: str, kv: KvDtype, roof: Roofline) -> Samples:
    batch, isl, step = _numbers(rows, "batch_size", "isl", "step")
    context = step + 1.0
    measured = rows["latency"].to_numpy(dtype=np.float64) * 1e3
    features = np.empty((len(rows), 4))
    reference = np.empty(len(rows))
    groups = rows.groupby(["num_heads", "num_key_value_heads", "head_dim", "window_size"]).indices
    for (heads, kv_heads, dim, window), at in groups.items():
        a = GqaAttention(
            heads=int(heads), kv_heads=int(kv_heads), head_dim=int(dim), window=int(window) or None
        )
        features[at] = ref.attention_features(a, 1)
        if phase == "prefill":
            reference[at] = ref.prefill_us(roof, a, tp=1, kv=kv, new=isl[at], prefix=np.zeros(len(at)))
        else:
            reference[at] = ref.decode_us(roof, a, tp=1, kv=kv, batch=batch[at], context=context[at])
    prefill = phase == "prefill"
    return Samples(
        key=f"gqa-{phase}/{kv.value}",
        features=features,
        loads=isl[:, None] if prefill else np.stack([batch, context], axis=1),
        measured_us=measured,
        reference_us=reference,
        offset_us=np.zeros(len(rows)),
        source=source_of(table, len(rows)),
        axes=(CHUNK_AXIS,) if prefill else (GQA_BATCH_AXIS, GQA_CONTEXT_AXIS),
    )


def _layer_samples(
    rows: Any,
    table: Table,
    phase: str,
    layer: Callable[[Any], Attention],
    by: list[str],
    kv: KvDtype,
    roof: Roofline,
    offset: Callable[[Attention, Any, FloatArray], FloatArray],
) -> Samples | None:
    """Samples of one table whose rows group by `by` into layers; `offset` is what is not core."""
    if phase == "prefill":
        rows = rows[rows["batch_size"] == 1]
        if "step" in rows:
            rows = rows[rows["step"] == 0]
    if len(rows) < 8:
        return None
    batch, isl, step = _numbers(rows, "batch_size", "isl", "step")
    # generation rows hold `step` cached tokens and add one; some collectors count the new one in `step`
    context = np.maximum(np.where(isl > 1, isl, step + (step % 2 == 1)), 1.0) if phase == "decode" else isl
    measured = rows["latency"].to_numpy(dtype=np.float64) * 1e3
    reference, extra = np.empty(len(rows)), np.empty(len(rows))
    features: list[FloatArray] = [np.empty(0)] * len(rows)
    key = ""
    for at in rows.groupby(by).indices.values():
        a = layer(rows.iloc[at[0]])
        key = ref.attention_key(a, kv, phase)
        point = ref.attention_features(a, 1)
        for i in at:
            features[i] = point
        if phase == "prefill":
            reference[at] = ref.prefill_us(roof, a, tp=1, kv=kv, new=isl[at], prefix=np.zeros(len(at)))
            extra[at] = offset(a, rows.iloc[at[0]], isl[at])
        else:
            reference[at] = ref.decode_us(roof, a, tp=1, kv=kv, batch=batch[at], context=context[at])
            extra[at] = offset(a, rows.iloc[at[0]], batch[at])
    keep = np.ones(len(rows), dtype=np.bool_)
    if phase == "prefill":
        # short prompts were timed eagerly: a host-bound floor that says nothing about the kernels
        keep = ~_host_bound(measured, extra)
    # what is left beside the projections is at least a launch
    extra = np.minimum(extra, np.maximum(measured - 4.0, 0.3 * measured))
    if keep.sum() < 8:
        return None
    prefill = phase == "prefill"
    samples = Samples(
        key=key,
        features=np.stack(features),
        loads=isl[:, None] if prefill else np.stack([batch, context], axis=1),
        measured_us=measured,
        reference_us=reference,
        offset_us=extra,
        source=source_of(table, int(keep.sum())),
        axes=(CHUNK_AXIS,) if prefill else (BATCH_AXIS, CONTEXT_AXIS),
    )
    return samples.take(keep)


def _host_bound(measured: FloatArray, offset: FloatArray) -> BoolArray:
    """Rows at a table's flat floor, where that floor is far above what projections and a launch take."""
    floor = float(measured.min())
    if floor < _HOST_FLOOR_US or floor < 2.0 * float(offset.min()):
        return np.zeros(len(measured), dtype=np.bool_)
    return measured < 2.0 * floor


def _latent(
    row: Any, *, glm: bool = False, sparse: bool = False, indexer: Indexer | None = None
) -> MlaAttention:
    dims = _GLM5 if glm else _V3
    return MlaAttention(
        heads=int(row["num_heads"]), q_lora_rank=dims["q_lora_rank"], kv_lora_rank=dims["kv_lora_rank"],
        qk_nope_head_dim=dims["qk_nope_head_dim"], qk_rope_head_dim=dims["qk_rope_head_dim"],
        v_head_dim=dims["v_head_dim"], sparse=sparse, sparse_top_k=2048 if sparse else None, indexer=indexer,
    )  # fmt: skip


def _mla(row: Any) -> Attention:
    return _latent(row)


def mla_samples(system: str, engine: str, roof: Roofline, gemm: Gemm) -> list[Samples]:
    """Dense MLA: TensorRT-LLM core tables plus the absorbed products; module tables for the others."""
    out = []
    for phase in ("prefill", "decode"):
        word = "context" if phase == "prefill" else "generation"
        for name, kv in (("bfloat16", KvDtype.BF16), ("fp8", KvDtype.FP8)):
            if engine == "trtllm":
                table = newest(system, "mla", engine, f"{word}_mla_perf")
                offset = _absorbed(system, engine) if phase == "decode" else _nothing
            elif engine == "sglang":
                table = newest(system, "mla", engine, f"wideep_{word}_mla_perf")
                offset = _projections(gemm)
            else:
                table = newest(system, "mla", engine, f"mla_{word}_module_perf")
                offset = _projections(gemm)
            if table is None:
                continue
            rows = table.frame[table.frame["kv_cache_dtype"] == name]
            if "gemm_type" in rows and (rows["gemm_type"] == "fp8_block").any():
                rows = rows[rows["gemm_type"] == "fp8_block"]
            if engine == "sglang":
                kernels = sorted(rows["kernel_source"].astype(str).unique())
                rows = rows[rows["kernel_source"].astype(str) == (kernels or [""])[0]]
                if phase == "decode":
                    rows = rows.assign(step=rows["isl"])
            samples = _layer_samples(rows, table, phase, _mla, ["num_heads"], kv, roof, offset)
            if samples is not None:
                out.append(samples)
    return out


def _nothing(a: Attention, row: Any, tokens: FloatArray) -> FloatArray:
    del a, row
    return np.zeros_like(tokens)


def _absorbed(system: str, engine: str) -> Callable[[Attention, Any, FloatArray], FloatArray]:
    """Negative offset: the core tables leave out the two absorbed batched products."""
    table = newest(system, "mla_bmm", engine, "mla_bmm_perf")

    def us(a: Attention, row: Any, tokens: FloatArray) -> FloatArray:
        del row
        if table is None or not isinstance(a, MlaAttention):
            return np.zeros_like(tokens)
        rows = table.frame[(table.frame["bmm_dtype"] == "bfloat16") & (table.frame["num_heads"] == a.heads)]
        total = np.zeros_like(tokens)
        for _, part in rows.groupby("op_name"):
            line = part.groupby("num_tokens")["latency"].median()
            total += np.interp(
                np.log(tokens), np.log(line.index.to_numpy(dtype=np.float64)), line.to_numpy() * 1e3
            )
        return -total

    return us


def _projections(gemm: Gemm) -> Callable[[Attention, Any, FloatArray], FloatArray]:
    """Time of an MLA layer's projections and passes; prefill also expands the latent (`kv_b`)."""

    def us(a: Attention, row: Any, tokens: FloatArray) -> FloatArray:
        if not isinstance(a, MlaAttention) or a.q_lora_rank is None:
            return np.zeros_like(tokens)
        model = str(row["model"]) if "model" in row.index else "DeepSeek-V3"
        hidden = next((h for m, h in sorted(_HIDDEN.items(), reverse=True) if m in model), 7168)
        fmt = WeightFormat.FP8_BLOCK if _gemm_type(row) == "fp8_block" else WeightFormat.BF16
        qk = a.qk_nope_head_dim + a.qk_rope_head_dim
        total = gemm(fmt, a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim, hidden, tokens)
        total = total + gemm(fmt, a.heads * qk, a.q_lora_rank, tokens)
        total = total + gemm(fmt, hidden, a.heads * a.v_head_dim, tokens)
        if "context" in str(row["op_name"]) and not a.sparse:
            total = total + gemm(fmt, a.heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank, tokens)
        if a.sparse and a.indexer is not None and a.indexer.owned:
            total = total + gemm(fmt, a.indexer.heads * a.indexer.head_dim, a.q_lora_rank, tokens)
        return total + PASSES_US

    return us


def _gemm_type(row: Any) -> str:
    return str(row["gemm_type"]) if "gemm_type" in row.index else "fp8_block"


def dsa_samples(system: str, engine: str, roof: Roofline, gemm: Gemm) -> list[Samples]:
    """DeepSeek sparse attention (V3.2, GLM-5), with and without an own indexer."""
    out = []
    for phase, word in (("prefill", "context"), ("decode", "generation")):
        table = newest(system, "sparse_attention", engine, f"dsa_{word}_module_perf")
        if table is None:
            continue
        for name, kv in (("bfloat16", KvDtype.BF16), ("fp8", KvDtype.FP8)):
            for shared in (False, True):
                rows = table.frame[table.frame["kv_cache_dtype"] == name]
                rows = rows[rows["op_name"].astype(str).str.contains("skip_indexer") == shared]
                if "gemm_type" in rows and (rows["gemm_type"] == "fp8_block").any():
                    rows = rows[rows["gemm_type"] == "fp8_block"]
                # one row per head count and load: GLM-5 and V3.2 differ little per head; V3.2 is the reference
                rows = rows[rows["architecture"] == "DeepseekV32ForCausalLM"] if not shared else rows

                def layer(row: Any, shared: bool = shared) -> Attention:
                    glm = "Glm" in str(row["architecture"])
                    indexer = Indexer(heads=32 if glm else 64, head_dim=128, top_k=2048, owned=not shared)
                    return _latent(row, glm=glm, sparse=True, indexer=indexer)

                samples = _layer_samples(
                    rows, table, phase, layer, ["architecture", "num_heads"], kv, roof, _projections(gemm)
                )
                if samples is not None:
                    out.append(samples)
    return out


_V4: Final = {
    "Flash": {
        "hidden": 4096,
        "heads": 64,
        "q_lora_rank": 1024,
        "o_lora_rank": 1024,
        "o_groups": 8,
        "top_k": 512,
    },
    "Pro": {
        "hidden": 7168,
        "heads": 128,
        "q_lora_rank": 1536,
        "o_lora_rank": 1024,
        "o_groups": 16,
        "top_k": 1024,
    },
}


def compressed_samples(system: str, engine: str, roof: Roofline, gemm: Gemm) -> list[Samples]:
    """DeepSeek-V4 compressed attention (CSA with indexer, HCA) from module tables."""
    out = []
    for kind, ratio in (("csa", 4), ("hca", 128)):
        for phase, word in (("prefill", "context"), ("decode", "generation")):
            table = newest(system, "sparse_attention", engine, f"dsv4_{kind}_{word}_module_perf")
            if table is None:
                continue
            rows = table.frame

            def layer(row: Any, ratio: int = ratio) -> Attention:
                v4 = _V4["Pro" if "Pro" in str(row["model"]) else "Flash"]
                indexer = Indexer(heads=64, head_dim=128, top_k=v4["top_k"]) if ratio == 4 else None
                return CompressedAttention(
                    heads=int(row["num_heads"]), head_dim=512, rope_dim=64, ratio=ratio, window=128,
                    q_lora_rank=v4["q_lora_rank"], o_lora_rank=v4["o_lora_rank"], o_groups=v4["o_groups"],
                    indexer=indexer,
                )  # fmt: skip

            def offset(a: Attention, row: Any, tokens: FloatArray) -> FloatArray:
                if not isinstance(a, CompressedAttention):
                    return np.zeros_like(tokens)
                v4 = _V4["Pro" if "Pro" in str(row["model"]) else "Flash"]
                fmt, share = WeightFormat.FP8_BLOCK, a.heads / v4["heads"]
                groups = max(int(a.o_groups * share), 1)
                total = gemm(fmt, a.q_lora_rank + a.head_dim, v4["hidden"], tokens)
                total = total + gemm(fmt, a.heads * a.head_dim, a.q_lora_rank, tokens)
                total = total + gemm(
                    WeightFormat.BF16, groups * a.o_lora_rank, a.heads * a.head_dim // groups, tokens
                )
                total = total + gemm(fmt, v4["hidden"], groups * a.o_lora_rank, tokens)
                if a.indexer is not None:
                    total = total + gemm(fmt, a.indexer.heads * a.indexer.head_dim, a.q_lora_rank, tokens)
                return total + PASSES_US

            samples = _layer_samples(
                rows, table, phase, layer, ["model", "num_heads"], KvDtype.FP8, roof, offset
            )
            if samples is not None:
                out.append(samples)
    return out


def msa_samples(system: str, engine: str, roof: Roofline, gemm: Gemm) -> list[Samples]:
    """MiniMax-M3 block-sparse attention from module tables (64 query heads, 4 KV heads, hidden 6144)."""
    out: list[Samples] = []
    if engine == "trtllm":  # its rows time an unfused path that is quadratic at decode
        return out
    for phase, word in (("prefill", "context"), ("decode", "generation")):
        table = newest(system, "msa", engine, f"msa_{word}_module_perf")
        if table is None:
            continue
        for name, kv in (("bfloat16", KvDtype.BF16), ("fp8", KvDtype.FP8)):
            rows = table.frame[table.frame["kv_cache_dtype"] == name]
            if "gemm_type" in rows and (rows["gemm_type"] == "bfloat16").any():
                rows = rows[rows["gemm_type"] == "bfloat16"]

            def layer(row: Any) -> Attention:
                heads = int(row["num_heads"])
                return GqaAttention(
                    heads=heads, kv_heads=max(heads // 16, 1), head_dim=128, sparse_tokens=2048,
                    index_heads=4, extra_kv_elements=128.0,
                )  # fmt: skip

            def offset(a: Attention, row: Any, tokens: FloatArray) -> FloatArray:
                del row
                if not isinstance(a, GqaAttention):
                    return np.zeros_like(tokens)
                qkv = (a.heads + 2 * a.kv_heads) * a.head_dim
                total = gemm(WeightFormat.BF16, qkv, 6144, tokens)
                return total + gemm(WeightFormat.BF16, 6144, a.heads * a.head_dim, tokens) + PASSES_US

            samples = _layer_samples(rows, table, phase, layer, ["num_heads"], kv, roof, offset)
            if samples is not None:
                out.append(samples)
    return out


def linear_samples(system: str, engine: str, roof: Roofline) -> list[Samples]:
    """Recurrent mixers: convolution plus scan (prefill) or update (decode). Mamba2 tables hold the convolution only."""
    out = []
    for kind, family, stem in (
        (LinearKind.GDN, "linear_attention", "gdn_perf"),
        (LinearKind.KDA, "kda", "kda_perf"),
    ):
        table = newest(system, family, engine, stem)
        if table is None:
            continue
        for phase, word in (("prefill", "context"), ("decode", "generation")):
            rows = table.frame[table.frame["phase"] == word]
            if phase == "prefill":
                rows = rows[rows["batch_size"] == 1]
            keys = ["num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "batch_size", "seq_len"]
            conv = rows["kernel_source"].astype(str).str.contains("conv")
            # the engine runs one convolution and its fastest scan; models that share a shape are averaged
            first = rows[conv].groupby(keys)["latency"].median()
            scan = rows[~conv].groupby([*keys, "kernel_source"])["latency"].median().groupby(level=keys).min()
            if len(first) and first.min() > _CONV_FLOOR_MS:
                # launched through a compiled wrapper that the collector timed eagerly
                first = first - first.min() + _CONV_MS
            total = (first + scan).dropna().reset_index()
            if len(total) < 8:
                continue
            out.append(_linear(total, table, phase, kind, roof))
    return out


def _linear(rows: Any, table: Table, phase: str, kind: LinearKind, roof: Roofline) -> Samples:
    load = rows["seq_len" if phase == "prefill" else "batch_size"].to_numpy(dtype=np.float64)
    reference, features = np.empty(len(rows)), np.empty((len(rows), 3))
    for (k_heads, v_heads, k_dim, v_dim), at in rows.groupby(
        ["num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim"]
    ).indices.items():
        a = LinearAttention(
            kind=kind, heads=int(v_heads), key_heads=int(k_heads), key_dim=int(k_dim), value_dim=int(v_dim),
            conv_kernel=4, state_bytes_per_seq=float(linear_state_bytes(v_heads, k_heads, k_dim, v_dim)),
        )  # fmt: skip
        features[at] = ref.attention_features(a, 1)
        if phase == "prefill":
            reference[at] = ref.prefill_us(
                roof, a, tp=1, kv=KvDtype.BF16, new=load[at], prefix=0.0 * load[at]
            )
        else:
            one = np.ones(len(at))
            reference[at] = ref.decode_us(roof, a, tp=1, kv=KvDtype.BF16, batch=load[at], context=one)
    return Samples(
        key=f"{kind.value}-{phase}/state",
        features=features,
        loads=load[:, None],
        measured_us=rows["latency"].to_numpy(dtype=np.float64) * 1e3,
        reference_us=reference,
        offset_us=np.zeros(len(rows)),
        source=source_of(table, len(rows)),
        axes=(CHUNK_AXIS if phase == "prefill" else BATCH_AXIS,),
    )


def linear_state_bytes(v_heads: float, k_heads: float, k_dim: float, v_dim: float) -> float:
    """Recurrent state in float32 plus three bf16 convolution columns, bytes per sequence and layer."""
    return v_heads * k_dim * v_dim * 4.0 + 3.0 * 2.0 * (2.0 * k_heads * k_dim + v_heads * v_dim)
