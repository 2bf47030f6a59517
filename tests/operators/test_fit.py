"""Fitting of curves: recovery of known surfaces, filling of gaps, held-out errors, missing tables."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from planner.domain.errors import ExitCode, MissingDataError
from planner.perf.operators.base import FloatArray
from planner.perf.operators.fit.build import family_of_key, fit_operators
from planner.perf.operators.fit.grid import Samples, fit_surface, held_out, predict_us
from planner.perf.operators.fit.tables import SYSTEMS
from planner.perf.operators.surface import TableSource, kriging_weights

AXES = (np.array([1.0, 4.0, 16.0, 64.0]), np.array([1.0, 32.0, 1024.0]))
SOURCE = TableSource(table="t", engine="vllm", version="1", rows=1, heldout_median=None, heldout_p90=None)


def truth(features: FloatArray, loads: FloatArray) -> FloatArray:
    """A smooth log-residual over two shape numbers and two loads."""
    return 0.4 + 0.05 * features[:, 0] - 0.03 * features[:, 1] + 0.06 * np.log2(loads).sum(axis=1)


def make(shapes: int = 40, *, noise: float = 0.0, two_loads: bool = True) -> Samples:
    rng = np.random.default_rng(7)
    points = np.round(rng.uniform(4.0, 14.0, (shapes, 2)), 3)
    grids = np.meshgrid(*(AXES if two_loads else AXES[:1]), indexing="ij")
    loads = np.stack([g.ravel() for g in grids], axis=1)
    features = np.repeat(points, len(loads), axis=0)
    loads = np.tile(loads, (shapes, 1))
    reference = 5.0 + loads.prod(axis=1)
    r = truth(features, loads) + noise * rng.normal(size=len(loads))
    return Samples(
        key="gemm/bf16",
        features=features,
        loads=loads,
        measured_us=reference * np.exp(r),
        reference_us=reference,
        offset_us=np.zeros(len(loads)),
        source=SOURCE,
        axes=AXES if two_loads else AXES[:1],
    )


@pytest.mark.parametrize("two_loads", [True, False])
def test_measured_rows_come_back_to_the_step(two_loads: bool) -> None:
    samples = make(two_loads=two_loads)
    predicted = predict_us(fit_surface(samples), samples)
    assert np.abs(np.log(predicted / samples.measured_us)).max() <= 0.0101


def test_shapes_left_out_are_predicted_and_repeatably() -> None:
    samples = make()
    first, second = held_out(samples), held_out(samples)
    assert first.unit == "shapes"
    assert np.quantile(first.errors, 0.9) < 0.08
    np.testing.assert_array_equal(first.errors, second.errors)


def test_held_out_error_sees_noise_it_cannot_know() -> None:
    # half of normal noise with standard deviation 0.3 lies beyond 0.2
    assert 0.12 < np.median(held_out(make(noise=0.3)).errors) < 0.4


def test_few_shapes_hold_out_rows_instead() -> None:
    assert held_out(make(shapes=4)).unit == "rows"


def test_gaps_are_filled_from_neighbours_and_marked() -> None:
    full = make()
    target = full.features[0]
    of_target = (full.features == target).all(axis=1)
    cut = full.take(~(of_target & (full.loads[:, 0] > 4.0)))
    surface = fit_surface(cut)
    index, distance = surface.nearest(target)
    assert distance < 1e-5
    assert surface.covered[index, :2].all()
    assert not surface.covered[index, 2:].any()
    rows = full.take(of_target & (full.loads[:, 0] > 4.0))
    error = np.abs(np.log(predict_us(surface, rows) / rows.measured_us))
    held_over = 0.06 * 4.0  # what holding the last known load would miss at the far end
    assert error.max() < held_over / 2.0


def test_offsets_are_added_back() -> None:
    samples = make()
    shifted = replace(samples, measured_us=samples.measured_us + 30.0, offset_us=samples.offset_us + 30.0)
    np.testing.assert_allclose(
        predict_us(fit_surface(shifted), shifted), predict_us(fit_surface(samples), samples) + 30.0
    )


def test_kriging_weights_sum_to_one_and_favour_the_nearest() -> None:
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0], [6.0, 6.0]])
    w = kriging_weights(points, np.array([0.4, 0.1]))
    assert w.sum() == pytest.approx(1.0)
    assert w[0] == w.max()
    assert kriging_weights(points[:1], np.array([9.0, 9.0])) == pytest.approx([1.0])


def test_missing_tables_name_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDataError) as caught:
        fit_operators(tmp_path, report=lambda error: None)  # type: ignore[arg-type]
    issue = caught.value.issues[0]
    assert issue.code == "opdb.missing"
    assert "wideplan[opdb]" in issue.fix
    assert caught.value.exit_code is ExitCode.MISSING_DATA


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("experts3-low/nvfp4", "experts"), ("dsa-shared-decode/fp8", "dsa-decode"), ("kda-prefill/state", "linear"),
        ("deepep-ll-nodes/combine", "deepep-ll"), ("csa-prefill/fp8", "compressed-prefill"),
        ("nvlink-two/dispatch-nvfp4", "nvlink"), ("allreduce/eager", "allreduce"), ("gemm/fp8_block", "gemm"),
    ],
)  # fmt: skip
def test_families_are_those_of_the_report(key: str, family: str) -> None:
    assert family_of_key(key) == family


def test_systems_are_gpu_profiles() -> None:
    from planner.catalog.hardware import list_gpus

    assert set(SYSTEMS) <= set(list_gpus())


def test_the_command_says_how_to_get_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer
    from typer.testing import CliRunner

    from planner.cli.fit_operators import fit_operators as command

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, ["--json"])
    assert isinstance(result.exception, MissingDataError)
    assert result.exception.issues[0].code == "opdb.missing"
