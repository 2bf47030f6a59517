"""Sizing mistakes that were reported in public against other tools; each test is named after its trap."""

from __future__ import annotations

import copy
import json

import pytest

from planner.catalog.locate import data_root
from planner.catalog.models import load_model, read_model
from planner.catalog.models.catalogue import slug
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.errors import InputError
from planner.domain.model import CompressedAttention, GqaAttention, MlaAttention, ModelSpec

BF16, FP8 = KvDtype.BF16, KvDtype.FP8


def config(name: str) -> dict[str, object]:
    file = data_root() / "profiles" / "models" / f"{slug(name)}.json"
    return copy.deepcopy(json.loads(file.read_text())["config"])


def read(name: str, **changes: object) -> ModelSpec:
    return read_model({**config(name), **changes}, model_id=name)


def test_trap_01_key_value_heads_of_an_mla_config_are_not_its_cache() -> None:
    """V3 says num_key_value_heads 128; counting heads gives 3,997,696 B per token, 57 times too much."""
    spec = load_model("deepseek-v3")
    assert spec.kv_bytes_per_token(BF16) == 61 * 576 * 2 == 70_272
    assert read("deepseek-ai/DeepSeek-V3", num_key_value_heads=1).kv_bytes_per_token(BF16) == 70_272
    assert spec.kv_heads == 1


def test_trap_02_indexer_keys_are_part_of_the_cache() -> None:
    v3, v32 = load_model("deepseek-v3"), load_model("deepseek-v3.2")
    assert v32.kv_bytes_per_token(BF16) - v3.kv_bytes_per_token(BF16) == 61 * 128 * 2
    assert v32.kv_bytes_per_token(FP8) == 61 * (656 + 132)
    shared, owned = load_model("zai-org/GLM-5.2"), load_model("zai-org/GLM-5")
    assert owned.kv_bytes_per_token(BF16) - shared.kv_bytes_per_token(BF16) == (78 - 21) * 256


def test_trap_03_the_latent_is_stored_once_not_as_k_and_v() -> None:
    group = load_model("kimi-k2").layers[0]
    assert isinstance(group.attention, MlaAttention)
    assert group.attention.kv_elements_per_token == 512 + 64


def test_trap_04_v4_has_no_kv_lora_rank_and_is_still_not_generic() -> None:
    """1M tokens of V4-Flash: 3.99 GB in fp8, not the 86 GB of the generic formula."""
    assert "kv_lora_rank" not in config("deepseek-ai/DeepSeek-V4-Flash")
    spec = load_model("deepseek-v4-flash")
    assert spec.is_mla
    assert all(isinstance(g.attention, CompressedAttention) for g in spec.layers)
    assert spec.kv_bytes_per_token(FP8) * 2**20 == pytest.approx(3.99e9, rel=0.001)
    repacked = read("deepseek-ai/DeepSeek-V4-Flash", model_type="deepseek_ref")
    assert repacked.layers == spec.layers
    disguised = {**config("deepseek-ai/DeepSeek-V4-Flash"), "architectures": ["LlamaForCausalLM"]}
    with pytest.raises(InputError, match=r"model\.unsupported-structure"):
        read_model(disguised, model_id="x")


def test_trap_05_head_dim_is_not_hidden_over_heads() -> None:
    spec = load_model("qwen3-235b-a22b")
    group = spec.layers[0]
    assert isinstance(group.attention, GqaAttention)
    assert group.attention.head_dim == 128 != spec.hidden // group.attention.heads
    without = config("Qwen/Qwen3-235B-A22B")
    del without["head_dim"]
    with pytest.raises(InputError, match="head_dim"):
        read_model(without, model_id="x")


def test_trap_06_memory_counts_all_parameters_not_the_active_ones() -> None:
    spec = load_model("deepseek-v3")
    assert spec.active_parameters / 1e9 == pytest.approx(37.6, abs=0.05)
    assert spec.weight_bytes > spec.total_parameters > 17 * spec.active_parameters


def test_trap_07_every_expert_is_counted_and_the_head_is_not_assumed_tied() -> None:
    mixtral = load_model("mixtral-8x7b")
    assert mixtral.total_parameters / 1e9 == pytest.approx(46.7, abs=0.05)  # 13B with one MLP per layer
    assert mixtral.embedding_parameters == 2 * 32_000 * 4096
    assert read("mistralai/Mixtral-8x7B-v0.1", tie_word_embeddings=True).embedding_parameters == 32_000 * 4096
    scout = config("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    assert "tie_word_embeddings" not in json.dumps(scout)  # absent: the class, not a guess, says untied
    assert not load_model("llama-4-scout").tied_embeddings
    assert load_model("gemma-4-26b-a4b").tied_embeddings


def test_trap_08_experts_are_told_apart_so_that_ep_divides_them_and_tp_does_not() -> None:
    spec = load_model("deepseek-v3")
    assert spec.moe is not None
    per_rank_ep8 = spec.expert_parameters / 8
    assert per_rank_ep8 == spec.moe_layers * 32 * spec.moe.parameters_per_expert
    dense = spec.total_parameters - spec.expert_parameters
    assert dense / 1e9 == pytest.approx(17.12, abs=0.01)
    assert spec.expert_parameters / spec.total_parameters > 0.97


def test_trap_09_cache_follows_structure_not_parameter_count() -> None:
    """Kimi K2 has 4.4 times the parameters of Qwen3-235B and 0.37 times its cache."""
    kimi, qwen = load_model("kimi-k2"), load_model("qwen3-235b-a22b")
    assert kimi.total_parameters > 4 * qwen.total_parameters
    assert kimi.kv_bytes_per_token(BF16) < 0.4 * qwen.kv_bytes_per_token(BF16)


def test_trap_10_hybrid_and_sliding_layers_do_not_grow() -> None:
    gemma = load_model("gemma-4-26b-a4b")
    assert gemma.kv_bytes_per_token(BF16) == 5 * 2 * (512 + 512) * 2
    assert gemma.fixed_state_bytes() == 25 * 1024 * 8 * (256 + 256) * 2
    qwen = load_model("qwen3.5-397b-a17b")
    assert qwen.kv_bytes_per_token(BF16) == 15 * 2 * 2 * 256 * 2  # 15 of 60 layers
    assert qwen.is_hybrid
    assert qwen.fixed_state_bytes() == 193_167_360
    assert load_model("kimi-k3").fixed_state_bytes(FP8) == load_model("kimi-k3").fixed_state_bytes(BF16)


def test_trap_11_windowed_layers_stay_visible_for_engines_that_give_them_full_pages() -> None:
    """gpt-oss-120b: 36,864 B per token grow, 73,728 when every layer gets full pages, as an engine log shows."""
    spec = load_model("gpt-oss-120b")
    assert spec.kv_bytes_per_token(BF16) == 36_864
    full_pages = sum(
        g.count * g.attention.kv_elements_per_token * 2
        for g in spec.layers
        if isinstance(g.attention, GqaAttention)
    )
    assert full_pages == 73_728
    assert spec.has_sliding


def test_trap_12_quantisation_is_read() -> None:
    """A 70B model in FP8 is 73 GB, not the 141 GB of bf16; a mixed checkpoint is neither fp8 nor fp4."""
    assert load_model("llama-3.1-70b-instruct-fp8").weight_bytes / 1e9 == pytest.approx(72.7, abs=0.1)
    flash = load_model("deepseek-v4-flash")
    assert flash.quantization.experts is WeightFormat.MXFP4
    assert flash.quantization.attention is WeightFormat.FP8_BLOCK
    assert flash.weight_bytes / 1e9 == pytest.approx(155.6, rel=0.005)


def test_trap_13_declared_cache_dtype_is_a_default_not_a_property_of_the_weights() -> None:
    spec = load_model("qwen3-235b-a22b-nvfp4")
    assert spec.quantization.kv_cache is FP8
    assert spec.kv_bytes_per_token(BF16) == 2 * spec.kv_bytes_per_token(FP8)
    assert load_model("kimi-k2.5").quantization.kv_cache is None


def test_trap_14_missing_keys_are_refused_never_defaulted() -> None:
    """Vocabulary 0 and 4 x hidden were defaults once; here all missing keys are named at once, with their path."""
    broken = config("deepseek-ai/DeepSeek-V3")
    for key in ("vocab_size", "intermediate_size", "q_lora_rank", "n_shared_experts"):
        del broken[key]
    with pytest.raises(InputError) as e:
        read_model(broken, model_id="x")
    assert {i.code for i in e.value.issues} == {"model.key-missing"}
    named = " ".join(i.what for i in e.value.issues)
    assert all(k in named for k in ("vocab_size", "intermediate_size", "q_lora_rank", "n_shared_experts"))
    assert all("@ $." in (i.where or "") for i in e.value.issues)


def test_trap_15_expert_width_is_exposed_so_that_shards_can_be_checked() -> None:
    """Qwen3-Next: 512 / TP8 = 64 columns, below the 128-wide blocks of the kernels; LatentMoE runs narrower still."""
    qwen = load_model("qwen3-next-80b-a3b").moe
    assert qwen is not None
    assert (qwen.intermediate, qwen.experts) == (512, 512)
    assert qwen.intermediate // 8 % 128 != 0
    nemotron = load_model("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8").moe
    assert nemotron is not None
    assert (nemotron.hidden, nemotron.matrices) == (1024, 2)


def test_trap_16_a_structure_that_does_not_explain_the_weight_files_is_refused(tmp_path) -> None:
    spec = load_model("deepseek-v3")
    (tmp_path / "config.json").write_text(json.dumps(config("deepseek-ai/DeepSeek-V3")))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 688_586_727_753}}))  # as published, MTP included
    assert read_model(tmp_path, model_id="x").layers == spec.layers
    index.write_text(
        json.dumps({"metadata": {"total_size": 1_342_000_000_000}})
    )  # a bf16 copy of an fp8 config
    with pytest.raises(InputError) as e:
        read_model(tmp_path, model_id="x")
    assert e.value.issues[0].code == "model.size-mismatch"
    assert "1342.0 GB" in e.value.issues[0].what
