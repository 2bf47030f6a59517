"""Endpoint-picker plugins of the llm-d router: what exists, what it takes, since when.

Source: llm-d-router at v0.10.0 (August 2026), plugin registry and READMEs; the router decodes parameters strictly, so an
unknown name stops it at start (llm-d-router#1068).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.export.dialects import Version


class Stage(StrEnum):
    """What a plugin does in the scheduling cycle."""

    HANDLER = "handler"
    DECIDER = "decider"
    FILTER = "filter"
    SCORER = "scorer"
    PICKER = "picker"
    PRODUCER = "producer"
    SOURCE = "source"
    SCREENER = "screener"


@dataclass(frozen=True, slots=True)
class Plugin:
    """One registered type. `until` is the router version that dropped it, `instead` what replaces it."""

    type: str
    stage: Stage
    parameters: tuple[str, ...] = ()
    alpha: bool = False
    deprecated: bool = False
    instead: str | None = None
    until: Version | None = None


_S = Stage
PLUGINS: dict[str, Plugin] = {
    p.type: p
    for p in (
        Plugin("single-profile-handler", _S.HANDLER),
        Plugin("disagg-profile-handler", _S.HANDLER, ("stageOrder", "profiles", "deciders")),
        Plugin("always-disagg-pd-decider", _S.DECIDER),
        Plugin("prefix-based-pd-decider", _S.DECIDER, ("nonCachedTokens", "promptTokens")),
        Plugin("prefill-filter", _S.FILTER),
        Plugin("decode-filter", _S.FILTER),
        Plugin("encode-filter", _S.FILTER),
        Plugin("label-selector-filter", _S.FILTER, ("matchLabels", "matchExpressions")),
        Plugin(
            "prefix-cache-affinity-filter",
            _S.FILTER,
            (
                "affinityThreshold",
                "maxTTFTPenaltyMs",
                "ttftSource",
                "peakPrefillThroughput",
                "explorationProbability",
                "prefixMatchInfoProducerName",
                "inFlightLoadProducerName",
            ),
        ),
        Plugin("topology-affinity-filter", _S.FILTER, alpha=True),
        Plugin("utilization-filter", _S.FILTER, alpha=True),
        Plugin("session-affinity-filter", _S.FILTER, alpha=True),
        Plugin(
            "prefix-cache-scorer",
            _S.SCORER,
            ("prefixMatchInfoProducerName", "matchLengthWeight", "matchLengthScaleTokens"),
        ),
        Plugin("queue-scorer", _S.SCORER),
        Plugin("kv-cache-utilization-scorer", _S.SCORER),
        Plugin("running-requests-size-scorer", _S.SCORER),
        Plugin("load-aware-scorer", _S.SCORER, ("threshold",)),
        Plugin("active-request-scorer", _S.SCORER, ("idleThreshold", "maxBusyScore")),
        Plugin("token-load-scorer", _S.SCORER, ("queueThresholdTokens",)),
        Plugin("no-hit-lru-scorer", _S.SCORER),
        Plugin("lora-affinity-scorer", _S.SCORER),
        Plugin("context-length-aware", _S.SCORER),
        Plugin("latency-scorer", _S.SCORER),
        Plugin("max-score-picker", _S.PICKER),
        Plugin("random-picker", _S.PICKER),
        Plugin("weighted-random-picker", _S.PICKER),
        Plugin(
            "approx-prefix-cache-producer",
            _S.PRODUCER,
            ("autoTune", "blockSizeTokens", "maxPrefixTokensToMatch", "lruCapacityPerServer"),
        ),
        Plugin(
            "precise-prefix-cache-producer",
            _S.PRODUCER,
            ("tokenProcessorConfig", "indexerConfig", "kvEventsConfig", "speculativeIndexing"),
        ),
        Plugin("token-producer", _S.PRODUCER, ("modelName", "vllm")),
        Plugin("inflight-load-producer", _S.PRODUCER, ("addEstimatedOutputTokens", "outputRatio")),
        Plugin("endpoint-notification-source", _S.SOURCE),
        Plugin("metrics-data-source", _S.SOURCE, ("scheme", "path", "port")),
        Plugin("core-metrics-extractor", _S.SOURCE, ("defaultEngine",)),
        Plugin("disaggregatedset-rollout-screener", _S.SCREENER, ("mode",), alpha=True),
        Plugin(
            "pd-profile-handler",
            _S.HANDLER,
            deprecated=True,
            instead="disagg-profile-handler",
            until=(0, 9),
        ),
        Plugin("disagg-headers-handler", _S.HANDLER, deprecated=True, instead="disagg-profile-handler alone"),
        Plugin("prefill-header-handler", _S.HANDLER, deprecated=True, instead="disagg-profile-handler alone"),
        Plugin("by-label", _S.FILTER, deprecated=True, instead="label-selector-filter"),
        Plugin("by-label-selector", _S.FILTER, deprecated=True, instead="label-selector-filter"),
        Plugin("tokenizer", _S.PRODUCER, deprecated=True, instead="token-producer", until=(0, 11)),
        Plugin(
            "precise-prefix-cache-scorer",
            _S.SCORER,
            deprecated=True,
            instead="precise-prefix-cache-producer with prefix-cache-scorer",
        ),
        Plugin(
            "data-parallel-profile-handler",
            _S.HANDLER,
            deprecated=True,
            instead="single-profile-handler with one target port per rank",
        ),
    )
}
DEPRECATED_PARAMETERS = {"blockSize": "blockSizeTokens", "deciderPluginName": "deciders.prefill"}
FEATURE_GATES = frozenset({"flowControl", "haPopulateNonLeaderDatastore"})
DEPRECATED_GATES = frozenset({"dataLayer", "enableLegacyMetrics"})
TOP_LEVEL = frozenset(
    {
        "apiVersion",
        "kind",
        "featureGates",
        "plugins",
        "schedulingProfiles",
        "dataLayer",
        "flowControl",
        "requestHandler",
    }
)
DEPRECATED_TOP_LEVEL = frozenset({"saturationDetector", "parser"})
