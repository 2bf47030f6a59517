"""What is brought along is bounded, read as data, kept under its own hash, and written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = {"content-type": "application/octet-stream"}
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 24,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def _send(console: Any, path: str, body: bytes, **query: str) -> Any:
    return console.ask("POST", f"/api/v1/uploads/{path}", content=body, headers=BINARY, params=query)


def test_a_model_that_is_brought_along_can_be_planned(console: Any) -> None:
    made = _send(console, "model", json.dumps(CONFIG).encode(), name="config.json")
    assert made.status_code == 201, made.text
    model = made.json()["model"]
    assert model.startswith("upload:")
    question = {"model": model, "gpu": "h100-sxm", "gpus": "8", "isl": "1000", "osl": "500"}
    page = console.get("/api/v1/frontier", **question)
    assert page.status_code == 200, page.text
    assert page.json()["total"] > 0
    checked = console.get("/api/v1/form/check", **question).json()
    assert checked["ready"]
    assert "config.json" in checked["command"]
    for text in (page.text, json.dumps(checked)):
        assert str(console.settings.uploads) not in text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model_type": "nope"}',
        b"\xff\xfe",
        b'{"a": ' * 3000,
        b"!!python/object:os.system",
        b"1e999",
    ],
)
def test_what_is_no_model_is_refused_and_not_kept(console: Any, body: bytes) -> None:
    before = sorted(console.settings.uploads.rglob("*")) if console.settings.uploads.exists() else []
    answer = _send(console, "model", body)
    assert answer.status_code in {404, 422}, answer.text
    assert answer.json()["issues"][0]["fix"]
    after = sorted(console.settings.uploads.rglob("*")) if console.settings.uploads.exists() else []
    assert after == before


def test_an_upload_is_bounded(console: Any) -> None:
    assert _send(console, "model", b" " * (33 * 1024 * 1024)).status_code == 413


@pytest.mark.parametrize(
    "name", ["../../evil.json", "/etc/passwd", "..", "", "a\u0000b.csv", "<img src=x>.json", "x" * 199]
)
def test_names_of_files_are_not_paths(console: Any, name: str) -> None:
    answer = _send(console, "measurements", b"{}", name=name)
    assert answer.status_code == 422
    assert "/wideplan-" not in answer.text


def test_measurements_are_imported_once_and_written_down(console: Any) -> None:
    header = (
        "id,source,date,model,gpu,engine,engine_version,mode,prefill_groups,prefill_tp,prefill_dp,prefill_ep,decode_groups,"
        "decode_tp,decode_dp,decode_ep,total_gpus,isl,osl,concurrency,output_tok_s_per_gpu,ttft_ms_p50,tpot_ms_p50"
    )
    row = "a1,own,2026-01-02,openai/gpt-oss-120b,h100-sxm,vllm,0.33.0,agg,,,,,1,4,1,1,4,1000,500,32,900,300,9"
    body = f"{header}\n{row}\n".encode()
    made = _send(console, "measurements", body, name="mine.csv")
    assert made.status_code == 201, made.text
    assert made.json()["new"] == 1
    again = _send(console, "measurements", body, name="mine.csv").json()
    assert (again["new"], again["duplicates"]) == (0, 1)
    listed = console.get("/api/v1/measurements").json()
    assert listed["total"] == 1
    assert listed["measurements"][0]["file"] == "mine.csv"
    entry = console.get("/api/v1/audit").json()["entries"][0]
    assert entry["action"] == "measurements.import"
    assert entry["actor"] == "console:tester"


def test_points_are_scored_in_a_process_of_their_own(console: Any) -> None:
    points = ROOT.parent / "shared" / "data" / "measured_points.csv"
    if not points.exists():
        pytest.skip("needs the development data beside the checkout")
    body = b"".join(points.read_bytes().splitlines(keepends=True)[:25])
    made = _send(console, "points", body)
    assert made.status_code == 201, made.text
    page = console.get("/api/v1/accuracy", file=made.json()["file"]).json()
    assert page["rows"] == 24
    assert page["groups"][0]["kind"] == "all"
    assert console.get("/api/v1/accuracy", file="0" * 16).status_code == 404
    assert console.get("/api/v1/accuracy", file="../x").status_code == 422


def test_a_saved_plan_is_found_by_its_hash(console: Any) -> None:
    saved = console.ask("POST", "/api/v1/plans", json={"plan": {"recipe": "gpt-oss-120b-h200x8", "point": 3}})
    assert saved.status_code == 201, saved.text
    digest = saved.json()["hash"]
    shown = console.get("/api/v1/plan", saved=digest).json()
    assert shown["label"] == saved.json()["label"]
    document = console.get("/api/v1/plan.json", saved=digest)
    assert document.json()["schema"] == "wideplan.plan/v1"
    assert "attachment" in document.headers["content-disposition"]
    assert console.get("/api/v1/plan", saved="nothing").status_code == 404
