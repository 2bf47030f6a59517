"""EndpointPickerConfig from a RouterPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.domain.deployment import DeploymentPlan, Role, RouterKind, Scorer, Strategy
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.export.dialects import Dialect
from planner.export.objects import to_plain
from planner.export.plugins import PLUGINS, Stage
from planner.export.yaml import Plain, dump_document

# The guides' profiles: wide-ep P/D with approximate prefix routing, wide-ep aggregated.
GUIDE_PREFILL = (
    Scorer(type="prefix-cache-scorer", weight=3.0),
    Scorer(type="queue-scorer", weight=2.0),
    Scorer(type="active-request-scorer", weight=2.0),
)
GUIDE_DECODE = (Scorer(type="active-request-scorer"),)
GUIDE_AGGREGATED = GUIDE_PREFILL


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """A configured plugin; `name` only when two entries share a type."""

    name: str | None = None
    type: str
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """What a profile calls it."""
        return self.name or self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePlugin:
    """Use of a plugin in a profile; the weight belongs to scorers only."""

    plugin_ref: str
    weight: int | float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One scheduling profile."""

    name: str
    plugins: tuple[ProfilePlugin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfig:
    """An EndpointPickerConfig document."""

    api_version: str
    kind: str = "EndpointPickerConfig"
    plugins: tuple[PluginEntry, ...]
    scheduling_profiles: tuple[Profile, ...]

    def plain(self) -> Plain:
        """As JSON-like data."""
        return to_plain(self)

    def text(self) -> str:
        """As the file in the ConfigMap."""
        return dump_document(self.plain())

    @property
    def needs_alpha(self) -> bool:
        """Whether the router must be started with ``--allow-experimental-plugins``."""
        return any(PLUGINS[p.type].alpha for p in self.plugins)


def router_config(plan: DeploymentPlan, dialect: Dialect) -> RouterConfig:
    """The router's configuration for `plan`.

    Raises InputError: ``export.router_plugin_unknown``, ``export.router_parameter_unknown``,
    ``export.router_not_expressible``.
    """
    plugins: list[PluginEntry] = []
    profiles: list[Profile] = []
    if plan.strategy is Strategy.DISAGGREGATED:
        decider = PluginEntry(type=plan.router.decider, parameters=dict(plan.router.decider_parameters))
        plugins += [
            decider,
            PluginEntry(
                type="disagg-profile-handler", parameters={"deciders": {"prefill": decider.reference}}
            ),
        ]
        stages = (
            ("prefill", Role.PREFILL, PluginEntry(type="prefill-filter")),
            ("decode", Role.DECODE, PluginEntry(type="decode-filter")),
        )
        for name, role, role_filter in stages:
            plugins.append(role_filter)
            profiles.append(_profile(name, effective_scorers(plan, role), plan, plugins, first=role_filter))
    else:
        plugins.append(PluginEntry(type="single-profile-handler"))
        profiles.append(
            _profile("default", effective_scorers(plan, Role.AGGREGATED), plan, plugins, first=None)
        )
    _check(plugins)
    return RouterConfig(
        api_version=dialect.router_api, plugins=tuple(plugins), scheduling_profiles=tuple(profiles)
    )


def effective_scorers(plan: DeploymentPlan, role: Role) -> tuple[Scorer, ...]:
    """Plugins of one profile: the policy's own, else what the guides use."""
    policy = plan.router
    if policy.kind is RouterKind.RANDOM:
        return (Scorer(type="random-picker"),)
    if policy.kind is RouterKind.LEAST_QUEUE:
        return (Scorer(type="queue-scorer"),)
    if policy.kind is RouterKind.ROUND_ROBIN:
        raise InputError(
            Issue(
                code="export.router_not_expressible",
                what="router policy 'round-robin'",
                why="the llm-d endpoint picker has no round-robin picker",
                fix="choose llm-d, least-queue or random as the router policy",
            )
        )
    if role is Role.PREFILL:
        return policy.prefill_scorers or GUIDE_PREFILL
    if role is Role.DECODE:
        return policy.decode_scorers or GUIDE_DECODE
    return policy.decode_scorers or GUIDE_AGGREGATED


def _profile(
    name: str,
    scorers: tuple[Scorer, ...],
    plan: DeploymentPlan,
    plugins: list[PluginEntry],
    *,
    first: PluginEntry | None,
) -> Profile:
    used = [ProfilePlugin(plugin_ref=first.reference)] if first else []
    for scorer in scorers:
        parameters = dict(scorer.parameters)
        peak = plan.peak_prefill_tok_s_per_rank
        if scorer.type == "prefix-cache-affinity-filter" and peak is not None:
            parameters.setdefault("peakPrefillThroughput", round(peak))
        entry = _entry(name, scorer.type, parameters, plugins)
        known = PLUGINS.get(scorer.type)
        weight = scorer.weight if known is not None and known.stage is Stage.SCORER else None
        if weight is not None and weight == int(weight):
            weight = int(weight)
        used.append(ProfilePlugin(plugin_ref=entry.reference, weight=weight))
    return Profile(name=name, plugins=tuple(used))


def _entry(
    profile: str, type_: str, parameters: Mapping[str, object], plugins: list[PluginEntry]
) -> PluginEntry:
    """The entry for a plugin: shared when equal, named after the profile when another of its type exists."""
    same_type = [p for p in plugins if p.type == type_]
    for entry in same_type:
        if entry.parameters == parameters:
            return entry
    entry = PluginEntry(name=f"{profile}-{type_}" if same_type else None, type=type_, parameters=parameters)
    plugins.append(entry)
    return entry


def _check(plugins: list[PluginEntry]) -> None:
    issues = []
    for entry in plugins:
        known = PLUGINS.get(entry.type)
        if known is None or known.deprecated:
            instead = known.instead if known else None
            issues.append(
                Issue(
                    code="export.router_plugin_unknown",
                    what=f"router plugin '{entry.type}'",
                    why="deprecated: the router refuses or warns"
                    if known
                    else "the router stops at an unknown type",
                    fix=f"use {instead}" if instead else did_you_mean(entry.type, PLUGINS),
                )
            )
            continue
        issues += [
            Issue(
                code="export.router_parameter_unknown",
                what=f"parameter '{key}' of router plugin '{entry.type}'",
                why="the router decodes parameters strictly and stops at an unknown one",
                fix=did_you_mean(key, known.parameters) if known.parameters else "remove it",
            )
            for key in entry.parameters
            if key not in known.parameters
        ]
    if issues:
        raise InputError(*issues)
