"""``planner models``: what it prints, how wide, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.catalog.locate import data_root
from planner.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        main(["models", *arguments])
        code = 0
    except SystemExit as e:
        code = int(e.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def config(tmp_path: Path) -> Path:
    entry = json.loads((data_root() / "profiles" / "models" / "deepseek-ai--deepseek-r1.json").read_text())
    file = tmp_path / "config.json"
    file.write_text(json.dumps(entry["config"]))
    return file


@pytest.mark.parametrize(
    "arguments", [("list",), ("show", "deepseek-v4-flash"), ("show", "kimi-k3"), ("show", "gemma-4-26b-a4b")]
)
def test_output_fits_100_columns(capsys, arguments) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= 100


def test_list_filters_by_id_and_kind(capsys) -> None:
    _, out, _ = run(capsys, "list", "MLA + DSA")
    assert "DeepSeek-V3.2" in out
    assert "GLM-5.2" in out
    assert "Mixtral" not in out
    code, _, err = run(capsys, "list", "mixtrl")
    assert code == 2
    assert "mixtral" in err


def test_list_marks_unconfirmed_models(capsys) -> None:
    _, out, _ = run(capsys, "list", "ling-1t")
    assert "Ling-1T *" in out
    assert "not confirmed" in out


def test_list_json(capsys) -> None:
    code, out, _ = run(capsys, "list", "gpt-oss", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "wideplan.models/v1"
    assert [m["id"] for m in document["models"]] == ["openai/gpt-oss-120b", "openai/gpt-oss-20b"]
    assert document["models"][0]["kv_bytes_per_token_bf16"] == 36_864


def test_show_gives_sizes_formulas_and_source(capsys) -> None:
    code, out, _ = run(capsys, "show", "deepseek-v3.2")
    assert code == 0
    for text in (
        "671.9 B",
        "38.4 B",
        "85,888 B per token",
        "48,068 B",
        "656 B",
        "aiconfigurator-core 0.12.0",
    ):
        assert text in out


def test_show_warns_about_unconfirmed_models(capsys) -> None:
    _, out, _ = run(capsys, "show", "hunyuan-a13b")
    assert "NOT CONFIRMED" in out


def test_show_json(capsys) -> None:
    _, out, _ = run(capsys, "show", "qwen3.5-397b-a17b", "--json")
    document = json.loads(out)
    assert document["schema"] == "wideplan.model/v1"
    assert document["fixed_state_bytes_per_seq"]["bf16"] == 193_167_360
    assert sum(line["count"] for line in document["layers"]) == 60
    assert document["parameters"]["total"] == pytest.approx(396.3e9, rel=0.005)


def test_show_unknown(capsys) -> None:
    code, out, err = run(capsys, "show", "deepseek-r11")
    assert (code, out) == (3, "")
    assert "did you mean 'deepseek-r1'" in err


def test_check_understands_file_and_folder(capsys, config: Path) -> None:
    for path in (config, config.parent):
        code, out, _ = run(capsys, "check", str(path))
        assert code == 0
        assert "understood" in out
        assert "671.0 B" in out


def test_check_names_all_missing_keys_and_exits_2(capsys, config: Path) -> None:
    data = json.loads(config.read_text())
    del data["kv_lora_rank"], data["vocab_size"]
    config.write_text(json.dumps(data))
    code, out, err = run(capsys, "check", str(config))
    assert (code, out) == (2, "")
    assert "missing key 'kv_lora_rank'" in err
    assert "missing key 'vocab_size'" in err
    assert f"{config} @ $.kv_lora_rank" in err
    assert "Traceback" not in err
    code, out, _ = run(capsys, "check", str(config), "--json")
    document = json.loads(out)
    assert code == 2
    assert document["ok"] is False
    assert [i["code"] for i in document["issues"]] == ["model.key-missing"] * 2


def test_check_of_a_missing_file(capsys, tmp_path: Path) -> None:
    code, _, err = run(capsys, "check", str(tmp_path / "config.json"))
    assert code == 3
    assert "model.file-missing" in err


def test_overlay(capsys, config: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    entry = {"id": "acme/r1", "source": "lab", "date": "2026-11-29", "config": json.loads(config.read_text())}
    (tmp_path / "models" / "r1.json").write_text(json.dumps(entry))
    code, out, _ = run(capsys, "show", "acme/r1", "--profiles", str(tmp_path))
    assert code == 0
    assert "671.0 B" in out
    _, out, _ = run(capsys, "list", "acme", "--profiles", str(tmp_path))
    assert "r1" in out
