"""A stored calibration changes what is recommended, says so, and can be left out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from planner.domain.calibration import (
    Band,
    BandKind,
    Calibration,
    CalibrationScope,
    Factor,
    Improvement,
    Metric,
    Region,
)

FACTORS = ("dense", "experts", "attention", "comm", "prefill")
SCOPE = CalibrationScope(model="openai/gpt-oss-120b", gpu="h200-sxm", engine="vllm", engine_version="0.33.0")


def calibration(*, ttft_after: float = 0.10) -> Calibration:
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
        improvements=tuple(
            Improvement(metric=m, n=6, mape_before=0.30, mape_after_loo=after)
            for m, after in zip(Metric, (0.05, 0.05, ttft_after), strict=True)
        ),
        measurements=tuple(f"{i:064d}" for i in range(6)),
    )


def home_with(stored: Calibration, home: Path) -> str:
    """A data folder whose store holds `stored`."""
    from planner.storage.store import open_store

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        patch.delenv("WIDEPLAN_DATABASE_URL", raising=False)
        with open_store() as store:
            store.calibrations.save(stored)
    return str(home)


@pytest.fixture(scope="module")
def data_home(tmp_path_factory):
    return home_with(calibration(), tmp_path_factory.mktemp("calibrated"))


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


def test_a_fit_that_made_a_metric_worse_is_used_only_when_forced(planner_cli, tmp_path) -> None:
    home = home_with(calibration(ttft_after=0.45), tmp_path)
    unasked, forced, plain = (
        ask(planner_cli, home, *flags) for flags in ((), ("--calibration",), ("--no-calibration",))
    )
    rates = [d["pick"]["evaluation"]["output_tok_s_per_gpu"]["value"] for d in (unasked, forced, plain)]
    assert rates[0] == rates[2] > rates[1]
    said = next(a for a in unasked["assumptions"] if a["name"] == "calibration")
    assert "not used" in said["value"]
    assert "ttft 30.0% to 45.0%" in said["why"]
    assert said["flag"] == "--calibration"


@pytest.mark.parametrize(
    ("before", "after", "trusted"),
    [
        ((0.2, 0.2), (0.1, 0.2), True),
        ((0.2, 0.2), (0.1, 0.2 * (1 + 1e-9)), True),  # rounding
        ((0.2, 0.2), (0.2, 0.2), False),  # one measurement shows nothing
        ((0.2, 0.2), (0.1, 0.21), False),
    ],
)
def test_trusted_means_some_metric_better_and_none_worse(before, after, trusted) -> None:
    improvements = tuple(
        Improvement(metric=m, n=6, mape_before=b, mape_after_loo=a)
        for m, b, a in zip(Metric, before, after, strict=False)
    )
    found = replace(calibration(), improvements=improvements)
    assert found.trusted is trusted
    assert bool(found.distrust) is not trusted


def test_a_database_of_a_newer_program_does_not_stop_a_recommendation(planner_cli, tmp_path) -> None:
    import sqlite3

    home = home_with(calibration(), tmp_path)
    with sqlite3.connect(tmp_path / "wideplan" / "wideplan.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    (said,) = [a for a in ask(planner_cli, home)["assumptions"] if a["name"] == "calibration"]
    assert "not looked up" in said["value"]
    assert "store.newer" in said["why"]
    forced = planner_cli("recommend", "gpt-oss-120b-h200x8", "--calibration", env={"XDG_DATA_HOME": home})
    assert forced.returncode == 3
    assert "error[store.newer]" in forced.stderr
