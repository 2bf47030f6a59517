"""Calibrations: the newest of a scope is in use; equal fits are stored once."""

from __future__ import annotations

from dataclasses import replace

from planner.domain.calibration import (
    Band,
    BandKind,
    Calibration,
    CalibrationScope,
    Factor,
    Improvement,
    Metric,
    Region,
    ResidualProcess,
)
from planner.storage.store import Store

SCOPE = CalibrationScope(model="m", gpu="h200-sxm", engine="vllm", engine_version="0.33.0")
CALIBRATION = Calibration(
    scope=SCOPE,
    factors=(Factor(name="comm", log_value=0.25, log_sd=0.1, prior_log_sd=0.3),),
    covariance=((0.01,),),
    bands=(
        Band(metric=Metric.TPOT, level=0.8, kind=BandKind.CONFORMAL, log_half_width=0.12, needed=4),
        Band(metric=Metric.TTFT, level=0.95, kind=BandKind.PRIOR, log_half_width=0.5, needed=19),
    ),
    processes=(
        ResidualProcess(
            metric=Metric.TPOT, lengths=(1.5,), signal_sd=0.1, noise_sd=0.05, inputs=((0.0,), (1.0,)),
            weights=(0.3, -0.2), cholesky=((1.0, 0.0), (0.5, 0.8)),
        ),
    ),
    region=Region(
        names=("EP width",), centre=(2.0,), scale=(0.5,), points=((0.1,), (1.2,)), low=(1.0,), high=(3.0,), radius=0.9
    ),
    improvements=(Improvement(metric=Metric.TPOT, n=2, mape_before=0.2, mape_after_loo=0.1),),
    measurements=("a" * 64, "b" * 64),
)  # fmt: skip


def test_calibration_comes_back_equal_and_stamped(store: Store) -> None:
    store.calibrations.save(CALIBRATION)
    found = store.calibrations.latest(SCOPE)
    assert found is not None
    assert found.created_at is not None
    assert replace(found, created_at=None) == CALIBRATION
    assert found.n == 2
    assert found.factor("comm").moved


def test_newest_of_a_scope_is_used_and_other_scopes_are_not(store: Store) -> None:
    first = store.calibrations.save(CALIBRATION)
    newer = replace(CALIBRATION, measurements=("c" * 64,))
    store.calibrations.save(newer)
    found = store.calibrations.latest(SCOPE)
    assert found is not None
    assert found.measurements == newer.measurements
    assert store.calibrations.save(CALIBRATION) == first  # fitted again: in use again, stored once
    again = store.calibrations.latest(SCOPE)
    assert again is not None
    assert again.measurements == CALIBRATION.measurements
    assert len(store.calibrations.list()) == 2
    for other in (replace(SCOPE, engine_version="0.34.0"), replace(SCOPE, gpu="b200-sxm")):
        assert store.calibrations.latest(other) is None
    assert store.calibrations.delete(SCOPE) == 2
    assert store.calibrations.latest(SCOPE) is None
