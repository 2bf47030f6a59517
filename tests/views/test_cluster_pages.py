"""Heat map, topology strip, object tables and plan against cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.cluster.kinds import Kind
from console.views.cluster import overview
from console.views.drift import plan_lines
from console.views.heat import LEVELS, HeatMetric, heat_map, rank_lines
from console.views.objects import find_kind, object_table, object_yaml, related_events, unknown_kind
from console.views.strip import strip_of
from tests.views.cluster_samples import NOW, filled
from tests.views.samples import sample_points


def test_every_rank_is_in_the_map_once_prefill_first() -> None:
    view = overview(filled().snapshot(NOW))
    heat = heat_map(view, HeatMetric.QUEUE)
    assert [r.label for r in heat.rows] == ["prefill 0.0", "prefill 1.0", "decode 0.0", "decode 1.0"]
    assert sum(len(r.cells) for r in heat.rows) == len(view.ranks) == 32
    assert heat.width == 8


def test_the_queueing_rank_is_hot_and_its_row_uneven() -> None:
    heat = heat_map(overview(filled().snapshot(NOW)), HeatMetric.QUEUE)
    hot = [(r.label, n) for r in heat.rows for n, c in enumerate(r.cells) if c.hot]
    assert hot == [("decode 1.0", 3)]
    row = heat.rows[3]
    assert row.cells[3].level == LEVELS - 1
    assert row.peak is not None
    assert row.peak > 2.0
    values = [c.rank.waiting or 0.0 for c in row.cells]
    assert row.peak == pytest.approx(max(values) / (sum(values) / len(values)))


@pytest.mark.parametrize("metric", list(HeatMetric))
def test_a_silent_rank_never_shows_a_number(metric: HeatMetric) -> None:
    heat = heat_map(overview(filled().snapshot(NOW)), metric)
    silent = [c for r in heat.rows for c in r.cells if c.rank.silent]
    assert len(silent) == 9
    assert {(c.text, c.level) for c in silent} == {("·", None)}
    assert all("silent" in rank_lines(c.rank)[1] for c in silent)


def test_all_become_silent_when_nothing_is_scraped_any_more() -> None:
    heat = heat_map(overview(filled().snapshot(NOW + 3600.0)), HeatMetric.KV)
    assert all(c.level is None for r in heat.rows for c in r.cells)


@pytest.mark.parametrize("metric", list(HeatMetric))
def test_levels_rise_with_the_value(metric: HeatMetric) -> None:
    heat = heat_map(overview(filled().snapshot(NOW)), metric)
    value = {HeatMetric.QUEUE: "waiting", HeatMetric.RUNNING: "running", HeatMetric.KV: "kv_usage",
             HeatMetric.HITS: "prefix_hit", HeatMetric.OUTPUT: "output_tok_s", HeatMetric.PROMPT: "prompt_tok_s"}  # fmt: skip
    for role in ("prefill", "decode"):
        cells = [c for r in heat.rows if r.role == role for c in r.cells if c.level is not None]
        pairs = sorted((getattr(c.rank, value[metric]), c.level or 0) for c in cells)
        assert [level for _, level in pairs] == sorted(level for _, level in pairs)


def test_a_balanced_role_is_calm() -> None:
    heat = heat_map(overview(filled().snapshot(NOW)), HeatMetric.RUNNING)
    levels = [c.level for r in heat.rows for c in r.cells if c.level is not None]
    assert max(levels) <= 2


def test_faults_only_and_filter_narrow_the_rows() -> None:
    view = overview(filled().snapshot(NOW))
    faults = heat_map(view, HeatMetric.QUEUE, faults_only=True)
    assert [r.label for r in faults.rows] == ["prefill 1.0", "decode 0.0", "decode 1.0"]
    assert [r.label for r in heat_map(view, HeatMetric.QUEUE, filter_text="decode 1.0").rows] == [
        "decode 1.0"
    ]


def test_the_strip_follows_a_request_and_says_what_is_down() -> None:
    snapshot = filled().snapshot(NOW)
    strip = strip_of(snapshot, overview(snapshot), plan=sample_points().plan_at(32))
    assert [(b.title, b.health) for b in strip.boxes] == [
        ("gateway", "ready"), ("picker", "ready"), ("prefill", "progressing"), ("decode", "ready"),
    ]  # fmt: skip
    assert "1/2 groups" in strip.boxes[2].lines
    assert strip.ratio == "P:D groups 1:2, planned 2:2 ≠"


def test_an_empty_cluster_has_an_empty_strip_and_map() -> None:
    from console.cluster.state import ClusterState, Identity

    snapshot = ClusterState(Identity(source="s", context="c", server="", namespace=None)).snapshot(NOW)
    view = overview(snapshot)
    assert [b.health for b in strip_of(snapshot, view).boxes] == ["absent", "absent"]
    assert heat_map(view, HeatMetric.QUEUE).rows == ()
    for kind in Kind:
        assert object_table(snapshot, kind).note.startswith("loading")


def test_objects_list_faults_first_and_events_newest_first() -> None:
    snapshot = filled().snapshot(NOW)
    pods = object_table(snapshot, Kind.PODS)
    assert (pods.rows[0].name, pods.rows[0].state, pods.rows[0].bad) == (
        "r1-prefill-1",
        "CrashLoopBackOff",
        True,
    )
    assert len(object_table(snapshot, Kind.PODS, faults_only=True).rows) == 1
    events = object_table(snapshot, Kind.EVENTS)
    assert [r.state for r in events.rows] == ["BackOff", "Scheduled"]
    assert object_table(snapshot, Kind.QUEUED_WORKLOADS).note.startswith("absent")


def test_every_object_can_be_shown_and_a_vanished_one_is_none() -> None:
    snapshot = filled().snapshot(NOW)
    for kind in Kind:
        for row in object_table(snapshot, kind).rows:
            text = object_yaml(snapshot, kind, row.key)
            assert text is not None
            assert row.name in text
    assert object_yaml(snapshot, Kind.PODS, "serving/gone") is None
    assert related_events(snapshot, "r1-prefill-1") == (
        "2026-11-29T12:00:00Z Warning BackOff x4: Back-off restarting failed container",
    )


@pytest.mark.parametrize(
    ("word", "kind"), [("po", Kind.PODS), ("events", Kind.EVENTS), ("lws", Kind.GROUP_SETS)]
)
def test_kinds_have_short_names(word: str, kind: Kind) -> None:
    assert find_kind(word) is kind
    assert find_kind("pds") is None
    assert "pods" in unknown_kind("pds")


def test_a_plan_is_compared_by_groups_and_gpus() -> None:
    view = overview(filled().snapshot(NOW))
    plan = sample_points().plan_at(32)  # prefill 2 x 8, decode 2 x 8
    lines = plan_lines(plan, view)
    assert lines[0].startswith("≠ prefill: planned 2 groups, 16 GPUs; live 1 ready of 2")
    assert lines[1].startswith("= decode")
    aggregated = plan_lines(sample_points().plan_at(0), view)
    assert any("the plan does not have" in line for line in aggregated)
    whole = overview(filled(crashed=False).snapshot(NOW))
    assert all(line.startswith("=") for line in plan_lines(plan, whole))


def test_a_large_map_is_built_for_every_pod() -> None:
    view = overview(filled(pods_per_role=100).snapshot(NOW))
    heat = heat_map(replace(view, ranks=view.ranks * 5), HeatMetric.QUEUE)
    assert len(heat.rows) == 200
