"""Raw JSON of core kinds to views. Wrong types become empty values: a strange object never stops a watch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from sys import intern

from console.cluster.objects import (
    Condition,
    ContainerView,
    DeploymentView,
    EventView,
    Meta,
    NodeView,
    PodView,
    RouterConfigView,
    Taint,
)
from planner.export.values import Json, Table, dig, number, quantity, rows, table

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi", "google.com/tpu",
                 "huawei.com/Ascend910")  # fmt: skip
# Names of RDMA resources differ per cluster; these patterns cover the device plugins in llm-d's provider documents.
RDMA_PATTERN = re.compile(
    r"^(rdma/|vpc\.amazonaws\.com/efa$|nvidia\.com/(hostdev|roce|sriov|ib|rdma)|openshift\.io/|networking\.gke\.io"
    r".*/rdma|aws\.amazon\.com/neuron$)"
)
_SECRET_FLAG = re.compile(r"(?i)(api[-_]?key|token|secret|password|credential)s?$")
_SECRET_INLINE = re.compile(
    r"(?i)((?:--?[\w-]*(?:api[-_]?key|secret|password|(?:hf|auth|access|bearer)[-_]?token)"
    r"|\b\w*(?:API_KEY|TOKEN|SECRET|PASSWORD))(?:=|\s+))(\"[^\"]*\"|'[^']*'|\S+)"
)
HIDDEN = "***"


def text(value: Json) -> str:
    """`value` when it is text, else empty."""
    return value if isinstance(value, str) else ""


def count(value: Json) -> int:
    """`value` as an integer, 0 when it is none."""
    return number(value) or 0


def labels(value: Json) -> dict[str, str]:
    """A label map; keys and values repeat over thousands of pods and are shared."""
    return {intern(k): intern(v) for k, v in table(value).items() if isinstance(v, str)}


def meta(raw: Table) -> Meta:
    """Identity of any object."""
    m = table(raw.get("metadata"))
    owner = next((table(o) for o in rows(m.get("ownerReferences")) if table(o).get("controller")), {})
    return Meta(
        name=text(m.get("name")),
        namespace=intern(text(m.get("namespace"))),
        uid=text(m.get("uid")),
        created=text(m.get("creationTimestamp")),
        generation=count(m.get("generation")),
        deleting="deletionTimestamp" in m,
        labels=labels(m.get("labels")),
        owner=intern(f"{text(owner.get('kind'))}/{text(owner.get('name'))}") if owner else "",
    )


def conditions(value: Json, *, of: str = "") -> tuple[Condition, ...]:
    """Status conditions in the order they are listed."""
    return tuple(
        Condition(
            type=intern(text(table(c).get("type"))),
            status=intern(text(table(c).get("status"))),
            reason=intern(text(table(c).get("reason"))),
            message=text(table(c).get("message")),
            of=of,
        )
        for c in rows(value)
    )


def condition(value: Json, kind: str) -> Table:
    """The raw condition of type `kind`, empty when absent."""
    return next((table(c) for c in rows(value) if table(c).get("type") == kind), {})


def redact(words: list[str]) -> tuple[str, ...]:
    """A command line without the values of flags and variables that name secrets."""
    out: list[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("-"):
            out.append(HIDDEN)
            hide = False
            continue
        hide = False
        flag, equals, _ = word.partition("=")
        if word.startswith("-") and "\n" not in word and " " not in flag and _SECRET_FLAG.search(flag):
            out.append(f"{flag}={HIDDEN}" if equals else word)
            hide = not equals
        else:
            out.append(_SECRET_INLINE.sub(lambda m: m[1] + HIDDEN, word))
    return tuple(out)


@lru_cache(maxsize=512)
def _shared_command(words: tuple[str, ...]) -> tuple[str, ...]:
    return redact(list(words))


def _containers(raw: Table) -> Iterator[ContainerView]:
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    for kind, init in (("initContainers", True), ("containers", False)):
        states = {
            table(s).get("name"): table(s)
            for s in rows(status.get("initContainerStatuses" if init else "containerStatuses"))
        }
        for c in map(table, rows(spec.get(kind))):
            s = states.get(c.get("name"), {})
            waiting = table(dig(s, "state", "waiting"))
            ended = table(dig(s, "state", "terminated")) or table(dig(s, "lastState", "terminated"))
            words = tuple(text(w) for w in (*rows(c.get("command")), *rows(c.get("args"))))
            yield ContainerView(
                name=intern(text(c.get("name"))),
                image=intern(text(c.get("image"))),
                init=init,
                ready=s.get("ready") is True,
                started=s.get("started") is True,
                restarts=count(s.get("restartCount")),
                waiting=intern(text(waiting.get("reason"))),
                waiting_message=text(waiting.get("message"))[:300],
                exit_code=number(ended.get("exitCode")),
                exit_reason=intern(text(ended.get("reason"))),
                command=_shared_command(words),
                ports={
                    intern(text(table(p).get("name"))): count(table(p).get("containerPort"))
                    for p in rows(c.get("ports"))
                },
            )


def _requested(container: Table) -> Iterator[tuple[str, int]]:
    resources = table(container.get("resources"))
    amounts = {**table(resources.get("requests")), **table(resources.get("limits"))}
    for name, amount in amounts.items():
        if "/" in name and (value := number(amount)):
            yield name, value


def pod(raw: Table) -> PodView:
    """A Pod."""
    m, spec, status = table(raw.get("metadata")), table(raw.get("spec")), table(raw.get("status"))
    gpus, rdma = 0, dict[str, int]()
    for c in rows(spec.get("containers")):
        for name, amount in _requested(table(c)):
            if name in GPU_RESOURCES:
                gpus += amount
            elif RDMA_PATTERN.match(name):
                rdma[intern(name)] = rdma.get(name, 0) + amount
    scheduled = condition(status.get("conditions"), "PodScheduled")
    annotations = table(m.get("annotations"))
    ports = text(annotations.get("llm-d.ai/active-ports"))
    return PodView(
        meta=meta(raw),
        phase=intern(text(status.get("phase"))),
        node=intern(text(spec.get("nodeName"))),
        ip=text(status.get("podIP")),
        ready=condition(status.get("conditions"), "Ready").get("status") == "True",
        reason=intern(text(status.get("reason"))),
        message=text(status.get("message"))[:300],
        unschedulable=text(scheduled.get("message")) if scheduled.get("status") == "False" else "",
        gpus=gpus,
        rdma=rdma,
        containers=tuple(_containers(raw)),
        active_ports=tuple(int(p) for p in re.findall(r"\d+", ports)),
        group_size=number(annotations.get("leaderworkerset.sigs.k8s.io/size")),
    )


def node(raw: Table) -> NodeView:
    """A Node."""
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    amounts = table(status.get("allocatable")) or table(status.get("capacity"))
    gib = 2.0**30
    return NodeView(
        meta=meta(raw),
        ready=condition(status.get("conditions"), "Ready").get("status") == "True",
        unschedulable=spec.get("unschedulable") is True,
        pressure=tuple(
            text(table(c).get("type"))
            for c in rows(status.get("conditions"))
            if text(table(c).get("type")).endswith("Pressure") and table(c).get("status") == "True"
        ),
        taints=tuple(
            Taint(
                key=text(table(t).get("key")),
                effect=text(table(t).get("effect")),
                value=text(table(t).get("value")),
            )
            for t in rows(spec.get("taints"))
        ),
        cpu=quantity(amounts.get("cpu")) or 0.0,
        memory_gib=(quantity(amounts.get("memory")) or 0.0) / gib,
        ephemeral_gib=(quantity(amounts.get("ephemeral-storage")) or 0.0) / gib,
        # device plugins may advertise "1k" of a shared device
        extended={intern(k): int(quantity(v) or 0) for k, v in amounts.items() if "/" in k},
    )


def event(raw: Table) -> EventView:
    """A core/v1 or events.k8s.io/v1 Event."""
    about = table(raw.get("involvedObject")) or table(raw.get("regarding"))
    series = table(raw.get("series"))
    last = (
        text(raw.get("lastTimestamp"))
        or text(series.get("lastObservedTime"))
        or text(raw.get("eventTime"))
        or text(raw.get("deprecatedLastTimestamp"))
        or text(dig(raw, "metadata", "creationTimestamp"))
    )
    return EventView(
        meta=meta(raw),
        type=intern(text(raw.get("type"))),
        reason=intern(text(raw.get("reason"))),
        message=(text(raw.get("message")) or text(raw.get("note")))[:500],
        count=count(raw.get("count")) or count(series.get("count")) or 1,
        last=last,
        about_kind=intern(text(about.get("kind"))),
        about_name=text(about.get("name")),
    )


def deployment(raw: Table) -> DeploymentView:
    """A Deployment; an endpoint picker is recognised by its ``--pool-name`` flag."""
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    containers = [table(c) for c in rows(dig(spec, "template", "spec", "containers"))]
    pool = ""
    for c in containers:
        words = [text(w) for w in (*rows(c.get("command")), *rows(c.get("args")))]
        for i, word in enumerate(words):
            name, equals, value = word.lstrip("-").partition("=")
            if name == "pool-name":
                pool = value if equals else "".join(words[i + 1 : i + 2])
    replicas = number(spec.get("replicas"))
    return DeploymentView(
        meta=meta(raw),
        replicas=1 if replicas is None else replicas,
        ready=count(status.get("readyReplicas")),
        updated=count(status.get("updatedReplicas")),
        available=count(status.get("availableReplicas")),
        observed_generation=number(status.get("observedGeneration")),
        images=tuple(text(c.get("image")) for c in containers),
        picker_for=pool,
        selector=labels(dig(spec, "selector", "matchLabels")),
        conditions=conditions(status.get("conditions")),
    )


def router_config(raw: Table) -> RouterConfigView | None:
    """A ConfigMap with an EndpointPickerConfig; every other ConfigMap is dropped unread."""
    for value in table(raw.get("data")).values():
        if isinstance(value, str) and re.search(r"^kind:\s*EndpointPickerConfig\s*$", value, re.MULTILINE):
            gates = re.search(r"^featureGates:(.*(?:\n[ \t-].*)*)", value, re.MULTILINE)
            return RouterConfigView(
                meta=meta(raw),
                digest=hashlib.sha256(value.encode()).hexdigest()[:12],
                plugins=tuple(
                    dict.fromkeys(re.findall(r"^\s*-?\s*type:\s*['\"]?([\w.-]+)", value, re.MULTILINE))
                ),
                flow_control=bool(gates and "flowControl" in gates[1]),
            )
    return None
