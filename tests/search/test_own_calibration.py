"""A stored calibration changes what is recommended, says so, and can be left out."""

from __future__ import annotations

import json
import math
import os

import pytest

from planner.domain.calibration import (
    Band,
    BandKind,
    Calibration,
    CalibrationScope,
    Factor,
    Metric,
    Region,
)

FACTORS = ("dense", "experts", "attention", "comm", "prefill")
SCOPE = CalibrationScope(model="openai/gpt-oss-120b", gpu="h200-sxm", engine="vllm", engine_version="0.33.0")


def calibration() -> Calibration:
    """Every part of a step takes 1.35 times as long as the shipped model says; bands of 10 %."""
    return Calibration(
        scope=SCOPE,
        factors=tuple(
            Factor(name=n, log_value=math.log(1.35), log_sd=0.05, prior_log_sd=0.3) for n in FACTORS
        ),
        covariance=tuple(tuple(0.0025 * (i == j) for j in range(5)) for i in range(5)),
        bands=tuple(
            Band(metric=m, level=0.80, kind=BandKind.CONFORMAL, log_half_width=0.10, needed=4) for m in Metric
        ),
        processes=(),
        region=Region(names=(), centre=(), scale=(), points=(), low=(), high=(), radius=1.0),
        improvements=(),
        measurements=tuple(f"{i:064d}" for i in range(6)),
    )


@pytest.fixture(scope="module")
def data_home(tmp_path_factory):
    home = tmp_path_factory.mktemp("calibrated")
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(home)
    try:
        from planner.storage.store import open_store

        with open_store() as store:
            store.calibrations.save(calibration())
    finally:
        if before is None:
            del os.environ["XDG_DATA_HOME"]
        else:
            os.environ["XDG_DATA_HOME"] = before
    return str(home)


def ask(planner_cli, home: str, *flags: str) -> dict:
    done = planner_cli("recommend", "gpt-oss-120b-h200x8", "--json", *flags, env={"XDG_DATA_HOME": home})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calibration_is_used_said_and_left_out_on_request(planner_cli, data_home) -> None:
    calibrated = ask(planner_cli, data_home)
    plain = ask(planner_cli, data_home, "--no-calibration")
    said = [a for a in calibrated["assumptions"] if a["name"] == "calibration"]
    assert said
    assert "n=6" in said[0]["value"]
    assert not [a for a in plain["assumptions"] if a["name"] == "calibration"]
    rate, base = (d["pick"]["evaluation"]["output_tok_s_per_gpu"] for d in (calibrated, plain))
    assert rate["value"] < base["value"]
    assert calibrated["pick"]["evaluation"]["provenance"] == "calibrated"


def test_intervals_are_the_calibrations_own(planner_cli, data_home) -> None:
    evaluation = ask(planner_cli, data_home)["pick"]["evaluation"]
    widening = 2.0 if evaluation["extrapolates"] else 1.0
    for metric in ("tpot_ms", "output_tok_s_per_gpu", "ttft_ms"):
        value = evaluation[metric]
        assert math.log(value["high"] / value["value"]) == pytest.approx(0.10 * widening, rel=1e-6)


def test_another_engine_version_does_not_see_it(planner_cli, data_home) -> None:
    other = ask(planner_cli, data_home, "--engine-version", "0.24.0")
    assert not [a for a in other["assumptions"] if a["name"] == "calibration"]
