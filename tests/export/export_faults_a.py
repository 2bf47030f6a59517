"""Faults against rules L01 to L15: pods, ports, router, parallelism."""

from __future__ import annotations

import json

from export_fault_tools import (
    Objects,
    add_flag,
    edit,
    engine,
    env,
    fault,
    lws,
    pod,
    router,
    template,
    the,
)

from planner.export.lint import Severity

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
