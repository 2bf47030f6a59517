"""All documents of a run, sorted: engine roles, pools, router configurations, the rest by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.export.preset_view import preset_engines
from planner.export.values import Table, dig, number, rows, table
from planner.export.view import EngineView
from planner.export.yaml import Document, load_stream


@dataclass(frozen=True)
class PoolView:
    """An InferencePool."""

    document: Document
    name: str
    spec: Table

    @property
    def ports(self) -> tuple[int, ...]:
        """Target ports that are numbers."""
        found = (number(table(p).get("number")) for p in rows(self.spec.get("targetPorts")))
        return tuple(p for p in found if p is not None)

    @property
    def selector(self) -> Mapping[str, str]:
        """Labels of the selected pods."""
        return {str(k): str(v) for k, v in table(dig(self.spec, "selector", "matchLabels")).items()}

    def selects(self, engine: EngineView) -> bool:
        """Whether the serving pods of `engine` belong to the pool."""
        return bool(self.selector) and self.selector.items() <= engine.labels.items()


@dataclass(frozen=True)
class RouterView:
    """An EndpointPickerConfig, wherever it was found."""

    document: Document
    path: str
    config: Table
    image: str = ""  # of the endpoint picker, when its Deployment is there too

    @property
    def plugins(self) -> Sequence[Table]:
        """Plugin entries."""
        return [table(p) for p in rows(self.config.get("plugins"))]

    @property
    def profiles(self) -> Sequence[Table]:
        """Scheduling profiles."""
        return [table(p) for p in rows(self.config.get("schedulingProfiles"))]


@dataclass(frozen=True)
class Bundle:
    """All documents of one lint or import run."""

    documents: tuple[Document, ...]
    engines: tuple[EngineView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    routers: tuple[RouterView, ...] = ()
    others: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[Document, ...]:
        """Documents of one kind."""
        return self.others.get(kind, ())

    @property
    def prefill(self) -> tuple[EngineView, ...]:
        """Prefill engines."""
        return tuple(e for e in self.engines if e.role == "prefill")

    @property
    def decode(self) -> tuple[EngineView, ...]:
        """Decode engines."""
        return tuple(e for e in self.engines if e.role == "decode")

    @property
    def disaggregated(self) -> bool:
        """Whether there are prefill and decode engines."""
        return bool(self.prefill and self.decode)


def bundle(documents: Sequence[Document], *, presets: bool = False) -> Bundle:
    """Sort documents into views.

    `presets` also reads objects whose pods are completed elsewhere (LLMInferenceService, chart values); the linter leaves
    them out, because what is missing there is not missing in the pods.
    """
    engines: list[EngineView] = []
    pools: list[PoolView] = []
    routers: list[RouterView] = []
    others: dict[str, list[Document]] = {}
    epp_image = ""
    for d in documents:
        kind = str(d.value.get("kind"))
        others.setdefault(kind, []).append(d)
        spec = table(d.value.get("spec"))
        if kind in ("DisaggregatedSet", "LeaderWorkerSet", "Deployment"):
            engines += [e for e in _engines(d, kind, spec) if e.is_engine]
        elif kind == "InferencePool":
            pools.append(PoolView(d, name_of(d), spec))
        if presets:
            engines += preset_engines(d)
        epp_image = _epp_image(spec) or epp_image
        routers += _routers(d)
    return Bundle(
        documents=tuple(documents),
        engines=tuple(engines),
        pools=tuple(pools),
        routers=tuple(RouterView(r.document, r.path, r.config, r.image or epp_image) for r in routers),
        others={k: tuple(v) for k, v in others.items()},
    )


def name_of(document: Document) -> str:
    """metadata.name, or a placeholder."""
    return str(dig(document.value, "metadata", "name") or "(unnamed)")


def _engines(document: Document, kind: str, spec: Table) -> Iterator[EngineView]:
    name = name_of(document)
    if kind == "DisaggregatedSet":
        for i, raw in enumerate(rows(spec.get("roles"))):
            role = table(raw)
            yield _lws_view(
                document,
                kind,
                name,
                str(role.get("name")),
                table(role.get("spec")),
                f"$.spec.roles[{i}].spec",
            )
    elif kind == "LeaderWorkerSet":
        yield _lws_view(document, kind, name, None, spec, "$.spec")
    else:
        replicas = number(spec.get("replicas"))
        yield EngineView(
            document=document,
            kind=kind,
            name=name,
            role_name=None,
            spec=spec,
            template=table(spec.get("template")),
            template_path="$.spec.template",
            leader_template=None,
            replicas=1 if replicas is None else replicas,
            size=1,
        )


def _lws_view(
    document: Document, kind: str, name: str, role: str | None, spec: Table, path: str
) -> EngineView:
    group = table(spec.get("leaderWorkerTemplate"))
    replicas = number(spec.get("replicas"))
    return EngineView(
        document=document,
        kind=kind,
        name=name,
        role_name=role,
        spec=spec,
        template=table(group.get("workerTemplate")),
        template_path=f"{path}.leaderWorkerTemplate.workerTemplate",
        leader_template=table(group["leaderTemplate"]) if group.get("leaderTemplate") else None,
        replicas=1 if replicas is None else replicas,
        size=number(group.get("size")) or 1,
    )


def _epp_image(spec: Table) -> str:
    for raw in rows(dig(spec, "template", "spec", "containers")):
        container = table(raw)
        if container.get("name") == "epp" or "endpoint-picker" in str(container.get("image")):
            return str(container.get("image"))
    return ""


def _routers(document: Document) -> Iterator[RouterView]:
    value = document.value
    if value.get("kind") == "EndpointPickerConfig":
        yield RouterView(document, "$", value)
        return
    inline = table(dig(value, "spec", "router", "scheduler", "config", "inline"))
    if inline:
        yield RouterView(document, "$.spec.router.scheduler.config.inline", inline)
        return
    if value.get("kind") == "ConfigMap":
        yield from _embedded(document, table(value.get("data")), "$.data")
        return
    custom = table(dig(value, "router", "epp", "pluginsCustomConfig"))
    tag = dig(value, "router", "epp", "image", "tag")
    for found in _embedded(document, custom, "$.router.epp.pluginsCustomConfig"):
        yield RouterView(found.document, found.path, found.config, f"epp:{tag}" if tag else "")


def _embedded(document: Document, data: Table, path: str) -> Iterator[RouterView]:
    for key, text in data.items():
        if not isinstance(text, str) or "EndpointPickerConfig" not in text:
            continue
        for inner in load_stream(text, source=f"{document.source} @ {path}['{key}']"):
            if inner.value.get("kind") == "EndpointPickerConfig":
                yield RouterView(document, f"{path}['{key}']", inner.value)
