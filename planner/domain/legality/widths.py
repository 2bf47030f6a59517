"""Rules on TP, expert slices, DCP, DP and EP widths."""

from __future__ import annotations

from planner.domain.deployment import Role
from planner.domain.legality.case import RoleCase
from planner.domain.legality.facts import GROUP_WIDTH, Width, bad_split
from planner.domain.legality.rule import Message, Rule, always, numbers

_TP_LIMIT = 64


def _positive(c: RoleCase) -> bool:
    return c.tp >= 1 and c.dp >= 1 and c.dcp >= 1 and c.role.groups >= 1


def _positive_message(c: RoleCase) -> Message:
    return Message(
        f"{c.role.groups} groups of TP {c.tp}, DP {c.dp}, DCP {c.dcp}",
        "every width is at least 1",
        "use 1 for a width that is not wanted",
    )


def _tp_above_one(c: RoleCase) -> bool:
    return c.tp > 1


def _heads(c: RoleCase) -> bool:
    tp = c.tp
    for heads in c.facts.heads:  # noqa: SIM110 - a generator costs three times as much here
        if heads % tp:
            return False
    return True


def _heads_message(c: RoleCase) -> Message:
    heads = next(h for h in c.facts.heads if h % c.tp)
    return Message(
        f"TP {c.tp} does not divide {heads} attention heads",
        "each TP rank holds the same number of heads; vLLM refuses to start otherwise",
        f"use TP {numbers(c.facts.legal_tp(_TP_LIMIT))}",
    )


def _kv_heads(c: RoleCase) -> bool:
    tp = c.tp
    for heads in c.facts.kv_heads:  # noqa: SIM110
        if heads % tp and tp % heads:
            return False
    return True


def _kv_heads_message(c: RoleCase) -> Message:
    heads = next(h for h in c.facts.kv_heads if h % c.tp and c.tp % h)
    return Message(
        f"TP {c.tp} neither divides nor is a multiple of {heads} KV heads",
        "KV heads are split over TP ranks, or each is copied the same number of times",
        f"use TP {numbers(c.facts.legal_tp(_TP_LIMIT))}",
    )


def _mixer_heads(c: RoleCase) -> bool:
    tp = c.tp
    for heads in c.facts.mixer_heads:  # noqa: SIM110
        if heads % tp:
            return False
    return True


def _mixer_heads_message(c: RoleCase) -> Message:
    heads = next(h for h in c.facts.mixer_heads if h % c.tp)
    return Message(
        f"TP {c.tp} does not divide {heads} heads of the recurrent layers",
        "the recurrent state is split by head",
        f"use TP {numbers(c.facts.legal_tp(_TP_LIMIT))}",
    )


def _shards(c: RoleCase) -> bool:
    return c.facts.bad_shard(c.tp, shared_whole=c.scattered) is None


def _shards_message(c: RoleCase) -> Message:
    bad = c.facts.bad_shard(c.tp, shared_whole=c.scattered)
    if bad is None:
        raise AssertionError(c.label)
    why = (
        f"weights are quantised in groups of {bad.group}, and a shard must hold whole groups"
        if bad.group > 1
        else "a sharded dimension must divide by TP"
    )
    return Message(
        f"TP {c.tp} splits the {bad.name} of {bad.size} into {bad.shard:g}",
        why,
        f"use TP {numbers(c.facts.legal_tp(_TP_LIMIT))}",
    )


def _expert_width(c: RoleCase) -> Width:
    if c.moe is None:
        raise AssertionError(c.label)
    return Width("expert intermediate", c.moe.intermediate, GROUP_WIDTH.get(c.facts.expert_format, 1))


def _slices_experts(c: RoleCase) -> bool:
    return c.moe is not None and c.moe_tp > 1


def _expert_slices(c: RoleCase) -> bool:
    return bad_split(_expert_width(c), c.moe_tp) is None


def _expert_slices_message(c: RoleCase) -> Message:
    width = _expert_width(c)
    legal = [w for w in range(1, _TP_LIMIT + 1) if bad_split(width, w) is None]
    why = "without expert parallel every expert is split over TP x DP"
    if width.group > 1:
        why += f", and a slice must be a multiple of {width.group} ({c.facts.expert_format})"
    return Message(
        f"{c.moe_tp} ways split experts of width {width.size} into {width.size / c.moe_tp:g}",
        why,
        f"turn expert parallel on, or use TP x DP of {numbers(legal)}",
    )


def _tp_in_node(c: RoleCase) -> bool:
    return c.tp <= c.node_gpus and c.pod_gpus % c.tp == 0


def _tp_in_node_message(c: RoleCase) -> Message:
    legal = [t for t in range(1, c.node_gpus + 1) if c.node_gpus % t == 0]
    return Message(
        f"TP {c.tp} on nodes of {c.node_gpus} GPUs",
        "a DP rank lives in one pod, so TP must fit into a node and divide its GPUs",
        f"use TP {numbers(legal)}",
    )


# --- DCP ---


def _dcp_on(c: RoleCase) -> bool:
    return c.dcp > 1


def _dcp_gqa(c: RoleCase) -> bool:
    return c.dcp > 1 and not c.facts.is_mla and bool(c.facts.kv_heads)


def _dcp_divides(c: RoleCase) -> bool:
    return c.tp % c.dcp == 0


def _dcp_divides_message(c: RoleCase) -> Message:
    legal = [d for d in range(1, c.tp + 1) if c.tp % d == 0]
    return Message(
        f"DCP {c.dcp} does not divide TP {c.tp}",
        "decode context parallel re-uses the TP ranks",
        f"use DCP {numbers(legal)}",
    )


def _dcp_room(c: RoleCase) -> bool:
    # Stated over the fewest KV heads of the model; the engine tests one number per model.
    kv, heads = c.facts.kv_heads[0], c.facts.heads[-1]
    return c.tp > kv and c.dcp <= c.tp // kv and (heads // kv) % c.dcp == 0


def _dcp_room_message(c: RoleCase) -> Message:
    kv, heads = c.facts.kv_heads[0], c.facts.heads[-1]
    legal = [d for d in range(1, c.tp // kv + 1) if c.tp % d == 0 and (heads // kv) % d == 0]
    return Message(
        f"DCP {c.dcp} with TP {c.tp}, {heads} query heads and {kv} KV heads",
        "with grouped-query attention DCP splits copies of KV heads: TP above the KV heads, DCP at most TP / KV "
        "heads, and DCP dividing the query heads per KV head",
        f"use DCP {numbers(legal)}" if c.tp > kv else f"use TP above {kv}, or DCP 1",
    )


def _dcp_windows(c: RoleCase) -> bool:
    return not c.facts.has_window


def _dcp_windows_message(c: RoleCase) -> Message:
    return Message(
        f"DCP {c.dcp} on a model with sliding-window layers",
        "the engine does not split windowed caches over DCP ranks and stops at start-up",
        "use DCP 1",
    )


def _dcp_transferred(c: RoleCase) -> bool:
    return c.dcp > 1 and c.role.role is not Role.AGGREGATED


def _dcp_whole_tp(c: RoleCase) -> bool:
    return c.dcp == c.tp


def _dcp_whole_tp_message(c: RoleCase) -> Message:
    return Message(
        f"DCP {c.dcp} with TP {c.tp} in a {c.role.role} role",
        "the NIXL connector handles DCP 1 or DCP equal to TP only",
        f"use DCP 1 or {c.tp}",
    )


# --- DP and EP ---


def _is_dense(c: RoleCase) -> bool:
    return c.moe is None


def _no_ep(c: RoleCase) -> bool:
    return not c.ep_on


def _no_ep_message(c: RoleCase) -> Message:
    return Message(
        f"expert parallel on a dense model ({c.label})",
        "there are no experts to place",
        "turn expert parallel off",
    )


def _one_rank(c: RoleCase) -> bool:
    return c.dp == 1


def _one_rank_message(c: RoleCase) -> Message:
    return Message(
        f"DP {c.dp} on a dense model",
        "DP ranks behind one service are for MoE models; dense ranks share nothing",
        f"use DP 1 and {c.dp} times as many groups (replicas)",
    )


def _enough_experts(c: RoleCase) -> bool:
    return c.moe is None or c.ep <= c.moe.experts + c.redundant


def _enough_experts_message(c: RoleCase) -> Message:
    experts = (c.moe.experts if c.moe else 0) + c.redundant
    return Message(
        f"EP {c.ep} for {experts} experts",
        "some ranks would hold no expert",
        f"use TP x DP up to {experts}",
    )


def _ep_on(c: RoleCase) -> bool:
    return c.ep_on


WIDTH_RULES: tuple[Rule[RoleCase], ...] = (
    Rule(
        code="width.positive",
        title="Widths are positive",
        applies=always,
        check=_positive,
        message=_positive_message,
    ),
    Rule(
        code="tp.heads",
        title="TP divides the attention heads",
        applies=_tp_above_one,
        check=_heads,
        message=_heads_message,
    ),
    Rule(
        code="tp.kv-heads",
        title="TP divides the KV heads or copies them evenly",
        applies=_tp_above_one,
        check=_kv_heads,
        message=_kv_heads_message,
    ),
    Rule(
        code="tp.mixer-heads",
        title="TP divides the heads of recurrent layers",
        applies=_tp_above_one,
        check=_mixer_heads,
        message=_mixer_heads_message,
    ),
    Rule(
        code="tp.shards",
        title="TP shards hold whole quantisation groups",
        applies=_tp_above_one,
        check=_shards,
        message=_shards_message,
    ),
    Rule(
        code="tp.node",
        title="TP fits into a node",
        applies=always,
        check=_tp_in_node,
        message=_tp_in_node_message,
    ),
    Rule(
        code="moe.slices",
        title="Expert slices hold whole quantisation groups",
        applies=_slices_experts,
        check=_expert_slices,
        message=_expert_slices_message,
    ),
    Rule(
        code="dcp.divides",
        title="DCP divides TP",
        applies=_dcp_on,
        check=_dcp_divides,
        message=_dcp_divides_message,
    ),
    Rule(
        code="dcp.gqa",
        title="DCP splits copies of KV heads only",
        applies=_dcp_gqa,
        check=_dcp_room,
        message=_dcp_room_message,
    ),
    Rule(
        code="dcp.window",
        title="No DCP with windowed layers",
        applies=_dcp_on,
        check=_dcp_windows,
        message=_dcp_windows_message,
    ),
    Rule(
        code="dcp.transfer",
        title="DCP is 1 or TP where KV is transferred",
        applies=_dcp_transferred,
        check=_dcp_whole_tp,
        message=_dcp_whole_tp_message,
    ),
    Rule(
        code="ep.dense",
        title="Expert parallel needs experts",
        applies=_is_dense,
        check=_no_ep,
        message=_no_ep_message,
    ),
    Rule(
        code="dp.dense",
        title="DP ranks are for MoE models",
        applies=_is_dense,
        check=_one_rank,
        message=_one_rank_message,
    ),
    Rule(
        code="ep.width",
        title="Every EP rank holds an expert",
        applies=_ep_on,
        check=_enough_experts,
        message=_enough_experts_message,
    ),
)
