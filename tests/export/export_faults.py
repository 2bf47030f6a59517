"""Faults to plant: each turns a clean export into one with a known cause of failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.export.lint import Severity

Objects = list[dict[str, Any]]


@dataclass(frozen=True)
class Fault:
    rule: str
    name: str
    base: str
    plant: Callable[[Objects], None]
    severity: Severity | None = None
    lws_version: tuple[int, ...] | None = None


FAULTS: list[Fault] = []


def fault(
    rule: str,
    base: str = "pd",
    severity: Severity | None = None,
    lws_version: tuple[int, ...] | None = None,
) -> Callable[[Callable[[Objects], None]], Callable[[Objects], None]]:
    def register(plant: Callable[[Objects], None]) -> Callable[[Objects], None]:
        FAULTS.append(Fault(rule, plant.__name__, base, plant, severity, lws_version))
        return plant

    return register


# --- finding the parts ---


def the(objects: Objects, kind: str) -> dict[str, Any]:
    return next(o for o in objects if o["kind"] == kind)


def role(objects: Objects, name: str) -> dict[str, Any]:
    return next(dict(r) for r in the(objects, "DisaggregatedSet")["spec"]["roles"] if r["name"] == name)


def lws(objects: Objects, name: str = "decode") -> dict[str, Any]:
    for o in objects:
        if o["kind"] == "LeaderWorkerSet":
            return dict(o)["spec"]  # type: ignore[no-any-return]
        if o["kind"] == "Deployment" and not o["metadata"]["name"].endswith("-epp"):
            return dict(o)["spec"]  # type: ignore[no-any-return]
    return role(objects, name)["spec"]  # type: ignore[no-any-return]


def template(objects: Objects, name: str = "decode") -> dict[str, Any]:
    spec = lws(objects, name)
    return (
        spec["leaderWorkerTemplate"]["workerTemplate"] if "leaderWorkerTemplate" in spec else spec["template"]
    )


def pod(objects: Objects, name: str = "decode") -> dict[str, Any]:
    return template(objects, name)["spec"]  # type: ignore[no-any-return]


def engine(objects: Objects, name: str = "decode") -> dict[str, Any]:
    return pod(objects, name)["containers"][0]  # type: ignore[no-any-return]


def edit(objects: Objects, old: str, new: str, name: str = "decode") -> None:
    script = engine(objects, name)["args"][0]
    assert old in script, old
    engine(objects, name)["args"][0] = script.replace(old, new)


def add_flag(objects: Objects, flag: str, name: str = "decode") -> None:
    edit(objects, " \\\n  --tensor-parallel-size", f" \\\n  {flag} \\\n  --tensor-parallel-size", name)


def env(objects: Objects, key: str, value: str | None, name: str = "decode") -> None:
    container = engine(objects, name)
    container["env"] = [e for e in container["env"] if e["name"] != key]
    if value is not None:
        container["env"].append({"name": key, "value": value})


def resource(objects: Objects, key: str, value: str | None, name: str = "decode") -> None:
    for kind in ("limits", "requests"):
        table = engine(objects, name)["resources"][kind]
        table.pop(key, None)
        if value is not None:
            table[key] = value


def router(objects: Objects, change: Callable[[str], str]) -> None:
    data = the(objects, "ConfigMap")["data"]
    text = change(data["router.yaml"])
    assert text != data["router.yaml"]
    data["router.yaml"] = text


# --- shared memory, probes, devices ---


@fault("L01")
def no_shared_memory_volume(o: Objects) -> None:
    engine(o)["volumeMounts"] = [m for m in engine(o)["volumeMounts"] if m["name"] != "dshm"]


@fault("L01")
def small_shared_memory(o: Objects) -> None:
    next(v for v in pod(o)["volumes"] if v["name"] == "dshm")["emptyDir"]["sizeLimit"] = "64Mi"


@fault("L01", severity=Severity.WARNING)
def leftovers_stay(o: Objects) -> None:
    edit(o, "find /dev/shm -type f -delete\n", "")


@fault("L01")
def offload_beyond_shared_memory(o: Objects) -> None:
    add_flag(o, "--kv-offloading-size 100")


@fault("L02")
def pool_lists_a_port_without_listener(o: Objects) -> None:
    edit(o, "--data-parallel-multi-port-external-lb", "--data-parallel-hybrid-lb", "prefill")


@fault("L02")
def annotation_names_a_dead_port(o: Objects) -> None:
    template(o)["metadata"]["annotations"] = {"llm-d.ai/active-ports": "8000,8099"}


@fault("L03")
def only_the_first_port_is_listed(o: Objects) -> None:
    the(o, "InferencePool")["spec"]["targetPorts"] = [{"number": 8000}]


@fault("L04")
def default_keep_alive(o: Objects) -> None:
    env(o, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", None, "prefill")


@fault("L04")
def keep_alive_below_the_sidecar(o: Objects) -> None:
    env(o, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "60", "prefill")


@fault("L05")
def removed_connector_flag(o: Objects) -> None:
    args = pod(o)["initContainers"][0]["args"]
    args[args.index("--kv-connector=nixlv2")] = "--connector=nixlv2"


@fault("L05", severity=Severity.WARNING)
def deprecated_vllm_port(o: Objects) -> None:
    args = pod(o)["initContainers"][0]["args"]
    args[args.index("--model-server-port=8200")] = "--vllm-port=8200"


@fault("L05")
def sidecar_that_ends(o: Objects) -> None:
    del pod(o)["initContainers"][0]["restartPolicy"]


@fault("L06")
def unknown_plugin(o: Objects) -> None:
    router(o, lambda t: t.replace("type: queue-scorer", "type: queue-depth-scorer"))


@fault("L06")
def deprecated_plugin(o: Objects) -> None:
    router(o, lambda t: t.replace("plugins:\n", "plugins:\n  - type: disagg-headers-handler\n", 1))


@fault("L06")
def unknown_parameter(o: Objects) -> None:
    router(
        o,
        lambda t: t.replace(
            "  - type: queue-scorer\n", "  - type: queue-scorer\n    parameters:\n      depth: 3\n"
        ),
    )


@fault("L06")
def old_decider_parameter(o: Objects) -> None:
    router(
        o,
        lambda t: t.replace(
            "deciders:\n        prefill: always-disagg-pd-decider",
            "deciderPluginName: always-disagg-pd-decider",
        ),
    )


@fault("L06")
def dangling_reference(o: Objects) -> None:
    router(o, lambda t: t.replace("pluginRef: queue-scorer", "pluginRef: queue"))


@fault("L06")
def version_of_a_later_router(o: Objects) -> None:
    router(o, lambda t: t.replace("llm-d.ai/v1alpha1", "llm-d.ai/v1"))


@fault("L06")
def deprecated_gate(o: Objects) -> None:
    router(o, lambda t: t + "featureGates:\n  - dataLayer\n")


@fault("L06")
def deprecated_top_level(o: Objects) -> None:
    router(o, lambda t: t + "saturationDetector:\n  type: utilization\n")


@fault("L06")
def two_handlers(o: Objects) -> None:
    router(o, lambda t: t.replace("plugins:\n", "plugins:\n  - type: single-profile-handler\n", 1))


@fault("L06")
def same_plugin_twice(o: Objects) -> None:
    router(o, lambda t: t.replace("plugins:\n", "plugins:\n  - type: queue-scorer\n", 1))


_EVENTS = json.dumps({"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:5557"})


@fault("L07")
def kv_events_from_a_fixed_base(o: Objects) -> None:
    add_flag(o, f"--kv-events-config '{_EVENTS}'")


def _precise(o: Objects, size: int, *, events: bool, block: int = 64) -> None:
    memory = {"inMemoryConfig": {"podCacheSize": size}}
    parameters = {
        "indexerConfig": {"kvBlockIndexConfig": memory},
        "tokenProcessorConfig": {"blockSizeTokens": block},
    }
    lines = (
        f"  - type: precise-prefix-cache-producer\n    parameters: {json.dumps(parameters)}\n"
        '  - type: token-producer\n    parameters: {"modelName": "m"}\n'
    )
    router(o, lambda t: t.replace("plugins:\n", "plugins:\n" + lines, 1))
    if events:
        for name in ("prefill", "decode"):
            add_flag(o, f"--kv-events-config '{_EVENTS}'", name)


@fault("L08")
def index_smaller_than_the_endpoints(o: Objects) -> None:
    _precise(o, 10, events=True)


@fault("L08")
def no_kv_events(o: Objects) -> None:
    _precise(o, 128, events=False)


@fault("L08", severity=Severity.WARNING)
def other_block_size(o: Objects) -> None:
    _precise(o, 128, events=True, block=16)


@fault("L09", base="gqa")
def prefill_wider_than_decode(o: Objects) -> None:
    edit(o, "--tensor-parallel-size 2", "--tensor-parallel-size 4", "prefill")


@fault("L09")
def tp_sizes_that_do_not_divide(o: Objects) -> None:
    edit(o, "--tensor-parallel-size 1", "--tensor-parallel-size 2", "prefill")
    edit(o, "--tensor-parallel-size 1", "--tensor-parallel-size 3")


@fault("L10", base="hybrid")
def hybrid_with_unequal_blocks(o: Objects) -> None:
    edit(o, "--block-size 64", "--block-size 128")


@fault("L10", base="hybrid")
def hybrid_without_block_size(o: Objects) -> None:
    edit(o, "--block-size 64", "", "prefill")


@fault("L11", base="spanning")
def a_flag_on_workers_only(o: Objects) -> None:
    edit(o, "--tensor-parallel-size 16", "--tensor-parallel-size 16 --enforce-eager")


@fault("L12")
def dbo_with_speculation(o: Objects) -> None:
    add_flag(o, '--speculative-config \'{"method":"mtp","num_speculative_tokens":1}\'')


@fault("L13")
def dbo_with_allgather(o: Objects) -> None:
    edit(o, "--all2all-backend deepep_low_latency", "--all2all-backend allgather_reducescatter")


@fault("L13")
def dbo_without_expert_parallel(o: Objects) -> None:
    edit(o, "  --enable-expert-parallel \\\n", "")


@fault("L14", base="lws")
def redundant_experts_that_do_not_divide(o: Objects) -> None:
    edit(o, '"num_redundant_experts":16', '"num_redundant_experts":5')


@fault("L14", base="lws", severity=Severity.WARNING)
def asynchronous_eplb_across_pods(o: Objects) -> None:
    edit(o, '"use_async":false', '"use_async":true')


@fault("L14", base="lws")
def redundant_experts_without_eplb(o: Objects) -> None:
    edit(o, "  --enable-eplb \\\n", "")


@fault("L15")
def no_wait_for_the_leader(o: Objects) -> None:
    script = engine(o)["args"][0]
    engine(o)["args"][0] = "\n".join(x for x in script.splitlines() if "getent" not in x)


@fault("L15", base="spanning")
def another_image_on_the_leader(o: Objects) -> None:
    group = lws(o)["leaderWorkerTemplate"]
    group["leaderTemplate"]["spec"]["containers"][0]["image"] = "docker.io/vllm/vllm-openai:v0.32.0"


@fault("L16")
def rollout_left_to_the_default(o: Objects) -> None:
    del lws(o)["rolloutStrategy"]


@fault("L16", severity=Severity.WARNING)
def surge(o: Objects) -> None:
    lws(o)["rolloutStrategy"]["rollingUpdateConfiguration"] = {"maxSurge": 1, "maxUnavailable": 0}


@fault("L16", base="deployment")
def deployment_default_strategy(o: Objects) -> None:
    del lws(o)["strategy"]


@fault("L17")
def long_set_name(o: Objects) -> None:
    the(o, "DisaggregatedSet")["metadata"]["name"] = "a" * 41


@fault("L17", base="lws")
def long_lws_name(o: Objects) -> None:
    the(o, "LeaderWorkerSet")["metadata"]["name"] = "a" * 52


@fault("L17")
def hash_shortens_the_budget(o: Objects) -> None:
    the(o, "DisaggregatedSet")["metadata"]["name"] = "a" * 26
    lws(o)["groupIdentity"] = "Hash"


@fault("L17", base="lws")
def name_that_is_no_label(o: Objects) -> None:
    the(o, "LeaderWorkerSet")["metadata"]["name"] = "9lives"


@fault("L18")
def no_ibgda(o: Objects) -> None:
    env(o, "NVSHMEM_REMOTE_TRANSPORT", None)


@fault("L18")
def deepep_over_efa(o: Objects) -> None:
    resource(o, "vpc.amazonaws.com/efa", "16")


@fault("L18")
def roce_with_the_upstream_image(o: Objects) -> None:
    resource(o, "rdma/roce_gdr", "1")


@fault("L19")
def no_rdma_device(o: Objects) -> None:
    resource(o, "rdma/ib", None, "prefill")


@fault("L19")
def no_locked_memory(o: Objects) -> None:
    engine(o)["securityContext"]["capabilities"]["add"] = []


@fault("L20", severity=Severity.INFO)
def route_to_a_multi_port_pool(o: Objects) -> None:
    route = json.loads(json.dumps(the(o, "HTTPRoute")))
    route["spec"]["rules"].append(route["spec"]["rules"][0])
    o.append(route)


@fault("L21")
def no_user(o: Objects) -> None:
    env(o, "USER", None)


@fault("L22")
def short_route_timeout(o: Objects) -> None:
    the(o, "HTTPRoute")["spec"]["rules"][0]["timeouts"] = {"request": "15s"}


@fault("L23")
def more_scratch_than_the_node_has(o: Objects) -> None:
    resource(o, "ephemeral-storage", "2Ti")


@fault("L23")
def sixteen_gpus_in_one_pod(o: Objects) -> None:
    resource(o, "nvidia.com/gpu", "16")


@fault("L24")
def readiness_from_a_static_list(o: Objects) -> None:
    engine(o)["readinessProbe"]["httpGet"]["path"] = "/v1/models"


@fault("L24", severity=Severity.WARNING)
def one_rank_speaks_for_all(o: Objects) -> None:
    engine(o)["readinessProbe"]["httpGet"]["port"] = "rank0"


@fault("L24")
def probe_on_an_undeclared_port(o: Objects) -> None:
    engine(o)["livenessProbe"]["httpGet"]["port"] = "superviser"


@fault("L25")
def impatient_startup(o: Objects) -> None:
    engine(o)["startupProbe"]["failureThreshold"] = 10


@fault("L25")
def no_startup_probe(o: Objects) -> None:
    del engine(o)["startupProbe"]


@fault("L26")
def sglang_over_two_pods(o: Objects) -> None:
    copy_of = json.loads(json.dumps(the(o, "DisaggregatedSet")))
    copy_of["metadata"]["name"] = "sg"
    for r in copy_of["spec"]["roles"]:
        container = r["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
        container["args"] = ["python3 -m sglang.launch_server --dp-size 16"]
    o.append(copy_of)


@fault("L27")
def misspelt_failure_mode(o: Objects) -> None:
    the(o, "InferencePool")["spec"]["endpointPickerRef"]["failureMode"] = "FailClosed"


@fault("L27")
def nine_ports(o: Objects) -> None:
    the(o, "InferencePool")["spec"]["targetPorts"].append({"number": 8008})


@fault("L27")
def a_port_twice(o: Objects) -> None:
    the(o, "InferencePool")["spec"]["targetPorts"][7] = {"number": 8000}


@fault("L27")
def service_without_port(o: Objects) -> None:
    del the(o, "InferencePool")["spec"]["endpointPickerRef"]["port"]


@fault("L28")
def separate_sets(o: Objects) -> None:
    for name in ("prefill", "decode"):
        spec = role(o, name)["spec"]
        o.append(
            {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    o.remove(the(o, "DisaggregatedSet"))


@fault("L29")
def batch_that_kills_v4_flash(o: Objects) -> None:
    edit(o, "deepseek-ai/DeepSeek-R1 ", "deepseek-ai/DeepSeek-V4-Flash ", "prefill")
    edit(o, "--max-num-batched-tokens 8192", "--max-num-batched-tokens 32768", "prefill")
    pod(o, "prefill")["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@fault("L30", severity=Severity.WARNING)
def identity_of_a_newer_lws(o: Objects) -> None:
    lws(o)["groupIdentity"] = "Ordinal"


@fault("L30", severity=Severity.ERROR, lws_version=(0, 9, 0))
def slices_on_an_older_lws(o: Objects) -> None:
    the(o, "DisaggregatedSet")["spec"]["slices"] = 1


@fault("L31", severity=Severity.WARNING)
def ranks_restart_alone(o: Objects) -> None:
    lws(o)["leaderWorkerTemplate"]["restartPolicy"] = "None"


@fault("L31", severity=Severity.ERROR)
def leader_first(o: Objects) -> None:
    lws(o)["startupPolicy"] = "LeaderReady"


# --- sizes and commands ---


@fault("S01")
def gpus_ignore_dp(o: Objects) -> None:
    resource(o, "nvidia.com/gpu", "1")


@fault("S01")
def no_gpus_at_all(o: Objects) -> None:
    resource(o, "nvidia.com/gpu", None)


@fault("S02")
def group_with_a_pod_too_few(o: Objects) -> None:
    lws(o)["leaderWorkerTemplate"]["size"] = 1


@fault("S02")
def all_pods_start_at_rank_zero(o: Objects) -> None:
    edit(o, '--data-parallel-start-rank "$START_RANK"', "--data-parallel-start-rank 0")


@fault("S03")
def supervisor_on_a_rank_port(o: Objects) -> None:
    edit(o, "--data-parallel-supervisor-port 8208", "--data-parallel-supervisor-port 8203")


@fault("S03")
def two_load_balancers(o: Objects) -> None:
    add_flag(o, "--data-parallel-hybrid-lb")


@fault("S04")
def no_connector(o: Objects) -> None:
    edit(o, "--kv-transfer-config", "--kv-events-config", "prefill")


@fault("S04", severity=Severity.ERROR)
def roles_swapped(o: Objects) -> None:
    edit(o, "kv_consumer", "kv_producer")


@fault("S04", severity=Severity.WARNING)
def both_directions(o: Objects) -> None:
    edit(o, "kv_consumer", "kv_both")


@fault("S05")
def side_channel_on_localhost(o: Objects) -> None:
    env(o, "VLLM_NIXL_SIDE_CHANNEL_HOST", None)


@fault("S06")
def two_engine_versions(o: Objects) -> None:
    engine(o)["image"] = "docker.io/vllm/vllm-openai:v0.32.0"


@fault("S06")
def two_cache_types(o: Objects) -> None:
    edit(o, "--kv-cache-dtype auto", "--kv-cache-dtype fp8")


@fault("S07")
def limits_left_out(o: Objects) -> None:
    edit(o, "  --max-num-seqs 256 \\\n", "")


@fault("S07")
def drafts_do_not_fit(o: Objects) -> None:
    edit(o, "--max-num-seqs 256", "--max-num-seqs 512")


@fault("S08")
def short_queues(o: Objects) -> None:
    edit(o, "--max-num-batched-tokens 256", "--max-num-batched-tokens 1024")


@fault("S09")
def removed_variable(o: Objects) -> None:
    env(o, "VLLM_ALL2ALL_BACKEND", "deepep_low_latency")


@fault("S10")
def moving_tag(o: Objects) -> None:
    engine(o)["image"] = "docker.io/vllm/vllm-openai:latest"


@fault("S10")
def no_tag(o: Objects) -> None:
    pod(o)["initContainers"][0]["image"] = "ghcr.io/llm-d/llm-d-router-disagg-sidecar"


@fault("S11")
def flag_of_an_older_engine(o: Objects) -> None:
    add_flag(o, "--num-redundant-experts 16")


@fault("S12")
def sidecar_forwards_elsewhere(o: Objects) -> None:
    args = pod(o)["initContainers"][0]["args"]
    args[args.index("--model-server-port=8200")] = "--model-server-port=8100"


@fault("S12")
def sidecar_and_engine_on_one_port(o: Objects) -> None:
    edit(o, "--port 8200", "--port 8000")


@fault("S13")
def selector_with_a_typo(o: Objects) -> None:
    the(o, "InferencePool")["spec"]["selector"]["matchLabels"]["llm-d.ai/guide"] = "rl"


@fault("S14", base="deployment")
def ranks_of_a_dense_model(o: Objects) -> None:
    script = engine(o)["args"][0]
    engine(o)["args"][0] = script.replace("Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B")


@fault("S15")
def no_role_label(o: Objects) -> None:
    del template(o, "prefill")["metadata"]["labels"]["llm-d.ai/role"]


@fault("S15")
def router_without_stages(o: Objects) -> None:
    router(
        o, lambda t: t.replace("type: disagg-profile-handler", "type: always-disagg-pd-decider\n    name: x")
    )


# --- webhooks ---


@fault("W01")
def no_pods(o: Objects) -> None:
    lws(o)["leaderWorkerTemplate"]["size"] = 0


@fault("W01")
def too_many_groups(o: Objects) -> None:
    lws(o)["replicas"] = 1_000_001


@fault("W02")
def neither_surge_nor_unavailable(o: Objects) -> None:
    lws(o)["rolloutStrategy"]["rollingUpdateConfiguration"] = {"maxSurge": 0, "maxUnavailable": 0}


@fault("W02")
def more_than_all(o: Objects) -> None:
    lws(o)["rolloutStrategy"]["rollingUpdateConfiguration"]["maxUnavailable"] = "101%"


@fault("W02")
def partition_in_a_role(o: Objects) -> None:
    lws(o)["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = 1


@fault("W03")
def sub_group_that_does_not_divide(o: Objects) -> None:
    lws(o)["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 3}


@fault("W03")
def sub_groups_with_an_odd_leader(o: Objects) -> None:
    group = lws(o)["leaderWorkerTemplate"]
    group["subGroupPolicy"] = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}


@fault("W03")
def annotation_without_sub_groups(o: Objects) -> None:
    notes = the(o, "DisaggregatedSet")["metadata"]["annotations"]
    notes["leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"] = "rack"


@fault("W04")
def one_role(o: Objects) -> None:
    the(o, "DisaggregatedSet")["spec"]["roles"].pop()


@fault("W04")
def zero_beside_not_zero(o: Objects) -> None:
    lws(o)["replicas"] = 0


@fault("W04")
def role_name_in_capitals(o: Objects) -> None:
    the(o, "DisaggregatedSet")["spec"]["roles"][1]["name"] = "Decode"


@fault("W05")
def slices_beside_external_scaling(o: Objects) -> None:
    spec = the(o, "DisaggregatedSet")["spec"]
    spec["slices"] = 2
    spec["roles"][1]["scaling"] = {"mode": "External"}


@fault("W05")
def too_many_slices(o: Objects) -> None:
    the(o, "DisaggregatedSet")["spec"]["slices"] = 101


@fault("W06")
def placement_without_a_key(o: Objects) -> None:
    the(o, "DisaggregatedSet")["spec"]["placementPolicy"] = {"type": "ExclusiveSlice"}


@fault("W06")
def placement_beside_the_annotation(o: Objects) -> None:
    spec = the(o, "DisaggregatedSet")["spec"]
    spec["placementPolicy"] = {"type": "ExclusiveSlice", "topology": "rack"}
    spec["roles"][0]["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}


@fault("W07", base="lws")
def partition_under_hash(o: Objects) -> None:
    lws(o)["groupIdentity"] = "Hash"
    lws(o)["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = 1


@fault("W07", base="lws")
def immediate_replacement_of_ordinals(o: Objects) -> None:
    lws(o)["groupReplacementPolicy"] = "Immediate"


@fault("W08")
def long_port_name(o: Objects) -> None:
    engine(o)["ports"][0]["name"] = "data-parallel-rank-0"


@fault("W08")
def two_containers_on_one_port(o: Objects) -> None:
    engine(o)["ports"][0]["containerPort"] = 8000
