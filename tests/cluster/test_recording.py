"""A recording replays to the same views, survives a crash, and keeps no secret."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest
from worlds import engine_pod, world

from console.cluster.kinds import KINDS, Kind
from console.cluster.recording import RecordedSource, Recorder, from_plain, load_recording, to_plain
from console.cluster.source import ClusterSource
from console.cluster.state import Snapshot
from console.views.cluster import overview
from planner.domain.errors import InputError, MissingDataError


def record(tmp_path: Path) -> tuple[Path, Snapshot]:
    """Record a short life of a cluster; returns the file and the last live snapshot."""
    file = tmp_path / "cluster.jsonl"

    async def run() -> Snapshot:
        async with world(tmp_path, metrics=True) as w:
            recorder = Recorder(file, w.source.snapshot())
            w.source.subscribe(recorder)
            await w.until(lambda s: len(s.readings) == 2)
            w.put(engine_pod("lws-1", group=1))
            await w.until(lambda s: len(s.readings) == 4)
            w.engines.silent.add("lws-0")
            await w.until(lambda s: len(s.silent) == 2)
            w.server.remove("v1", "nodes", "", "gpu-000")
            await w.until(lambda s: not s.nodes)
            for task in w.source._tasks.values():
                task.cancel()
            await asyncio.sleep(0.05)
            recorder.close()
            return w.source.snapshot()

    return file, asyncio.run(run())


def replay(file: Path) -> Snapshot:
    async def run() -> Snapshot:
        source: ClusterSource = RecordedSource(load_recording(file))
        await source.start()
        return source.snapshot()

    return asyncio.run(run())


def test_a_replay_gives_the_same_views(tmp_path: Path) -> None:
    file, live = record(tmp_path)
    again = replay(file)
    for kind in Kind:
        assert again.kinds[kind].objects == live.kinds[kind].objects, kind
        assert again.kinds[kind].trust == live.kinds[kind].trust, kind
    assert again.silent == live.silent
    assert set(again.readings) == set(live.readings)
    for key, reading in again.readings.items():
        mine = live.readings[key]
        for f in fields(reading):
            if f.name not in ("window_s", "histograms") and not f.name.endswith("_s"):
                assert getattr(reading, f.name) == getattr(mine, f.name), f.name
    a, b = overview(live), overview(again)
    assert (a.groups, a.endpoints, a.blockers) == (b.groups, b.endpoints, b.blockers)


def test_a_recording_is_complete_even_when_it_starts_late(tmp_path: Path) -> None:
    file, live = record(tmp_path)
    header = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert header["schema"] == "wideplan.cluster-recording/v1"
    assert set(replay(file).pods) == set(live.pods) == {"default/lws-0", "default/lws-1"}


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    text = record(tmp_path)[0].read_text(encoding="utf-8")
    assert "canary-token" not in text
    assert "hunter2" not in text


def test_a_file_cut_in_a_line_replays_up_to_there(tmp_path: Path) -> None:
    file, _ = record(tmp_path)
    whole = file.read_bytes()
    for cut in range(len(whole) // 2, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:cut])
        recording = load_recording(file)
        assert recording.changes
        assert recording.cut is (whole[cut - 1 : cut] != b"\n" and not _ends_whole(whole, cut))


def _ends_whole(data: bytes, cut: int) -> bool:
    """Whether a cut just before a newline leaves a whole line."""
    return data[cut : cut + 1] == b"\n"


def test_playing_waits_as_long_as_it_took(tmp_path: Path) -> None:
    file, live = record(tmp_path)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def run() -> Snapshot:
        source = RecordedSource(load_recording(file), speed=2.0, sleep=sleep)
        await source.start()
        while not source.ended:
            await source.changed(0.1)
        return source.snapshot()

    last = asyncio.run(run())
    recording = load_recording(file)
    assert sum(waited) == pytest.approx((recording.ended - recording.started) / 2.0, abs=0.05)
    assert set(last.pods) == set(live.pods)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    for content in ("", "hello\n", '{"schema": "wideplan.plan/v1"}\n', "[1]\n"):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(InputError) as error:
            load_recording(file)
        assert error.value.issues[0].code == "cluster.recording_invalid"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        load_recording(file)
    with pytest.raises(MissingDataError):
        load_recording(tmp_path / "absent")


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    file, live = record(tmp_path)
    with pytest.raises(InputError) as error:
        Recorder(file, live)
    assert error.value.issues[0].code == "cluster.record_exists"


def test_every_view_survives_the_way_through_a_file(tmp_path: Path) -> None:
    """Defaults are left out, so every kind's emptiest view is the hard case."""
    for kind, info in KINDS.items():
        view = info.parse({"metadata": {"name": "x"}, "data": {"c": "kind: EndpointPickerConfig\n"}})
        assert view is not None, kind
        assert from_plain(json.loads(json.dumps(to_plain(view))), info.view) == view
