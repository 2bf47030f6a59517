"""Target kustomize: a base for plain InfiniBand nodes and one overlay per provider.

An overlay is the difference between two renderings of the same plan, as JSON patches, so ``kubectl kustomize
overlays/NAME`` gives exactly what ``--provider NAME`` writes. Strategic merge cannot do this for DisaggregatedSet: its
lists have no merge keys outside the cluster and would be replaced whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.domain.errors import InputError
from planner.export.jsonpatch import diff
from planner.export.objects import Manifest
from planner.export.providers import PROVIDERS
from planner.export.render import Prepared, manifests, prepare
from planner.export.targets.base import Export, ExportFile, document_file
from planner.export.yaml import Plain

BASE_PROVIDER = "bare-metal-ib"
_KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def write(prepared: Prepared) -> Export:
    """Base and overlays; a provider that cannot run the plan is left out and named in a note."""
    base = _rendered(prepared, BASE_PROVIDER)
    header = prepared.header()
    files = _base(base, header)
    notes: list[str] = []
    for provider in PROVIDERS:
        if provider.id == BASE_PROVIDER:
            continue
        try:
            files += _overlay(provider.id, base, _rendered(prepared, provider.id), provider.title)
        except InputError as error:
            notes.append(f"overlay {provider.id} left out: {error.issues[0].what}: {error.issues[0].why}")
    return Export(files=tuple(files), stream=None, manifests=base, notes=tuple(notes))


def _rendered(prepared: Prepared, provider: str) -> tuple[Manifest, ...]:
    options = replace(prepared.options, provider=provider, dialect=prepared.dialect.id)
    hardware = {r.plan.role: r.hardware for r in prepared.roles}
    return manifests(prepare(prepared.plan, model=prepared.model, hardware=hardware, options=options))


def _key(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.api_version, manifest.kind, manifest.metadata.name


def _base(base: tuple[Manifest, ...], header: tuple[str, ...]) -> list[ExportFile]:
    names = [m.file_name for m in base]
    top: dict[str, Plain] = {**_KUSTOMIZATION, "resources": list(names)}
    out = [document_file("base/kustomization.yaml", top, header)]
    return out + [document_file(f"base/{m.file_name}", m.plain()) for m in base]


def _overlay(
    name: str, base: tuple[Manifest, ...], wanted: tuple[Manifest, ...], title: str
) -> list[ExportFile]:
    folder = f"overlays/{name}"
    known = {_key(m): m for m in base}
    files: list[ExportFile] = []
    resources: list[Plain] = ["../../base"]
    patches: list[Plain] = []
    for manifest in wanted:
        old = known.pop(_key(manifest), None)
        if old is None:
            resources.append(manifest.file_name)
            files.append(document_file(f"{folder}/{manifest.file_name}", manifest.plain()))
            continue
        operations = diff(old.plain(), manifest.plain())
        if operations:
            file = f"patch-{manifest.file_name}"
            patches.append({"path": file, "target": _target(manifest)})
            files.append(document_file(f"{folder}/{file}", operations))
    for manifest in known.values():
        file = f"remove-{manifest.file_name}"
        gone: dict[str, Plain] = {
            "$patch": "delete",
            "apiVersion": manifest.api_version,
            "kind": manifest.kind,
            "metadata": {"name": manifest.metadata.name},
        }
        patches.append({"path": file, "target": _target(manifest)})
        files.append(document_file(f"{folder}/{file}", gone))
    top: dict[str, Plain] = {**_KUSTOMIZATION, "resources": resources}
    if patches:
        top["patches"] = patches
    return [document_file(f"{folder}/kustomization.yaml", top, (title,)), *files]


def _target(manifest: Manifest) -> dict[str, Plain]:
    group, _, version = manifest.api_version.rpartition("/")
    out: Mapping[str, Plain] = {
        "group": group,
        "version": version,
        "kind": manifest.kind,
        "name": manifest.metadata.name,
    }
    return {k: v for k, v in out.items() if v}
