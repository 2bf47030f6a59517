"""Reading measured-points files: every quirk of the sources resolved once, every bad file refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.domain.errors import InputError
from planner.measurements.points import Metric, Point, PointMode, RefusedPoint, number, read_points

HEADER = (
    "id,source,date,model,quantization,gpu,engine,mode,prefill_workers,prefill_tp,prefill_dp,prefill_ep,"
    "decode_workers,decode_tp,decode_dp,decode_ep,total_gpus,isl,osl,prefix_hit_or_shared_tokens,concurrency,"
    "request_rate,mtp,output_tok_s_per_gpu,ttft_ms_p50,tpot_ms_mean,tpot_ms_p50,tok_s_user,notes"
)
PLAIN = {
    "id": "a", "model": "DeepSeek-R1", "quantization": "fp8", "gpu": "H200", "engine": "sglang", "mode": "agg",
    "decode_workers": "1", "decode_tp": "8", "decode_dp": "1", "decode_ep": "1", "total_gpus": "8", "isl": "1024",
    "osl": "1024", "concurrency": "16", "tpot_ms_p50": "15.5", "ttft_ms_p50": "120",
}  # fmt: skip


def write(path: Path, *rows: dict[str, str]) -> Path:
    names = HEADER.split(",")
    lines = [",".join(row.get(n, "") for n in names) for row in rows]
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def one(tmp_path: Path, **changes: str) -> Point:
    (row,) = read_points(write(tmp_path / "p.csv", PLAIN | changes)).rows
    assert isinstance(row, Point), row
    return row


def refused(tmp_path: Path, **changes: str) -> RefusedPoint:
    (row,) = read_points(write(tmp_path / "p.csv", PLAIN | changes)).rows
    assert isinstance(row, RefusedPoint), row
    return row


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12.0),
        ("~400", 400.0),
        ("1000-2000", 1500.0),
        ("2k", 2000.0),
        ("inf", None),
        ("", None),
        ("1.5e3", 1500.0),
    ],
)
def test_numbers_as_sources_write_them(text: str, value: float | None) -> None:
    assert number(text) == value


def test_plain_row(tmp_path: Path) -> None:
    row = one(tmp_path)
    assert row.config.mode is PointMode.AGGREGATED
    assert row.config.decode is not None
    assert (row.config.decode.tp, row.config.decode.dp, row.config.decode.gpus) == (8, 1, 8)
    assert row.measured == {Metric.TPOT: 15.5, Metric.TTFT: 120.0}
    assert row.scored


def test_tp_is_the_worker_size_when_attention_is_data_parallel(tmp_path: Path) -> None:
    row = one(tmp_path, decode_tp="8", decode_dp="8", decode_ep="8", total_gpus="8")
    assert row.config.decode is not None
    assert (row.config.decode.tp, row.config.decode.dp, row.config.decode.gpus) == (1, 8, 8)
    both = one(tmp_path, decode_tp="4", decode_dp="8", decode_ep="32", total_gpus="32")
    assert both.config.decode is not None
    assert (both.config.decode.tp, both.config.decode.dp) == (4, 8)


def test_prefill_takes_what_the_decode_side_leaves(tmp_path: Path) -> None:
    row = one(
        tmp_path, mode="disagg", prefill_workers="1", prefill_tp="1", prefill_dp="1", prefill_ep="1",
        decode_workers="4", decode_tp="1", decode_dp="4", total_gpus="20",
    )  # fmt: skip
    assert row.config.prefill is not None
    assert row.config.prefill.gpus == 4


def test_denominator_follows_the_row_s_own_definition(tmp_path: Path) -> None:
    sides = {
        "mode": "disagg",
        "prefill_workers": "1",
        "prefill_tp": "8",
        "prefill_dp": "1",
        "total_gpus": "16",
    }
    assert one(tmp_path, **sides).output_denominator_gpus == 16
    note = {"notes": "output rate is per DECODE GPU"}
    assert one(tmp_path, **sides, **note).output_denominator_gpus == 8
    assert one(tmp_path, **sides, source="InferenceX history").output_denominator_gpus == 8


def test_inferencex_lengths_are_nine_tenths_of_nominal(tmp_path: Path) -> None:
    row = one(tmp_path, source="InferenceX history", isl="8192", osl="1024")
    assert (row.config.isl, row.config.osl) == (7373, 922)
    assert one(tmp_path, isl="8192").config.isl == 8192


def test_shared_prefix_becomes_a_hit(tmp_path: Path) -> None:
    row = one(tmp_path, isl="6000 shared prefix + 500 question (workload)")
    assert row.config.isl == 6500
    assert row.config.prefix_hit == pytest.approx(6000 / 6500)
    assert one(tmp_path, prefix_hit_or_shared_tokens="92.2% hit").config.prefix_hit == pytest.approx(0.922)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("trt", "trtllm"), ("dynamo-trt", "trtllm"), ("TensorRT-LLM + Dynamo", "trtllm"), ("vllm + llm-d", "vllm"),
        ("mori-sglang", "sglang"), ("dynamo-sglang", "sglang"), ("atom", "atom"), ("vllm-ascend", "vllm"),
    ],
)  # fmt: skip
def test_engines_and_their_launchers(tmp_path: Path, name: str, dialect: str) -> None:
    assert one(tmp_path, engine=name).config.dialect == dialect


def test_speculation_and_rates(tmp_path: Path) -> None:
    row = one(tmp_path, mtp="on (5)", tpot_ms_p50="", tok_s_user="50")
    assert row.config.mtp
    assert row.config.draft_tokens == 5
    assert row.measured[Metric.TPOT] == 20.0
    assert not one(tmp_path, mtp="off").config.mtp


def test_doubtful_rows_are_read_but_not_scored(tmp_path: Path) -> None:
    assert not one(tmp_path, notes="CONFIG SUSPECT: worker counts missing").scored
    assert not one(tmp_path, notes="QC-FAIL Little ratio 0.6").scored


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mode": ""}, "point.mode"),
        ({"mode": "other"}, "point.mode"),
        ({"engine": "deepseek internal"}, "point.engine"),
        ({"isl": ""}, "point.lengths"),
        ({"decode_tp": "", "decode_dp": "", "total_gpus": ""}, "point.widths"),
        ({"concurrency": "", "request_rate": "inf"}, "point.load"),
    ],
)
def test_rows_that_cannot_be_priced_say_why(tmp_path: Path, changes: dict[str, str], code: str) -> None:
    row = refused(tmp_path, **changes)
    assert row.code == code
    assert row.reason


@pytest.mark.parametrize("text", ["@@", "nan", "-3", "0", "1e999"])
def test_one_bad_number_costs_one_row(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "p.csv", PLAIN, PLAIN | {"concurrency": text}, PLAIN)
    rows = read_points(path).rows
    assert [type(r).__name__ for r in rows] == ["Point", "RefusedPoint", "Point"]
    assert rows[1].line == 3
    assert rows[1].code == "point.number"
    assert text in rows[1].reason


def test_missing_columns_and_short_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("model,gpu\nx,y\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_points(path)
    assert {i.code for i in caught.value.issues} == {"points.column_missing"}
    path.write_text(HEADER + "\na,b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"points\.columns") as short:
        read_points(path)
    assert short.value.issues[0].where == f"{path}:2"


def test_empty_and_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"points\.empty"):
        read_points(path)
    with pytest.raises(InputError, match=r"points\.unreadable"):
        read_points(tmp_path / "none.csv")
    path.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(InputError, match=r"points\.(malformed|column_missing)"):
        read_points(path)
