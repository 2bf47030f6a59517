"""The worked examples of the llm-d manifests notes, with their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from export_builders import PlanBuilder, env_of, example_a, example_b, plain, pod_of, script_of

from planner.export.engine_args import ParsedCommand, find_command
from planner.export.schema import SchemaSet


def role(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return next(r["spec"] for r in spec["roles"] if r["name"] == name)


def command(pod: dict[str, Any]) -> ParsedCommand:
    found = find_command(pod["containers"][0]["args"], env_of(pod))
    assert found is not None
    assert found.unknown == ()
    return found


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    """DisaggregatedSet of example A."""
    return dict(plain(example_a().render(), "DisaggregatedSet")["spec"])


@pytest.fixture(scope="module")
def deployment() -> dict[str, Any]:
    """Deployment of example B."""
    return plain(example_b().render(), "Deployment", "qwen3")


class TestExampleA:
    def test_groups_and_pods(self, spec: dict[str, Any]) -> None:
        prefill, decode = role(spec, "prefill"), role(spec, "decode")
        assert (prefill["replicas"], prefill["leaderWorkerTemplate"]["size"]) == (2, 1)
        assert (decode["replicas"], decode["leaderWorkerTemplate"]["size"]) == (1, 2)
        assert [r["name"] for r in spec["roles"]] == ["prefill", "decode"]

    def test_gpus_add_up_to_32(self, spec: dict[str, Any]) -> None:
        total = 0
        for name in ("prefill", "decode"):
            lws = role(spec, name)
            gpus = int(pod_of(lws)["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            total += lws["replicas"] * lws["leaderWorkerTemplate"]["size"] * gpus
        assert total == 32

    def test_rollout_never_needs_spare_gpus(self, spec: dict[str, Any]) -> None:
        for name in ("prefill", "decode"):
            config = role(spec, name)["rolloutStrategy"]["rollingUpdateConfiguration"]
            assert config == {"maxSurge": 0, "maxUnavailable": 1}

    @pytest.mark.parametrize(
        ("name", "dp", "port", "kv", "backend"),
        [
            ("prefill", "8", 8000, "kv_producer", "deepep_high_throughput"),
            ("decode", "16", 8200, "kv_consumer", "deepep_low_latency"),
        ],
    )
    def test_engine_command(
        self, spec: dict[str, Any], name: str, dp: str, port: int, kv: str, backend: str
    ) -> None:
        got = command(pod_of(role(spec, name)))
        assert got.model == "deepseek-ai/DeepSeek-R1"
        assert got.text("data-parallel-size") == dp
        assert got.text("data-parallel-size-local") == "8"
        assert got.text("tensor-parallel-size") == "1"
        assert got.text("port") == str(port)
        assert got.text("data-parallel-supervisor-port") == str(port + 8)
        assert got.text("data-parallel-rpc-port") == "5555"
        assert got.text("data-parallel-address") == "$LWS_LEADER_ADDRESS"
        assert got.has("data-parallel-multi-port-external-lb")
        assert got.has("enable-expert-parallel")
        assert got.text("all2all-backend") == backend
        transfer = got.json("kv-transfer-config")
        assert transfer is not None
        assert transfer["kv_connector"] == "NixlConnector"
        assert transfer["kv_role"] == kv
        assert transfer["kv_load_failure_policy"] == "fail"

    def test_dbo_on_decode_only(self, spec: dict[str, Any]) -> None:
        decode, prefill = (command(pod_of(role(spec, n))) for n in ("decode", "prefill"))
        assert decode.has("enable-dbo")
        assert decode.text("dbo-decode-token-threshold") == "32"
        assert not prefill.has("enable-dbo")

    def test_start_rank_is_worker_index_times_local_ranks(self, spec: dict[str, Any]) -> None:
        pod = pod_of(role(spec, "decode"))
        env = env_of(pod)
        for worker, rank in (("0", "0"), ("1", "8")):
            found = find_command([script_of(pod)], {**env, "LWS_WORKER_INDEX": worker})
            assert found is not None
            assert found.text("data-parallel-start-rank") == rank

    def test_ports_and_sidecar(self, spec: dict[str, Any]) -> None:
        prefill, decode = pod_of(role(spec, "prefill")), pod_of(role(spec, "decode"))
        ports = [p["containerPort"] for p in prefill["containers"][0]["ports"]]
        assert ports == [*range(8000, 8008), 8008]
        assert [p["containerPort"] for p in decode["containers"][0]["ports"]] == [*range(8200, 8208), 8208]
        assert "initContainers" not in prefill
        (sidecar,) = decode["initContainers"]
        assert sidecar["restartPolicy"] == "Always"
        assert [p["containerPort"] for p in sidecar["ports"]] == [*range(8000, 8008)]
        assert {
            "--port=8000",
            "--model-server-port=8200",
            "--data-parallel-size=8",
            "--kv-connector=nixlv2",
        } <= set(sidecar["args"])

    def test_pool_has_eight_ports_and_32_endpoints(self) -> None:
        pool = plain(example_a().render(), "InferencePool")["spec"]
        assert [p["number"] for p in pool["targetPorts"]] == [*range(8000, 8008)]
        assert pool["endpointPickerRef"]["failureMode"] == "FailClose"
        assert pool["endpointPickerRef"]["port"] == {"number": 9002}

    def test_environment(self, spec: dict[str, Any]) -> None:
        prefill, decode = (env_of(pod_of(role(spec, n))) for n in ("prefill", "decode"))
        for env in (prefill, decode):
            assert env["NCCL_IB_HCA"] == "ibp"
            assert env["NVSHMEM_HCA_PREFIX"] == "ibp"
            assert env["GLOO_SOCKET_IFNAME"] == "eth0"
            assert env["USER"]
            assert int(env["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) >= 120
        assert decode["NVSHMEM_SYMMETRIC_SIZE"] == "16G"
        assert decode["NVSHMEM_REMOTE_TRANSPORT"] == "ibgda"
        assert not any(k.startswith("NVSHMEM_SYM") for k in prefill)
        assert "NVSHMEM_QP_DEPTH" not in decode  # (256 + 1) x 2 = 514 fits NVSHMEM's 1024

    def test_side_channel_host_is_the_pod(self, spec: dict[str, Any]) -> None:
        for name in ("prefill", "decode"):
            env = pod_of(role(spec, name))["containers"][0]["env"]
            host = next(e for e in env if e["name"] == "VLLM_NIXL_SIDE_CHANNEL_HOST")
            assert host["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"

    def test_resources_privileges_and_shared_memory(self, spec: dict[str, Any]) -> None:
        for name in ("prefill", "decode"):
            pod = pod_of(role(spec, name))
            engine = pod["containers"][0]
            limits, requests = engine["resources"]["limits"], engine["resources"]["requests"]
            assert limits["nvidia.com/gpu"] == requests["nvidia.com/gpu"] == "8"
            assert limits["rdma/ib"] == requests["rdma/ib"] == "1"
            assert (requests["cpu"], limits["memory"]) == ("32", "512Gi")
            assert "cpu" not in limits
            assert "IPC_LOCK" in engine["securityContext"]["capabilities"]["add"]
            shm = next(v for v in pod["volumes"] if v["name"] == "dshm")
            assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
            assert script_of(pod).index("find /dev/shm -type f -delete") < script_of(pod).index("vllm serve")

    def test_probes_ask_the_supervisor_with_patience(self, spec: dict[str, Any]) -> None:
        engine = pod_of(role(spec, "decode"))["containers"][0]
        assert engine["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "supervisor"}
        assert engine["livenessProbe"]["httpGet"] == {"path": "/health", "port": "supervisor"}
        startup = engine["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 45 * 60

    def test_nodes_are_chosen_by_their_real_label(self, spec: dict[str, Any]) -> None:
        pod = pod_of(role(spec, "prefill"))
        assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]

    def test_both_roles_run_one_pinned_image(self, spec: dict[str, Any]) -> None:
        images = {pod_of(role(spec, n))["containers"][0]["image"] for n in ("prefill", "decode")}
        assert images == {"docker.io/vllm/vllm-openai:v0.33.0"}

    def test_limits_equal_the_plan(self, spec: dict[str, Any]) -> None:
        plan = example_a().build()
        for r in plan.roles:
            got = command(pod_of(role(spec, r.role.value)))
            assert got.text("max-num-seqs") == str(r.max_num_seqs)
            assert got.text("max-num-batched-tokens") == str(r.max_num_batched_tokens)
            assert got.text("max-model-len") == str(plan.max_model_len)

    def test_name_budget_is_40_characters(self) -> None:
        plain(example_a().called("a" * 40).render(), "DisaggregatedSet")


class TestExampleB:
    def test_one_pod_with_eight_gpus_and_no_surge(self, deployment: dict[str, Any]) -> None:
        spec = deployment["spec"]
        assert spec["replicas"] == 1
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
        pod = pod_of(spec)
        assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert "initContainers" not in pod

    def test_ranks_are_literals(self, deployment: dict[str, Any]) -> None:
        pod = pod_of(deployment["spec"])
        assert "LWS_" not in script_of(pod)
        got = command(pod)
        assert got.text("data-parallel-size") == got.text("data-parallel-size-local") == "8"
        assert got.text("data-parallel-start-rank") == "0"
        assert got.text("data-parallel-address") == "127.0.0.1"
        assert got.text("all2all-backend") == "allgather_reducescatter"
        assert not got.has("kv-transfer-config")
        assert not got.has("enable-dbo")

    def test_no_rdma_for_one_pod(self, deployment: dict[str, Any]) -> None:
        limits = pod_of(deployment["spec"])["containers"][0]["resources"]["limits"]
        assert not any(k.startswith("rdma/") for k in limits)

    def test_pool_and_router(self) -> None:
        made = example_b().render()
        assert len(plain(made, "InferencePool")["spec"]["targetPorts"]) == 8
        config = plain(made, "ConfigMap")["data"]["router.yaml"]
        assert "single-profile-handler" in config
        assert plain(made, "Deployment", "qwen3-epp")["spec"]["replicas"] == 1

    def test_gpt_oss_alternative_is_eight_replicas_with_one_port(self) -> None:
        made = PlanBuilder("openai/gpt-oss-120b", "generic-h200-sxm", "oss").aggregated(8).render()
        spec = plain(made, "Deployment", "oss")["spec"]
        assert spec["replicas"] == 8
        assert pod_of(spec)["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert plain(made, "InferencePool")["spec"]["targetPorts"] == [{"number": 8000}]
        assert not command(pod_of(spec)).has("data-parallel-size")


@pytest.mark.parametrize("builder", [example_a(), example_b()])
def test_examples_fit_the_schemas(builder: PlanBuilder, crds: SchemaSet) -> None:
    seen = 0
    for manifest in builder.render(gateway="inference-gateway"):
        assert crds.check(manifest.plain()) == ()
        seen += crds.knows(manifest.api_version, manifest.kind)
    assert seen >= 2
