"""The reader: spellings, nesting, what is required, how files are refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.catalog.locate import data_root
from planner.catalog.models import list_models, load_model, read_model
from planner.catalog.models.catalogue import slug
from planner.catalog.models.registry import FAMILIES
from planner.domain.dtypes import KvDtype
from planner.domain.errors import ExitCode, InputError, MissingDataError
from planner.domain.model import DenseMlp, GqaAttention, LinearAttention, MlaAttention, ModelSpec, MoeMlp

FOLDER = data_root() / "profiles" / "models"
NESTED = ("text_config", "linear_attn_config", "sparse_attention_config")
# Keys whose absence has a meaning of its own, with that meaning; all others must be asked for by name.
MEANINGFUL_WHEN_ABSENT = {
    "architectures": "model_type decides",
    "tie_word_embeddings": "the class's own default",
    "num_nextn_predict_layers": "no MTP layers",
    "mtp_num_hidden_layers": "no MTP layers",
    "num_mtp_modules": "no MTP layers",
    "use_mtp": "no MTP layers",
    "expert_dtype": "experts like the rest",
    "num_hash_layers": "no routing table",
    "moe_latent_size": "experts run at the hidden size",
    "mamba_ssm_cache_dtype": "the model's own type",
}


def entry(name: str) -> dict[str, object]:
    return json.loads((FOLDER / f"{slug(name)}.json").read_text())


def config(name: str) -> dict[str, object]:
    return copy.deepcopy(entry(name)["config"])


def _one_per_family() -> dict[str, str]:
    chosen: dict[str, str] = {}
    for e in list_models():
        chosen.setdefault(load_model(e.id).family, e.id)
    return chosen


def test_every_family_has_a_catalogue_entry() -> None:
    assert set(_one_per_family()) == {f.name for f in FAMILIES}


def _paths(node: dict[str, object], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in node.items():
        if key in NESTED:
            yield from _paths(value, (*prefix, key))
        elif key != "quantization_config":
            yield (*prefix, key)


@pytest.mark.parametrize(("family", "name"), sorted(_one_per_family().items()))
def test_dropping_any_key_is_noticed(family: str, name: str) -> None:
    """A key is asked for by name, or its absence changes nothing, or its absence is defined. None is guessed."""
    data = entry(name)
    quant = data.get("quant_config")
    whole = read_model(data["config"], model_id="x", quant=quant)
    for path in _paths(data["config"]):
        cut = copy.deepcopy(data["config"])
        node = cut
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]
        try:
            spec = read_model(cut, model_id="x", quant=quant)
        except InputError as e:
            text = " ".join(f"{i.what} {i.where}" for i in e.issues)
            assert path[-1] in text or path[-1] in ("use_sliding_window", "num_experts"), (path, text)
        else:
            assert spec == whole or path[-1] in MEANINGFUL_WHEN_ABSENT, path


@pytest.mark.parametrize("wrapper", ["text_config", "llm_config", "language_config"])
def test_nested_and_flat_configs_read_alike(wrapper: str) -> None:
    flat = config("Qwen/Qwen3-30B-A3B")
    nested = {"architectures": flat.pop("architectures"), wrapper: flat}
    assert read_model(nested, model_id="x").layers == load_model("qwen3-30b-a3b").layers


def test_thinker_config_is_followed() -> None:
    flat = config("Qwen/Qwen3-30B-A3B")
    nested = {"architectures": flat.pop("architectures"), "thinker_config": {"text_config": flat}}
    assert read_model(nested, model_id="x").layers == load_model("qwen3-30b-a3b").layers


def test_minimax_m3_flat_and_nested_files_agree() -> None:
    flat, nested = load_model("MiniMaxAI/MiniMax-M3"), load_model("nvidia/MiniMax-M3-NVFP4")
    assert flat.layers == nested.layers
    assert flat.mtp_layers == nested.mtp_layers == 1  # num_nextn_predict_layers wins over 7 modules


def test_model_type_decides_when_there_are_no_architectures() -> None:
    data = config("deepseek-ai/DeepSeek-V3")
    del data["architectures"]
    assert read_model(data, model_id="x").family == "deepseek-v3"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("deepseek-ai/DeepSeek-V3", "n_routed_experts", "num_experts"),
        ("deepseek-ai/DeepSeek-V3", "n_routed_experts", "num_local_experts"),
        ("deepseek-ai/DeepSeek-V3", "num_experts_per_tok", "num_experts_per_token"),
        ("deepseek-ai/DeepSeek-V3", "n_shared_experts", "num_shared_experts"),
        ("openai/gpt-oss-120b", "num_experts_per_tok", "experts_per_token"),
        ("openai/gpt-oss-120b", "num_local_experts", "num_experts"),
        ("Qwen/Qwen3-30B-A3B", "torch_dtype", "dtype"),
        ("deepseek-ai/DeepSeek-V3", "num_nextn_predict_layers", "num_mtp_layers"),
    ],
)
def test_other_spellings(name: str, old: str, new: str) -> None:
    data = config(name)
    data[new] = data.pop(old)
    assert replace(read_model(data, model_id="x"), id="y") == replace(
        read_model(config(name), model_id="x"), id="y"
    )


def test_layer_patterns_in_letters_and_words_agree() -> None:
    words = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
    data = config("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
    letters = str(data.pop("hybrid_override_pattern"))
    data["layers_block_type"] = [words[c] for c in letters]
    del data["num_hidden_layers"]
    assert (
        read_model(data, model_id="x").layers
        == load_model("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8").layers
    )


def test_full_attention_interval_stands_in_for_layer_types() -> None:
    data = config("Qwen/Qwen3.5-35B-A3B")
    del data["text_config"]["layer_types"]
    assert read_model(data, model_id="x").layers == load_model("qwen3.5-35b-a3b").layers


def test_mlp_only_layers_and_sparse_step() -> None:
    data = {**config("Qwen/Qwen3-30B-A3B"), "mlp_only_layers": [0, 1], "decoder_sparse_step": 2}
    spec = read_model(data, model_id="x")
    dense = sum(g.count for g in spec.layers if isinstance(g.mlp, DenseMlp))
    assert (dense, spec.moe_layers) == (25, 23)


def test_hunyuan_lists_per_layer() -> None:
    data = config("tencent/Hunyuan-A13B-Instruct")
    data["moe_topk"] = [8] * 31 + [4]
    data["moe_intermediate_size"] = [3072] * 32
    spec = read_model(data, model_id="x")
    assert [(g.count, g.mlp.top_k) for g in spec.layers if isinstance(g.mlp, MoeMlp)] == [(31, 8), (1, 4)]


def test_ernie_vl_lists_are_text_and_vision() -> None:
    data = config("baidu/ERNIE-4.5-21B-A3B-PT")
    data["moe_num_experts"], data["moe_intermediate_size"] = [64, 64], [1536, 512]
    spec, text = read_model(data, model_id="x"), load_model("ernie-4.5-21b-a3b")
    assert spec.layers == text.layers
    assert spec.total_parameters - text.total_parameters == 27 * 64 * 3 * 2560 * 512


def test_longcat_layers_hold_two_attention_blocks_and_identity_experts() -> None:
    spec = load_model("longcat-flash")
    assert (spec.num_layers, spec.moe_layers) == (56, 28)
    assert spec.moe is not None
    assert spec.moe.routed_top_k == pytest.approx(8.0)
    assert spec.mean_active_parameters / 1e9 == pytest.approx(27.9, abs=0.2)  # published average about 27B


def test_llama4_chunks_grow_like_full_layers_and_alternate_with_dense_ones() -> None:
    spec = load_model("llama-4-maverick")
    chunked = [g for g in spec.layers if isinstance(g.attention, GqaAttention) and g.attention.chunked]
    assert sum(g.count for g in chunked) == 36
    assert all(spec.layer_kv_bytes_per_token(g, KvDtype.BF16) == 4096 for g in chunked)
    assert (spec.moe_layers, spec.fixed_state_bytes()) == (24, 0.0)


def test_kimi_k3_kinds() -> None:
    spec = load_model("kimi-k3")
    kinds = [(type(g.attention), g.count) for g in spec.layers]
    assert kinds == [(LinearAttention, 1), (LinearAttention, 68), (MlaAttention, 24)]
    assert spec.moe is not None
    assert (spec.moe.hidden, spec.hidden) == (3584, 7168)


def test_mtp_weights_of_deepseek_v3_match_the_published_checkpoint() -> None:
    """685 B in the files against 671 B without MTP; embedding and head of the MTP layer are copies (1.85 B)."""
    spec = load_model("deepseek-v3")
    assert (spec.total_parameters + spec.mtp_parameters) / 1e9 + 1.85 == pytest.approx(685, rel=0.003)


def test_parts_add_up_for_every_model() -> None:
    for e in list_models():
        spec = load_model(e.id)
        layers = sum(
            g.count
            * (
                (g.attention.parameters if g.attention is not None else 0.0)
                + (spec.mlp_parameters(g.mlp) if g.mlp is not None else 0.0)
            )
            for g in spec.layers
        )
        assert layers + spec.embedding_parameters + spec.other_parameters == pytest.approx(
            spec.total_parameters
        )
        assert spec.other_parameters < 0.015 * spec.total_parameters, e.id
        assert 0 < spec.active_parameters <= spec.total_parameters
        assert spec.mean_active_parameters <= spec.active_parameters


# --- refusals ---


def refuse(data: object, tmp_path: Path) -> InputError:
    file = tmp_path / "config.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(InputError) as e:
        read_model(file, model_id="x")
    assert e.value.exit_code is ExitCode.USAGE
    return e.value


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"num_hidden_layers": 0}, "model.key-invalid", "num_hidden_layers"),
        ({"num_hidden_layers": -3}, "model.key-invalid", "num_hidden_layers"),
        ({"num_hidden_layers": 10**7}, "model.key-invalid", "num_hidden_layers"),
        ({"hidden_size": "4096"}, "model.key-invalid", "hidden_size"),
        ({"hidden_size": 4096.5}, "model.key-invalid", "hidden_size"),
        ({"hidden_size": True}, "model.key-invalid", "hidden_size"),
        ({"hidden_size": 1e400}, "model.key-invalid", "hidden_size"),
        ({"n_routed_experts": 4}, "model.key-invalid", "$"),
        ({"tie_word_embeddings": "no"}, "model.key-invalid", "tie_word_embeddings"),
        ({"architectures": ["DeepseekV9ForCausalLM"]}, "model.architecture-unknown", "architectures"),
        ({"compress_ratios": [4, 128]}, "model.unsupported-structure", "compress_ratios"),
        ({"ssm_state_size": 128}, "model.unsupported-structure", "ssm_state_size"),
        ({"sliding_window": 4096}, "model.unsupported-structure", "sliding_window"),
        (
            {"index_topk": 2048, "architectures": ["Glm4MoeForCausalLM"]},
            "model.unsupported-structure",
            "index_topk",
        ),
    ],
)
def test_bad_values(changes: dict[str, object], code: str, where: str, tmp_path: Path) -> None:
    error = refuse({**config("deepseek-ai/DeepSeek-V3"), **changes}, tmp_path)
    matching = [i for i in error.issues if i.code == code and where in (i.where or "")]
    assert matching, error.issues
    assert all(i.fix and i.why for i in error.issues)


def test_unknown_architecture_suggests_a_known_one(tmp_path: Path) -> None:
    error = refuse(
        {**config("deepseek-ai/DeepSeek-V3"), "architectures": ["DeepseekV9ForCausalLM"]}, tmp_path
    )
    assert "DeepseekV" in error.issues[0].fix


def test_experts_in_a_dense_family_are_refused(tmp_path: Path) -> None:
    error = refuse({**config("Qwen/Qwen3-8B"), "num_experts": 64}, tmp_path)
    assert error.issues[0].code == "model.unsupported-structure"


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"a": 1,}', "null", "\x00", "[" * 100_000])
def test_malformed_json(text: str, tmp_path: Path) -> None:
    assert refuse(text, tmp_path).issues[0].code == "file.malformed"


def test_malformed_json_names_the_line(tmp_path: Path) -> None:
    assert "line 3" in refuse('{\n "a": 1,\n "b": x\n}', tmp_path).issues[0].why


def test_other_unreadable_files(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"file\.unreadable"):
        read_model(file, model_id="x")
    with pytest.raises(MissingDataError, match=r"model\.file-missing"):
        read_model(tmp_path / "nowhere" / "config.json", model_id="x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError, match=r"model\.file-missing"):
        read_model(tmp_path / "empty", model_id="x")


def test_infinity_as_real_files_have_it_is_accepted(tmp_path: Path) -> None:
    data = {**config("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"), "time_step_limit": [0.0, float("inf")]}
    (tmp_path / "config.json").write_text(json.dumps(data))
    assert isinstance(read_model(tmp_path, model_id="x"), ModelSpec)


def test_folder_with_hf_quant_config(tmp_path: Path) -> None:
    data = entry("nvidia/DeepSeek-V3.1-NVFP4")
    (tmp_path / "config.json").write_text(json.dumps(data["config"]))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(data["quant_config"]))
    assert load_model(str(tmp_path)).quantization == load_model("nvidia/DeepSeek-V3.1-NVFP4").quantization


def test_multimodal_models_are_marked() -> None:
    assert load_model("kimi-k2.5").encoder
    assert load_model("nvidia/MiniMax-M3-NVFP4").encoder
    assert not load_model("MiniMaxAI/MiniMax-M3").encoder
    assert not load_model("deepseek-v3").encoder
