"""LLMInferenceService as engine roles: the command its presets would run, written out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from planner.export.values import Table, dig, number, rows, table
from planner.export.view import EngineView, literal_env
from planner.export.yaml import Document


def kserve_engines(document: Document) -> Iterator[EngineView]:
    """The decode (or only) workload, and the prefill workload where there is one."""
    spec = table(document.value.get("spec"))
    prefill = table(spec.get("prefill"))
    yield _view(document, spec, spec, "decode" if prefill else "prefill-decode", "$.spec")
    if prefill:
        yield _view(document, spec, prefill, "prefill", "$.spec.prefill")


def _view(document: Document, spec: Table, workload: Table, role: str, path: str) -> EngineView:
    parallel = table(workload.get("parallelism"))
    data, local = number(parallel.get("data")), number(parallel.get("dataLocal"))
    replicas = number(workload.get("replicas"))
    pod = table(workload.get("template"))
    containers = [_with_command(table(c), spec, parallel) for c in rows(pod.get("containers"))]
    labels = {**table(workload.get("labels")), "llm-d.ai/role": role}
    return EngineView(
        document=document,
        kind="LLMInferenceService",
        name=str(dig(document.value, "metadata", "name")),
        role_name=role,
        spec=workload,
        template={"metadata": {"labels": labels}, "spec": {**pod, "containers": containers}},
        template_path=f"{path}.template",
        leader_template=None,
        replicas=1 if replicas is None else replicas,
        size=max(1, (data or 1) // (local or data or 1)),
    )


def _with_command(container: Table, spec: Table, parallel: Table) -> Table:
    """The container with the start command of the presets, when it brings none of its own."""
    if container.get("command") or container.get("name") != "main":
        return container
    served = dig(spec, "model", "name") or str(dig(spec, "model", "uri") or "").removeprefix("hf://")
    words = ["vllm serve /mnt/models", f"--served-model-name {shlex.quote(str(served))}"]
    flags = (
        ("tensor", "tensor-parallel-size"),
        ("pipeline", "pipeline-parallel-size"),
        ("data", "data-parallel-size"),
        ("dataLocal", "data-parallel-size-local"),
    )
    words += [f"--{flag} {parallel[key]}" for key, flag in flags if key in parallel]
    if parallel.get("expert"):
        words.append("--enable-expert-parallel")
    words.append(literal_env(container).get("VLLM_ADDITIONAL_ARGS", ""))
    words += [shlex.quote(str(a)) for a in rows(container.get("args"))]
    return {**container, "command": ["/bin/bash", "-c"], "args": [" ".join(w for w in words if w)]}
