"""Rules about the vLLM command: sizes, ranks, DBO, EPLB, limits (L09-L14, L29, S01-S11)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.domain.model import ModelSpec
from planner.export.command import DBO_BACKENDS
from planner.export.dialects import parse_version
from planner.export.engine_args import FLAGS
from planner.export.lint.core import ERROR, WARNING, Hit, Scene, rule
from planner.export.values import number, table
from planner.export.view import EngineView

_DBO = frozenset(b.value for b in DBO_BACKENDS)


def served_model(scene: Scene, engine: EngineView) -> ModelSpec | None:
    """The model of an engine, by argument or served name."""
    for name in (engine.command.model, engine.command.text("served-model-name")):
        if name:
            found = scene.facts.model(name)
            if found is not None:
                return found
    return None


def pod_path(engine: EngineView) -> str:
    """JSON path of the pod spec."""
    return f"{engine.template_path}.spec"


@rule(
    "S01",
    ERROR,
    "GPUs of a pod are not tp x local ranks",
    why="the engine takes tensor-parallel-size x data-parallel-size-local devices; fewer crash it, more idle",
    fix="request exactly tp x local DP ranks (x pipeline stages) GPUs",
    source="vLLM expert_parallel_deployment; DP supervisor gives rank i devices [i tp, (i+1) tp)",
)
def gpu_count(scene: Scene) -> Iterator[Hit]:
    """GPU request against the command."""
    for e in scene.bundle.engines:
        nodes = e.integer("nnodes", 1)
        wanted = e.tp * e.integer("pipeline-parallel-size", 1) * e.integer("prefill-context-parallel-size", 1)
        wanted = wanted * e.dp_local // nodes if nodes > 1 else wanted * e.dp_local
        have = e.gpus
        if have is None and e.claims:
            devices = [n for n in e.claims if "channel" not in n and "compute-domain" not in n]
            have = len(devices) or None
        if have is None:
            yield Hit(e.document, pod_path(e), f"{e.label} asks for no GPU")
        elif have != wanted:
            yield Hit(
                e.document,
                f"{pod_path(e)}.containers",
                f"{e.label}: {have} GPUs for tp {e.tp} x {e.dp_local} local ranks = {wanted}",
            )


@rule(
    "S02",
    ERROR,
    "pods of a group do not add up to the DP size",
    why="ranks that no pod starts never join, and the whole group waits for them",
    fix="data-parallel-size = LWS size x data-parallel-size-local",
    source="llm-d wide-ep base manifests",
)
def dp_arithmetic(scene: Scene) -> Iterator[Hit]:
    """size x local = global, and each pod starts at its own first rank."""
    for e in scene.bundle.engines:
        if e.dp > 1 and e.size * e.dp_local != e.dp:
            yield Hit(
                e.document,
                pod_path(e),
                f"{e.label}: {e.size} pods x {e.dp_local} local ranks, data-parallel-size {e.dp}",
            )
        elif e.dp > 1 and e.size > 1:
            for worker in (0, e.size - 1):
                command = e.command_of(worker)
                text = command.text("data-parallel-start-rank") or command.text("data-parallel-rank")
                if command.has("headless"):
                    continue
                if number(text) != worker * e.dp_local:
                    yield Hit(
                        e.document,
                        pod_path(e),
                        f"{e.label}: pod {worker} starts at rank {text or 'unset'}, {worker * e.dp_local} is its first",
                        "start rank = LWS_WORKER_INDEX x local ranks",
                    )
                    break


@rule(
    "S03",
    ERROR,
    "the DP supervisor refuses its arguments",
    why="multi-port balancing needs two or more ranks per pod, its own port outside theirs, and one API server",
    fix="see the rule's message",
    source="vLLM 0.33 dp_supervisor.py",
)
def supervisor(scene: Scene) -> Iterator[Hit]:
    """What vLLM's supervisor checks at start."""
    for e in scene.bundle.engines:
        if not e.multi_port:
            continue
        port = e.integer("data-parallel-supervisor-port", 9256)
        if port in e.engine_ports:
            yield Hit(e.document, pod_path(e), f"{e.label}: supervisor port {port} is a rank's port")
        if e.dp < 2 or e.dp_local < 2 or e.dp % e.dp_local:
            yield Hit(
                e.document,
                pod_path(e),
                f"{e.label}: {e.dp_local} local ranks of {e.dp}, at least 2 that divide it",
            )
        if e.dp_local > 8:
            yield Hit(e.document, pod_path(e), f"{e.label}: {e.dp_local} ranks per pod, a pool takes 8 ports")
        for flag in (
            "data-parallel-rank",
            "data-parallel-external-lb",
            "data-parallel-hybrid-lb",
            "grpc",
            "uds",
        ):
            if e.command.has(flag):
                yield Hit(e.document, pod_path(e), f"{e.label}: --{flag} together with multi-port balancing")
        if e.integer("api-server-count", 1) != 1:
            yield Hit(e.document, pod_path(e), f"{e.label}: api-server-count must be 1 under the supervisor")


@rule(
    "S07",
    WARNING,
    "scheduler limits left to the engine",
    why="the defaults change with GPU, version and all2all backend: 256 batched tokens with DeepEP low latency",
    fix="write --max-num-seqs and --max-num-batched-tokens",
    source="vLLM engine/arg_utils.py get_batch_defaults",
)
def explicit_limits(scene: Scene) -> Iterator[Hit]:
    """Both limits present, and a speculative step fits the batch."""
    for e in scene.bundle.engines:
        missing = [f for f in ("max-num-seqs", "max-num-batched-tokens") if not e.command.has(f)]
        if missing:
            yield Hit(e.document, pod_path(e), f"{e.label}: --{' and --'.join(missing)} unset")
            continue
        drafts = number((e.command.json("speculative-config") or {}).get("num_speculative_tokens")) or 0
        seqs, tokens = e.integer("max-num-seqs", 0), e.integer("max-num-batched-tokens", 0)
        if e.role == "decode" and seqs * (1 + drafts) > tokens:
            yield Hit(
                e.document,
                pod_path(e),
                f"{e.label}: {seqs} sequences x {1 + drafts} tokens do not fit {tokens} batched tokens",
                "raise --max-num-batched-tokens",
            )


@rule(
    "S08",
    ERROR,
    "NVSHMEM queues too short for the batch",
    why="DeepEP low latency keeps two requests per token in flight and asserts on the queue depth",
    fix="NVSHMEM_QP_DEPTH >= 2 x (max-num-batched-tokens + 1)",
    source="llm-d GLM guide; DeepEP",
)
def qp_depth(scene: Scene) -> Iterator[Hit]:
    """Queue depth against batched tokens."""
    for e in scene.bundle.engines:
        if e.command.text("all2all-backend") != "deepep_low_latency":
            continue
        needed = 2 * (e.integer("max-num-batched-tokens", 256) + 1)
        depth = number(e.env.get("NVSHMEM_QP_DEPTH")) or 1024
        if needed > depth:
            yield Hit(
                e.document, f"{pod_path(e)}.containers", f"{e.label}: queue depth {depth}, {needed} needed"
            )


_GONE = {
    "VLLM_ALL2ALL_BACKEND": "--all2all-backend",
    "VLLM_MOE_DP_CHUNK_SIZE": "nothing: chunks follow --max-num-batched-tokens",
    "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "kv_lease_duration in kv_connector_extra_config",
}


@rule(
    "S09",
    WARNING,
    "environment variables that no longer exist",
    why="vLLM ignores them silently, so the setting never takes effect",
    fix="use the flag that replaced the variable",
    source="vLLM 0.33 envs.py",
)
def removed_environment(scene: Scene) -> Iterator[Hit]:
    """Variables that were dropped."""
    for e in scene.bundle.engines:
        for name, instead in _GONE.items():
            if name in e.env_names:
                yield Hit(e.document, f"{pod_path(e)}.containers", f"{e.label}: {name}", f"use {instead}")


@rule(
    "S10",
    ERROR,
    "an engine image that can move",
    why="after a restart, prefill and decode may run different engines and refuse each other",
    fix="pin a version tag or a digest",
    source="NIXL handshake hash covers the vLLM version",
)
def pinned_images(scene: Scene) -> Iterator[Hit]:
    """No :latest, no missing tag, on engine and sidecar."""
    for e in scene.bundle.engines:
        images = [e.image] + ([e.sidecar.image] if e.sidecar else [])
        for image in images:
            last = image.rsplit("/", 1)[-1]
            if "@sha256:" not in image and (":" not in last or last.endswith((":latest", ":nightly"))):
                yield Hit(e.document, f"{pod_path(e)}.containers", f"{e.label}: image '{image}'")


@rule(
    "S11",
    ERROR,
    "flags the engine version does not have",
    why="vLLM stops at an unknown argument",
    fix="use the name of the pinned version",
    source="argument parsers of vLLM 0.26.0 and 0.33.0",
)
def engine_flags(scene: Scene) -> Iterator[Hit]:
    """Flags outside their version range, by the image's tag."""
    for e in scene.bundle.engines:
        tag = e.image.rsplit(":", 1)[-1] if "vllm-openai" in e.image else ""
        version = parse_version(tag)
        for name in e.command.args:
            flag = FLAGS.get(name.split(".", 1)[0])
            if flag is None:
                continue
            if (version and not flag.known_in(version)) or (not version and flag.until is not None):
                fix = f"use --{flag.renamed_to}" if flag.renamed_to else None
                yield Hit(e.document, pod_path(e), f"{e.label}: --{name} with vLLM {tag or 'of today'}", fix)


@rule(
    "L11",
    ERROR,
    "leader and workers run different flags",
    why="ranks step in lockstep; a flag on one side only, such as EPLB logging, hangs the group",
    fix="one template for all pods of a group",
    source="vllm#26187",
)
def one_template(scene: Scene) -> Iterator[Hit]:
    """Commands of leader and worker templates, apart from what must differ."""
    free = {
        "headless",
        "port",
        "node-rank",
        "data-parallel-rank",
        "data-parallel-start-rank",
        "api-server-count",
    }
    free.add("disable-access-log-for-endpoints")
    for e in scene.bundle.engines:
        if e.leader_template is None or e.size < 2:
            continue
        leader, worker = e.command_of(0), e.command_of(1)
        if worker is leader:
            continue
        left = {k: v for k, v in leader.args.items() if k not in free}
        right = {k: v for k, v in worker.args.items() if k not in free}
        names = sorted(k for k in left.keys() | right.keys() if left.get(k, "-") != right.get(k, "-"))
        if names:
            yield Hit(
                e.document, pod_path(e), f"{e.label}: leader and workers differ in --{', --'.join(names)}"
            )


@rule(
    "L12",
    WARNING,
    "DBO with a model or feature it does not support",
    why="the V2 runner refuses DBO with speculation, context parallel, multimodal and hybrid models; else V1 runs",
    fix="switch DBO off for this role",
    source="vllm#54591; vLLM 0.33 config/vllm.py",
)
def dbo_model(scene: Scene) -> Iterator[Hit]:
    """DBO beside features that exclude it."""
    for e in scene.bundle.engines:
        if not e.command.has("enable-dbo"):
            continue
        model = served_model(scene, e)
        reasons = [
            text
            for flag, text in (
                ("speculative-config", "speculative decoding"),
                ("enable-lora", "LoRA"),
            )
            if e.command.has(flag)
        ]
        if e.integer("decode-context-parallel-size", 1) > 1 or e.integer("pipeline-parallel-size", 1) > 1:
            reasons.append("context or pipeline parallel")
        if model is not None and (model.is_hybrid or model.encoder):
            reasons.append("hybrid layers" if model.is_hybrid else "a multimodal model")
        elif re.search(r"glm-?5\.3-flash|deepseek-v4\.1", e.command.model, re.IGNORECASE):
            reasons.append("this architecture")
        if reasons:
            yield Hit(e.document, pod_path(e), f"{e.label}: DBO with {' and '.join(reasons)}")


@rule(
    "L13",
    ERROR,
    "DBO with a backend that cannot overlap",
    why="vLLM asserts at start: DBO needs dp > 1, expert parallel and DeepEP low latency, high throughput or nixl_ep",
    fix="change --all2all-backend or drop --enable-dbo",
    source="vLLM 0.33 config/vllm.py",
)
def dbo_backend(scene: Scene) -> Iterator[Hit]:
    """Backend, width and expert parallel of DBO."""
    for e in scene.bundle.engines:
        if not e.command.has("enable-dbo"):
            continue
        backend = e.command.text("all2all-backend") or "allgather_reducescatter"
        rocm = "rocm" in e.image or e.resource("amd.com/gpu") is not None
        if backend not in _DBO and not (rocm and backend == "allgather_reducescatter"):
            yield Hit(e.document, pod_path(e), f"{e.label}: DBO with {backend}")
        if e.dp < 2 or not e.command.has("enable-expert-parallel"):
            yield Hit(
                e.document, pod_path(e), f"{e.label}: DBO with dp {e.dp}, EP {'on' if e.ep > 1 else 'off'}"
            )


@rule(
    "L14",
    ERROR,
    "EPLB that cannot start, or stops without a word",
    why="(experts + redundant) must divide by the EP width; asynchronous EPLB across nodes has stalled silently",
    fix="choose redundant experts that divide; across nodes set use_async false",
    source="vllm#57883, PR #32860; vLLM fused_moe/layer.py",
)
def eplb(scene: Scene) -> Iterator[Hit]:
    """EPLB arithmetic, prerequisites and the known silent stall."""
    for e in scene.bundle.engines:
        config = e.command.json("eplb-config") or {}
        redundant = number(config.get("num_redundant_experts")) or 0
        on = e.command.has("enable-eplb")
        if redundant and not on:
            yield Hit(
                e.document, pod_path(e), f"{e.label}: {redundant} redundant experts without --enable-eplb"
            )
        if not on:
            continue
        if e.ep < 2:
            yield Hit(e.document, pod_path(e), f"{e.label}: EPLB without expert parallel")
        model = served_model(scene, e)
        experts = model.moe.experts if model is not None and model.moe is not None else None
        if experts is not None and (experts + redundant) % e.ep:
            yield Hit(e.document, pod_path(e), f"{e.label}: ({experts} + {redundant}) % EP {e.ep} != 0")
        if e.size > 1 and config.get("use_async", True) and config.get("communicator") != "torch_gloo":
            yield Hit(
                e.document, pod_path(e), f"{e.label}: asynchronous EPLB over {e.size} pods", None, WARNING
            )


@rule(
    "L29",
    ERROR,
    "batches this model is known to die at",
    why="DeepSeek-V4-Flash lost its engine core at 24,576 batched tokens and more on H100",
    fix="--max-num-batched-tokens below 24576",
    source="vllm#51743",
)
def model_caps(scene: Scene) -> Iterator[Hit]:
    """Model-specific upper limits."""
    for e in scene.bundle.engines:
        tokens = e.integer("max-num-batched-tokens", 0)
        gpu = str(table(e.pod.get("nodeSelector")).get("nvidia.com/gpu.product", "H100"))
        if (
            re.search(r"deepseek-v4-flash", e.command.model, re.IGNORECASE)
            and tokens >= 24576
            and "H100" in gpu
        ):
            yield Hit(e.document, pod_path(e), f"{e.label}: {tokens} batched tokens")


@rule(
    "S14",
    ERROR,
    "DP ranks of a dense model",
    why="external and multi-port balancing are for MoE models; dense ranks share nothing",
    fix="independent replicas with data-parallel-size 1",
    source="vLLM config/parallel.py",
)
def dense_ranks(scene: Scene) -> Iterator[Hit]:
    """External balancing on dense models."""
    for e in scene.bundle.engines:
        model = served_model(scene, e)
        external = e.multi_port or e.command.has("data-parallel-external-lb")
        if model is not None and model.moe is None and external:
            yield Hit(e.document, pod_path(e), f"{e.label}: dense model with {e.dp} DP ranks")


@rule(
    "S16",
    ERROR,
    "a start script the shell cannot read",
    why="the container ends with a syntax error before the engine starts",
    fix="balance the quotes of the vllm command",
    source="POSIX shell quoting",
)
def readable_command(scene: Scene) -> Iterator[Hit]:
    """Shell quoting of the vLLM command."""
    for e in scene.bundle.engines:
        if e.command.problem:
            yield Hit(e.document, f"{pod_path(e)}.containers", f"{e.label}: {e.command.problem}")
