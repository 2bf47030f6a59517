"""Objects whose pods an operator or a chart completes, as engine roles: the command they would run, written out.

LLMInferenceService (KServe's presets) and values of the llm-d-modelservice chart. Both take parallel sizes as fields and
extra flags as text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from planner.export.values import Table, dig, number, rows, table
from planner.export.view import EngineView, literal_env
from planner.export.yaml import Document

_FLAGS: Mapping[str, str] = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
    "dataLocal": "data-parallel-size-local",
}


def preset_engines(document: Document) -> Iterator[EngineView]:
    """Engine roles of an LLMInferenceService or of chart values; nothing for other documents."""
    value = document.value
    if value.get("kind") == "LLMInferenceService":
        yield from _kserve(document)
    elif "kind" not in value and isinstance(value.get("modelArtifacts"), Mapping):
        yield from _chart(document)


def _kserve(document: Document) -> Iterator[EngineView]:
    spec = table(document.value.get("spec"))
    prefill = table(spec.get("prefill"))
    served = dig(spec, "model", "name") or str(dig(spec, "model", "uri") or "").removeprefix("hf://")
    workloads = [(spec, "decode" if prefill else "prefill-decode", "$.spec")]
    if prefill:
        workloads.append((prefill, "prefill", "$.spec.prefill"))
    name = str(dig(document.value, "metadata", "name"))
    for workload, role, path in workloads:
        parallel = table(workload.get("parallelism"))
        pod = table(workload.get("template"))
        yield _view(
            document,
            name,
            workload,
            pod,
            role=role,
            path=f"{path}.template",
            size=_pods(parallel),
            model=str(served),
        )


def _chart(document: Document) -> Iterator[EngineView]:
    value = document.value
    model = str(dig(value, "modelArtifacts", "name"))
    present = [r for r in ("prefill", "decode") if table(value.get(r)).get("create", r in value)]
    several = bool(value.get("multinode"))
    for role in present:
        workload = table(value[role])
        parallel = table(workload.get("parallelism"))
        workers = number(parallel.get("workers")) or _pods(parallel)
        yield _view(
            document,
            model.rsplit("/", 1)[-1].lower(),
            workload,
            workload,
            role=role if len(present) > 1 else "prefill-decode",
            path=f"$.{role}",
            size=workers if several else 1,
            model=model,
        )


def _pods(parallel: Table) -> int:
    data, local = number(parallel.get("data")), number(parallel.get("dataLocal"))
    return max(1, (data or 1) // (local or data or 1))


def _view(
    document: Document,
    name: str,
    workload: Table,
    pod: Table,
    *,
    role: str,
    path: str,
    size: int,
    model: str,
) -> EngineView:
    parallel = table(workload.get("parallelism"))
    replicas = number(workload.get("replicas"))
    containers = [_with_command(table(c), model, parallel) for c in rows(pod.get("containers"))]
    selector = table(pod.get("nodeSelector")) or _accelerator_labels(workload)
    return EngineView(
        document=document,
        kind=str(document.value.get("kind") or "HelmValues"),
        name=name,
        role_name=role,
        spec=workload,
        template={
            "metadata": {"labels": {**table(workload.get("labels")), "llm-d.ai/role": role}},
            "spec": {**pod, "nodeSelector": selector, "containers": containers},
        },
        template_path=path,
        leader_template=None,
        replicas=1 if replicas is None else replicas,
        size=size,
    )


def _accelerator_labels(workload: Table) -> Table:
    """Node labels of the chart's ``acceleratorTypes`` when there is exactly one value."""
    types = table(workload.get("acceleratorTypes"))
    values = rows(types.get("labelValues"))
    return {str(types["labelKey"]): values[0]} if types.get("labelKey") and len(values) == 1 else {}


def _with_command(container: Table, model: str, parallel: Table) -> Table:
    """The container with the start command it is given later, when it brings none of its own."""
    if container.get("command") or container.get("name") not in ("main", "vllm"):
        return container
    words = ["vllm serve /mnt/models", f"--served-model-name {shlex.quote(model)}"]
    words += [f"--{flag} {parallel[key]}" for key, flag in _FLAGS.items() if key in parallel]
    if parallel.get("expert"):
        words.append("--enable-expert-parallel")
    words.append(literal_env(container).get("VLLM_ADDITIONAL_ARGS", ""))
    words += [shlex.quote(str(a)) for a in rows(container.get("args"))]
    return {**container, "command": ["/bin/bash", "-c"], "args": [" ".join(w for w in words if w)]}
