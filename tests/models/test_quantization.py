"""All published ways of stating weight formats, and how exclusion lists match."""

from __future__ import annotations

import copy
import json

import pytest

from planner.catalog.locate import data_root
from planner.catalog.models import load_model, read_model
from planner.catalog.models.catalogue import slug
from planner.catalog.models.quantization import ModuleMatcher, canonical
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.errors import InputError
from planner.domain.model import Quantization

W = WeightFormat


def config(name: str) -> dict[str, object]:
    file = data_root() / "profiles" / "models" / f"{slug(name)}.json"
    data = copy.deepcopy(json.loads(file.read_text())["config"])
    data.pop("quantization_config", None)
    return data


def quantised(
    form: dict[str, object] | None, *, name: str = "deepseek-ai/DeepSeek-V3", separate=None
) -> Quantization:
    data = config(name)
    if form is not None:
        data["quantization_config"] = form
    return read_model(data, model_id="x", quant=separate).quantization


FP8_BLOCK = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "weight_block_size": [128, 128],
    "activation_scheme": "dynamic",
}


def compressed(weights: dict[str, object], **more: object) -> dict[str, object]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": more.pop("activations", None)}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        **more,
    }


@pytest.mark.parametrize(
    ("form", "experts"),
    [
        (None, W.BF16),
        (FP8_BLOCK, W.FP8_BLOCK),
        ({**FP8_BLOCK, "fmt": "float8_e4m3fn"}, W.FP8_BLOCK),
        ({"quant_method": "fp8"}, W.FP8),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, W.MXFP4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, W.NVFP4),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, W.FP8),
        (compressed({"num_bits": 4, "type": "int", "group_size": 32}), W.INT4),
        (compressed({"num_bits": 8, "type": "int"}), W.INT8),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}), W.MXFP4),
        (
            compressed({"num_bits": 4, "type": "float", "group_size": 16}, activations={"num_bits": 4}),
            W.NVFP4,
        ),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}), W.NVFP4_A16),
        (compressed({"num_bits": 8, "type": "float", "strategy": "block"}), W.FP8_BLOCK),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}), W.FP8),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, W.INT4),
        ({"quant_method": "awq", "bits": 4}, W.INT4),
    ],
)
def test_forms(form: dict[str, object] | None, experts: WeightFormat) -> None:
    q = quantised(form)
    assert q.experts is experts
    assert q.attention is experts
    assert q.embedding is W.BF16  # never quantised unless a list names it
    assert (q.lm_head or q.embedding) is W.BF16


def test_fp4_experts_in_an_fp8_config() -> None:
    q = load_model("deepseek-v4-pro").quantization
    assert (q.experts, q.shared_experts, q.attention) == (W.MXFP4, W.FP8_BLOCK, W.FP8_BLOCK)
    assert load_model("sgl-project/DeepSeek-V4-Pro-FP8").quantization.experts is W.FP8_BLOCK


def test_gpt_oss_excludes_attention_by_wildcard() -> None:
    q = load_model("gpt-oss-120b").quantization
    assert (q.attention, q.experts) == (W.BF16, W.MXFP4)


def test_nested_compressed_tensors_with_expressions() -> None:
    q = load_model("kimi-k2.5").quantization
    assert (q.experts, q.attention, q.shared_experts, q.dense_mlp) == (W.INT4, W.BF16, W.BF16, W.BF16)


@pytest.mark.parametrize(
    ("name", "shared", "attention", "output"),
    [
        ("nvidia/Kimi-K2.5-NVFP4", W.NVFP4, W.BF16, W.BF16),
        ("nvidia/Kimi-K2.6-NVFP4", W.BF16, W.BF16, W.BF16),
        ("nvidia/GLM-5-NVFP4", W.NVFP4, W.BF16, W.BF16),
        ("nvidia/GLM-5.1-NVFP4", W.BF16, W.BF16, W.BF16),
        ("nvidia/DeepSeek-V3.2-NVFP4", W.NVFP4, W.BF16, W.NVFP4),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", W.NVFP4, W.NVFP4, W.NVFP4),
    ],
)
def test_exclusions_differ_per_repository(name, shared, attention, output) -> None:
    q = load_model(name).quantization
    assert q.experts is W.NVFP4
    assert (q.shared_experts, q.attention, q.attention_output) == (shared, attention, output)


def test_mixed_precision_maps() -> None:
    m3 = load_model("nvidia/MiniMax-M3-NVFP4").quantization
    assert (m3.experts, m3.attention, m3.shared_experts) == (W.NVFP4, W.MXFP8, W.MXFP8)
    v4 = load_model("nvidia/DeepSeek-V4-Flash-NVFP4").quantization
    assert (v4.experts, v4.attention, v4.shared_experts) == (W.NVFP4, W.FP8_BLOCK, W.FP8_BLOCK)
    lightning = load_model("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4").quantization
    assert (lightning.experts, lightning.linear_attention, lightning.attention) == (
        W.NVFP4_A16,
        W.FP8,
        W.BF16,
    )
    assert (lightning.lm_head, lightning.embedding) == (W.NVFP4_A16, W.BF16)


def test_separate_file_is_used_only_where_the_config_is_silent() -> None:
    separate = {
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    alone = quantised(None, separate=separate)
    assert (alone.experts, alone.kv_cache) == (W.NVFP4, KvDtype.FP8)
    both = quantised(FP8_BLOCK, separate=separate)
    assert (both.experts, both.kv_cache) == (W.FP8_BLOCK, KvDtype.FP8)


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "model.quantization-unknown"),
        ({"quant_method": "modelopt", "quant_algo": "W3A3"}, "model.quantization-unknown"),
        (compressed({"num_bits": 3, "type": "int"}), "model.key-invalid"),
        ({"quant_method": "gptq"}, "model.key-missing"),
        ({**FP8_BLOCK, "modules_to_not_convert": "lm_head"}, "model.key-invalid"),
        ({**FP8_BLOCK, "modules_to_not_convert": ["re:*bad("]}, "model.key-invalid"),
        ("fp8", "model.key-invalid"),
    ],
)
def test_unknown_forms_are_refused(form, code: str) -> None:
    with pytest.raises(InputError) as e:
        quantised(form)
    assert e.value.issues[0].code == code
    assert "quantization_config" in (e.value.issues[0].where or "")


def test_float32_checkpoint_is_refused() -> None:
    data = {**config("deepseek-ai/DeepSeek-V3"), "torch_dtype": "float32"}
    with pytest.raises(InputError, match=r"model\.dtype-unknown"):
        read_model(data, model_id="x")


@pytest.mark.parametrize(
    ("pattern", "module", "match"),
    [
        ("model.layers.3.self_attn*", "layers.3.self_attn.q_proj", True),
        ("model.layers.3.self_attn*", "layers.30.self_attn.q_proj", False),
        ("language_model.model.layers.3.mlp", "layers.3.mlp.experts.0.up_proj", True),
        ("model.language_model.layers.*.mlp*", "layers.7.mlp.gate_proj", True),
        ("gate", "layers.7.mlp.gate", True),
        ("gate", "layers.7.mlp.gate_proj", False),
        ("re:.*self_attn.*", "layers.7.self_attn.o_proj", True),
        ("re:model\\.layers\\.7\\..*", "layers.7.self_attn.o_proj", True),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "layers.7.mlp.experts.0.gate_proj", False),
        ("backbone.layers.1.mixer.in_proj", "layers.1.mixer.in_proj", True),
        ("*.attn.*", "layers.1.attn.wq_b", True),
        ("lm_head", "layers.1.mlp.up_proj", False),
    ],
)
def test_module_matching(pattern: str, module: str, match: bool) -> None:
    assert ModuleMatcher([pattern]).matches(module) is match


def test_canonical_drops_every_root() -> None:
    assert canonical("model.language_model.layers.0.mlp") == "layers.0.mlp"
    assert canonical("language_model.model.lm_head") == "lm_head"
