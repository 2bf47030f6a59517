"""The whole loop with a real load generator: a campaign, guidellm against a small engine, import, calibration.

The engine answers with the timings of our own model under hidden factors; calibration has to find them again. guidellm is
looked for on the PATH or as WIDEPLAN_TEST_GUIDELLM; without it the test is skipped.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_engine import Timings, serving
from guidellm_setup import write_tokenizer, write_torch

from planner.domain.calibration import Metric
from planner.domain.engine import EngineName
from planner.measurements.calibration import CalibratedModel, improvement
from planner.measurements.fitting import fit_scopes
from planner.measurements.model_predictor import ModelPredictor
from planner.measurements.pricing import PointPricer
from planner.perf.calibration import load_factor_pack
from planner.search.ask import Request, build_problem
from planner.search.campaigns.design import design_campaign, planned_measurement
from planner.search.campaigns.load import Endpoint, Generator, collect, measure
from planner.search.solve import solve
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store

GUIDELLM = os.environ.get("WIDEPLAN_TEST_GUIDELLM") or shutil.which("guidellm")
HIDDEN = {"dense": 0.35, "experts": 0.35, "attention": 0.35, "comm": 0.35}
RUNS = 3
LARGEST_CONCURRENCY = 12

pytestmark = [pytest.mark.slow, pytest.mark.skipif(GUIDELLM is None, reason="guidellm is not installed")]


@pytest.fixture
def guidellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """guidellm on the PATH, without network and without PyTorch; returns the folder of its tokenizer."""
    assert GUIDELLM is not None
    monkeypatch.setenv("PATH", f"{Path(GUIDELLM).parent}{os.pathsep}{os.environ['PATH']}")
    if not any(Path(GUIDELLM).parent.parent.glob("lib/python*/site-packages/torch")):
        monkeypatch.setenv("PYTHONPATH", str(write_torch(tmp_path / "torch")))
        monkeypatch.setenv("USE_TORCH", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return write_tokenizer(tmp_path / "tokenizer")


def test_calibration_finds_the_factors_behind_measured_runs(
    guidellm: Path, tmp_path: Path, store: Store
) -> None:
    problem, engine = build_problem(
        Request(model="openai/gpt-oss-120b", gpu="h200-sxm", gpus=4, isl=256, osl=24, dbo=False, eplb=False)
    )
    space = SearchSpace(solve(problem, engine))
    small = [i for i in range(space.base_size) if 2 <= space.concurrency[i] <= LARGEST_CONCURRENCY]
    campaign = design_campaign(space, runs=RUNS + 1, seed=0, among=small[:: max(len(small) // 150, 1)])
    predictor = ModelPredictor(PointPricer(factors=load_factor_pack()), EngineName(problem.engine))
    hidden = np.array([HIDDEN.get(name, 0.0) for name in predictor.factors])
    planned = [planned_measurement(r.plan) for r in campaign.runs]
    truth = predictor.predict(planned, hidden)
    for run, logs in zip(campaign.runs[:RUNS], truth[:RUNS], strict=True):
        timings = Timings(ttft_ms=float(np.exp(logs[2])), tpot_ms=float(np.exp(logs[1])), model="served")
        with serving(timings) as url:
            endpoint = Endpoint(url=url, model="served", tokenizer=str(guidellm))
            short = replace(run, requests=3 * run.plan.concurrency)
            path = measure(short, endpoint, Generator.GUIDELLM, folder=tmp_path, timeout_s=90.0)
        assert collect(store, run, [path]).new == 1
    stored = store.measurements.list()
    for one, logs in zip(stored, truth, strict=False):
        # what guidellm saw is what the engine did, in our units
        assert one.measurement.result.tpot.typical_ms == pytest.approx(np.exp(logs[1]), rel=0.06, abs=0.6)
    (fitted,) = fit_scopes(stored)
    assert fitted.calibration is not None
    tpot = improvement(fitted.calibration, Metric.TPOT)
    assert tpot is not None
    assert tpot.mape_before > 0.10
    assert tpot.mape_after_loo < 0.5 * tpot.mape_before
    # a plan that was not measured
    unseen = CalibratedModel(fitted.calibration, predictor).predict(planned[RUNS:])
    assert unseen.log_values[0, 1] == pytest.approx(truth[RUNS, 1], abs=0.10)
    moved = [f for f in fitted.calibration.factors if f.name in HIDDEN]
    assert max(f.log_value for f in moved) > 0.1
    assert min(f.log_value for f in moved) > -0.1
