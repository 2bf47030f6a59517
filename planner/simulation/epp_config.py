"""A router policy from an EndpointPickerConfig file, the configuration of llm-d's endpoint picker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.catalog.documents import Document, read_document
from planner.domain.deployment import RouterKind, RouterPolicy, Scorer
from planner.domain.errors import InputError, Issue, did_you_mean
from planner.simulation.cluster import RouterTiming
from planner.simulation.routing.registry import DECIDERS, PLUGINS, check_policy

PRECISE = "precise-prefix-cache-producer"
APPROXIMATE = "approx-prefix-cache-producer"
MINIMUM_BLOCK = 64
# plugins that decide nothing the simulation does not already know
SILENT = frozenset(
    {
        PRECISE, APPROXIMATE, "single-profile-handler", "disagg-profile-handler", "prefill-filter", "decode-filter",
        "encode-filter", "token-producer", "inflight-load-producer", "endpoint-notification-source", "tokenizer",
        "metrics-data-source", "core-metrics-extractor", "disaggregatedset-rollout-screener", "label-selector-filter",
        "disagg-headers-handler", "prefill-header-handler", "pd-profile-handler", "latency-scorer",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RouterFile:
    """Policy and index settings of one file."""

    policy: RouterPolicy
    timing: RouterTiming


def read_epp_config(path: Path) -> RouterFile:
    """Read `path`. Raises `InputError` naming unknown plugins, dangling references, bad parameters and weights."""
    document = read_document(path)
    data = document.data
    issues: list[Issue] = []
    if isinstance(data, Mapping) and data.get("kind") == "ConfigMap":
        return _from_config_map(path, data)
    if not isinstance(data, Mapping) or data.get("kind") != "EndpointPickerConfig":
        kind = data.get("kind") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(
            Issue(
                code="router.file",
                what=f"{path} holds {kind!r}, not an EndpointPickerConfig",
                why="--router reads the configuration of llm-d's endpoint picker",
                fix="give its YAML file, or a router by name",
            )
        )
    plugins = _plugins(document, data, issues)
    profiles = {
        str(p.get("name")): _profile(document, p, plugins, issues) for p in _rows(data, "schedulingProfiles")
    }
    decider, parameters = _decider(plugins)
    only = next(iter(profiles.values()), ())
    policy = RouterPolicy(
        kind=RouterKind.LLM_D,
        prefill_scorers=profiles.get("prefill", ()),
        decode_scorers=profiles.get("decode", only),
        decider=decider,
        decider_parameters=parameters,
    )
    if not profiles:
        issues.append(
            Issue(
                code="router.file",
                what=f"{path} has no schedulingProfiles",
                why="the endpoint picker chooses by profile",
                fix="add a profile that names its plugins",
                where=document.where(()),
            )
        )
    issues += [i for i in check_policy(policy) if i.code != "router.plugin"]
    timing = _timing(document, plugins, issues)
    if issues:
        raise InputError(*issues)
    return RouterFile(policy, timing)


def _from_config_map(path: Path, data: Mapping[str, Any]) -> RouterFile:
    """A ConfigMap holds the file under some key: read the first that is an EndpointPickerConfig."""
    import tempfile

    held = data.get("data")
    for text in held.values() if isinstance(held, Mapping) else ():
        if "EndpointPickerConfig" in str(text):
            with tempfile.TemporaryDirectory() as folder:
                inner = Path(folder) / path.name
                inner.write_text(str(text), encoding="utf-8")
                return read_epp_config(inner)
    raise InputError(
        Issue(
            code="router.file",
            what=f"ConfigMap {path} holds no EndpointPickerConfig",
            why="none of its keys contains one",
            fix="give the ConfigMap of the endpoint picker",
        )
    )


def _rows(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = data.get(key) or []
    return [r for r in value if isinstance(r, Mapping)] if isinstance(value, list) else []


def _plugins(
    document: Document, data: Mapping[str, Any], issues: list[Issue]
) -> dict[str, Mapping[str, Any]]:
    out: dict[str, Mapping[str, Any]] = {}
    known = [*PLUGINS, *DECIDERS, *SILENT]
    for i, row in enumerate(_rows(data, "plugins")):
        kind = str(row.get("type"))
        name = str(row.get("name") or kind)
        if kind not in known:
            issues.append(
                Issue(
                    code="router.plugin",
                    what=f"plugin type '{kind}' is not known",
                    why="its formula is needed to simulate the router",
                    fix=did_you_mean(kind, known),
                    where=document.where(("plugins", i, "type")),
                )
            )
        if name in out:
            issues.append(
                Issue(
                    code="router.plugin",
                    what=f"two plugins are named '{name}'",
                    why="names are unique; a name defaults to the type",
                    fix="name one of them",
                    where=document.where(("plugins", i)),
                )
            )
        parameters = row.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            issues.append(
                Issue(
                    code="router.parameter",
                    what=f"parameters of '{name}' are not a mapping",
                    why="each parameter has a name and a value",
                    fix="write parameters: {NAME: VALUE}",
                    where=document.where(("plugins", i, "parameters")),
                )
            )
            out[name] = {**row, "parameters": {}}
            continue
        out[name] = row
    return out


def _profile(
    document: Document,
    profile: Mapping[str, Any],
    plugins: Mapping[str, Mapping[str, Any]],
    issues: list[Issue],
) -> tuple[Scorer, ...]:
    out = []
    for row in _rows(profile, "plugins"):
        reference = str(row.get("pluginRef"))
        plugin = plugins.get(reference)
        if plugin is None:
            issues.append(
                Issue(
                    code="router.reference",
                    what=f"profile '{profile.get('name')}' refers to '{reference}', which is not defined",
                    why="every pluginRef names an entry of plugins",
                    fix=did_you_mean(reference, plugins) if plugins else "define it under plugins",
                    where=document.name,
                )
            )
            continue
        kind = str(plugin.get("type"))
        if kind in PLUGINS or kind == "latency-scorer":
            weight = row.get("weight", 1.0)
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                issues.append(
                    Issue(
                        code="router.weights",
                        what=f"weight '{weight}' of {reference}",
                        why="a weight is a number",
                        fix="give a weight of 0 or more",
                        where=document.name,
                    )
                )
                weight = 1.0
            parameters = plugin.get("parameters") or {}
            out.append(Scorer(type=kind, weight=float(weight), parameters=dict(parameters)))
    return tuple(out)


def _decider(plugins: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, int]]:
    for plugin in plugins.values():
        if plugin.get("type") in DECIDERS:
            parameters = plugin.get("parameters") or {}
            return str(plugin["type"]), {str(k): int(v) for k, v in parameters.items() if isinstance(v, int)}
    return "always-disagg-pd-decider", {}


def _timing(
    document: Document, plugins: Mapping[str, Mapping[str, Any]], issues: list[Issue]
) -> RouterTiming:
    def whole(parameters: Mapping[str, Any], name: str, default: int) -> int:
        value = parameters.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        issues.append(
            Issue(
                code="router.parameter",
                what=f"{name} '{value}' of {APPROXIMATE}",
                why="it is a positive whole number",
                fix=f"e.g. {name}: {default}",
                where=document.name,
            )
        )
        return default

    for plugin in plugins.values():
        parameters = plugin.get("parameters") or {}
        if plugin.get("type") == PRECISE:
            return RouterTiming(precise_index=True)
        if plugin.get("type") == APPROXIMATE:
            return RouterTiming(
                index_block_tokens=max(whole(parameters, "blockSizeTokens", MINIMUM_BLOCK), MINIMUM_BLOCK),
                index_blocks_per_server=whole(parameters, "lruCapacityPerServer", 31250),
                index_max_tokens=whole(parameters, "maxPrefixTokensToMatch", 131072),
            )
    return RouterTiming()
