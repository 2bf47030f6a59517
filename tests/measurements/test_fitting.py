"""Calibrating the real performance model: a known change of it is found again, and what cannot be used is said."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from planner.cli.main import main
from planner.domain.calibration import Metric
from planner.domain.deployment import Role, Strategy
from planner.domain.engine import EngineName
from planner.domain.errors import MissingDataError
from planner.domain.measurement import (
    BenchmarkFormat,
    Latency,
    MeasuredLoad,
    MeasuredResult,
    MeasuredRole,
    MeasuredSettings,
    Measurement,
    MeasurementFlag,
    MeasurementOrigin,
)
from planner.domain.workload import Workload
from planner.measurements.fitting import fit_scopes
from planner.measurements.model_predictor import FACTOR_PRIORS, ModelPredictor
from planner.measurements.pricing import PointPricer
from planner.measurements.report import to_report, to_yaml
from planner.perf.calibration import load_factor_pack
from planner.storage.measured import StoredMeasurement, measurement_hash

CHANGED = {"experts": 0.45, "comm": -0.4}


def run(dp: int, concurrency: int, isl: int, *, disaggregated: bool) -> Measurement:
    def role(kind: Role, width: int) -> MeasuredRole:
        return MeasuredRole(role=kind, gpu="h200-sxm", groups=1, tp=1, dp=width, ep=width)

    roles = (role(Role.PREFILL, 8), role(Role.DECODE, dp)) if disaggregated else (role(Role.AGGREGATED, dp),)
    return Measurement(
        model="deepseek-ai/DeepSeek-R1",
        strategy=Strategy.DISAGGREGATED if disaggregated else Strategy.AGGREGATED,
        roles=roles,
        engine=EngineName.VLLM,
        engine_version="0.33.0",
        workload=Workload(isl=isl, osl=512),
        load=MeasuredLoad(concurrency=concurrency),
        settings=MeasuredSettings(quantization="fp8"),
        result=MeasuredResult(),
        origin=MeasurementOrigin(format=BenchmarkFormat.WIDEPLAN_CSV, file="t", raw_sha256="0" * 64),
    )


@cache
def measured() -> tuple[StoredMeasurement, ...]:
    """Runs of a reality that differs from the model by `CHANGED` only."""
    runs = [
        run(dp, dp * per_rank, isl, disaggregated=d)
        for dp, per_rank, isl, d in (
            (8, 4, 1024, False), (8, 64, 1024, False), (16, 32, 2048, False), (16, 128, 1024, False),
            (32, 16, 2048, True), (32, 64, 1024, True), (16, 8, 4096, True), (32, 160, 1024, True),
            # experts' weights decide small batches, the exchange large ones: both are needed to tell them apart
            (8, 1, 1024, False), (16, 2, 1024, True), (32, 2, 1024, True), (16, 192, 256, True), (32, 256, 256, True),
        )
    ]  # fmt: skip
    predictor = ModelPredictor(PointPricer(factors=load_factor_pack()), EngineName.VLLM)
    truth = np.array([CHANGED.get(f, 0.0) for f in FACTOR_PRIORS])
    values = np.exp(predictor.predict(runs, truth))
    assert np.isfinite(values).all()
    done = [
        replace(
            m,
            result=MeasuredResult(
                output_tok_s_per_gpu=float(rate),
                tpot=Latency(p50_ms=float(tpot)),
                ttft=Latency(p50_ms=float(ttft)),
            ),
        )
        for m, (rate, tpot, ttft) in zip(runs, values, strict=True)
    ]
    return tuple(StoredMeasurement(hash=measurement_hash(m), measurement=m) for m in done)


def test_a_known_change_of_the_model_is_found_again() -> None:
    (fitted,) = fit_scopes(measured(), created_at=datetime(2026, 9, 1, tzinfo=UTC))
    calibration = fitted.calibration
    assert calibration is not None
    assert calibration.n == len(measured())
    assert (calibration.scope.gpu, calibration.scope.engine_version) == ("h200-sxm", "0.33.0")
    for name, value in CHANGED.items():
        factor = calibration.factor(name)
        # shares of a step overlap, so the prior pulls a factor in; it must be as close as it claims to be
        assert abs(factor.log_value - value) <= 3.0 * factor.log_sd
        assert np.sign(factor.log_value) == np.sign(value)
        assert factor.moved
    for improvement in calibration.improvements:
        # decode factors are what changed; TTFT feels them through the queue only
        share = 0.8 if improvement.metric is Metric.TTFT else 0.6
        assert improvement.mape_after_loo < share * improvement.mape_before


def test_doubtful_runs_and_unknown_hardware_are_left_out_with_the_reason() -> None:
    base = measured()
    doubtful = replace(base[0].measurement, flags=(MeasurementFlag.SUSPECT_CONFIGURATION,))
    unknown = replace(
        base[1].measurement, roles=tuple(replace(r, gpu="quantum-9000") for r in base[1].measurement.roles)
    )
    extra = tuple(StoredMeasurement(hash=measurement_hash(m), measurement=m) for m in (unknown,))
    first, second = fit_scopes((*base[1:5], StoredMeasurement(hash="d" * 64, measurement=doubtful), *extra))
    assert [x.reason for x in first.left_out] == ["source marks the configuration as unreliable"]
    assert first.calibration is not None
    assert second.calibration is None
    assert "quantum-9000" in second.left_out[0].reason


def test_scopes_are_never_mixed() -> None:
    older = [replace(s.measurement, engine_version="0.32.0") for s in measured()[:3]]
    mixed = (*measured()[:2], *(StoredMeasurement(hash=measurement_hash(m), measurement=m) for m in older))
    counts = {f.scope.engine_version: f.calibration.n if f.calibration else 0 for f in fit_scopes(mixed)}
    assert counts == {"0.33.0": 2, "0.32.0": 3}


def test_no_measurements_is_an_error_with_the_next_step() -> None:
    with pytest.raises(MissingDataError) as caught:
        fit_scopes(())
    assert "planner measurements import" in caught.value.issues[0].fix


def test_calibrate_command_stores_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)

    def planner(*arguments: str, status: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as left:
            main([*arguments])
        assert (left.value.code or 0) == status
        printed = capsys.readouterr()
        return printed.out, printed.err

    _, complaint = planner("calibrate", status=3)
    assert "error[calibration.no_measurements]" in complaint
    reports = tmp_path / "reports.yaml"
    reports.write_text(to_yaml([to_report(s.measurement, uid=s.hash) for s in measured()[:4]]))
    text, _ = planner("calibrate", "--from", str(reports), "--dry-run")
    assert "calibrated (n=4)" in text
    assert "* prior band, not yet from your own measurements (90% needs 9 of them)" in text
    assert max(map(len, text.splitlines())) <= 100
    planner("measurements", "import", str(reports))
    document = json.loads(planner("calibrate", "--gpu", "H200", "--json")[0])
    assert document["schema"] == "wideplan.calibration/v1"
    (scope,) = document["scopes"]
    assert len(scope["calibration"]["measurements"]) == 4

    from planner.domain.calibration import CalibrationScope
    from planner.storage.store import open_store

    with open_store() as store:
        found = store.calibrations.latest(
            CalibrationScope(
                model="deepseek-ai/DeepSeek-R1", gpu="h200-sxm", engine="vllm", engine_version="0.33.0"
            )
        )
    assert found is not None
    assert found.n == 4


def test_calibrating_from_files_imports_them_and_a_study_means_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)

    def planner(*arguments: str, status: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as left:
            main([*arguments])
        printed = capsys.readouterr()
        assert (left.value.code or 0) == status, printed.err
        return printed.out, printed.err

    from planner.search.ask import Request, build_problem
    from planner.search.studies.runner import Settings, create_study
    from planner.storage.store import open_store

    asked = Request(model="deepseek-ai/DeepSeek-R1", gpu="h200-sxm", gpus=16, isl=1000, osl=100)
    with open_store() as store:
        create_study(store, build_problem(asked)[0], Settings(trials=3), name="r1")
    assert "error[calibration.source_unknown]" in planner("calibrate", "--from", "r2", status=2)[1]
    assert "error[calibration.study_not_measured]" in planner("calibrate", "--from", "r1", status=3)[1]
    reports = tmp_path / "reports.yaml"
    reports.write_text(to_yaml([to_report(s.measurement, uid=s.hash) for s in measured()[:4]]))
    planner("calibrate", "--from", str(reports), "--dry-run")
    with open_store() as store:
        assert store.measurements.count() == 0
    (from_file,) = json.loads(planner("calibrate", "--from", str(reports), "--json")[0])["scopes"]
    with open_store() as store:
        assert store.measurements.count() == 4
    (from_study,) = json.loads(planner("calibrate", "--from", "r1", "--dry-run", "--json")[0])["scopes"]
    assert from_study["calibration"]["measurements"] == from_file["calibration"]["measurements"]
    assert len(from_study["calibration"]["measurements"]) == 4
    assert "error[gpu.unknown]" in planner("calibrate", "--gpu", "h2000", status=2)[1]
    assert "error[calibration.no_measurements]" in planner("calibrate", "--gpu", "b200-sxm", status=3)[1]
