"""A typed look at one role of engines in manifests, ours or hand-written.

Nothing is refused here. What is missing or odd is None or empty, and the linter says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.export.engine_args import ParsedCommand, find_command
from planner.export.values import Json, Table, dig, number, rows, table
from planner.export.yaml import Document


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The routing sidecar of a decode pod: image and flags."""

    image: str
    args: Mapping[str, str]
    native: bool  # init container with restartPolicy Always

    @property
    def port(self) -> int:
        """First port it listens on."""
        return number(self.args.get("port")) or 8000

    @property
    def model_port(self) -> int:
        """First engine port it forwards to."""
        return number(self.args.get("model-server-port")) or number(self.args.get("vllm-port")) or 8200

    @property
    def ranks(self) -> int:
        """Ports it opens."""
        return number(self.args.get("data-parallel-size")) or 1


@dataclass(frozen=True)
class EngineView:
    """One role of engines: a DisaggregatedSet role, a LeaderWorkerSet or a Deployment."""

    document: Document
    kind: str
    name: str
    role_name: str | None  # of the DisaggregatedSet role
    spec: Table
    template: Table
    template_path: str
    leader_template: Table | None
    replicas: int
    size: int

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.kind}/{self.name}" + (f" role {self.role_name}" if self.role_name else "")

    @property
    def in_lws(self) -> bool:
        """Whether LeaderWorkerSet creates the pods."""
        return self.kind != "Deployment"

    @property
    def labels(self) -> Mapping[str, str]:
        """Pod labels of the serving pods (the leader's where it has its own template)."""
        source = self.leader_template or self.template
        return {str(k): str(v) for k, v in table(dig(source, "metadata", "labels")).items()}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Pod annotations of the serving pods."""
        source = self.leader_template or self.template
        return {str(k): str(v) for k, v in table(dig(source, "metadata", "annotations")).items()}

    @property
    def role(self) -> str | None:
        """prefill, decode or prefill-decode, from the role label, the role name or the KV role."""
        label = self.labels.get("llm-d.ai/role")
        if label in ("prefill", "decode", "prefill-decode"):
            return label
        if label == "both":
            return "prefill-decode"
        if self.role_name in ("prefill", "decode"):
            return self.role_name
        return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(self.kv.get("kv_role")))

    @cached_property
    def serving_template(self) -> Table:
        """Template of the pods that serve."""
        return self.leader_template or self.template

    @property
    def pod(self) -> Table:
        """Pod spec of the serving pods."""
        return table(self.serving_template.get("spec"))

    @cached_property
    def _found(self) -> tuple[Table, ParsedCommand] | None:
        return _engine(self.pod, self._injected("0"))

    def _injected(self, worker: str) -> Mapping[str, str]:
        if not self.in_lws:
            return {}
        return {"LWS_WORKER_INDEX": worker, "LWS_GROUP_SIZE": str(self.size), "LWS_LEADER_ADDRESS": "leader"}

    @property
    def container(self) -> Table:
        """The engine container."""
        return self._found[0] if self._found else {}

    @property
    def command(self) -> ParsedCommand:
        """Its vLLM command with variables of the leader filled in."""
        return self._found[1] if self._found else ParsedCommand(model="", args={}, unknown=())

    def command_of(self, worker: int) -> ParsedCommand:
        """The command as pod number `worker` of a group would run it."""
        spec = table(self.template.get("spec")) if worker else self.pod
        found = _engine(spec, self._injected(str(worker)))
        return found[1] if found else self.command

    @property
    def is_engine(self) -> bool:
        """Whether there is a vLLM command at all."""
        return self._found is not None

    @property
    def script(self) -> str:
        """Everything the engine container runs, as text."""
        parts = [*rows(self.container.get("command")), *rows(self.container.get("args"))]
        return "\n".join(str(p) for p in parts)

    @cached_property
    def env(self) -> Mapping[str, str]:
        """Literal variables of the engine container."""
        return literal_env(self.container)

    @property
    def env_names(self) -> frozenset[str]:
        """All variables, those from fields and secrets included."""
        return frozenset(str(table(e).get("name")) for e in rows(self.container.get("env")))

    @property
    def kv(self) -> Mapping[str, Json]:
        """``--kv-transfer-config``, empty when absent."""
        return self.command.json("kv-transfer-config") or {}

    def integer(self, flag: str, default: int) -> int:
        """An integer flag."""
        return number(self.command.text(flag)) or default

    @property
    def tp(self) -> int:
        """Tensor parallel size."""
        return self.integer("tensor-parallel-size", 1)

    @property
    def dp(self) -> int:
        """Global DP size."""
        return self.integer("data-parallel-size", 1)

    @property
    def dp_local(self) -> int:
        """DP ranks per pod."""
        given = number(self.command.text("data-parallel-size-local"))
        if given is not None:
            return given
        return 1 if self.command.has("data-parallel-rank") else self.dp

    @property
    def ep(self) -> int:
        """Expert-parallel width, 1 when off."""
        return self.tp * self.dp if self.command.has("enable-expert-parallel") else 1

    @property
    def multi_port(self) -> bool:
        """Whether the DP supervisor opens one port per local rank."""
        return self.command.has("data-parallel-multi-port-external-lb")

    @property
    def engine_ports(self) -> tuple[int, ...]:
        """HTTP ports the engine listens on."""
        first = self.integer("port", 8000)
        return tuple(range(first, first + (self.dp_local if self.multi_port else 1)))

    @property
    def router_ports(self) -> tuple[int, ...]:
        """Ports the router can reach on a pod."""
        if self.sidecar is None:
            return self.engine_ports
        return tuple(range(self.sidecar.port, self.sidecar.port + self.sidecar.ranks))

    @cached_property
    def sidecar(self) -> Sidecar | None:
        """The routing sidecar, recognised by name or image."""
        for key in ("initContainers", "containers"):
            for raw in rows(self.pod.get(key)):
                container = table(raw)
                name, image = str(container.get("name")), str(container.get("image"))
                if name in ("routing-proxy", "routing-sidecar") or "sidecar" in image.rsplit("/", 1)[-1]:
                    return Sidecar(image, _flags(container), container.get("restartPolicy") == "Always")
        return None

    @property
    def image(self) -> str:
        """Engine image."""
        return str(self.container.get("image") or "")

    @property
    def gpus(self) -> int | None:
        """GPUs one pod asks for: extended resource, or claims that hold one GPU each; None when it asks for none."""
        for kind in ("limits", "requests"):
            for name, amount in table(dig(self.container, "resources", kind)).items():
                if str(name).endswith(("/gpu", "/gaudi", "/tpu")) or "Ascend" in str(name):
                    return number(amount)
        return None

    def resource(self, needle: str) -> tuple[str, Json] | None:
        """First requested or limited resource whose name contains `needle`."""
        for kind in ("limits", "requests"):
            for name, amount in table(dig(self.container, "resources", kind)).items():
                if needle in str(name):
                    return str(name), amount
        return None

    @property
    def claims(self) -> Mapping[str, str]:
        """Pod-level claims: name -> template."""
        return {
            str(table(c).get("name")): str(table(c).get("resourceClaimTemplateName"))
            for c in rows(self.pod.get("resourceClaims"))
        }

    def probe(self, kind: str) -> Table | None:
        """One of startupProbe, livenessProbe, readinessProbe."""
        value = self.container.get(kind)
        return value if isinstance(value, Mapping) else None

    @property
    def endpoints(self) -> int:
        """(pod, port) pairs of the whole role."""
        pods = self.replicas * (1 if self.leader_template else self.size)
        return pods * len(self.router_ports)


def literal_env(container: Table) -> dict[str, str]:
    """Variables with literal values."""
    return {
        str(table(e)["name"]): str(table(e)["value"])
        for e in rows(container.get("env"))
        if "name" in table(e) and "value" in table(e)
    }


def _engine(pod: Table, injected: Mapping[str, str]) -> tuple[Table, ParsedCommand] | None:
    for raw in rows(pod.get("containers")):
        container = table(raw)
        words = [str(w) for w in (*rows(container.get("command")), *rows(container.get("args")))]
        found = find_command(words, {**literal_env(container), **injected})
        if found is not None:
            return container, found
    return None


def _flags(container: Table) -> dict[str, str]:
    """Flags of a Go program: ``--name=value``, ``--name value`` or ``--switch``."""
    words = [str(w) for w in (*rows(container.get("command")), *rows(container.get("args")))]
    out: dict[str, str] = {}
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and i < len(words) and not words[i].startswith("-"):
            value = words[i]
            i += 1
        out[name] = value if value or equals else "true"
    return out
