"""Rules on EPLB, dual batch overlap and multi-token prediction."""

from __future__ import annotations

from planner.domain.deployment import All2AllBackend
from planner.domain.hardware import Vendor
from planner.domain.legality.case import RoleCase
from planner.domain.legality.rule import Message, Rule

MAX_REDUNDANT_EXPERTS = 1023
_EPLB_VENDORS = frozenset({Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL})
DBO_BACKENDS = frozenset(
    {
        All2AllBackend.DEEPEP_LOW_LATENCY,
        All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
        All2AllBackend.NIXL_EP,
    }
)
DBO_BACKENDS_AMD = DBO_BACKENDS | {All2AllBackend.ALLGATHER_REDUCESCATTER}


# --- EPLB ---


def _eplb_on(c: RoleCase) -> bool:
    return c.role.eplb is not None


def _eplb_group(c: RoleCase) -> bool:
    return c.moe is not None and c.ep > 1


def _eplb_group_message(c: RoleCase) -> Message:
    return Message(
        f"EPLB with EP {c.ep}",
        "balancing moves whole experts between ranks, so it needs expert parallel over at least two GPUs",
        "turn expert parallel on, or EPLB off",
    )


def _eplb_divides_applies(c: RoleCase) -> bool:
    return c.role.eplb is not None and c.moe is not None and c.ep_on


def _eplb_divides(c: RoleCase) -> bool:
    return c.moe is not None and (c.moe.experts + c.redundant) % c.ep == 0


def _eplb_divides_message(c: RoleCase) -> Message:
    experts = c.moe.experts if c.moe else 0
    fit = -experts % c.ep
    return Message(
        f"{experts} experts + {c.redundant} redundant over EP {c.ep}",
        f"EPLB needs the same number of experts on each rank; {experts + c.redundant} / {c.ep} leaves "
        f"{(experts + c.redundant) % c.ep}",
        f"use {fit} or {fit + c.ep} redundant experts",
    )


def _redundant_range(c: RoleCase) -> bool:
    return 0 <= c.redundant <= MAX_REDUNDANT_EXPERTS


def _redundant_range_message(c: RoleCase) -> Message:
    return Message(
        f"{c.redundant} redundant experts",
        f"the engine accepts 0 to {MAX_REDUNDANT_EXPERTS}",
        "use a number in that range",
    )


def _eplb_vendor(c: RoleCase) -> bool:
    return c.pool.gpu.vendor in _EPLB_VENDORS


def _eplb_vendor_message(c: RoleCase) -> Message:
    return Message(
        f"EPLB on {c.pool.gpu.name}",
        "the engine implements EPLB for CUDA, ROCm and XPU only",
        "turn EPLB off",
    )


# --- DBO ---


def _dbo_on(c: RoleCase) -> bool:
    return c.role.dbo


def _dbo_exchanges(c: RoleCase) -> bool:
    return c.exchanges


def _dbo_exchanges_message(c: RoleCase) -> Message:
    return Message(
        f"DBO with DP {c.dp} and expert parallel {'on' if c.ep_on else 'off'}",
        "there is no expert exchange to hide: DBO needs DP above 1 and expert parallel",
        "use DP above 1 with expert parallel, or turn DBO off",
    )


def _dbo_backends(c: RoleCase) -> frozenset[All2AllBackend]:
    return DBO_BACKENDS_AMD if c.pool.gpu.vendor is Vendor.AMD else DBO_BACKENDS


def _dbo_backend(c: RoleCase) -> bool:
    return c.role.all2all in _dbo_backends(c)


def _dbo_backend_message(c: RoleCase) -> Message:
    return Message(
        f"DBO with backend {c.role.all2all}",
        "microbatches need an asynchronous backend; the engine asserts this at start-up",
        "use one of " + ", ".join(sorted(_dbo_backends(c))) + ", or turn DBO off",
    )


def _dbo_without_drafts(c: RoleCase) -> bool:
    return c.role.speculation is None


def _dbo_without_drafts_message(_: RoleCase) -> Message:
    return Message(
        "DBO together with speculative decoding",
        "the V2 model runner refuses the pair, and in vLLM 0.33 DBO falls back to the V1 runner silently",
        "use one of the two",
    )


def _dbo_not_hybrid(c: RoleCase) -> bool:
    return not c.facts.is_hybrid


def _dbo_not_hybrid_message(_: RoleCase) -> Message:
    return Message(
        "DBO on a model with recurrent layers",
        "the V2 model runner refuses microbatches for hybrid models",
        "turn DBO off",
    )


def _dbo_text_only(c: RoleCase) -> bool:
    return not c.facts.multimodal


def _dbo_text_only_message(_: RoleCase) -> Message:
    return Message(
        "DBO on a model with a vision or audio encoder",
        "the V2 model runner refuses microbatches for multimodal and encoder models",
        "turn DBO off",
    )


def _dbo_without_dcp(c: RoleCase) -> bool:
    return c.dcp == 1


def _dbo_without_dcp_message(c: RoleCase) -> Message:
    return Message(
        f"DBO with DCP {c.dcp}",
        "the V2 model runner refuses microbatches with context parallelism",
        "use DCP 1, or turn DBO off",
    )


# --- MTP ---


def _drafts(c: RoleCase) -> bool:
    return c.role.speculation is not None


def _has_mtp(c: RoleCase) -> bool:
    return c.facts.mtp_layers > 0


def _has_mtp_message(_: RoleCase) -> Message:
    return Message(
        "multi-token prediction on a model without MTP layers",
        "the checkpoint has no module to draft with",
        "turn speculation off",
    )


def _mtp_depth_applies(c: RoleCase) -> bool:
    return c.role.speculation is not None and c.facts.mtp_layers > 0


def _mtp_depth(c: RoleCase) -> bool:
    s = c.role.speculation
    if s is None:
        return True
    return s.draft_tokens >= 1 and (
        s.draft_tokens <= c.facts.mtp_layers or s.draft_tokens % c.facts.mtp_layers == 0
    )


def _mtp_depth_message(c: RoleCase) -> Message:
    layers = c.facts.mtp_layers
    drafted = c.role.speculation.draft_tokens if c.role.speculation else 0
    return Message(
        f"{drafted} drafted tokens with {layers} MTP layers",
        "a depth above the number of MTP layers must be a multiple of it",
        f"draft 1 to {layers} tokens, or a multiple of {layers}",
    )


EXPERT_RULES: tuple[Rule[RoleCase], ...] = (
    Rule(
        code="eplb.group",
        title="EPLB needs an EP group",
        applies=_eplb_on,
        check=_eplb_group,
        message=_eplb_group_message,
    ),
    Rule(
        code="eplb.divides",
        title="EPLB spreads experts evenly",
        applies=_eplb_divides_applies,
        check=_eplb_divides,
        message=_eplb_divides_message,
    ),
    Rule(
        code="eplb.range",
        title="Redundant experts are 0 to 1023",
        applies=_eplb_on,
        check=_redundant_range,
        message=_redundant_range_message,
    ),
    Rule(
        code="eplb.vendor",
        title="EPLB runs on CUDA, ROCm and XPU",
        applies=_eplb_on,
        check=_eplb_vendor,
        message=_eplb_vendor_message,
    ),
    Rule(
        code="dbo.exchange",
        title="DBO needs DP above 1 and expert parallel",
        applies=_dbo_on,
        check=_dbo_exchanges,
        message=_dbo_exchanges_message,
    ),
    Rule(
        code="dbo.backend",
        title="DBO needs an asynchronous backend",
        applies=_dbo_on,
        check=_dbo_backend,
        message=_dbo_backend_message,
    ),
    Rule(
        code="dbo.speculation",
        title="No DBO with speculative decoding",
        applies=_dbo_on,
        check=_dbo_without_drafts,
        message=_dbo_without_drafts_message,
    ),
    Rule(
        code="dbo.hybrid",
        title="No DBO on hybrid models",
        applies=_dbo_on,
        check=_dbo_not_hybrid,
        message=_dbo_not_hybrid_message,
    ),
    Rule(
        code="dbo.multimodal",
        title="No DBO on multimodal models",
        applies=_dbo_on,
        check=_dbo_text_only,
        message=_dbo_text_only_message,
    ),
    Rule(
        code="dbo.dcp",
        title="No DBO with context parallelism",
        applies=_dbo_on,
        check=_dbo_without_dcp,
        message=_dbo_without_dcp_message,
    ),
    Rule(
        code="mtp.absent",
        title="MTP needs MTP layers",
        applies=_drafts,
        check=_has_mtp,
        message=_has_mtp_message,
    ),
    Rule(
        code="mtp.depth",
        title="MTP depth is a multiple of its layers",
        applies=_mtp_depth_applies,
        check=_mtp_depth,
        message=_mtp_depth_message,
    ),
)
