"""Metrics of the llm-d endpoint picker: canonical ``llm_d_epp_`` names and the older ones still in use.

Names: llm-d-router `docs/metrics.md`, 2026-08.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_POOL: Final = ("llm_d_epp_", "inference_pool_")
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "ready_endpoints": ("llm_d_epp_ready_endpoints", "inference_pool_ready_pods"),
    "average_queue": tuple(p + "average_queue_size" for p in _POOL),
    "queue_spread": ("llm_d_epp_std_dev_queue_size",),
    "average_kv_usage": tuple(p + "average_kv_cache_utilization" for p in _POOL),
    "kv_usage_spread": ("llm_d_epp_std_dev_kv_cache_utilization",),
    "prefix_hit_ratio": ("llm_d_epp_prefix_indexer_hit_ratio",),
}
_QUEUES: Final = (
    "llm_d_epp_per_endpoint_queue_size",
    "inference_pool_per_pod_queue_size",
)
_DECISIONS: Final = (
    "llm_d_epp_disagg_decision_total",
    "llm_d_epp_pd_decision_total",
    "llm_d_inference_scheduler_pd_decision_total",
)
_LINE: Final = re.compile(r'^([a-z_]+)(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\})?[ \t]+(\S+)', re.MULTILINE)
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerSample:
    """One scrape of an endpoint picker; None = not reported. `queues` is per endpoint, `decisions` counts per type."""

    ready_endpoints: float | None = None
    average_queue: float | None = None
    queue_spread: float | None = None  # standard deviation over endpoints
    average_kv_usage: float | None = None
    kv_usage_spread: float | None = None
    prefix_hit_ratio: float | None = None
    queues: Mapping[str, float] = field(default_factory=dict)
    decisions: Mapping[str, float] = field(default_factory=dict)


def parse_picker(text: str) -> PickerSample | None:
    """The picker's state; None when the text holds none of its metrics."""
    values: dict[str, float] = {}
    queues: dict[str, float] = {}
    decisions: dict[str, dict[str, float]] = {}
    for name, labels, number in _LINE.findall(text):
        try:
            value = float(number)
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        if name in _QUEUES:
            found = dict(_LABEL.findall(labels))
            endpoint = found.get("model_server_endpoint") or found.get("model_server_pod") or ""
            queues[endpoint] = value
        elif name in _DECISIONS:
            kind = dict(_LABEL.findall(labels)).get("decision_type", "")
            held = decisions.setdefault(name, {})
            held[kind] = held.get(kind, 0.0) + value
        else:
            values[name] = value
    picked = {key: next((values[n] for n in names if n in values), None) for key, names in _NAMES.items()}
    if not queues and not decisions and all(v is None for v in picked.values()):
        return None
    best = next((decisions[n] for n in _DECISIONS if n in decisions), {})
    return PickerSample(**picked, queues=queues, decisions=best)
