"""Advice about a cluster: one entry per finding, in the order to look at them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.views.cluster import ClusterOverview, RankRow
from console.views.cluster_advice import advise
from console.views.cluster_blockers import Blocker, Stage


def rank(engine: str, **more: object) -> RankRow:
    row = RankRow(
        label=f"decode 0.0:{8000 + int(engine)}", role="decode", group="g", pod="pod-0", port=8000 + int(engine),
        engine=engine, age_s=1.0, waiting=0.0,
    )  # fmt: skip
    return replace(row, **more)  # type: ignore[arg-type]


def view(ranks: tuple[RankRow, ...] = (), blockers: tuple[Blocker, ...] = ()) -> ClusterOverview:
    return ClusterOverview(
        context="c", server="s", source="live", namespace="n", now=0.0, roles=(), groups=(), endpoints=(), ranks=ranks,
        blockers=blockers, kinds=(), metrics=None,
    )  # fmt: skip


def test_nothing_wrong_no_advice() -> None:
    assert advise(view((rank("0"), rank("1", waiting=2.0)))) == ()


def test_a_hot_rank_is_compared_with_its_peers_and_its_pod_is_named() -> None:
    ranks = (
        rank("0", waiting=1.0),
        rank("1", waiting=3.0),
        rank("2", waiting=40.0, kv_usage=0.875, hot=True, pod="pod-7"),
        rank("3", role="prefill", waiting=99.0),
    )
    (found,) = advise(view(ranks))
    assert "decode 0.0:8002 (rank 2) queues 40 requests, KV cache 88 % full" in found.what
    assert "its 2 peers queue 2.0 on average" in found.why
    assert "pod-7" in found.fix
    (bare,) = advise(view((rank("0", waiting=9.0, hot=True),)))
    assert "KV cache" not in bare.what


def test_blockers_first_then_hot_then_silent_ones_together() -> None:
    ranks = (
        rank("0", waiting=None, silent="timeout"),
        rank("1", waiting=None, silent="refused"),
        rank("2", waiting=9.0, hot=True),
    )
    blocked = Blocker(stage=Stage.IMAGE, what="pod p", why="ErrImagePull", role="decode", count=3)
    first, second, third = advise(view(ranks, (blocked,)))
    assert first.what == "image not pulled: pod p and 2 more"
    assert first.why == "ErrImagePull"
    assert "pull secret" in first.fix
    assert "queues 9" in second.what
    assert third.what == "no metrics from decode 0.0:8000 and 1 more"
    assert third.why == "timeout"


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_has_advice(stage: Stage) -> None:
    (found,) = advise(view(blockers=(Blocker(stage=stage, what="w", why="y"),)))
    assert found.fix
