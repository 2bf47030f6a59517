"""Scores of predictions, and the two commands that print them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_points import PLAIN, write

from planner.analytic.closed_loop import closed_loop_wait_ms
from planner.measurements.points import Metric, Point, read_points
from planner.measurements.predictions import PointPrediction, predict_points
from planner.measurements.validation import kendall_tau, validate

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured_points.csv"
GPTOSS = PLAIN | {
    "model": "gpt-oss-120b",
    "quantization": "mxfp4",
    "engine": "vllm",
    "decode_tp": "2",
    "total_gpus": "2",
}
SWEEP = [GPTOSS | {"id": f"g{c}", "concurrency": str(c), "tpot_ms_p50": str(3 + c / 8)} for c in (4, 16, 64)]
BAD = [
    GPTOSS | {"id": "suspect", "notes": "CONFIG SUSPECT: widths"},
    GPTOSS | {"id": "nogpu", "gpu": "not visible"},
    GPTOSS | {"id": "noengine", "engine": "something internal"},
]


def test_kendall_tau_counts_pairs() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=9), rng.normal(size=9)
    pairs = list(combinations(range(9), 2))
    agree = sum(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs)
    assert kendall_tau(list(a), list(b)) == pytest.approx(agree / len(pairs))
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1.0
    assert math.isnan(kendall_tau([1, 2], [5, 5]))


def test_answers_carry_intervals_and_do_not_depend_on_their_neighbours(tmp_path: Path) -> None:
    together = predict_points(read_points(write(tmp_path / "all.csv", *SWEEP, *BAD)))
    alone = predict_points(read_points(write(tmp_path / "one.csv", SWEEP[1])))
    first, second = together[1], alone[0]
    assert isinstance(first, PointPrediction)
    assert isinstance(second, PointPrediction)
    for metric in Metric:
        e = first.values[metric]
        assert e.low < e.value < e.high
        assert second.values[metric].value == pytest.approx(e.value, rel=1e-9)
    codes = [getattr(a, "code", None) for a in together]
    assert codes == [None, None, None, None, "gpu.unknown", "point.engine"]


def test_flagged_rows_are_answered_and_not_scored(tmp_path: Path) -> None:
    result = validate(predict_points(read_points(write(tmp_path / "p.csv", *SWEEP, *BAD))))
    assert (result.rows, result.answered, result.scored) == (6, 4, 3)
    assert result.refused == {"gpu.unknown": 1, "point.engine": 1}
    assert result.order[Metric.TPOT].sweeps == 1
    assert result.order[Metric.TPOT].median == 1.0
    everything = result.group("all", "all")
    assert everything is not None
    assert everything.scores[Metric.TPOT].n == 3


def test_scores_are_those_of_the_rows(tmp_path: Path) -> None:
    answers = predict_points(read_points(write(tmp_path / "p.csv", *SWEEP)))
    ape = sorted(
        abs(a.values[Metric.TPOT].value / a.point.measured[Metric.TPOT] - 1.0) * 100.0
        for a in answers
        if isinstance(a, PointPrediction)
    )
    group = validate(answers).group("all", "all")
    assert group is not None
    assert group.scores[Metric.TPOT].median_pct == pytest.approx(ape[1])
    assert group.scores[Metric.TPOT].mean_pct == pytest.approx(sum(ape) / 3)


def test_without_calibration_is_labelled(tmp_path: Path) -> None:
    (answer,) = predict_points(read_points(write(tmp_path / "p.csv", SWEEP[0])), calibrated=False)
    assert isinstance(answer, PointPrediction)
    assert answer.calibration == "none"
    (with_pack,) = predict_points(read_points(write(tmp_path / "p.csv", SWEEP[0])))
    assert isinstance(with_pack, PointPrediction)
    assert with_pack.calibration.startswith("calibrated (n=")


def test_engine_and_gpu_never_measured_together_are_named(tmp_path: Path) -> None:
    row = GPTOSS | {"gpu": "A100", "engine": "trt"}
    (answer,) = predict_points(read_points(write(tmp_path / "p.csv", row)))
    assert isinstance(answer, PointPrediction)
    assert answer.calibration.startswith("transferred from")
    assert "engine on this GPU family" in answer.extrapolates


def closed_loop(users: int, away: float, *, cycles: int, cv: float, seed: int) -> float:
    """Median wait at a single first-come server with service 1, by simulation; the first visit is left out."""
    rng = np.random.default_rng(seed)
    spread = cv * 3.0**0.5
    ready, free, waits = np.zeros(users), 0.0, []
    for visit in range(users * cycles):
        i = int(np.argmin(ready))
        start = max(ready[i], free)
        if visit >= users:
            waits.append(start - ready[i])
        free = start + 1.0 + spread * rng.uniform(-1, 1)
        ready[i] = free + away * (1.0 + spread * rng.uniform(-1, 1))
    return float(np.median(waits))


@pytest.mark.parametrize("users", [8, 32])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.0, 4.0])
def test_closed_loop_wait_follows_the_simulation(users: int, ratio: float) -> None:
    away = users / ratio
    simulated = closed_loop(users, away, cycles=12, cv=0.064, seed=users)
    formula = float(
        closed_loop_wait_ms(service_ms=np.array(1.0), away_ms=np.array(away), users=np.array(float(users)))
    )
    assert formula == pytest.approx(simulated, abs=0.6 + 0.1 * simulated)


def test_commands(tmp_path: Path, planner_cli: Callable[..., Any]) -> None:
    path = write(tmp_path / "p.csv", *SWEEP, *BAD)
    done = planner_cli("estimate", "--points", str(path), "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "wideplan.points/v1"
    assert [p["status"] for p in document["points"]] == ["answered"] * 4 + ["refused"] * 2
    assert document["points"][0]["tpot_ms_p50"]["low"] < document["points"][0]["tpot_ms_p50"]["high"]
    report = json.loads(planner_cli("validate", str(path), "--json").stdout)
    assert report["schema"] == "wideplan.validation/v1"
    assert report["scored"] == 3
    assert "median/p90" in planner_cli("validate", str(path)).stdout
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n", encoding="utf-8")
    refused = planner_cli("validate", str(bad))
    assert refused.returncode == 2
    assert "points.column_missing" in refused.stderr


def test_parity_page(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    from console.figures.parity import parity_svg, write_parity_page

    answers = predict_points(read_points(write(tmp_path / "p.csv", *SWEEP)))
    write_parity_page(answers, tmp_path / "parity.html")
    text = (tmp_path / "parity.html").read_text(encoding="utf-8")
    assert "gpt-oss-120b" in text
    assert 'src="http' not in text
    assert parity_svg([("vllm", 2.0, 2.5)], "TPOT").count("<circle") == 1


@pytest.mark.skipif(not SHARED.exists(), reason="needs the development rows in ../shared")
def test_development_rows_are_answered() -> None:
    file = read_points(SHARED)
    result = validate(predict_points(file))
    assert result.answered / result.complete >= 0.95
    everything = result.group("all", "all")
    assert everything is not None
    assert everything.scores[Metric.TPOT].median_pct < 4.0
    assert everything.scores[Metric.OUTPUT].median_pct < 4.0
    assert everything.scores[Metric.TTFT].median_pct < 12.0
    assert result.order[Metric.TPOT].median >= 0.9
    assert all(isinstance(r, Point) or r.reason for r in file.rows)
