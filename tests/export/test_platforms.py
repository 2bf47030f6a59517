"""Targets that hand the pods to an operator: KServe and Dynamo."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml
from export_builders import AG, QWEN, PlanBuilder, example_a, example_b, model
from test_import import BUILDERS, Facts

from planner.domain.errors import InputError
from planner.domain.workload import Workload
from planner.export.options import ExportOptions, ModelSource, SourceKind, Target
from planner.export.parse import ImportHints, import_plan
from planner.export.targets import Export, export_plan
from planner.export.yaml import load_stream


def export(builder: PlanBuilder, target: Target, **options: Any) -> Export:
    return export_plan(
        builder.build(),
        model=model(builder.model_name),
        hardware=builder.hardware(),
        options=ExportOptions(target=target, **options),
    )


def document(made: Export) -> dict[str, Any]:
    assert made.stream is not None
    return dict(yaml.safe_load(made.stream))


def extra(pod: dict[str, Any]) -> list[str]:
    env = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
    return shlex.split(env["VLLM_ADDITIONAL_ARGS"])


class TestKserve:
    def test_decode_is_the_service_and_prefill_beside_it(self) -> None:
        spec = document(export(example_a(), Target.KSERVE))["spec"]
        assert spec["model"] == {"uri": "hf://deepseek-ai/DeepSeek-R1", "name": "deepseek-ai/DeepSeek-R1"}
        assert spec["replicas"] == 1
        assert spec["parallelism"] == {
            "tensor": 1,
            "data": 16,
            "dataLocal": 8,
            "dataRPCPort": 5555,
            "expert": True,
        }
        assert spec["worker"] == spec["template"]
        assert spec["prefill"]["replicas"] == 2
        assert "parallelism" not in spec["prefill"]
        assert "worker" not in spec["prefill"]

    def test_flags_of_the_presets_are_not_repeated(self) -> None:
        spec = document(export(example_a(), Target.KSERVE))["spec"]
        decode, prefill = extra(spec["template"]), extra(spec["prefill"]["template"])
        assert not {
            "--port",
            "--data-parallel-size",
            "--tensor-parallel-size",
            "--enable-expert-parallel",
        } & set(decode)
        assert prefill[prefill.index("--data-parallel-size") + 1] == "8"
        for words, kv in ((decode, "kv_consumer"), (prefill, "kv_producer")):
            transfer = json.loads(words[words.index("--kv-transfer-config") + 1])
            assert transfer["kv_role"] == kv
            assert "--max-num-seqs" in words
        assert "--enable-dbo" in decode

    def test_gpus_and_router(self) -> None:
        spec = document(export(example_a(), Target.KSERVE, gateway="gw", gateway_namespace="infra"))["spec"]
        assert spec["template"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert spec["router"]["gateway"] == {"refs": [{"name": "gw", "namespace": "infra"}]}
        assert spec["router"]["scheduler"]["config"]["inline"]["kind"] == "EndpointPickerConfig"

    @pytest.mark.parametrize(
        ("source", "uri"),
        [
            (ModelSource(kind=SourceKind.PVC, claim="c", path="r1"), "pvc://c/r1"),
            (ModelSource(kind=SourceKind.OCI, reference="r/m:v1"), "oci://r/m:v1"),
        ],
    )
    def test_model_sources(self, source: ModelSource, uri: str) -> None:
        assert (
            document(export(example_b(), Target.KSERVE, model_source=source))["spec"]["model"]["uri"] == uri
        )

    def test_a_rank_over_pods_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"export\.kserve_unsupported"):
            export(BUILDERS["spanning"], Target.KSERVE)

    @pytest.mark.parametrize("name", [n for n in BUILDERS if n != "spanning"])
    def test_import_is_the_inverse(self, name: str) -> None:
        builder = BUILDERS[name]
        made = export(builder, Target.KSERVE)
        got = import_plan(load_stream(made.stream or "", source="k"), facts=Facts())
        assert got.plan == builder.build()
        assert got.extra_flags == {}


SAMPLE = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen}
spec:
  model: {uri: "hf://Qwen/Qwen3-235B-A22B-FP8", name: Qwen/Qwen3-235B-A22B-FP8}
  replicas: 2
  parallelism: {data: 16, dataLocal: 8, expert: true, tensor: 1}
  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
    containers:
    - name: main
      env:
      - {name: VLLM_ALL2ALL_BACKEND, value: naive}
      - name: VLLM_ADDITIONAL_ARGS
        value: "--gpu-memory-utilization 0.9 --max-model-len 4096 --max-num-seqs 128 --max-num-batched-tokens 2048 --seed 3"
  worker: {containers: []}
"""


def test_hand_written_service_is_read() -> None:
    got = import_plan(
        load_stream(SAMPLE, source="s"),
        facts=Facts(),
        hints=ImportHints(workload=Workload(isl=10, osl=10), concurrency=64),
    )
    (role,) = got.plan.roles
    assert (role.groups, role.parallelism.dp, role.parallelism.tp, role.parallelism.ep) == (2, 16, 1, 16)
    assert role.all2all is AG
    assert role.gpu_memory_utilization == 0.9
    assert got.plan.max_model_len == 4096
    assert list(got.extra_flags.values()) == [("--seed 3",)]


VALUES = """
multinode: true
modelArtifacts: {name: deepseek-ai/DeepSeek-R1, uri: "hf://deepseek-ai/DeepSeek-R1", size: 1Ti}
decode:
  create: true
  replicas: 1
  acceleratorTypes: {labelKey: nvidia.com/gpu.product, labelValues: [NVIDIA-H200]}
  parallelism: {tensor: 1, data: 16, dataLocal: 8, workers: 2}
  containers:
  - name: vllm
    modelCommand: vllmServe
    args: [--enable-expert-parallel, --max-num-seqs, "256", --max-num-batched-tokens, "256", --kv-transfer-config,
           '{"kv_connector":"NixlConnector", "kv_role":"kv_both"}', --enforce-eager]
prefill:
  create: true
  replicas: 4
  acceleratorTypes: {labelKey: nvidia.com/gpu.product, labelValues: [NVIDIA-H200]}
  parallelism: {tensor: 4}
  containers:
  - name: vllm
    modelCommand: vllmServe
    args: [--max-num-seqs=64, --max-num-batched-tokens=16384]
"""


def test_values_of_the_modelservice_chart_are_read() -> None:
    got = import_plan(
        load_stream(VALUES, source="values.yaml"),
        facts=Facts(),
        hints=ImportHints(workload=Workload(isl=10, osl=10)),
    )
    assert got.plan.label() == "P 4x(tp4,dp1) D 1x(tp1,dp16,ep16)"
    assert got.plan.gpus_used == 32
    assert [r.max_num_batched_tokens for r in got.plan.roles] == [16384, 256]
    assert {x for flags in got.extra_flags.values() for x in flags} == {"--enforce-eager"}


def test_one_role_of_the_chart_is_aggregated() -> None:
    got = import_plan(
        load_stream(
            VALUES.replace("create: true\n  replicas: 4", "create: false\n  replicas: 4"), source="v"
        ),
        facts=Facts(),
        hints=ImportHints(workload=Workload(isl=10, osl=10)),
    )
    assert got.plan.label() == "1x(tp1,dp16,ep16)"


class TestDynamo:
    def test_a_worker_per_role(self) -> None:
        spec = document(export(example_a(), Target.DYNAMO))["spec"]
        services = spec["services"]
        assert set(services) == {"Frontend", "prefill", "decode"}
        decode = services["decode"]
        assert decode["multinode"] == {"nodeCount": 2}
        assert decode["resources"]["limits"]["gpu"] == "8"
        assert decode["resources"]["limits"]["custom"] == {"rdma/ib": "1"}
        assert "multinode" not in services["prefill"]
        assert services["prefill"]["replicas"] == 2
        total = sum(
            int(s["resources"]["limits"]["gpu"]) * s["replicas"] * s.get("multinode", {}).get("nodeCount", 1)
            for s in services.values()
            if s["componentType"] == "worker"
        )
        assert total == 32

    def test_arguments(self) -> None:
        services = document(export(example_a(), Target.DYNAMO))["spec"]["services"]
        words = services["decode"]["extraPodSpec"]["mainContainer"]["args"]
        assert words[:4] == ["--model", "deepseek-ai/DeepSeek-R1", "--disaggregation-mode", "decode"]
        assert "--data-parallel-hybrid-lb" in words
        assert words[words.index("--data-parallel-size") + 1] == "16"
        assert not {"--port", "--data-parallel-address", "--data-parallel-multi-port-external-lb"} & set(
            words
        )
        assert all(isinstance(w, str) for w in words)

    def test_aggregated_from_a_claim(self) -> None:
        source = ModelSource(kind=SourceKind.PVC, claim="weights", path="q")
        spec = document(export(example_b(), Target.DYNAMO, model_source=source))["spec"]
        assert spec["pvcs"] == [{"name": "weights", "create": False}]
        worker = spec["services"]["worker"]
        assert worker["volumeMounts"] == [{"name": "weights", "mountPoint": "/models"}]
        words = worker["extraPodSpec"]["mainContainer"]["args"]
        assert words[1] == "/models/q"
        assert words[words.index("--served-model-name") + 1] == QWEN

    def test_an_artifact_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"export\.dynamo_unsupported"):
            export(
                example_b(), Target.DYNAMO, model_source=ModelSource(kind=SourceKind.OCI, reference="r/m:v1")
            )
