"""The shipped entries: sizes as stored with each, the index, look-up, overlays and the local cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.catalog.locate import data_root
from planner.catalog.models import list_models, load_model
from planner.catalog.models.catalogue import INDEX_FILE, build_index, read_entry, slug
from planner.domain.dtypes import KvDtype
from planner.domain.errors import ExitCode, InputError, MissingDataError
from planner.domain.model import MoeMlp

FOLDER = data_root() / "profiles" / "models"
FILES = sorted(f for f in FOLDER.glob("*.json") if f.name != INDEX_FILE)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_entry_agrees_with_its_expected_sizes(file: Path) -> None:
    """Parameters within 0.5 % (or the last printed digit), KV bytes and fixed state exact."""
    expected = json.loads(file.read_text())["expected"]
    spec = read_entry(file)
    measured = {
        "total_parameters_b": (spec.total_parameters, 0.05),
        "active_parameters_b": (spec.active_parameters, 0.05),
        "non_expert_parameters_b": (spec.total_parameters - spec.expert_parameters, 0.005),
    }
    assert "total_parameters_b" in expected
    for key, (value, half_digit) in measured.items():
        if key in expected:
            assert value / 1e9 == pytest.approx(expected[key], rel=0.005, abs=half_digit * 1.001), key
    if spec.moe is not None:
        assert spec.kv_bytes_per_token(KvDtype.BF16) == expected["kv_bytes_per_token_bf16"]
        assert spec.kv_bytes_per_token(KvDtype.FP8) == expected["kv_bytes_per_token_fp8"]
        assert spec.fixed_state_bytes() == expected["fixed_state_bytes_per_seq"]


def test_catalogue_has_at_least_60_moe_checkpoints() -> None:
    assert sum(e.experts > 1 for e in list_models()) >= 60


def test_index_is_in_step_with_the_entries() -> None:
    """`planner.catalog.models.catalogue.build_index` writes the file; it must be run after any change."""
    assert (FOLDER / INDEX_FILE).read_text() == build_index(FOLDER)


def test_ids_aliases_and_file_names_are_unique_and_regular() -> None:
    entries = list_models()
    names = [n for e in entries for n in (e.id.lower(), *e.aliases)]
    assert len(names) == len(set(names))
    assert all(e.file == f"{slug(e.id)}.json" for e in entries)
    assert all(a == a.lower() for e in entries for a in e.aliases)


def test_every_entry_states_source_and_date() -> None:
    for file in FILES:
        data = json.loads(file.read_text())
        assert data["source"], file
        assert len(data["date"]) == 10, file
        assert isinstance(data["confirmed"], bool), file


def test_models_written_from_memory_are_marked() -> None:
    unconfirmed = {e.id for e in list_models() if not e.confirmed}
    assert unconfirmed == {
        "baidu/ERNIE-4.5-300B-A47B-PT",
        "tencent/Hunyuan-A13B-Instruct",
        "inclusionAI/Ling-1T",
        "inclusionAI/Ring-1T",
    }
    assert not load_model("ling-1t").confirmed
    assert all("memory" in e.source for e in list_models() if not e.confirmed)


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-R1", "deepseek-r1", "DEEPSEEK-R1", " deepseek-r1 "])
def test_id_and_alias_find_one_model(name: str) -> None:
    spec = load_model(name)
    assert spec.id == "deepseek-ai/DeepSeek-R1"
    assert spec.source
    assert spec.source_date
    assert "deepseek-r1" in spec.aliases


def test_loading_one_model_reads_two_files(monkeypatch) -> None:
    """One model costs the index and its own file, however large the catalogue (timings: benchmarks/)."""
    read: list[str] = []
    original = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, *a, **k: (read.append(self.name), original(self, *a, **k))[1]
    )
    for name in ("deepseek-r1", "nvidia/MiniMax-M3-NVFP4", "moonshotai/Kimi-K3"):
        read.clear()
        load_model(name)
        assert len([n for n in read if n.endswith(".json")]) <= 2, read


def test_unknown_model_names_close_ones_and_the_missing_file(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MissingDataError) as e:
        load_model("deepseek-ai/DeepSeek-R2")
    issue = e.value.issues[0]
    assert issue.code == "model.unknown"
    assert e.value.exit_code is ExitCode.MISSING_DATA
    assert "deepseek-ai/DeepSeek-R1" in issue.fix
    assert "config.json" in issue.fix
    assert str(tmp_path) in issue.why


def test_empty_name_is_refused() -> None:
    with pytest.raises(InputError):
        load_model("  ")


def _config(name: str) -> dict[str, object]:
    return json.loads((FOLDER / f"{slug(name)}.json").read_text())["config"]


def test_local_hub_cache_supplies_models_the_catalogue_lacks(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    repo = tmp_path / "hub" / "models--acme--Big-MoE"
    for revision, experts in (("aaa", 64), ("bbb", 128)):
        snapshot = repo / "snapshots" / revision
        snapshot.mkdir(parents=True)
        config = {**_config("Qwen/Qwen3-30B-A3B"), "num_experts": experts}
        (snapshot / "config.json").write_text(json.dumps(config))
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("aaa\n")
    spec = load_model("acme/Big-MoE")
    assert spec.id == "acme/Big-MoE"
    assert spec.moe is not None
    assert spec.moe.experts == 64  # the main revision
    assert "cache" in spec.source


def test_cached_repository_without_a_config_is_named_missing(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--acme--Empty" / "snapshots" / "abc").mkdir(parents=True)
    with pytest.raises(MissingDataError, match=r"model\.unknown"):
        load_model("acme/Empty")


def test_overlay_entry_comes_first_and_shows_in_the_list(tmp_path) -> None:
    (tmp_path / "models").mkdir()
    config = {**_config("deepseek-ai/DeepSeek-R1"), "num_hidden_layers": 30}
    entry = {"id": "deepseek-ai/DeepSeek-R1", "source": "mine", "date": "2026-11-29", "config": config}
    (tmp_path / "models" / "mine.json").write_text(json.dumps(entry))
    assert load_model("deepseek-ai/DeepSeek-R1", overlay=tmp_path).num_layers == 30
    assert load_model("deepseek-ai/DeepSeek-R1").num_layers == 61
    listed = {e.id: e for e in list_models(overlay=tmp_path)}
    assert listed["deepseek-ai/DeepSeek-R1"].source == "mine"
    assert len(listed) == len(list_models())


def test_overlay_in_yaml(tmp_path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small.yaml").write_text(
        "id: acme/small\naliases: [small]\nsource: lab notes\ndate: 2026-11-29\nconfig:\n"
        "  architectures: [MixtralForCausalLM]\n  hidden_size: 512\n  intermediate_size: 1024\n"
        "  num_hidden_layers: 2\n  num_attention_heads: 8\n  num_key_value_heads: 2\n  num_local_experts: 4\n"
        "  num_experts_per_tok: 2\n  vocab_size: 1000\n  max_position_embeddings: 4096\n"
    )
    spec = load_model("small", overlay=tmp_path)
    assert spec.kv_bytes_per_token(KvDtype.BF16) == 2 * 2 * 2 * 64 * 2
    assert isinstance(spec.layers[0].mlp, MoeMlp)


def test_entry_whose_published_size_does_not_follow_is_refused(tmp_path) -> None:
    (tmp_path / "models").mkdir()
    entry = json.loads((FOLDER / "deepseek-ai--deepseek-r1.json").read_text())
    entry["config"]["n_routed_experts"] = 128
    (tmp_path / "models" / "r1.json").write_text(json.dumps(entry))
    with pytest.raises(InputError, match=r"model\.size-mismatch"):
        load_model("deepseek-r1", overlay=tmp_path)


def test_bare_config_as_an_entry_is_refused_with_every_missing_key(tmp_path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bare.json").write_text('{"hidden_size": 4096}')
    with pytest.raises(InputError) as e:
        load_model("anything", overlay=tmp_path)
    assert {i.code for i in e.value.issues} == {"model.entry-invalid"}
    assert len(e.value.issues) == 4
