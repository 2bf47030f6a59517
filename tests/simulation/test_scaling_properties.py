"""Conservation under any sequence of decisions (hypothesis)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from builders import ACTIVE, constant_tables, disaggregated, role
from hypothesis import given, settings
from hypothesis import strategies as hs

from planner.domain.deployment import Role
from planner.simulation.cluster import Cluster
from planner.simulation.engine import Progress
from planner.simulation.scaling.elastic import ElasticGroup, Reconfiguration
from planner.simulation.scaling.figures import gpu_hours
from planner.simulation.scaling.fleet import Phase, pools_of
from planner.simulation.scaling.load import LoadCurve, curve_traffic
from planner.simulation.scaling.parallel import play_all
from planner.simulation.scaling.play import Control, ScaledRun, play_scaled
from planner.simulation.scaling.policy import Behaviour, Metric
from planner.simulation.traffic import single

HORIZON_S = 60.0
CURVE = LoadCurve(label="c", time_s=(0.0, 30.0, 30.0, HORIZON_S), rps=(2.0, 8.0, 1.0, 4.0))
BEHAVIOUR = Behaviour(sync_s=3.0)


@dataclass
class Script:
    """Sizes wanted, one after the other at every look."""

    sizes: dict[str, list[int]]
    at: int = -1

    def decide(self, t: float, seen: object) -> dict[str, int]:
        """The next sizes."""
        del t, seen
        self.at += 1
        return {name: sizes[self.at % len(sizes)] for name, sizes in self.sizes.items()}


def conserved(run: ScaledRun, ranks: int) -> None:
    req = run.state.req
    assert np.isfinite(req.finish).all()
    assert (req.failed == 0).all()
    assert int(run.state.rank.requests.sum()) == len(req)
    assert (req.first >= req.arrival).all()
    assert (req.finish >= req.first).all()
    for k in range(ranks):
        pool = run.state.pool[k]
        assert pool.free + pool.evictable == pool.total
    for counter in ("inflight", "inflight_tokens", "pinned", "waiting", "running", "loading", "ready"):
        assert (run.state.rank[counter][:ranks] == 0).all(), counter


sizes = hs.lists(hs.integers(1, 3), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    prefill=sizes, decode=sizes, cold_s=hs.floats(0.0, 12.0), seed=hs.integers(0, 50), shared=hs.booleans()
)
def test_any_scaling_serves_every_request_once_and_bills_what_is_held(
    prefill: list[int], decode: list[int], cold_s: float, seed: int, shared: bool
) -> None:
    room = disaggregated(
        prefill={"groups": 3, "ranks": 1, "tables": constant_tables(150.0)},
        decode={"groups": 3, "ranks": 2, "tables": constant_tables(25.0)},
    )
    shape = replace(single(1500, 40), shares_prefixes=shared, system_tokens=640 if shared else 0)
    traffic = curve_traffic(shape, CURVE, seed=seed)
    pools = pools_of(room, cold_s=cold_s)
    for pool in pools:
        pool.begin(1)
    script = Script({"prefill": prefill, "decode": decode})
    metrics = {"prefill": Metric.BACKLOG, "decode": Metric.RUNNING}
    control = Control(decider=script, metrics=metrics, behaviour=BEHAVIOUR)
    run = play_scaled(room, traffic, pools, control=control, seed=seed, horizon_s=HORIZON_S)
    conserved(run, 9)
    req = run.state.req
    # who served was serving when the request was routed
    for first, size, name, used in ((0, 1, "prefill", req.prefill), (3, 2, "decode", req.serve)):
        spans = [s for s in run.spans if s.role == name]
        held = sum(s.groups * (min(s.to_s, HORIZON_S) - min(s.from_s, HORIZON_S)) for s in spans)
        assert held <= 3 * HORIZON_S + 1e-9
        assert gpu_hours(spans, until_s=HORIZON_S) == pytest.approx(held * size / 3600.0)
        assert set(np.unique(used).tolist()) <= set(range(first, first + 3 * size))
        changes = sorted(
            [(s.from_s, 1) for s in spans if s.phase is Phase.SERVING]
            + [(s.to_s, -1) for s in spans if s.phase is Phase.SERVING],
            key=lambda c: (c[0], -c[1]),
        )
        level = 0
        for (t, step), (following, _) in pairwise(changes):
            level += step
            if t < following and t < HORIZON_S:
                assert level >= 1, "nobody served"
    assert run.refused == 0


@settings(max_examples=40, deadline=None)
@given(
    wanted=hs.lists(hs.integers(1, 6), min_size=1, max_size=12),
    live=hs.booleans(),
    prepare_s=hs.floats(0.0, 5.0),
    pause_s=hs.floats(0.0, 4.0),
    timeout_s=hs.floats(0.0, 6.0),
    seed=hs.integers(0, 50),
)
def test_any_change_of_width_serves_every_request_once(
    wanted: list[int], live: bool, prepare_s: float, pause_s: float, timeout_s: float, seed: int
) -> None:
    wide = role(Role.AGGREGATED, ranks=6, tables=constant_tables(20.0), kv_blocks=300)
    roles = (
        replace(wide, groups=0, ranks=2, tables=constant_tables(30.0)),
        replace(wide, groups=0, ranks=4, tables=constant_tables(25.0)),
        wide,
    )
    how = Reconfiguration(prepare_s=prepare_s, pause_s=pause_s, live=live, drain_timeout_s=timeout_s)
    group = ElasticGroup(
        name="aggregated", kind=Role.AGGREGATED, group=0, first=0, widths=(2, 4, 6), role_of={2: 0, 4: 1, 6: 2},
        gpus_per_rank=1, how=how, width=2,
    )  # fmt: skip
    shape = replace(single(600, 60), shares_prefixes=True, system_tokens=256)
    traffic = curve_traffic(shape, CURVE, seed=seed)
    control = Control(
        decider=Script({"aggregated": wanted}), metrics={"aggregated": Metric.RUNNING}, behaviour=BEHAVIOUR
    )
    cluster = Cluster(name="elastic", roles=roles, router=ACTIVE)
    run = play_scaled(cluster, traffic, [group], control=control, seed=seed, horizon_s=HORIZON_S)
    conserved(run, 6)
    if live:
        assert run.refused == 0
    ends = max(s.to_s for s in run.spans)
    held = gpu_hours(run.spans, until_s=ends) * 3600.0
    assert 2 * ends - 1e-6 <= held <= 6 * ends + 1e-6
    assert group.width in group.widths


def test_an_error_in_one_run_ends_the_others() -> None:
    started, ended = threading.Event(), threading.Event()

    def play(job: int, report: Progress) -> int:
        if job == 0:
            started.wait()
            raise ValueError("no")
        started.set()
        while True:  # ends only because a report raises
            try:
                report(1, 1)
            except RuntimeError:
                ended.set()
                raise

    with pytest.raises(ValueError, match="no"):
        play_all([0, 1], play, requests=2, progress=None)
    assert ended.is_set()
