"""Target compose: aggregated engines on one node under Docker Compose, without Kubernetes and without a router.

Each engine balances over its own ranks (vLLM's internal load balancing) and listens on one port.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from planner.domain.deployment import Strategy
from planner.domain.errors import InputError, Issue
from planner.export.command import engine_command
from planner.export.environment import HF_CACHE, JIT_CACHE
from planner.export.layout import ROUTER_PORT, Balancing
from planner.export.options import SourceKind
from planner.export.pods import RoleContext, startup_seconds
from planner.export.render import Prepared
from planner.export.targets.base import Export, document_file
from planner.export.yaml import Plain

_MULTI_PORT_ONLY = (
    "data-parallel-multi-port-external-lb",
    "data-parallel-supervisor-port",
    "data-parallel-start-rank",
    "data-parallel-address",
    "data-parallel-rpc-port",
)


def write(prepared: Prepared) -> Export:
    """``compose.yaml``. Raises InputError ``export.compose_unsupported`` for P/D or more than one node."""
    (role,) = _single_node(prepared)
    gpus = role.layout.gpus_per_pod
    services: dict[str, Plain] = {}
    for i in range(role.layout.groups):
        services[f"engine-{i}"] = _service(prepared, role, index=i, devices=range(i * gpus, (i + 1) * gpus))
    document: dict[str, Plain] = {
        "name": prepared.name,
        "services": services,
        "volumes": {"hf-cache": {}, "jit-cache": {}},
    }
    file = document_file("compose.yaml", document, prepared.header())
    return Export(files=(file,), stream=file.text)


def _single_node(prepared: Prepared) -> tuple[RoleContext, ...]:
    roles = prepared.roles
    per_node = roles[0].hardware.node.gpus_per_node
    if (
        prepared.plan.strategy is not Strategy.AGGREGATED
        or prepared.plan.gpus_used > per_node
        or roles[0].layout.balancing not in (Balancing.SINGLE, Balancing.MULTI_PORT)
        or roles[0].layout.pods_per_group != 1
    ):
        raise InputError(
            Issue(
                code="export.compose_unsupported",
                what=f"{prepared.plan.label()}: {prepared.plan.gpus_used} GPUs on nodes of {per_node}",
                why="compose runs aggregated engines on one machine; routing between prefill and decode needs Kubernetes",
                fix="--target llm-d",
                where="--target",
            )
        )
    return roles


def _service(prepared: Prepared, role: RoleContext, *, index: int, devices: range) -> dict[str, Plain]:
    source = prepared.options.model_source
    hub = source.kind is SourceKind.HUB
    command = engine_command(
        role.plan,
        role.layout,
        model=role.model,
        model_argument=role.model_name if hub else f"{source.mount_path}/{source.path}".rstrip("/"),
        served_name=role.model_name,
        max_model_len=prepared.plan.max_model_len,
        hardware=role.hardware,
        disaggregated=False,
        in_lws=False,
    )
    words: list[Plain] = [command.model]
    for name, value in command.args.items():
        if name in _MULTI_PORT_ONLY:
            continue
        words += [f"--{name}"] if value is None else [f"--{name}", _word(value)]
    startup = startup_seconds(role.model, prepared.options)
    environment: dict[str, Plain] = {"USER": "llm-d", "VLLM_CACHE_ROOT": f"{JIT_CACHE}/vllm"}
    volumes: list[Plain] = ["jit-cache:" + JIT_CACHE]
    if hub:
        environment |= {"HF_HUB_CACHE": HF_CACHE, "HF_TOKEN": "${HF_TOKEN:-}"}
        volumes.append("hf-cache:" + HF_CACHE)
    else:
        volumes.append(f"./models:{source.mount_path}:ro")
    return {
        "image": role.engine_image,
        "command": words,
        "environment": environment,
        "volumes": volumes,
        "ports": [f"{ROUTER_PORT + index}:{role.layout.engine_port}"],
        "shm_size": "20gb",
        "ulimits": {"memlock": -1},
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "curl", "-sf", f"http://localhost:{role.layout.engine_port}/health"],
            "interval": "10s",
            "timeout": "5s",
            "retries": 3,
            "start_period": f"{startup}s",
        },
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [
                        {
                            "driver": "nvidia",
                            "device_ids": [str(d) for d in devices],
                            "capabilities": ["gpu"],
                        }
                    ]
                }
            }
        },
    }


def _word(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping) else str(value)
