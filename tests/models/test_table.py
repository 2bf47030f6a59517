"""Every row of the development table of published checkpoints, by catalogue and by original config file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner.catalog.models import load_model, read_model
from planner.domain.dtypes import KvDtype
from planner.domain.model import ModelSpec

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
CONFIGS = DATA / "hf_configs"
TABLE = DATA / "models.csv"

pytestmark = pytest.mark.skipif(not TABLE.exists(), reason="development data not here")


def _rows() -> list[dict[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open(newline="") as f:
        return list(csv.DictReader(f))


def _ids(row: dict[str, str]) -> list[str]:
    """``zai-org/GLM-4.6 / GLM-4.7`` and ``x (355B-A32B)`` name two checkpoints and a remark."""
    first, *others = [part.split(" (")[0].strip() for part in row["model"].split(" / ")]
    return [first, *(f"{first.split('/')[0]}/{o}" for o in others)]


ROWS = [(name, row) for row in _rows() for name in _ids(row)]
WITH_FILES = [(n, r) for n, r in ROWS if (CONFIGS / f"{n.replace('/', '--')}_config.json").exists()]


def _check(spec: ModelSpec, row: dict[str, str]) -> None:
    for value, column, half_digit in (
        (spec.total_parameters, "total_params_B", 0.05),
        (spec.active_parameters, "active_params_B", 0.05),
        (spec.expert_parameters, "routed_expert_params_B", 0.05),
        (spec.total_parameters - spec.expert_parameters, "non_expert_params_B", 0.005),
    ):
        assert value / 1e9 == pytest.approx(float(row[column]), rel=0.005, abs=half_digit * 1.001), column
    assert spec.kv_bytes_per_token(KvDtype.BF16) == float(row["kv_bytes_per_token_bf16"])
    assert spec.kv_bytes_per_token(KvDtype.FP8) == float(row["kv_bytes_per_token_fp8"])
    assert spec.fixed_state_bytes() == float(row["fixed_state_bytes_per_seq"])
    assert spec.mtp_layers == int(row["mtp_layers"])
    assert spec.max_position == int(row["max_position"])
    assert spec.tied_embeddings == (row["tied_embeddings"] == "True")


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[n for n, _ in ROWS])
def test_catalogue_entry(name: str, row: dict[str, str]) -> None:
    spec = load_model(name)
    _check(spec, row)
    assert spec.confirmed == ("UNCONFIRMED" not in row["config_source"])


@pytest.mark.parametrize(("name", "row"), WITH_FILES, ids=[n for n, _ in WITH_FILES])
def test_original_config(name: str, row: dict[str, str]) -> None:
    """The original files give the same structure and formats as our entries, so the entries lost nothing."""
    stem = name.replace("/", "--")
    quant = CONFIGS / f"{stem}_hf_quant_config.json"
    spec = read_model(CONFIGS / f"{stem}_config.json", model_id=name, quant=quant if quant.exists() else None)
    _check(spec, row)
    ours = load_model(name)
    assert spec.layers == ours.layers
    assert spec.quantization == ours.quantization


# The table classes whole checkpoints ("experts + shared; attention bf16"); where module lists say more, the bytes
# differ. Reasons: output projections in 4 bit (V3.1, V3.2), MXFP8 and FP8 attention (M3, Qwen3.6, Lightning),
# most mixers in 4 bit (Nemotron Nano), dense layers or MLPs left in bf16 (GLM-5.x, K2.6, K2.7, Gemma).
MODULE_LISTS_SAY_MORE = (
    "DeepSeek-V3.1-NVFP4",
    "DeepSeek-V3.2-NVFP4",
    "MiniMax-M3-NVFP4",
    "Qwen3.6-35B-A3B-NVFP4",
    "Nemotron-3.5-Lightning",
    "Nemotron-3-Nano-30B-A3B-NVFP4",
    "Gemma-4-26B-A4B-NVFP4",
)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[n for n, _ in ROWS])
def test_weight_bytes(name: str, row: dict[str, str]) -> None:
    tolerance = 0.12 if any(m in name for m in MODULE_LISTS_SAY_MORE) else 0.005
    assert load_model(name).weight_bytes / 1e9 == pytest.approx(
        float(row["weight_GB"]), rel=tolerance, abs=0.06
    )


def test_every_config_file_is_read() -> None:
    files = [f for f in CONFIGS.glob("*_config.json") if not f.name.endswith("_hf_quant_config.json")]
    assert len(files) > 80
    for file in files:
        assert read_model(file, model_id=file.stem).total_parameters > 5e8
