"""Rules about the router's configuration (L06, L08)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.domain.errors import did_you_mean
from planner.export.bundle import RouterView
from planner.export.lint.core import ERROR, WARNING, Hit, Scene, rule
from planner.export.plugins import (
    DEPRECATED_GATES,
    DEPRECATED_PARAMETERS,
    DEPRECATED_TOP_LEVEL,
    FEATURE_GATES,
    PLUGINS,
    TOP_LEVEL,
    Stage,
)
from planner.export.values import Table, dig, number, rows, table


def _hit(router: RouterView, path: str, what: str, fix: str | None = None) -> Hit:
    return Hit(router.document, router.path + path.removeprefix("$"), what, fix)


@rule(
    "L06",
    ERROR,
    "a router configuration that stops the endpoint picker",
    why="it is parsed strictly: unknown or deprecated types, parameters and references end the process at start",
    fix="use the plugin table of the pinned router version",
    source="llm-d-router#1068, PR #1134",
)
def router_config(scene: Scene) -> Iterator[Hit]:
    """Everything the loader checks, before it does."""
    for router in scene.bundle.routers:
        new = scene.router_version(router.image) > (0, 10, 99)
        yield from _top_level(router, new=new)
        names: list[str] = []
        for i, entry in enumerate(router.plugins):
            yield from _plugin(router, i, entry)
            name = str(entry.get("name") or entry.get("type"))
            if name in names:
                yield _hit(router, f"$.plugins[{i}]", f"two plugins are called '{name}'", "give one a name")
            names.append(name)
        yield from _profiles(router, names)
        yield from _handlers(router)


def _top_level(router: RouterView, *, new: bool) -> Iterator[Hit]:
    api = str(router.config.get("apiVersion"))
    if api.startswith("inference.networking"):
        yield _hit(
            router,
            "$.apiVersion",
            f"apiVersion {api} is gone",
            "llm-d.ai/v1alpha1, or llm-d.ai/v1 after v0.10.0",
        )
    elif api == "llm-d.ai/v1" and not new:
        yield _hit(router, "$.apiVersion", "llm-d.ai/v1 needs a router after v0.10.0", "llm-d.ai/v1alpha1")
    elif api not in ("llm-d.ai/v1", "llm-d.ai/v1alpha1"):
        yield _hit(router, "$.apiVersion", f"apiVersion {api}", "llm-d.ai/v1alpha1")
    for key in router.config:
        if key in DEPRECATED_TOP_LEVEL:
            yield _hit(
                router,
                f"$.{key}",
                f"'{key}' is deprecated at the top level",
                "see flowControl and requestHandler",
            )
        elif key not in TOP_LEVEL:
            yield _hit(router, f"$.{key}", f"unknown key '{key}'", did_you_mean(str(key), TOP_LEVEL))
    for gate in rows(router.config.get("featureGates")):
        if gate in DEPRECATED_GATES or gate not in FEATURE_GATES:
            state = "deprecated" if gate in DEPRECATED_GATES else "unknown"
            yield _hit(
                router,
                "$.featureGates",
                f"{state} feature gate '{gate}'",
                did_you_mean(str(gate), FEATURE_GATES),
            )


def _plugin(router: RouterView, i: int, entry: Table) -> Iterator[Hit]:
    where = f"$.plugins[{i}]"
    kind = str(entry.get("type"))
    known = PLUGINS.get(kind)
    for key in entry:
        if key not in ("name", "type", "parameters"):
            yield _hit(router, where, f"unknown key '{key}' in plugin '{kind}'", "name, type, parameters")
    if known is None:
        yield _hit(router, where, f"unknown plugin type '{kind}'", did_you_mean(kind, PLUGINS))
        return
    if known.deprecated:
        yield _hit(router, where, f"deprecated plugin '{kind}'", f"use {known.instead}")
        return
    for key in table(entry.get("parameters")):
        if key in DEPRECATED_PARAMETERS and key not in known.parameters:
            yield _hit(
                router,
                where,
                f"deprecated parameter '{key}' of '{kind}'",
                f"use {DEPRECATED_PARAMETERS[key]}",
            )
        elif key not in known.parameters:
            fix = did_you_mean(str(key), known.parameters) if known.parameters else "it takes none"
            yield _hit(router, where, f"unknown parameter '{key}' of '{kind}'", fix)


def _profiles(router: RouterView, names: Sequence[str]) -> Iterator[Hit]:
    seen: list[str] = []
    for i, profile in enumerate(router.profiles):
        name = str(profile.get("name"))
        if name in seen:
            yield _hit(router, f"$.schedulingProfiles[{i}]", f"two profiles are called '{name}'")
        seen.append(name)
        for j, raw in enumerate(rows(profile.get("plugins"))):
            ref = str(table(raw).get("pluginRef"))
            if ref not in names:
                yield _hit(
                    router,
                    f"$.schedulingProfiles[{i}].plugins[{j}]",
                    f"profile '{name}' refers to '{ref}', which is not defined",
                    did_you_mean(ref, names) if names else None,
                )


def _handlers(router: RouterView) -> Iterator[Hit]:
    handlers = [str(p.get("type")) for p in router.plugins if _stage(p) is Stage.HANDLER]
    if len(handlers) > 1:
        yield _hit(
            router, "$.plugins", f"{len(handlers)} profile handlers: {', '.join(handlers)}", "keep one"
        )
    if "single-profile-handler" in handlers and len(router.profiles) > 1:
        yield _hit(
            router,
            "$.schedulingProfiles",
            f"single-profile-handler with {len(router.profiles)} profiles",
            "keep one profile",
        )
    if not handlers and len(router.profiles) > 1:
        yield _hit(
            router, "$.plugins", "several profiles and no profile handler", "add disagg-profile-handler"
        )
    for i, plugin in enumerate(router.plugins):
        if plugin.get("type") == "disagg-profile-handler":
            for decider in table(dig(plugin, "parameters", "deciders")).values():
                known = [str(p.get("name") or p.get("type")) for p in router.plugins]
                if decider not in known:
                    yield _hit(
                        router,
                        f"$.plugins[{i}]",
                        f"decider '{decider}' is not defined",
                        did_you_mean(str(decider), known),
                    )


def _stage(plugin: Table) -> Stage | None:
    known = PLUGINS.get(str(plugin.get("type")))
    return known.stage if known else None


@rule(
    "L08",
    ERROR,
    "precise prefix routing that never matches",
    why="the index forgets endpoints beyond podCacheSize, needs KV events from the engines and real token ids",
    fix="podCacheSize >= endpoints, --kv-events-config on every engine, token-producer with a render URL, equal block sizes",
    source="llm-d#2201; llm-d-router precise prefix README",
)
def precise_prefix(scene: Scene) -> Iterator[Hit]:
    """What precise prefix routing needs from router and engines."""
    endpoints = sum(e.endpoints for e in scene.bundle.engines)
    for router in scene.bundle.routers:
        for i, plugin in enumerate(router.plugins):
            if plugin.get("type") != "precise-prefix-cache-producer":
                continue
            where = f"$.plugins[{i}].parameters"
            memory = ("parameters", "indexerConfig", "kvBlockIndexConfig", "inMemoryConfig", "podCacheSize")
            size = number(dig(plugin, *memory)) or 10
            if size < endpoints:
                yield _hit(router, where, f"podCacheSize {size} for {endpoints} endpoints")
            tokens = next((p for p in router.plugins if p.get("type") == "token-producer"), None)
            if tokens is None or not dig(tokens, "parameters", "modelName"):
                yield _hit(router, where, "no token-producer with a modelName")
            block = number(dig(plugin, "parameters", "tokenProcessorConfig", "blockSizeTokens")) or 16
            for e in scene.bundle.engines:
                if not e.command.json("kv-events-config"):
                    yield Hit(e.document, f"{e.template_path}.spec", f"{e.label}: no --kv-events-config")
                have = number(e.command.text("block-size"))
                if have is not None and have != block:
                    yield Hit(
                        e.document,
                        f"{e.template_path}.spec",
                        f"{e.label}: block size {have}, the router hashes {block} tokens",
                        None,
                        WARNING,
                    )


@rule(
    "S15",
    ERROR,
    "router and pods disagree about roles",
    why="prefill-filter keeps only pods labelled llm-d.ai/role=prefill; without the label no prefill pod is ever chosen",
    fix="label pods llm-d.ai/role: prefill and decode",
    source="llm-d-router filter README",
)
def role_labels(scene: Scene) -> Iterator[Hit]:
    """Role labels for the filters the configuration uses."""
    for router in scene.bundle.routers:
        used = {str(p.get("type")) for p in router.plugins}
        if "prefill-filter" in used:
            for e in scene.bundle.prefill:
                if e.labels.get("llm-d.ai/role") != "prefill":
                    yield Hit(
                        e.document,
                        f"{e.template_path}.metadata.labels",
                        f"{e.label}: no llm-d.ai/role: prefill",
                    )
        if scene.bundle.disaggregated and "disagg-profile-handler" not in used and router.plugins:
            yield _hit(router, "$.plugins", "prefill and decode pods without a disagg-profile-handler")
