"""Engines of the demo cluster: vLLM-named metrics per DP rank that grow with time.

Every rank serves a steady rate; `queued` makes one rank queue. Values are a function of the clock alone, so two scrapes of
the same moment agree. They stand for a running engine in shape, not in speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.cluster.fake.server import FakeServer

TTFT_BOUNDS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
)
ITL_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
LENGTH_BOUNDS = tuple(float(m * 10**e) for e in range(6) for m in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every rank of a role does, per second. Times in seconds."""

    requests_per_s: float = 2.0
    prompt_tokens: float = 2000.0
    output_tokens: float = 500.0
    ttft_s: float = 0.4
    itl_s: float = 0.03
    running: int = 24
    kv_usage: float = 0.45
    prefix_hit: float = 0.3


_PREFILL = Load(output_tokens=1.0, running=1)  # a prefill engine ends its request with the first token


@dataclass(slots=True)
class Engines:
    """Metrics of all engine pods of a server. `clock` is seconds since any start."""

    server: FakeServer
    clock: Callable[[], float]
    loads: Mapping[str, Load] = field(default_factory=dict)  # by role
    model: str = "demo"
    queued: dict[tuple[str, int], int] = field(default_factory=dict)  # (pod, port) -> waiting requests
    silent: set[str] = field(default_factory=set)  # pods that do not answer
    garbage: set[str] = field(default_factory=set)  # pods that answer nonsense

    def __call__(self, namespace: str, pod: str, port: int, path: str) -> tuple[int, str] | None:
        """Answer a request to a pod; None = connection refused."""
        found = self.server.store.get(("", "pods"), (namespace, pod))
        if found is None or pod in self.silent:
            return None
        ports = self._ports(found)
        if port not in ports or found.get("status", {}).get("phase") != "Running":
            return None
        if path != "/metrics":
            return (200, "ok") if path in ("/health", "/ping") else (404, "not found")
        if pod in self.garbage:
            return 200, "<html>login</html>\nvllm:num_requests_running nonsense\n"
        labels = found["metadata"].get("labels") or {}
        worker = int(labels.get("leaderworkerset.sigs.k8s.io/worker-index", "0"))
        rank = worker * len(ports) + ports.index(port)
        role = labels.get("llm-d.ai/role", "")
        load = self.loads.get(role, _PREFILL if role == "prefill" else Load())
        return 200, self.page(load, rank=rank, waiting=self.queued.get((pod, port), 0))

    def _ports(self, pod: Mapping[str, Any]) -> list[int]:
        labels = pod["metadata"].get("labels") or {}
        for pool in self.server.store.list(
            ("inference.networking.k8s.io", "inferencepools"), pod["metadata"]["namespace"]
        ):
            selector = pool["spec"]["selector"]["matchLabels"]
            if selector.items() <= labels.items():
                active = (pod["metadata"].get("annotations") or {}).get("llm-d.ai/active-ports", "")
                numbers = [p["number"] for p in pool["spec"]["targetPorts"]]
                return [p for p in numbers if not active or str(p) in active.replace(" ", "").split(",")]
        containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
        return [p["containerPort"] for c in containers for p in c.get("ports") or ()]

    def page(self, load: Load, *, rank: int, waiting: int = 0) -> str:
        """The ``/metrics`` page of one rank now."""
        seconds = self.clock()
        done = load.requests_per_s * seconds
        tags = f'engine="{rank}",model_name="{self.model}"'
        prompt, output = done * load.prompt_tokens, done * load.output_tokens
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running{{{tags}}} {load.running}",
            f"vllm:num_requests_waiting{{{tags}}} {waiting}",
            f'vllm:num_requests_waiting_by_reason{{{tags},reason="capacity"}} {waiting}',
            f'vllm:num_requests_waiting_by_reason{{{tags},reason="deferred"}} 0',
            f"vllm:kv_cache_usage_perc{{{tags}}} {min(1.0, load.kv_usage + 0.01 * waiting)}",
            f"vllm:prompt_tokens_total{{{tags}}} {prompt}",
            f"vllm:generation_tokens_total{{{tags}}} {output}",
            f"vllm:prefix_cache_queries_total{{{tags}}} {prompt}",
            f"vllm:prefix_cache_hits_total{{{tags}}} {prompt * load.prefix_hit}",
            f"vllm:num_preemptions_total{{{tags}}} 0",
            f'vllm:request_success_total{{{tags},finished_reason="length"}} {done}',
            f'vllm:cache_config_info{{{tags},block_size="64",num_gpu_blocks="8192",kv_cache_size_tokens="524288"}} 1',
        ]
        lines += _histogram("vllm:time_to_first_token_seconds", tags, TTFT_BOUNDS, load.ttft_s, done)
        lines += _histogram("vllm:inter_token_latency_seconds", tags, ITL_BOUNDS, load.itl_s, output)
        lines += _histogram("vllm:request_prompt_tokens", tags, LENGTH_BOUNDS, load.prompt_tokens, done)
        lines += _histogram("vllm:request_generation_tokens", tags, LENGTH_BOUNDS, load.output_tokens, done)
        return "\n".join(lines) + "\n"


def _histogram(name: str, tags: str, bounds: tuple[float, ...], value: float, count: float) -> list[str]:
    lines = [f'{name}_bucket{{{tags},le="{b}"}} {count if value <= b else 0.0}' for b in bounds]
    lines.append(f'{name}_bucket{{{tags},le="+Inf"}} {count}')
    return [*lines, f"{name}_sum{{{tags}}} {value * count}", f"{name}_count{{{tags}}} {count}"]
