"""Rules about prefill and decode as a pair (L09, L10, S04-S06)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.export.lint.core import ERROR, WARNING, Hit, Scene, rule
from planner.export.lint.engine import pod_path, served_model
from planner.export.values import number
from planner.export.view import EngineView

# Families whose cache is one latent that TP cannot shard, for manifests whose model is not in the catalogue.
_MLA = re.compile(r"deepseek|kimi-k2|longcat|glm-?5|r1-0528", re.IGNORECASE)


def _is_mla(scene: Scene, engine: EngineView) -> bool:
    model = served_model(scene, engine)
    return model.is_mla or model.is_hybrid if model is not None else bool(_MLA.search(engine.command.model))


def _pairs(scene: Scene) -> Iterator[tuple[EngineView, EngineView]]:
    for prefill in scene.bundle.prefill:
        for decode in scene.bundle.decode:
            if prefill.command.model == decode.command.model or prefill.name == decode.name:
                yield prefill, decode


@rule(
    "S04",
    ERROR,
    "prefill and decode without a KV connector",
    why="the decode side would compute every prompt again; nothing hands the cache over",
    fix="--kv-transfer-config with NixlConnector, kv_producer on prefill and kv_consumer on decode",
    source="vLLM nixl_connector_usage; AIConfigurator's llm-d output lacks it",
)
def kv_connector(scene: Scene) -> Iterator[Hit]:
    """A connector on both roles, in the right direction."""
    if not scene.bundle.disaggregated:
        return
    for e in (*scene.bundle.prefill, *scene.bundle.decode):
        role = e.kv.get("kv_role")
        wanted = "kv_producer" if e.role == "prefill" else "kv_consumer"
        if not e.kv.get("kv_connector"):
            yield Hit(e.document, pod_path(e), f"{e.label}: no KV connector")
        elif role == "kv_both":
            yield Hit(
                e.document,
                pod_path(e),
                f"{e.label}: kv_both is deprecated for NIXL",
                f"use {wanted}",
                WARNING,
            )
        elif role != wanted:
            yield Hit(e.document, pod_path(e), f"{e.label}: kv_role {role!r}", f"use {wanted}")


@rule(
    "S05",
    ERROR,
    "the NIXL side channel listens on localhost",
    why="VLLM_NIXL_SIDE_CHANNEL_HOST defaults to localhost, and decode cannot reach it from another pod",
    fix="take VLLM_NIXL_SIDE_CHANNEL_HOST from status.podIP on both roles",
    source="vLLM nixl_connector_usage",
)
def side_channel(scene: Scene) -> Iterator[Hit]:
    """Side-channel host set from the pod's address."""
    for e in scene.bundle.engines:
        if "nixl" in str(e.kv).lower() and "VLLM_NIXL_SIDE_CHANNEL_HOST" not in e.env_names:
            yield Hit(
                e.document, f"{pod_path(e)}.containers", f"{e.label}: VLLM_NIXL_SIDE_CHANNEL_HOST is unset"
            )


@rule(
    "S06",
    ERROR,
    "prefill and decode would refuse each other",
    why="the NIXL handshake compares engine, model, KV dtype, hybrid cache manager, drafter and block sizes",
    fix="give both roles the same image, model, KV dtype, speculative method and block size",
    source="vLLM nixl_connector_compatibility",
)
def handshake(scene: Scene) -> Iterator[Hit]:
    """Equal settings on both roles."""
    for p, d in _pairs(scene):
        compared = (
            ("image", p.image, d.image),
            ("model", p.command.model, d.command.model),
            (
                "kv-cache-dtype",
                p.command.text("kv-cache-dtype") or "auto",
                d.command.text("kv-cache-dtype") or "auto",
            ),
            (
                "hybrid KV cache manager",
                str(p.command.has("no-disable-hybrid-kv-cache-manager")),
                str(d.command.has("no-disable-hybrid-kv-cache-manager")),
            ),
            ("speculative method", _drafter(p), _drafter(d)),
        )
        for what, left, right in compared:
            if left != right:
                yield Hit(
                    d.document, pod_path(d), f"{what}: prefill {left or 'none'}, decode {right or 'none'}"
                )
        ours, theirs = (number(e.command.text("block-size")) for e in (p, d))
        if ours is not None and theirs is not None and ours > theirs:
            # NIXL splits a decode block into prefill blocks, never the other way
            yield Hit(d.document, pod_path(d), f"block-size: prefill {ours} is larger than decode {theirs}")


def _drafter(engine: EngineView) -> str:
    config = engine.command.json("speculative-config") or {}
    return str(config.get("method", "")) + str(config.get("model", ""))


@rule(
    "L09",
    ERROR,
    "prefill TP larger than decode TP",
    why="with replicated KV heads the decode side fails at the first transfer; only latent and recurrent caches survive it",
    fix="decode TP >= prefill TP, one dividing the other",
    source="vllm#43523",
)
def tp_direction(scene: Scene) -> Iterator[Hit]:
    """TP sizes of the two roles."""
    for p, d in _pairs(scene):
        small, large = sorted((p.tp, d.tp))
        if large % small:
            yield Hit(
                d.document, pod_path(d), f"prefill tp {p.tp}, decode tp {d.tp}: neither divides the other"
            )
        elif p.tp > d.tp and not _is_mla(scene, p):
            yield Hit(d.document, pod_path(d), f"prefill tp {p.tp} > decode tp {d.tp}")


@rule(
    "L10",
    ERROR,
    "a hybrid model with unequal roles",
    why="page alignment of recurrent layers depends on TP and block size; the handshake fails",
    fix="same TP and the same explicit --block-size on both roles",
    source="vllm#42895, PR #45575",
)
def hybrid_pair(scene: Scene) -> Iterator[Hit]:
    """Hybrid models need equal TP and explicit equal block size."""
    for p, d in _pairs(scene):
        model = served_model(scene, p)
        hybrid = (
            model.is_hybrid
            if model
            else bool(
                re.search(r"qwen3-next|qwen3\.5|nemotron-(h|3)|kimi-linear", p.command.model, re.IGNORECASE)
            )
        )
        if not hybrid:
            continue
        sizes = (p.command.text("block-size"), d.command.text("block-size"))
        if p.tp != d.tp or None in sizes or sizes[0] != sizes[1]:
            yield Hit(d.document, pod_path(d), f"tp {p.tp}/{d.tp}, block size {sizes[0]}/{sizes[1]}")
