"""What an import refuses by name: GPUs nobody has a profile of, and text where a figure belongs."""

from __future__ import annotations

from typing import Any

import pytest

from planner.domain.deployment import Role
from planner.domain.errors import InputError
from planner.domain.measurement import Measurement
from planner.measurements.complete import AsWritten
from planner.measurements.documents import parse
from planner.measurements.draft import Supplied, parse_role
from planner.measurements.importing import read_document
from planner.measurements.names import CatalogueNames
from tests.measurements import samples as s

ROLE = parse_role("1x(tp1,dp16,ep16)", Role.AGGREGATED)
assert ROLE is not None
STATED = Supplied(model="m", gpu="H200", engine="vllm", engine_version="1", roles=(ROLE,), override=True)


def read(value: Any, supplied: Supplied = STATED, *, skip: bool = False) -> tuple[Measurement, ...]:
    content = value.encode() if isinstance(value, str) else s.dump(value)
    return read_document(
        parse(content, name="f"), supplied=supplied, names=CatalogueNames(), skip_incomplete=skip
    ).measurements


@pytest.mark.parametrize("gpu", ["H2000", "quantum-9000"])
def test_a_gpu_without_a_profile_is_refused_with_near_names(gpu: str) -> None:
    with pytest.raises(InputError) as caught:
        read(s.vllm(gpu=gpu), Supplied())
    (issue,) = caught.value.issues
    assert issue.code == "gpu.unknown"
    assert gpu in issue.what
    assert ("h200-sxm" in issue.fix or "h20" in issue.fix) if gpu == "H2000" else "profiles list" in issue.fix
    with pytest.raises(InputError, match=r"gpu\.unknown"):
        read(s.vllm(gpu="H200"), Supplied(gpu=gpu, override=True))
    assert read(s.vllm(gpu=gpu), Supplied(gpu="H200", override=True))[0].gpu == "h200-sxm"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (s.vllm(output_throughput="abc"), "output_throughput"),
        (s.vllm(median_tpot_ms="12,5"), "median_tpot_ms"),
        (s.inferencex(median_ttft="soon"), "median_ttft"),
        (
            s.aiperf(output_token_throughput={"unit": "tokens/sec", "avg": "abc"}),
            "output_token_throughput.avg",
        ),
    ],
)
def test_text_in_a_figure_is_named_with_its_place(document: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as caught:
        read(document)
    assert [i.code for i in caught.value.issues] == ["measurement.not_a_number"]
    assert caught.value.issues[0].what.startswith(place)


def test_text_deep_inside_a_report_is_found() -> None:
    report = s.inference_perf()
    report["successes"]["throughput"]["output_tokens_per_sec"] = "fast"
    with pytest.raises(InputError) as caught:
        read(report)
    assert "successes.throughput.output_tokens_per_sec is 'fast'" in caught.value.issues[0].what


@pytest.mark.parametrize("blank", ["", "-", "N/A", "nan", "inf", None])
def test_blanks_are_not_damage(blank: str | None) -> None:
    (m,) = read(s.vllm(request_throughput=blank))
    assert m.result.requests_per_s is None


def test_a_damaged_row_is_skipped_on_request_and_the_others_kept() -> None:
    table = s.csv_text(s.csv_row(), s.csv_row(tpot_ms_p50="oops"), s.csv_row(concurrency=64))
    with pytest.raises(InputError) as caught:
        read(table, Supplied())
    assert "row 2" in (caught.value.issues[0].where or "")
    assert len(read(table, Supplied(), skip=True)) == 2


def test_a_damaged_figure_stays_refused_when_the_widths_are_stated() -> None:
    row = s.csv_row(output_tok_s_per_gpu="x", total_gpus=7)
    with pytest.raises(InputError) as caught:
        read_document(parse(s.csv_text(row).encode(), name="f"), supplied=STATED, names=AsWritten())
    assert [i.code for i in caught.value.issues] == ["measurement.not_a_number"]
