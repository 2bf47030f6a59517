"""Importing into the store: all or nothing, duplicates recognised, raw files kept, folders walked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from planner.domain.errors import InputError, MissingDataError
from planner.domain.measurement import BenchmarkFormat, MeasurementFlag
from planner.measurements.draft import Supplied
from planner.measurements.importing import import_files, read_files
from planner.measurements.names import CatalogueNames
from planner.storage.canonical import bytes_hash
from planner.storage.store import Store, open_store
from tests.measurements import samples as s

SHARED = Path(__file__).parents[3] / "shared" / "data" / "measured_points.csv"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(URL.create("sqlite", database=str(tmp_path / "db" / "w.db"))) as opened:
        yield opened


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_measurements_come_back_equal_with_their_raw_file(store: Store, tmp_path: Path) -> None:
    content = s.dump(s.vllm())
    report = import_files(store, [write(tmp_path / "a.json", content)])
    (imported,) = report.imported
    assert (report.new, report.duplicates) == (1, 0)
    stored = store.measurements.get(imported.hash[:8])
    assert stored.measurement == imported.measurement
    assert stored.measurement.origin.raw_sha256 == bytes_hash(content)
    raw = store.measurements.raw(stored.measurement.origin.raw_sha256)
    assert (raw.name, raw.content, raw.format) == ("a.json", content, BenchmarkFormat.VLLM_BENCH_SERVE)


def test_the_same_run_is_recognised_under_another_name_and_layout(store: Store, tmp_path: Path) -> None:
    import_files(store, [write(tmp_path / "a.json", s.dump(s.vllm()))])
    again = write(tmp_path / "b.json", json.dumps(s.vllm(label="renamed"), indent=2))
    report = import_files(store, [again], supplied=Supplied(note="second try"))
    assert (report.new, report.duplicates) == (0, 1)
    assert store.measurements.count() == 1
    with pytest.raises(MissingDataError):  # nothing new came from it, so it is not kept either
        store.measurements.raw(bytes_hash(again.read_bytes()))
    other = import_files(store, [write(tmp_path / "c.json", s.dump(s.vllm(date="20260902-120000")))])
    assert other.new == 1  # the same numbers from another day are another run


def test_an_error_in_one_file_stores_nothing_and_all_errors_are_shown(store: Store, tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", s.dump(s.vllm()))
    no_gpu = {k: v for k, v in s.vllm().items() if k != "gpu"}
    bad = write(tmp_path / "bad.json", s.dump(no_gpu))
    with pytest.raises(InputError) as caught:
        import_files(store, [good, bad, tmp_path / "absent.json"])
    assert [i.code for i in caught.value.issues] == ["measurement.missing_gpu", "measurement.file"]
    assert store.measurements.count() == 0


def test_incomplete_runs_can_be_skipped_and_are_listed(store: Store, tmp_path: Path) -> None:
    rows = s.csv_text(s.csv_row(), s.csv_row(engine_version="", id="T-2"))
    report = import_files(store, [write(tmp_path / "t.csv", rows)], skip_incomplete=True)
    assert report.new == 1
    (skipped,) = report.skipped
    assert skipped.code == "measurement.missing_engine_version"
    assert "T-2" in str(skipped.where)


def sweep(folder: Path, *, warm_up: bool) -> None:
    for concurrency in (64, 128):
        for n in (0, 1):
            record = s.vllm(
                max_concurrency=concurrency, num_warmups=None, run_number=n, date=f"2026090{n + 1}-120000"
            )
            del record["engine"]
            write(folder / "exp" / f"SERVE-tp1-BENCH-c{concurrency}" / f"run={n}.json", s.dump(record))
        if warm_up:
            write(folder / "exp" / f"SERVE-tp1-BENCH-c{concurrency}" / "warmup.json", "{}")
        write(folder / "exp" / f"SERVE-tp1-BENCH-c{concurrency}" / "summary.json", "[]")


@pytest.mark.parametrize("warm_up", [True, False])
def test_sweep_folders_are_walked(store: Store, tmp_path: Path, warm_up: bool) -> None:
    sweep(tmp_path / "results", warm_up=warm_up)
    write(tmp_path / "results" / "exp" / "notes.yaml", "a: 1")
    report = import_files(store, [tmp_path / "results"])
    assert report.new == 4
    assert {i.measurement.origin.format for i in report.imported} == {BenchmarkFormat.VLLM_BENCH_SWEEP}
    assert [p.name for p in report.ignored] == ["notes.yaml"]
    flagged = {MeasurementFlag.NO_WARM_UP in i.measurement.flags for i in report.imported}
    assert flagged == {not warm_up}


def test_a_folder_without_results_is_an_error(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "r" / "x.json", "{}")
    with pytest.raises(InputError) as caught:
        import_files(store, [tmp_path / "r"])
    assert caught.value.issues[0].code == "measurement.none_found"


def test_inference_perf_stages_are_preferred_to_their_summary(tmp_path: Path) -> None:
    for name in ("stage_0_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json"):
        write(tmp_path / "p" / name, s.dump(s.inference_perf()))
    write(tmp_path / "p" / "summary_lifecycle_metrics.json", s.dump(s.inference_perf()))
    supplied = Supplied(model="m", gpu="H200", engine="vllm", engine_version="0.33.0", roles=_one_gpu_role())
    read, ignored = read_files([tmp_path / "p"], supplied=supplied)
    assert [f.raw.name for f in read] == ["stage_0_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json"]
    assert ignored == ()


def _one_gpu_role() -> tuple:  # type: ignore[type-arg]
    from planner.domain.deployment import Role
    from planner.measurements.draft import parse_role

    role = parse_role("tp1", Role.AGGREGATED)
    assert role is not None
    return (role,)


def test_deleting_keeps_a_raw_file_as_long_as_it_is_needed(store: Store, tmp_path: Path) -> None:
    rows = write(tmp_path / "t.csv", s.csv_text(s.csv_row(), s.csv_row(concurrency="512")))
    first, second = import_files(store, [rows]).imported
    raw = first.measurement.origin.raw_sha256
    assert store.measurements.delete([first.hash]) == 1
    assert store.measurements.raw(raw).name == "t.csv"
    assert store.measurements.delete([second.hash, "0" * 64]) == 1
    with pytest.raises(MissingDataError):
        store.measurements.raw(raw)


def test_listing_filters(store: Store, tmp_path: Path) -> None:
    rows = s.csv_text(s.csv_row(), s.csv_row(gpu="B200"), s.csv_row(engine_version="0.34.0"))
    import_files(store, [write(tmp_path / "t.csv", rows)])
    assert len(store.measurements.list()) == 3
    assert len(store.measurements.list(gpu="B200")) == 1
    assert len(store.measurements.list(engine_version="0.34.0")) == 1
    assert store.measurements.list(model="none") == ()
    with pytest.raises(MissingDataError):
        store.measurements.get("ffffffffff")
    for odd in ("", "%", "\udce2", "0'--"):
        with pytest.raises(MissingDataError):
            store.measurements.get(odd)


def test_names_become_those_of_the_catalogue(tmp_path: Path) -> None:
    names = CatalogueNames()
    spellings = ("H200", "h200-nv", "NVIDIA-H200-141GB-HBM3e", "h200-sxm")
    assert {names.gpu(g) for g in spellings} == {"h200-sxm"}
    assert names.gpu("quantum-9000") == "quantum-9000"
    assert names.model("DeepSeek-R1-0528") == names.model("deepseek-ai/deepseek-r1")
    assert names.model("my/own-model") == "my/own-model"


@pytest.mark.skipif(not SHARED.exists(), reason="development data are not beside the checkout")
def test_published_points_are_read_consistently() -> None:
    (read,), _ = read_files([SHARED], supplied=Supplied(engine_version="unknown"), skip_incomplete=True)
    # rows that have a version keep it: a statement that contradicts is skipped, not mixed in
    versions = {m.engine_version for m in read.measurements}
    assert versions == {"unknown"}
    (own,), _ = read_files([SHARED], skip_incomplete=True)
    assert len(own.measurements) > 2800
    for m in own.measurements:
        stated = m.result.total_tok_s_per_gpu
        if m.result.tpot.typical_ms and m.result.output_tok_s_per_gpu and m.load.concurrency and stated:
            # tokens/s of all users together cannot exceed their own decode speed times their number
            ceiling = m.load.concurrency * 1000.0 / m.result.tpot.typical_ms
            assert m.result.output_tok_s_per_gpu * m.gpus < 1.35 * ceiling, m


def test_the_identity_of_a_measurement_outlives_new_fields(store: Store, tmp_path: Path) -> None:
    """When this fails, results that users have imported would be imported a second time: see `_ADDED` in storage."""
    (imported,) = import_files(store, [write(tmp_path / "a.json", s.dump(s.vllm()))]).imported
    assert imported.hash[:16] == "c255195aaeaac36b"
