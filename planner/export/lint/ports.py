"""Rules about ports, pools and what reaches a rank (L02-L05, L07, L20, L22, L26, L27)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.export.lint.core import ERROR, INFO, WARNING, Hit, Scene, rule
from planner.export.values import dig, number, rows, table
from planner.export.view import EngineView

_ACTIVE = ("llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports")


def _active(engine: EngineView) -> tuple[int, ...] | None:
    for key in _ACTIVE:
        if key in engine.annotations:
            return tuple(int(p) for p in engine.annotations[key].split(",") if p.strip().isdigit())
    return None


@rule(
    "L02",
    ERROR,
    "the pool names ports nobody listens on",
    why="requests to a target port without a listener fail; with eight ports and one listener that is 87.5 %",
    fix="list exactly the ports the pods serve, or annotate pods with llm-d.ai/active-ports",
    source="llm-d PR #1855",
)
def ports_have_listeners(scene: Scene) -> Iterator[Hit]:
    """Each target port must be served by each selected pod, unless the pod says which ones it serves."""
    for pool in scene.bundle.pools:
        for engine in scene.bundle.engines:
            if not pool.selects(engine):
                continue
            served = engine.router_ports
            active = _active(engine)
            if active is not None:
                dead = sorted(set(active) - set(served))
                if dead:
                    yield Hit(
                        engine.document,
                        f"{engine.template_path}.metadata.annotations",
                        f"{engine.label} announces port {_list(dead)} but serves {_list(served)}",
                    )
                continue
            dead = sorted(set(pool.ports) - set(served))
            if dead:
                yield Hit(
                    pool.document,
                    "$.spec.targetPorts",
                    f"pool lists port {_list(dead)}, {engine.label} serves {_list(served)}",
                )


@rule(
    "L03",
    ERROR,
    "ranks that the pool does not list",
    why="a rank whose port is missing from targetPorts gets no traffic: with one port, only rank 0 works",
    fix="list one target port per local DP rank",
    source="comment in the llm-d wide-ep router values",
)
def ranks_are_listed(scene: Scene) -> Iterator[Hit]:
    """Every port a selected pod serves must be a target port."""
    for pool in scene.bundle.pools:
        for engine in scene.bundle.engines:
            if not pool.selects(engine):
                continue
            lost = sorted(set(_active(engine) or engine.router_ports) - set(pool.ports))
            if lost and pool.ports:
                yield Hit(
                    pool.document,
                    "$.spec.targetPorts",
                    f"{engine.label} serves port {_list(lost)}, which the pool does not list",
                )


@rule(
    "L04",
    ERROR,
    "prefill closes idle connections before the sidecar does",
    why="uvicorn drops idle connections after 5 s, the sidecar reuses them for 90 s: intermittent 502s",
    fix="set VLLM_HTTP_TIMEOUT_KEEP_ALIVE to at least 120 on prefill pods",
    source="llm-d PR #1564, #1686",
)
def keep_alive(scene: Scene) -> Iterator[Hit]:
    """Keep-alive of prefill pods above the sidecar's 90 s."""
    for engine in scene.bundle.prefill:
        value = number(engine.env.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE"))
        if value is None or value < 120:
            shown = "unset (5 s)" if value is None else f"{value} s"
            yield Hit(engine.document, f"{engine.template_path}.spec", f"{engine.label}: keep-alive {shown}")


_REMOVED = {
    "connector": "kv-connector",
    "prefiller-use-tls": "enable-tls=prefiller",
    "decoder-use-tls": "enable-tls=decoder",
    "prefiller-tls-insecure-skip-verify": "tls-insecure-skip-verify=prefiller",
    "decoder-tls-insecure-skip-verify": "tls-insecure-skip-verify=decoder",
}
_SIDECAR_FLAGS = frozenset(
    [
        "port",
        "model-server-port",
        "vllm-port",
        "data-parallel-size",
        "kv-connector",
        "ec-connector",
        "secure-proxy",
        "secure-serving",
        "cert-path",
        "enable-prefiller-sampling",
        "enable-tls",
        "tls-insecure-skip-verify",
        "prefill-max-retries",
        "prefill-retry-backoff",
        "mooncake-bootstrap-port",
        "p2p-connector-port",
        "enable-p2p-pull",
        "inference-pool",
        "inference-pool-namespace",
        "inference-pool-name",
        "enable-ssrf-protection",
        "pool-group",
        "decode-chunk-size",
        "metrics-port",
        "tracing",
        "max-idle-conns-per-host",
        "zap-log-level",
        "zap-encoder",
        "zap-devel",
        "zap-stacktrace-level",
        "zap-time-encoding",
        "v",
        "config",
        "config-file",
        "configuration",
        "configuration-file",
    ]
)


@rule(
    "L05",
    ERROR,
    "sidecar flags its version does not have",
    why="the routing sidecar stops at a flag it does not know; several were removed in router v0.10.0",
    fix="use the flag names of the pinned sidecar version",
    source="llm-d-router PR #2054, #2142",
)
def sidecar_flags(scene: Scene) -> Iterator[Hit]:
    """Removed flags are errors, deprecated and unknown ones warnings; the sidecar must be a native one."""
    for engine in scene.bundle.engines:
        sidecar = engine.sidecar
        if sidecar is None:
            continue
        where = f"{engine.template_path}.spec.initContainers"
        new = scene.router_version(sidecar.image) >= (0, 10)
        for flag in sidecar.args:
            if flag in _REMOVED and new:
                yield Hit(
                    engine.document, where, f"{engine.label}: --{flag} was removed", f"use --{_REMOVED[flag]}"
                )
            elif flag == "vllm-port" and new:
                yield Hit(
                    engine.document,
                    where,
                    f"{engine.label}: --vllm-port is deprecated",
                    "use --model-server-port",
                    WARNING,
                )
            elif flag not in _SIDECAR_FLAGS and not flag.startswith("moriio-") and flag not in _REMOVED:
                yield Hit(engine.document, where, f"{engine.label}: --{flag} is not known", None, WARNING)
        if not sidecar.native and any(
            table(c).get("image") == sidecar.image for c in rows(engine.pod.get("initContainers"))
        ):
            yield Hit(
                engine.document,
                where,
                f"{engine.label}: the sidecar is an init container without restartPolicy Always",
                "set restartPolicy: Always, or the pod waits for it to end",
            )


@rule(
    "S12",
    ERROR,
    "sidecar and engine disagree on ports",
    why="the sidecar forwards port + i to model port + i; a rank outside that range is unreachable",
    fix="--model-server-port = first engine port, --data-parallel-size = local DP ranks",
    source="llm-d-router pkg/sidecar/proxy/options.go",
)
def sidecar_ports(scene: Scene) -> Iterator[Hit]:
    """Sidecar ranges must match the engine's and not collide with it."""
    for engine in scene.bundle.engines:
        sidecar = engine.sidecar
        if sidecar is None:
            continue
        where = f"{engine.template_path}.spec.initContainers"
        forwarded = tuple(range(sidecar.model_port, sidecar.model_port + sidecar.ranks))
        if forwarded != engine.engine_ports:
            yield Hit(
                engine.document,
                where,
                f"{engine.label}: sidecar forwards to {_list(forwarded)}, the engine listens on {_list(engine.engine_ports)}",
            )
        clash = sorted(set(engine.router_ports) & set(engine.engine_ports))
        if clash:
            yield Hit(
                engine.document, where, f"{engine.label}: sidecar and engine both want port {_list(clash)}"
            )


@rule(
    "L07",
    ERROR,
    "KV events of worker pods go to ports nobody asks",
    why="the engine adds its global DP rank to the port, the router adds the rank within the pod",
    fix="in groups of several pods start at 5557 - START_RANK",
    source="llm-d-router#2227",
)
def kv_event_ports(scene: Scene) -> Iterator[Hit]:
    """Base port + start rank must be the same number on every pod of a group."""
    for engine in scene.bundle.engines:
        events = engine.command.json("kv-events-config")
        if not events or engine.size < 2:
            continue
        bases = []
        for worker in (0, 1):
            command = engine.command_of(worker)
            config = command.json("kv-events-config") or {}
            match = re.search(r":(\d+)$", str(config.get("endpoint", "")))
            rank = number(command.text("data-parallel-start-rank") or command.text("data-parallel-rank"))
            bases.append(int(match[1]) + (rank or 0) if match else None)
        if None in bases or bases[0] != bases[1]:
            yield Hit(
                engine.document,
                f"{engine.template_path}.spec",
                f"{engine.label}: KV events of pod 0 start at {bases[0]}, of pod 1 at {bases[1]}",
            )


@rule(
    "L20",
    INFO,
    "several target ports behind a Gateway",
    why="Istio before 1.28.1 sent traffic of multi-port pools to the wrong port",
    fix="Istio 1.28.1 or later, another Gateway, or the standalone router",
    source="istio#57638",
)
def multi_port_gateway(scene: Scene) -> Iterator[Hit]:
    """A route to a pool with more than one port."""
    wide = {p.name for p in scene.bundle.pools if len(p.ports) > 1}
    for route in scene.bundle.of("HTTPRoute"):
        for i, raw in enumerate(rows(dig(route.value, "spec", "rules"))):
            for ref in rows(table(raw).get("backendRefs")):
                if table(ref).get("kind") == "InferencePool" and table(ref).get("name") in wide:
                    yield Hit(
                        route,
                        f"$.spec.rules[{i}].backendRefs",
                        f"route to the multi-port pool '{table(ref).get('name')}'",
                    )


@rule(
    "L22",
    WARNING,
    "the Gateway gives up before the answer is complete",
    why="long generations end in 504 when the route's timeout is shorter than the request",
    fix="raise spec.rules[].timeouts.request above the longest request",
    source="llm-d-deployer#339",
)
def route_timeout(scene: Scene) -> Iterator[Hit]:
    """Route timeouts against the plan's longest request, or 300 s where there is no plan."""
    needed = 300.0
    if scene.intent is not None:
        slo, load = scene.intent.slo, scene.intent.workload
        needed = ((slo.ttft_ms or 30_000.0) + (slo.tpot_limit_ms or 100.0) * load.osl) / 1000.0
    for route in scene.bundle.of("HTTPRoute"):
        for i, raw in enumerate(rows(dig(route.value, "spec", "rules"))):
            text = dig(raw, "timeouts", "request")
            seconds = _seconds(text)
            if seconds is not None and 0 < seconds < needed:
                yield Hit(
                    route,
                    f"$.spec.rules[{i}].timeouts.request",
                    f"timeout {text}, requests may take {needed:.0f} s",
                )


def _seconds(text: object) -> float | None:
    if not isinstance(text, str) or not re.fullmatch(r"(\d+(h|m|s|ms))+", text):
        return None
    scale = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return sum(int(n) * scale[u] for n, u in re.findall(r"(\d+)(ms|h|m|s)", text))


@rule(
    "L26",
    ERROR,
    "SGLang ranks of the second pod are unreachable",
    why="SGLang numbers its ports by global rank, the router by rank within the pod",
    fix="one pod per SGLang group, or one port per pod",
    source="llm-d-router#2296",
)
def sglang_ports(scene: Scene) -> Iterator[Hit]:
    """Multi-pod SGLang groups under a multi-port pool."""
    multi = any(len(p.ports) > 1 for p in scene.bundle.pools)
    for kind in ("LeaderWorkerSet", "DisaggregatedSet"):
        for document in scene.bundle.of(kind):
            text = repr(document.value)
            sizes = [int(s) for s in re.findall(r"'size': (\d+)", text)]
            if multi and "sglang" in text and max(sizes, default=1) > 1:
                yield Hit(document, "$.spec", "SGLang group of several pods under a pool with several ports")


@rule(
    "L27",
    ERROR,
    "an InferencePool the API server or the gateway rejects",
    why="targetPorts holds 1 to 8 unique ports, failureMode is FailOpen or FailClose, a Service reference needs its port",
    fix="mend the named field",
    source="gateway-api-inference-extension api/v1; the chart's README spells FailClosed",
)
def pool_fields(scene: Scene) -> Iterator[Hit]:
    """Enum, counts and uniqueness of the pool."""
    for pool in scene.bundle.pools:
        listed = rows(pool.spec.get("targetPorts"))
        if not 1 <= len(listed) <= 8:
            yield Hit(pool.document, "$.spec.targetPorts", f"{len(listed)} target ports")
        if len(set(pool.ports)) != len(pool.ports):
            yield Hit(pool.document, "$.spec.targetPorts", "a port is listed twice")
        if not pool.selector:
            yield Hit(pool.document, "$.spec.selector.matchLabels", "empty selector")
        ref = table(pool.spec.get("endpointPickerRef"))
        mode = ref.get("failureMode")
        if mode not in (None, "FailOpen", "FailClose"):
            fix = "write FailClose" if mode == "FailClosed" else "write FailOpen or FailClose"
            yield Hit(pool.document, "$.spec.endpointPickerRef.failureMode", f"failureMode '{mode}'", fix)
        if ref and ref.get("kind", "Service") == "Service" and dig(ref, "port", "number") is None:
            yield Hit(pool.document, "$.spec.endpointPickerRef.port", "Service reference without a port")


@rule(
    "S13",
    ERROR,
    "a pool that selects no pods",
    why="labels differ by one character and every request ends in 503",
    fix="make the selector a subset of the serving pods' labels",
    source="InferencePool API: matchLabels only, same namespace",
)
def pool_selects(scene: Scene) -> Iterator[Hit]:
    """Each pool must select some engine, when there are engines in the stream."""
    if not scene.bundle.engines:
        return
    for pool in scene.bundle.pools:
        if pool.selector and not any(pool.selects(e) for e in scene.bundle.engines):
            wanted = ", ".join(f"{k}={v}" for k, v in pool.selector.items())
            yield Hit(pool.document, "$.spec.selector", f"no pod carries {wanted}")


def _list(ports: tuple[int, ...] | list[int]) -> str:
    if len(ports) > 2 and list(ports) == list(range(ports[0], ports[-1] + 1)):
        return f"{ports[0]}-{ports[-1]}"
    return ", ".join(map(str, ports)) or "none"
