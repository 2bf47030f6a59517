"""Routers by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planner.domain.deployment import RouterKind, RouterPolicy, Scorer
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.simulation.cluster import RouterTiming
from planner.simulation.epp_config import RouterFile, read_epp_config


def llm_d(
    *weights: tuple[str, float], decider: str = "always-disagg-pd-decider", non_cached: int = 0
) -> RouterPolicy:
    """The endpoint picker with the same scorers for both roles."""
    scorers = tuple(Scorer(type=t, weight=w) for t, w in weights)
    return RouterPolicy(
        kind=RouterKind.LLM_D,
        prefill_scorers=scorers,
        decode_scorers=scorers,
        decider=decider,
        decider_parameters={"nonCachedTokens": non_cached} if non_cached else {},
    )


ROUTERS: Mapping[str, RouterPolicy] = {
    "random": RouterPolicy(kind=RouterKind.RANDOM),
    "round-robin": RouterPolicy(kind=RouterKind.ROUND_ROBIN),
    "least-queue": RouterPolicy(kind=RouterKind.LEAST_QUEUE),
    "vllm-dp": RouterPolicy(kind=RouterKind.VLLM_DP),
    "prefix": llm_d(("prefix-cache-scorer", 1.0)),
    "active-request": llm_d(("active-request-scorer", 1.0)),
    "prefix+active-request": llm_d(("prefix-cache-scorer", 3.0), ("active-request-scorer", 2.0)),
    # what the endpoint picker does without a configuration
    "llm-d-default": llm_d(
        ("prefix-cache-scorer", 3.0), ("queue-scorer", 2.0), ("kv-cache-utilization-scorer", 2.0)
    ),
}
"""Named policies; ``llm-d-default`` is what the endpoint picker does without a configuration file."""


def router_named(text: str) -> RouterFile:
    """A preset, a preset with ``@precise`` appended, or the path of an EndpointPickerConfig file."""
    name, _, index = text.partition("@")
    if name in ROUTERS and index in {"", "precise", "approximate"}:
        return RouterFile(ROUTERS[name], RouterTiming(precise_index=index == "precise"))
    path = Path(text)
    if path.suffix in {".yaml", ".yml", ".json"} or path.exists():
        return read_epp_config(path)
    raise InputError(
        Issue(
            code="router.unknown",
            what=f"'{text}' is not a router",
            why="neither a built-in router nor a file",
            fix=did_you_mean(name, ROUTERS),
            where="--router",
        )
    )
