"""Studies and measurements as tables and points, from a real store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from console.tui.records import Records, request_of
from console.views.frontier import frontier_view
from console.views.frontier_model import FrontierOptions
from console.views.measurements import compared_lines, measurement_lines, measurement_rows
from console.views.metrics import Axis
from console.views.studies import best_of, study_lines, study_rows, usable_trials
from planner.domain.provenance import Provenance
from planner.domain.study import TrialState
from planner.search.ask import build_problem
from planner.storage.database import parse_url
from planner.storage.store import open_store
from tests.views.samples import REQUEST, sample_points
from tests.views.store_samples import THEN, add_trials, fill, results_file


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records(fill(tmp_path_factory.mktemp("store")))


def test_studies_are_listed_with_progress_and_age(records: Records) -> None:
    rows = {r.name: r for r in study_rows(records.studies(), now=THEN + timedelta(minutes=90))}
    assert (rows["search-a"].progress, rows["search-a"].state, rows["search-a"].age) == (
        "56/56",
        "finished",
        "2 h",
    )
    assert rows["search-b"].running
    assert rows["search-b"].progress == "20/56"
    assert rows["search-a"].failed == 8
    assert "seed 0" in study_lines(records.studies()[0])[0]


def test_a_study_opens_with_the_figures_it_found(records: Records) -> None:
    opened = records.open_study("search-a")
    points, sample = opened.solved.points, sample_points()
    kept = [i for i in range(56) if i % 7 != 6]
    assert len(points) == len(kept)
    np.testing.assert_allclose(points.rate, sample.rate[kept])
    np.testing.assert_allclose(points.values(Axis.TOK_S_USER), 1000.0 / sample.tpot_ms[kept])
    assert [points.label(n) for n in range(len(kept))] == [sample.label(i) for i in kept]
    assert opened.running is False
    found = points.evaluation_at(3)
    assert found.output_tok_s_per_gpu.value == sample.rate[kept[3]]
    assert found.provenance is Provenance.SIMULATED
    assert found.total_tok_s_per_gpu == pytest.approx(
        5.0 * found.output_tok_s_per_gpu.value
    )  # 4000 in, 1000 out
    assert found.steps, "the analytic model still says where the step goes"


def test_its_frontier_is_that_of_its_trials(records: Records) -> None:
    points = records.open_study("search-a").solved.points
    view = frontier_view(points, FrontierOptions(slo=points.slo))
    assert view.best is not None
    ok = points.meets(points.slo)
    assert view.best.value(Axis.RATE) == points.rate[ok].max()


def test_points_keep_their_place_while_trials_arrive(tmp_path: Path) -> None:
    url = fill(tmp_path)
    records = Records(url)
    before = records.open_study("search-b").solved.points
    with open_store(parse_url(url)) as store:
        add_trials(store, "search-b", range(20, 30))
    after = records.open_study("search-b").solved.points
    assert len(after) > len(before)
    np.testing.assert_array_equal(after.rate[: len(before)], before.rate)


def test_best_and_comparison(records: Records) -> None:
    same, (a, b) = records.compare(["search-a", "search-b"])
    assert same
    assert (a.finished, b.finished) == (56, 20)
    assert float(a.best_rate.replace(",", "")) >= float(b.best_rate.replace(",", ""))
    assert best_of("none", ()).best_plan == ""


def test_only_trials_with_figures_and_a_plan_are_points(records: Records, tmp_path: Path) -> None:
    with open_store(parse_url(fill(tmp_path))) as store:
        trials = store.studies.trials("search-a")
    used = usable_trials(trials)
    assert {t.state for t in used} == {TrialState.COMPLETE}
    assert len(used) == 48


def test_a_stored_problem_becomes_the_same_question() -> None:
    problem, _ = build_problem(REQUEST)
    again, _ = build_problem(request_of(problem))
    assert (again.model.id, again.gpus, again.workload, again.slo) == (
        problem.model.id, problem.gpus, problem.workload, problem.slo,
    )  # fmt: skip
    assert again.usd_per_gpu_hour == problem.usd_per_gpu_hour


def test_an_empty_store_has_nothing_and_says_so_without_error(tmp_path: Path) -> None:
    records = Records(f"sqlite:///{tmp_path / 'empty.db'}")
    assert records.studies() == ()
    assert records.measurements() == ()


def test_measurements_are_imported_listed_filtered_and_compared(tmp_path: Path) -> None:
    records = Records(f"sqlite:///{tmp_path / 'm.db'}")
    file = results_file(tmp_path)
    assert records.import_measurements([file]) == "2 new, 0 already known"
    assert records.import_measurements([file]) == "0 new, 2 already known"
    stored = records.measurements()
    rows = measurement_rows(stored)
    assert {r.load for r in rows} == {"c256", "c128"}
    assert [r.load for r in measurement_rows(stored, filter_text="c128")] == ["c128"]
    assert measurement_rows(stored, filter_text="!deepseek") == ()
    first, second = (
        next(s.measurement for s in stored if s.measurement.load.concurrency == c) for c in (256, 128)
    )
    lines = compared_lines(first, second)
    assert any("c256  |  c128" in line for line in lines)
    assert any("-25 %" in line for line in lines)
    assert any("results.csv" in line for line in measurement_lines(first))
