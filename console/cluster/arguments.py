"""The plan's engine flags against those of running engines, read from their command lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.cluster.objects import PodView
from console.cluster.topology import Topology, engine_container, worker_index
from planner.export.engine_args import ParsedCommand, find_command
from planner.export.values import Table, dig, rows, table
from planner.export.view import literal_env

# These differ between pods of one role on purpose.
_PER_POD: Final = frozenset(
    {"data-parallel-start-rank", "data-parallel-rank", "node-rank", "data-parallel-address", "master-addr", "headless",
     "port", "kv-events-config"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentDrift:
    """A flag (or ``image``, ``model``) that running pods of a role have otherwise. None = not given."""

    role: str
    flag: str
    planned: str | None
    running: str | None
    pods: int
    example: str


def argument_drift(manifests: Sequence[Table], topology: Topology, *, name: str) -> tuple[ArgumentDrift, ...]:
    """Compare the engines of `manifests` with the running pods of deployment `name`, per role."""
    wanted = planned_containers(manifests)
    found: dict[tuple[str, str, str | None, str | None], list[str]] = {}
    for group in topology.groups.values():
        if group.id.deployment != name and not group.id.deployment.startswith(f"{name}-"):
            continue
        container = wanted.get(group.id.role)
        if container is None:
            continue
        for pod in group.pods:
            for flag, planned, running in _differences(container, pod, size=group.size):
                found.setdefault((group.id.role, flag, planned, running), []).append(pod.meta.name)
    return tuple(
        ArgumentDrift(
            role=role, flag=flag, planned=planned, running=running, pods=len(names), example=names[0]
        )
        for (role, flag, planned, running), names in sorted(found.items(), key=lambda i: (i[0][0], i[0][1]))
    )


def planned_containers(manifests: Sequence[Table]) -> dict[str, Table]:
    """Engine container per role in rendered manifests."""
    out: dict[str, Table] = {}
    for manifest in manifests:
        kind, spec = manifest.get("kind"), table(manifest.get("spec"))
        if kind == "DisaggregatedSet":
            for role in map(table, rows(spec.get("roles"))):
                _add(out, dig(role, "spec", "leaderWorkerTemplate", "workerTemplate"), str(role.get("name")))
        elif kind == "LeaderWorkerSet":
            _add(out, dig(spec, "leaderWorkerTemplate", "workerTemplate"), "")
        elif kind == "Deployment":
            _add(out, spec.get("template"), "")
    return out


def _add(out: dict[str, Table], template: object, role: str) -> None:
    label = str(dig(template, "metadata", "labels", "llm-d.ai/role") or role or "aggregated")
    label = "aggregated" if label in ("both", "prefill-decode") else label
    for container in map(table, rows(dig(template, "spec", "containers"))):
        words = [str(w) for w in (*rows(container.get("command")), *rows(container.get("args")))]
        if find_command(words, {}) is not None:
            out.setdefault(label, container)


def _differences(container: Table, pod: PodView, *, size: int) -> list[tuple[str, str | None, str | None]]:
    running = engine_container(pod)
    if running is None:
        return []
    env = {
        **literal_env(container),
        "LWS_WORKER_INDEX": str(worker_index(pod)),
        "LWS_GROUP_SIZE": str(pod.group_size or size),
        "LWS_LEADER_ADDRESS": "leader",
    }
    words = [str(w) for w in (*rows(container.get("command")), *rows(container.get("args")))]
    a, b = find_command(words, env), find_command(running.command, env)
    out: list[tuple[str, str | None, str | None]] = []
    image = str(container.get("image") or "")
    if image != running.image:
        out.append(("image", image, running.image))
    if a is None or b is None:
        if a is not None:
            out.append(("command", "vllm serve", "no vLLM command found"))
        return out
    if a.model != b.model:
        out.append(("model", a.model, b.model))
    for flag in sorted({*a.args, *b.args} - _PER_POD):
        left, right = _value(a, flag), _value(b, flag)
        if left != right:
            out.append((f"--{flag}", left, right))
    return out


def _value(command: ParsedCommand, flag: str) -> str | None:
    if flag not in command.args:
        return None
    value = command.args[flag]
    if value is None:
        return "on"
    parsed = command.json(flag) if value.startswith("{") else None
    if isinstance(parsed, Mapping):
        import json

        return json.dumps(parsed, sort_keys=True)
    return value
