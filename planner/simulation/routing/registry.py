"""Names, parameters and defaults of llm-d endpoint-picker plugins, and their translation for the kernels.

A new plugin is one kernel, one code and one line here. Source: llm-d-router at ebab687 (2026-08-22).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from planner.domain.deployment import RouterKind, RouterPolicy, Scorer
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.simulation.routing import codes


class PluginKind(StrEnum):
    """Stage of a scheduling profile."""

    FILTER = "filter"
    SCORER = "scorer"
    PICKER = "picker"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A plugin parameter, its default, and the factor to the kernel's unit."""

    name: str
    default: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin type: kernel code, parameters in kernel order, and parameters that are accepted but change nothing here."""

    code: int
    kind: PluginKind
    parameters: tuple[Parameter, ...] = ()
    ignored: tuple[str, ...] = ()
    needs_prefix: bool = False


_F, _S, _P = PluginKind.FILTER, PluginKind.SCORER, PluginKind.PICKER
_PRODUCER = ("prefixMatchInfoProducerName", "inFlightLoadProducerName")

PLUGINS: Mapping[str, Plugin] = {
    "prefix-cache-affinity-filter": Plugin(
        codes.PREFIX_AFFINITY,
        _F,
        (
            Parameter("affinityThreshold", 0.80),
            Parameter("maxTTFTPenaltyMs", 18000.0, 1e-3),
            Parameter("peakPrefillThroughput", 15928.0),
            Parameter("explorationProbability", 0.0),
        ),
        (*_PRODUCER, "ttftSource"),
        needs_prefix=True,
    ),
    "utilization-filter": Plugin(
        codes.UTILIZATION,
        _F,
        (
            Parameter("maxActiveRequests", math.inf),
            Parameter("maxRunningRequests", math.inf),
            Parameter("maxWaitingRequests", math.inf),
            Parameter("maxKVCacheUtilization", math.inf),
        ),
        ("fallbackOnEmpty",),
    ),
    "prefix-cache-scorer": Plugin(
        codes.PREFIX_CACHE,
        _S,
        (Parameter("matchLengthWeight", 0.0), Parameter("matchLengthScaleTokens", 8192.0)),
        _PRODUCER,
        needs_prefix=True,
    ),
    "precise-prefix-cache-scorer": Plugin(
        codes.PREFIX_CACHE,
        _S,
        (Parameter("matchLengthWeight", 0.0), Parameter("matchLengthScaleTokens", 8192.0)),
        _PRODUCER,
        needs_prefix=True,
    ),
    "queue-scorer": Plugin(codes.QUEUE, _S),
    "running-requests-size-scorer": Plugin(codes.RUNNING_REQUESTS, _S),
    "kv-cache-utilization-scorer": Plugin(codes.KV_USAGE, _S),
    "load-aware-scorer": Plugin(codes.LOAD_AWARE, _S, (Parameter("threshold", 128.0),)),
    "active-request-scorer": Plugin(
        codes.ACTIVE_REQUEST,
        _S,
        (Parameter("idleThreshold", 0.0), Parameter("maxBusyScore", 1.0)),
        ("requestTimeout",),
    ),
    "token-load-scorer": Plugin(
        codes.TOKEN_LOAD, _S, (Parameter("queueThresholdTokens", 4194304.0),), _PRODUCER, needs_prefix=True
    ),
    "no-hit-lru-scorer": Plugin(codes.NO_HIT_LRU, _S, (), (*_PRODUCER, "lruSize"), needs_prefix=True),
    "session-affinity-scorer": Plugin(codes.SESSION_AFFINITY, _S, (), ("headerName", "ttl")),
    "lora-affinity-scorer": Plugin(codes.NEUTRAL, _S),
    "context-length-aware": Plugin(codes.NEUTRAL, _S, (), ("label",)),
    "max-score-picker": Plugin(codes.MAX_SCORE, _P, (), ("maxNumOfEndpoints",)),
    "weighted-random-picker": Plugin(codes.WEIGHTED_RANDOM, _P, (), ("maxNumOfEndpoints",)),
    "random-picker": Plugin(codes.RANDOM_PICK, _P, (), ("maxNumOfEndpoints",)),
}

# the latency scorer needs a predictor side-car; without one llm-d falls back to these three at equal weight
LATENCY_FALLBACK = ("kv-cache-utilization-scorer", "queue-scorer", "prefix-cache-scorer")

DECIDERS: Mapping[str, int] = {
    "always-disagg-pd-decider": codes.ALWAYS,
    "prefix-based-pd-decider": codes.PREFIX_BASED,
}

ROUTERS: Mapping[RouterKind, int] = {
    RouterKind.RANDOM: codes.RANDOM,
    RouterKind.ROUND_ROBIN: codes.ROUND_ROBIN,
    RouterKind.LEAST_QUEUE: codes.LEAST_QUEUE,
    RouterKind.VLLM_DP: codes.VLLM_DP,
    RouterKind.LLM_D: codes.LLM_D,
}


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin as the kernel reads it."""

    code: int
    weight: float
    parameters: tuple[float, float, float, float]


def expand(scorers: Iterable[Scorer]) -> tuple[Scorer, ...]:
    """Replace composite plugins by their parts."""
    out: list[Scorer] = []
    for scorer in scorers:
        if scorer.type == "latency-scorer":
            out += [Scorer(type=t, weight=scorer.weight) for t in LATENCY_FALLBACK]
        else:
            out.append(scorer)
    return tuple(out)


def check_policy(policy: RouterPolicy) -> tuple[Issue, ...]:
    """Everything that is wrong with a router policy."""
    issues: list[Issue] = []
    for role, scorers in (("prefill", policy.prefill_scorers), ("decode", policy.decode_scorers)):
        for scorer in expand(scorers):
            issues += _check_plugin(scorer, role)
        weighted = [s for s in scorers if s.type not in PLUGINS or PLUGINS[s.type].kind is PluginKind.SCORER]
        if weighted and not sum(s.weight for s in weighted) > 0.0:
            issues.append(
                Issue(
                    code="router.weights",
                    what=f"the {role} scorers' weights sum to {sum(s.weight for s in weighted):g}",
                    why="every endpoint would score the same, so the router would pick at random without saying so",
                    fix="give at least one scorer a positive weight, or use the random router",
                )
            )
    if policy.decider not in DECIDERS:
        issues.append(
            Issue(
                code="router.decider",
                what=f"P/D decider '{policy.decider}' is not known",
                why="the simulation needs its rule",
                fix=did_you_mean(policy.decider, DECIDERS),
            )
        )
    return tuple(issues)


def _check_plugin(scorer: Scorer, role: str) -> list[Issue]:
    plugin = PLUGINS.get(scorer.type)
    if plugin is None:
        return [
            Issue(
                code="router.plugin",
                what=f"'{scorer.type}' is not an endpoint-picker plugin that can be simulated",
                why=f"the {role} profile names it, and its formula is not known",
                fix=did_you_mean(scorer.type, [*PLUGINS, "latency-scorer"]),
            )
        ]
    issues = []
    known = {p.name for p in plugin.parameters} | set(plugin.ignored)
    for name, value in scorer.parameters.items():
        if name not in known:
            issues.append(
                Issue(
                    code="router.parameter",
                    what=f"'{name}' is not a parameter of {scorer.type}",
                    why="the endpoint picker decodes parameters strictly and would not start",
                    fix=did_you_mean(name, known) if known else f"{scorer.type} has no parameters",
                )
            )
        elif name not in plugin.ignored and (isinstance(value, str) or not math.isfinite(float(value))):
            issues.append(
                Issue(
                    code="router.parameter",
                    what=f"{scorer.type}.{name} = {value!r}",
                    why="a finite number is needed",
                    fix="give a number",
                )
            )
    if not math.isfinite(scorer.weight) or scorer.weight < 0.0:
        issues.append(
            Issue(
                code="router.weights",
                what=f"weight {scorer.weight:g} of {scorer.type}",
                why="weights are finite and not negative",
                fix="give a weight of 0 or more",
            )
        )
    return issues


def plugin_rows(scorers: Iterable[Scorer]) -> tuple[PluginRow, ...]:
    """Kernel rows of a profile; the policy must have passed `check_policy`."""
    out = []
    for scorer in expand(scorers):
        plugin = PLUGINS[scorer.type]
        values = [float(scorer.parameters.get(p.name, p.default)) * p.factor for p in plugin.parameters]
        padded = (*values, 0.0, 0.0, 0.0, 0.0)[:4]
        out.append(PluginRow(plugin.code, scorer.weight, (padded[0], padded[1], padded[2], padded[3])))
    return tuple(out)


def needs_prefix(policy: RouterPolicy) -> bool:
    """Whether any plugin or the decider looks at prefix matches."""
    scorers = expand((*policy.prefill_scorers, *policy.decode_scorers))
    uses = policy.kind is RouterKind.LLM_D and any(PLUGINS[s.type].needs_prefix for s in scorers)
    return uses or DECIDERS[policy.decider] == codes.PREFIX_BASED


def require(policy: RouterPolicy) -> None:
    """Raise `InputError` with every issue of `policy`, if there are any."""
    issues = check_policy(policy)
    if issues:
        raise InputError(*issues)
