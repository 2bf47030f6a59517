"""Rules between the prefill and decode roles of a disaggregated plan (NIXL hand-over)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import RolePlan
from planner.domain.hardware import FabricKind, Pool
from planner.domain.legality.facts import ModelFacts
from planner.domain.legality.rule import Message, Rule, always


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCase:
    """A prefill and a decode role with their pools."""

    facts: ModelFacts
    prefill: RolePlan
    decode: RolePlan
    prefill_pool: Pool
    decode_pool: Pool

    @property
    def tp(self) -> tuple[int, int]:
        """TP of prefill and decode."""
        return self.prefill.parallelism.tp, self.decode.parallelism.tp


def ranks_per_pod(role: RolePlan, pool: Pool) -> int:
    """DP ranks of one pod: a pod is a node, or the whole group where that is smaller."""
    return max(1, min(role.parallelism.gpus, pool.gpus_per_node) // role.parallelism.tp)


def _tp_ratio(c: PairCase) -> bool:
    p, d = c.tp
    return max(p, d) % min(p, d) == 0


def _tp_ratio_message(c: PairCase) -> Message:
    p, d = c.tp
    hybrid = " (recurrent state moves in whole multiples only)" if c.facts.is_hybrid else ""
    return Message(
        f"prefill TP {p} and decode TP {d}",
        f"one must divide the other for ranks to pair up{hybrid}",
        f"use equal TP, or a multiple of {min(p, d)}",
    )


def _prefill_wider(c: PairCase) -> bool:
    p, d = c.tp
    return p > d


def _merges_heads(c: PairCase) -> bool:
    return c.facts.is_mla or c.facts.is_hybrid


def _merges_heads_message(c: PairCase) -> Message:
    p, d = c.tp
    return Message(
        f"prefill TP {p} above decode TP {d}",
        "a decode rank would have to merge heads from several prefill ranks, which works for latent (MLA) and "
        "recurrent models only",
        f"use decode TP {p} or more, or prefill TP {d} or less",
    )


def _ranks_match(c: PairCase) -> bool:
    return ranks_per_pod(c.prefill, c.prefill_pool) == ranks_per_pod(c.decode, c.decode_pool)


def _ranks_match_message(c: PairCase) -> Message:
    p, d = ranks_per_pod(c.prefill, c.prefill_pool), ranks_per_pod(c.decode, c.decode_pool)
    return Message(
        f"{p} DP ranks in a prefill pod, {d} in a decode pod",
        "one InferencePool serves both roles with one list of target ports, one per rank of a pod",
        f"choose TP and DP so that both pods hold {min(p, d)} or {max(p, d)} ranks",
    )


def _kv_match(c: PairCase) -> bool:
    return c.prefill.kv_dtype is c.decode.kv_dtype


def _kv_match_message(c: PairCase) -> Message:
    return Message(
        f"prefill KV {c.prefill.kv_dtype}, decode KV {c.decode.kv_dtype}",
        "blocks are copied as they are; the handshake compares the cache dtype",
        f"use {c.decode.kv_dtype} for both",
    )


def _blocks_match(c: PairCase) -> bool:
    p, d = c.prefill.block_size, c.decode.block_size
    return p == d or (p < d and d % p == 0 and not c.facts.is_hybrid)


def _blocks_match_message(c: PairCase) -> Message:
    hybrid = (
        "equal for hybrid models"
        if c.facts.is_hybrid
        else "equal, or smaller on the prefill side by a whole factor"
    )
    return Message(
        f"prefill block size {c.prefill.block_size}, decode {c.decode.block_size}",
        f"block sizes must be {hybrid}",
        f"use {c.decode.block_size} for both",
    )


def _drafts_match(c: PairCase) -> bool:
    return (c.prefill.speculation is None) == (c.decode.speculation is None)


def _drafts_match_message(c: PairCase) -> Message:
    on, off = ("decode", "prefill") if c.prefill.speculation is None else ("prefill", "decode")
    return Message(
        f"speculation on the {on} role only",
        "the handshake compares the speculation method; the number of drafted tokens may differ",
        f"turn it on for the {off} role too, or off for both",
    )


def _vendors_match(c: PairCase) -> bool:
    return c.prefill_pool.gpu.vendor is c.decode_pool.gpu.vendor


def _vendors_match_message(c: PairCase) -> Message:
    return Message(
        f"prefill on {c.prefill_pool.gpu.name}, decode on {c.decode_pool.gpu.name}",
        "the handshake compares attention backends, which differ between vendors",
        "use GPUs of one vendor",
    )


def _crosses_nodes(c: PairCase) -> bool:
    gpus = c.prefill.gpus + c.decode.gpus
    return c.prefill_pool is not c.decode_pool or gpus > max(
        c.decode_pool.scale_up_gpus, c.decode_pool.gpus_per_node
    )


def _network(c: PairCase) -> bool:
    return FabricKind.NONE not in (c.prefill_pool.fabric.kind, c.decode_pool.fabric.kind)


def _network_message(c: PairCase) -> Message:
    return Message(
        f"{c.prefill.gpus} prefill and {c.decode.gpus} decode GPUs without a scale-out fabric",
        "the KV cache of each prompt moves from prefill to decode pods on other nodes",
        "name a fabric, or fit both roles into one scale-up domain",
    )


PAIR_RULES: tuple[Rule[PairCase], ...] = (
    Rule(
        code="pair.tp-ratio",
        title="Prefill and decode TP divide one another",
        applies=always,
        check=_tp_ratio,
        message=_tp_ratio_message,
    ),
    Rule(
        code="pair.prefill-tp",
        title="Prefill TP above decode TP needs MLA or a hybrid",
        applies=_prefill_wider,
        check=_merges_heads,
        message=_merges_heads_message,
    ),
    Rule(
        code="pair.ranks",
        title="Prefill and decode pods hold equally many ranks",
        applies=always,
        check=_ranks_match,
        message=_ranks_match_message,
    ),
    Rule(
        code="pair.kv-dtype",
        title="Prefill and decode share the KV dtype",
        applies=always,
        check=_kv_match,
        message=_kv_match_message,
    ),
    Rule(
        code="pair.block-size",
        title="Block sizes are compatible",
        applies=always,
        check=_blocks_match,
        message=_blocks_match_message,
    ),
    Rule(
        code="pair.speculation",
        title="Prefill and decode share the drafter",
        applies=always,
        check=_drafts_match,
        message=_drafts_match_message,
    ),
    Rule(
        code="pair.vendor",
        title="Prefill and decode share the attention backend",
        applies=always,
        check=_vendors_match,
        message=_vendors_match_message,
    ),
    Rule(
        code="pair.fabric",
        title="KV transfer between nodes needs a fabric",
        applies=_crosses_nodes,
        check=_network,
        message=_network_message,
    ),
)
