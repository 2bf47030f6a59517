"""Simulation runs as tables and lines."""

from __future__ import annotations

import pytest

from console.views.simulation import MOST_POINTS, SeriesMetric, run_detail, run_rows, time_series
from tests.views.simulation_samples import sample_result


def test_rows_compare_with_the_first_run() -> None:
    runs = [(f"run {n}", sample_result(n)) for n in (1, 2)]
    first, second = run_rows(runs)
    assert set(first.changes) == {""}
    assert second.changes[0] == "+10 %"
    assert second.changes[1] == "-9.1 %"
    assert first.cells[0] == "500"
    assert first.cells[4].endswith("?"), "a p99 of few values is marked"
    assert not first.cells[2].endswith("?")


@pytest.mark.parametrize("metric", list(SeriesMetric))
def test_series_keep_their_range_and_are_thinned(metric: SeriesMetric) -> None:
    view = time_series([("a", sample_result(samples=5000))], metric)
    assert [n.label for n in view.lines] == ["prefill", "decode"]
    for line in view.lines:
        assert len(line.x) == len(line.y) <= MOST_POINTS
        assert view.y_axis.low <= min(line.y)
        assert max(line.y) <= view.y_axis.high


def test_lines_of_several_runs_name_their_run() -> None:
    view = time_series([("a", sample_result()), ("b", sample_result(2))], SeriesMetric.WAITING)
    assert [n.label for n in view.lines] == ["a prefill", "a decode", "b prefill", "b decode"]
    assert len({n.group for n in view.lines}) == 4


def test_no_run_is_an_empty_plot() -> None:
    assert time_series([], SeriesMetric.KV).lines == ()
    assert run_rows([]) == ()


def test_the_detail_has_every_rank_and_note() -> None:
    detail = run_detail("run", sample_result())
    assert len(detail.ranks) == 8
    assert "note: a note" in detail.lines
    assert any("straggler" in line for line in detail.lines)
