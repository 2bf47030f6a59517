"""Faults against rules L16 to L31, sizes, commands and webhooks."""

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
    resource,
    role,
    router,
    template,
    the,
)

from planner.export.lint import Severity


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


@fault("S06")
def prefill_blocks_larger_than_decode_blocks(o: Objects) -> None:
    edit(o, "--block-size 64", "--block-size 128", "prefill")


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


@fault("S16")
def unbalanced_quotes(o: Objects) -> None:
    edit(o, '"$START_RANK"', '"$START_RANK')
