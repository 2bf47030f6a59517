"""Elastic EP and expert rebalancing, against cases that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import ACTIVE, constant_tables, policy, role, tables

from planner.domain.deployment import Eplb, Role, RouterKind
from planner.domain.errors import InputError
from planner.simulation.cluster import Cluster, ExpertBalance
from planner.simulation.engine import simulate
from planner.simulation.experiments.lab import Lab
from planner.simulation.scaling.elastic import ElasticGroup, Reconfiguration
from planner.simulation.scaling.elastic_compare import even, require_elastic
from planner.simulation.scaling.figures import gpu_hours
from planner.simulation.scaling.fleet import Phase
from planner.simulation.scaling.load import LoadCurve, curve_traffic
from planner.simulation.scaling.play import Control, ScaledRun, play_scaled
from planner.simulation.scaling.policy import Behaviour, Metric
from planner.simulation.scaling.rebalancing import mean_imbalance, time_ratio
from planner.simulation.traffic import Arrival, make_traffic, single

STEP_MS = 20.0
FLAT = LoadCurve(label="flat", time_s=(0.0, 240.0), rps=(4.0, 4.0))


class Script:
    """Two ranks, four between 60 s and 150 s, then two again."""

    def decide(self, t: float, seen: object) -> dict[str, int]:
        """Ranks at `t`."""
        del seen
        return {"aggregated": 4 if 60.0 <= t < 150.0 else 2}


def elastic_cluster() -> Cluster:
    """Two widths as two roles; the wide one owns the ranks. The wide group steps 10 ms faster, so that tables show."""
    wide = role(Role.AGGREGATED, ranks=4, tables=constant_tables(STEP_MS - 10.0), kv_blocks=400)
    narrow = replace(wide, groups=0, ranks=2, tables=constant_tables(STEP_MS))
    return Cluster(name="elastic", roles=(narrow, wide), router=ACTIVE)


def elastic(how: Reconfiguration) -> ElasticGroup:
    return ElasticGroup(
        name="aggregated",
        kind=Role.AGGREGATED,
        group=0,
        first=0,
        widths=(2, 4),
        role_of={2: 0, 4: 1},
        gpus_per_rank=1,
        how=how,
        width=2,
    )


def played(how: Reconfiguration, *, osl: int = 100) -> tuple[ScaledRun, ElasticGroup]:
    group = elastic(how)
    control = Control(decider=Script(), metrics={"aggregated": Metric.RUNNING}, behaviour=Behaviour())
    traffic = curve_traffic(single(64, osl), FLAT, seed=1)
    run = play_scaled(elastic_cluster(), traffic, [group], control=control, seed=1, horizon_s=240.0)
    return run, group


@pytest.fixture(scope="module")
def drained() -> tuple[ScaledRun, ElasticGroup]:
    return played(Reconfiguration(prepare_s=20.0, pause_s=5.0, live=False))


@pytest.fixture(scope="module")
def live() -> tuple[ScaledRun, ElasticGroup]:
    return played(Reconfiguration(prepare_s=20.0, pause_s=5.0, live=True))


def test_every_request_is_served_once_through_changes_of_width(
    drained: tuple[ScaledRun, ElasticGroup], live: tuple[ScaledRun, ElasticGroup]
) -> None:
    for run, group in (drained, live):
        req = run.state.req
        assert np.isfinite(req.finish).all()
        assert (req.failed == 0).all()
        assert int(run.state.rank.requests.sum()) == len(req)
        assert int(run.state.rank.output_tokens.sum()) == int(req.osl.sum())
        assert group.changes == 2
        pools = run.state.pool[:4]
        assert (pools.free + pools.evictable == pools.total).all()
        assert len(set(req.serve.tolist())) == 4  # new ranks did serve


def test_a_drained_change_refuses_until_the_last_answer_and_the_pause_are_over(
    drained: tuple[ScaledRun, ElasticGroup],
) -> None:
    run, group = drained
    # growth at 60 s: prepared until 80 s, then closed. An answer takes 100 steps of 20 ms; the pause 5 s
    assert run.refused > 0
    for downtime in group.downtimes_s:
        assert 5.0 < downtime <= 5.0 + 2.0 + 0.6
    req = run.state.req
    served = np.sort(req.first)
    assert not ((served > 80.0 + 0.5) & (served < 80.0 + 5.0)).any()  # nobody admitted after closing
    waited = req.first - req.arrival
    assert (
        waited[(req.arrival > 80.0) & (req.arrival < 82.0)].min() > 3.0
    )  # the clock of a refused client runs on
    assert waited[req.arrival < 79.0].max() < 0.5


def test_a_live_change_keeps_its_requests_and_stops_for_the_pause_only(
    live: tuple[ScaledRun, ElasticGroup],
) -> None:
    run, group = live
    assert run.refused == 0
    assert group.downtimes_s == [5.0, 5.0]
    req = run.state.req
    running = (req.first < 80.0) & (req.finish > 80.0)
    assert running.any()
    took = (req.finish - req.first)[running]
    # 99 further steps of 10 to 20 ms, and the pause
    assert (took >= 99 * 0.010 + 5.0 - 0.05).all()
    assert (took <= 99 * 0.020 + 5.0 + 0.05).all()
    assert float(run.state.group[0].paused_s) == pytest.approx(10.0, abs=0.1)


def test_the_tables_of_the_new_width_set_the_pace(drained: tuple[ScaledRun, ElasticGroup]) -> None:
    run, _ = drained
    req = run.state.req
    gap = (req.finish - req.first) / 99.0
    assert gap[req.finish < 75.0] == pytest.approx(0.020)
    assert gap[(req.first > 95.0) & (req.finish < 148.0)] == pytest.approx(0.010)
    assert gap[req.first > 175.0] == pytest.approx(0.020)


def test_an_elastic_group_pays_for_ranks_from_their_preparation_to_the_end_of_the_switch(
    drained: tuple[ScaledRun, ElasticGroup], live: tuple[ScaledRun, ElasticGroup]
) -> None:
    for run, group in (drained, live):
        # two ranks all the time; two more from 60 s until the change back at 150 s is over
        back = [s for s in run.spans if s.phase is Phase.SERVING][-1].from_s
        expected = (2 * 240.0 + 2 * (back - 60.0)) / 3600.0
        assert gpu_hours(run.spans, until_s=240.0) == pytest.approx(expected)
        assert 150.0 <= back <= 150.0 + sum(group.downtimes_s)


def test_answers_longer_than_the_drain_timeout_make_the_change_fail() -> None:
    how = Reconfiguration(prepare_s=1.0, pause_s=5.0, live=False, drain_timeout_s=3.0)
    run, group = played(how, osl=600)  # 12 s
    assert group.changes == 0
    assert group.given_up > 0
    assert np.isfinite(run.state.req.finish).all()
    assert (run.state.req.serve < 2).all()
    prepared = [s for s in run.spans if s.phase is Phase.STARTING]
    assert prepared  # ranks that were prepared in vain were paid for
    for s in prepared:
        assert s.gpus == 2
        assert s.to_s - s.from_s == pytest.approx(1.0 + 3.0)


def test_ranks_that_come_back_are_cold_and_those_that_stay_are_not() -> None:
    group = elastic(Reconfiguration(prepare_s=1.0, pause_s=1.0, live=True))

    class Thrice:
        def decide(self, t: float, seen: object) -> dict[str, int]:
            del seen
            return {"aggregated": 2 if 80.0 <= t < 160.0 else 4}

    control = Control(decider=Thrice(), metrics={"aggregated": Metric.RUNNING}, behaviour=Behaviour())
    shape = replace(single(640, 20), shares_prefixes=True, system_tokens=6400)
    cluster = replace(elastic_cluster(), router=policy(RouterKind.ROUND_ROBIN))
    traffic = curve_traffic(shape, FLAT, seed=1)
    run = play_scaled(cluster, traffic, [group], control=control, seed=1, horizon_s=240.0)
    assert group.changes == 3
    req = run.state.req
    for k in range(4):
        after = np.flatnonzero((req.serve == k) & (req.arrival > 155.0))
        first = after[np.argmin(req.first[after])]
        assert (req.hit[first] == 0) == (k >= 2), k


@pytest.mark.parametrize(
    ("experts", "asked", "ep", "redundant"),
    [(256, 0, 16, 0), (256, 32, 32, 32), (256, 1, 24, 8), (128, 0, 6, 4)],
)
def test_redundant_experts_fill_every_rank_equally(experts: int, asked: int, ep: int, redundant: int) -> None:
    assert even(experts, asked, ep) == redundant
    assert (experts + redundant) % ep == 0


def balanced_cluster(*, pause_s: float, drift_steps: float, interval: int) -> Cluster:
    """One rank whose experts take 10 ms when balanced and 20 ms before; the rest of a step takes 10 ms."""
    t = constant_tables(10.0)
    t = replace(t, experts_ms=np.full_like(t.experts_ms, 10.0))
    one = role(
        Role.AGGREGATED,
        ranks=1,
        tables=t,
        eplb=Eplb(step_interval=interval, use_async=pause_s == 0.0),
        experts=ExpertBalance(before=2.0, after=1.0, drift_steps=drift_steps, pause_s=pause_s),
    )
    return Cluster(name="eplb", roles=(one,), router=ACTIVE)


def test_a_stall_costs_its_share_of_an_interval() -> None:
    interval = 400
    traffic = make_traffic(single(64, 100), sessions=1500, seed=0, arrival=Arrival.CLOSED, concurrency=16)
    rates = {}
    for pause in (0.0, 2.0):
        cluster = balanced_cluster(pause_s=pause, drift_steps=float("inf"), interval=interval)
        rates[pause] = simulate(cluster, traffic, seed=0).output_tok_s.value
    # 400 steps of 20 ms take 8 s, with the stall 10 s
    assert rates[2.0] / rates[0.0] == pytest.approx(8.0 / 10.0, rel=0.05)


def test_drift_between_rearrangements_slows_the_experts_by_the_mean_over_the_interval() -> None:
    interval, drift = 400, 200.0
    traffic = make_traffic(single(64, 100), sessions=1500, seed=0, arrival=Arrival.CLOSED, concurrency=16)
    still, drifting = (
        simulate(balanced_cluster(pause_s=0.0, drift_steps=d, interval=interval), traffic, seed=0)
        for d in (float("inf"), drift)
    )
    expected = mean_imbalance(before=2.0, interval_steps=interval, drift_steps=drift)
    assert expected == pytest.approx(1.0 + (1.0 - (1.0 - np.exp(-2.0)) / 2.0), rel=1e-9)
    # a step: 10 ms and the experts' 10 ms x their mean slowdown
    assert still.output_tok_s.value / drifting.output_tok_s.value == pytest.approx(
        (10.0 + 10.0 * expected) / 20.0, rel=0.03
    )


def test_more_frequent_rebalancing_keeps_experts_closer_to_balance() -> None:
    means = [
        mean_imbalance(before=1.5, interval_steps=n, drift_steps=1000.0) for n in (10, 100, 1000, 10_000)
    ]
    assert means == sorted(means)
    assert means[0] == pytest.approx(1.0, abs=0.01)
    assert means[-1] == pytest.approx(1.5, abs=0.06)
    assert mean_imbalance(before=1.5, interval_steps=100, drift_steps=float("inf")) == 1.0


def test_a_busier_rank_takes_longer_only_where_tokens_set_the_time() -> None:
    weights_bound = tables(experts_ms=50.0, per_token_us=0.0)
    token_bound = tables(experts_ms=0.0, per_token_us=500.0, exchange_ms=0.0)
    assert time_ratio(weights_bound, tokens=64.0, load=1.5) == pytest.approx(1.0)
    assert time_ratio(token_bound, tokens=512.0, load=2.0) == pytest.approx(2.0, rel=0.05)


def test_plans_without_expert_parallelism_and_bad_widths_are_refused() -> None:
    lab = Lab("openai/gpt-oss-120b", "h200-sxm", "ib-ndr400")
    sharded = lab.plan(lab.role(Role.AGGREGATED, tp=2, dp=2, ep=False))
    with pytest.raises(InputError) as caught:
        require_elastic(sharded, lab.model, (4, 4))
    assert [i.code for i in caught.value.issues] == ["elastic.no_ep", "elastic.widths"]
    spread = lab.plan(lab.role(Role.AGGREGATED, dp=4, ep=True))
    assert require_elastic(spread, lab.model, (4, 8)) == 128
    for widths in ((4,), (8, 4), (0, 4), (4, 4096)):
        with pytest.raises(InputError) as caught:
            require_elastic(spread, lab.model, widths)
        assert [i.code for i in caught.value.issues] == ["elastic.widths"]
    with pytest.raises(InputError) as caught:
        require_elastic(replace(spread, engine="sglang"), lab.model, (4, 8))
    assert [i.code for i in caught.value.issues] == ["elastic.engine"]
