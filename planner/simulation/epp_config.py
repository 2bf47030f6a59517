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
    if issues:
        raise InputError(*issues)
    return RouterFile(policy, _timing(plugins))


def _from_config_map(path: Path, data: Mapping[str, Any]) -> RouterFile:
    """A ConfigMap holds the file under some key: read the first that is an EndpointPickerConfig."""
    import tempfile

    for text in (data.get("data") or {}).values():
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
            parameters = plugin.get("parameters") or {}
            out.append(Scorer(type=kind, weight=float(weight), parameters=dict(parameters)))
    return tuple(out)


def _decider(plugins: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, int]]:
    for plugin in plugins.values():
        if plugin.get("type") in DECIDERS:
            parameters = plugin.get("parameters") or {}
            return str(plugin["type"]), {str(k): int(v) for k, v in parameters.items() if isinstance(v, int)}
    return "always-disagg-pd-decider", {}


def _timing(plugins: Mapping[str, Mapping[str, Any]]) -> RouterTiming:
    for plugin in plugins.values():
        parameters = plugin.get("parameters") or {}
        if plugin.get("type") == PRECISE:
            return RouterTiming(precise_index=True)
        if plugin.get("type") == APPROXIMATE:
            return RouterTiming(
                index_block_tokens=max(int(parameters.get("blockSizeTokens", MINIMUM_BLOCK)), MINIMUM_BLOCK),
                index_blocks_per_server=int(parameters.get("lruCapacityPerServer", 31250)),
                index_max_tokens=int(parameters.get("maxPrefixTokensToMatch", 131072)),
            )
    return RouterTiming()
