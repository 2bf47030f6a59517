"""The short notation of a role: ``2x(tp1,dp8,ep,deepep-ht,dbo,eplb+32,kv=fp8,tokens=16384,seqs=64)``.

Only widths are needed; everything else has a default that is the same as the search's. Expert parallel is on where there
are several DP ranks, off in plain tensor parallel, as in the labels of plans: a label means the plan it was printed for.
"""

from __future__ import annotations

import re
from typing import Final

from planner.domain.deployment import All2AllBackend, Eplb, Parallelism, Role, RolePlan, Speculation
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.domain.hardware import Pool, Vendor
from planner.domain.model import ModelSpec

_ROLE: Final = re.compile(r"^\s*(?:(?P<groups>\d+)\s*x\s*)?\(?(?P<body>[^()]*)\)?\s*$")
_WIDTH: Final = re.compile(r"^(?P<name>tp|dp|dcp|ep)(?P<size>\d+)$")
BACKENDS: Final = {
    "ag-rs": All2AllBackend.ALLGATHER_REDUCESCATTER,
    "deepep-ht": All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
    "deepep-ll": All2AllBackend.DEEPEP_LOW_LATENCY,
    "deepep-v2": All2AllBackend.DEEPEP_V2,
    "nvl-1s": All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED,
    "nvl-2s": All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED,
    "mori-ht": All2AllBackend.MORI_HIGH_THROUGHPUT,
    "mori-ll": All2AllBackend.MORI_LOW_LATENCY,
    "nixl-ep": All2AllBackend.NIXL_EP,
}
SHORT_NAMES: Final = {backend: name for name, backend in BACKENDS.items()}
DEFAULT_TOKENS: Final = {Role.PREFILL: 16384, Role.DECODE: 1024, Role.AGGREGATED: 8192}
LOW_LATENCY_TOKENS: Final = 256
EXAMPLE: Final = "2x(tp1,dp8) or 1x(tp1,dp16,deepep-ll,dbo)"


def parse_role(
    text: str, role: Role, *, model: ModelSpec, pool: Pool, flag: str, speculation: Speculation | None = None
) -> RolePlan:
    """The role that `text` describes. Raises InputError ``notation.role`` with every part that is not understood."""
    match = _ROLE.match(text)
    if match is None or not match["body"].strip():
        raise InputError(_bad(text, "it is not of the form GROUPSx(tpT,dpD,…)", flag))
    widths = {"tp": 1, "dp": 1, "dcp": 1}
    expert_parallel: bool | None = None
    claimed_ep: int | None = None
    backend: All2AllBackend | None = None
    kv = model.quantization.kv_cache or KvDtype.FP8
    dbo = False
    redundant: int | None = None
    tokens: int | None = None
    seqs: int | None = None
    unknown: list[str] = []
    for part in (p.strip().lower() for p in match["body"].split(",")):
        width = _WIDTH.match(part)
        if width is not None and width["name"] == "ep":
            expert_parallel, claimed_ep = int(width["size"]) > 1, int(width["size"])
        elif width is not None:
            widths[width["name"]] = int(width["size"])
        elif part in ("ep", "noep"):
            expert_parallel = part == "ep"
        elif part == "dbo":
            dbo = True
        elif part in BACKENDS:
            backend = BACKENDS[part]
        elif part in set(All2AllBackend):
            backend = All2AllBackend(part)
        elif re.fullmatch(r"eplb(\+\d+)?", part):
            redundant = int(part[5:] or 0)
        elif part.startswith("kv=") and part[3:] in set(KvDtype):
            kv = KvDtype(part[3:])
        elif re.fullmatch(r"tokens=\d+", part):
            tokens = int(part[7:])
        elif re.fullmatch(r"seqs=\d+", part):
            seqs = int(part[5:])
        else:
            unknown.append(part)
    if unknown or min(widths.values()) < 1 or int(match["groups"] or 1) < 1:
        known = [
            *BACKENDS,
            "tp1",
            "dp8",
            "dcp2",
            "ep",
            "noep",
            "dbo",
            "eplb+32",
            "kv=fp8",
            "tokens=8192",
            "seqs=64",
        ]
        named = ", ".join(f"'{u}' ({did_you_mean(u, known)})" for u in unknown) or "a width or count is 0"
        raise InputError(_bad(text, f"not understood: {named}", flag))
    gpus = widths["tp"] * widths["dp"]
    if expert_parallel is None:
        expert_parallel = model.moe is not None and widths["dp"] > 1
    if claimed_ep is not None and claimed_ep not in (1, gpus):
        raise InputError(
            _bad(text, f"EP is not a free width: with expert parallel on it is TP x DP = {gpus}", flag)
        )
    parallelism = Parallelism(
        tp=widths["tp"], dp=widths["dp"], dcp=widths["dcp"], expert_parallel=expert_parallel
    )
    backend = backend or default_backend(role, parallelism, pool)
    if tokens is None:
        low = backend in (All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP)
        tokens = LOW_LATENCY_TOKENS if low else DEFAULT_TOKENS[role]
    return RolePlan(
        role=role,
        groups=int(match["groups"] or 1),
        parallelism=parallelism,
        gpu=pool.gpu.id,
        node=pool.node.id,
        max_num_seqs=seqs or (min(64, tokens) if role is Role.PREFILL else min(1024, tokens)),
        max_num_batched_tokens=tokens,
        kv_dtype=kv,
        all2all=backend,
        dbo=dbo,
        eplb=Eplb(redundant_experts=redundant) if redundant is not None else None,
        speculation=speculation,
    )


def notation_of(role: RolePlan) -> str:
    """`role` as text that `parse_role` reads back; what the notation cannot say (memory share, block size) is left out."""
    p = role.parallelism
    several = p.dp > 1
    parts = [f"tp{p.tp}", f"dp{p.dp}"]
    parts += [f"dcp{p.dcp}"] if p.dcp > 1 else []
    if p.expert_parallel != several:
        parts.append("ep" if p.expert_parallel else "noep")
    if (p.expert_parallel and several) or role.all2all is not All2AllBackend.ALLGATHER_REDUCESCATTER:
        parts.append(SHORT_NAMES[role.all2all])
    parts += ["dbo"] if role.dbo else []
    parts += [f"eplb+{role.eplb.redundant_experts}"] if role.eplb is not None else []
    parts += [
        f"kv={role.kv_dtype.value}",
        f"tokens={role.max_num_batched_tokens}",
        f"seqs={role.max_num_seqs}",
    ]
    return f"{role.groups}x({','.join(parts)})"


def default_backend(role: Role, p: Parallelism, pool: Pool) -> All2AllBackend:
    """The engine documentation's own split: high throughput for prefill, low latency for decode, across nodes."""
    if not p.expert_parallel or p.dp == 1 or p.gpus <= pool.gpus_per_node:
        return All2AllBackend.ALLGATHER_REDUCESCATTER
    if pool.scale_up_gpus > pool.gpus_per_node and pool.gpu.vendor is Vendor.NVIDIA:
        return All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED
    amd = pool.gpu.vendor is Vendor.AMD
    if role is Role.PREFILL:
        return All2AllBackend.MORI_HIGH_THROUGHPUT if amd else All2AllBackend.DEEPEP_HIGH_THROUGHPUT
    return All2AllBackend.MORI_LOW_LATENCY if amd else All2AllBackend.DEEPEP_LOW_LATENCY


def _bad(text: str, why: str, flag: str) -> Issue:
    return Issue(
        code="notation.role", what=f"{flag} {text}", why=why, fix=f"write it like {EXAMPLE}", where=flag
    )
