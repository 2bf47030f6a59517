"""Groups that join and leave while serving, against cases that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from builders import ACTIVE, constant_tables, disaggregated, policy, role
from hypothesis import given
from hypothesis import strategies as hs

from planner.domain.deployment import Role, RouterKind
from planner.domain.errors import InputError
from planner.domain.workload import SloTargets
from planner.simulation.cluster import Cluster, Network
from planner.simulation.engine import play
from planner.simulation.scaling.compare import (
    INDEPENDENT,
    NO_COLD_START,
    STATIC_PEAK,
    Answer,
    RoleAsked,
    compare_scaling,
)
from planner.simulation.scaling.figures import ScaledFigures, gpu_hours
from planner.simulation.scaling.fleet import Phase, pools_of
from planner.simulation.scaling.load import LoadCurve, curve_traffic, diurnal, read_load
from planner.simulation.scaling.play import Control, ScaledRun, play_scaled
from planner.simulation.scaling.policy import (
    Behaviour,
    Independent,
    Metric,
    RolePolicy,
    RoleScaler,
    recommended,
)
from planner.simulation.traffic import Traffic, single

STEP_MS = 20.0
SLO = SloTargets(ttft_ms=500.0, tpot_ms=25.0)


def cluster(groups: int) -> Cluster:
    """Aggregated groups of two ranks; every step takes 20 ms."""
    one = role(
        Role.AGGREGATED,
        groups=groups,
        ranks=2,
        tables=constant_tables(STEP_MS),
        kv_blocks=400,
        max_num_seqs=16,
    )
    return Cluster(name="c", roles=(one,), router=ACTIVE)


def step_curve() -> LoadCurve:
    """1 request/s, then 12 between minutes 5 and 10, then 1 again for 10 minutes."""
    return LoadCurve(label="step", time_s=(0, 300, 300, 600, 600, 1200), rps=(1, 1, 12, 12, 1, 1))


def scaler(*, target: float, most: int, behaviour: Behaviour) -> Control:
    policy = RolePolicy(metric=Metric.RUNNING, target=target, least=1, most=most)
    return Control(
        decider=Independent({"aggregated": RoleScaler(policy, behaviour)}),
        metrics={"aggregated": Metric.RUNNING},
        behaviour=behaviour,
    )


def scaled(
    groups: int, traffic: Traffic, *, first: int, cold_s: float, control: Control | None, until_s: float
) -> ScaledRun:
    room = cluster(groups)
    pools = pools_of(room, cold_s=cold_s)
    for pool in pools:
        pool.begin(first)
    return play_scaled(room, traffic, pools, control=control, seed=1, horizon_s=until_s)


@pytest.fixture(scope="module")
def step_run() -> ScaledRun:
    """The step load, 100 tokens per answer (2 s): 2 requests in flight, then 24."""
    traffic = curve_traffic(single(64, 100), step_curve(), seed=3)
    behaviour = Behaviour(down_window_s=60.0, average_s=15.0)
    control = scaler(target=8.0, most=4, behaviour=behaviour)
    return scaled(4, traffic, first=1, cold_s=100.0, control=control, until_s=1200.0)


def test_a_step_in_the_load_brings_as_many_groups_as_its_requests_need(step_run: ScaledRun) -> None:
    # 12 requests/s x 2 s = 24 in flight / 8 per group = 3 groups; +-1 for noise of a Poisson count
    serving = [s for s in step_run.spans if s.phase is Phase.SERVING]
    at = lambda t: sum(s.from_s <= t < s.to_s for s in serving)  # noqa: E731
    assert at(200.0) == 1
    assert 3 <= at(560.0) <= 4
    assert at(1150.0) == 1


def test_a_new_group_serves_exactly_a_cold_start_after_the_decision(step_run: ScaledRun) -> None:
    starting = [s for s in step_run.spans if s.phase is Phase.STARTING]
    assert starting
    for s in starting:
        assert s.to_s - s.from_s == pytest.approx(100.0)
        assert s.from_s % 15.0 == 0.0  # decisions come with the sync period only
        assert s.from_s > 300.0
        assert any(o.phase is Phase.SERVING and o.from_s == s.to_s for o in step_run.spans)
    req = step_run.state.req
    late = req.serve >= 2  # a rank of a group that joined
    assert req.first[late].min() >= min(s.to_s for s in starting)


def test_every_request_is_served_once_while_groups_come_and_go(step_run: ScaledRun) -> None:
    req = step_run.state.req
    assert np.isfinite(req.finish).all()
    assert (req.failed == 0).all()
    assert int(step_run.state.rank.requests.sum()) == len(req)
    assert int(step_run.state.rank.output_tokens.sum()) == int(req.osl.sum())
    pools = step_run.state.pool[: len(step_run.state.rank)]
    assert (pools.free + pools.evictable == pools.total).all()


def test_a_draining_group_gets_no_new_request_and_leaves_with_its_last(step_run: ScaledRun) -> None:
    draining = [s for s in step_run.spans if s.phase is Phase.DRAINING]
    assert draining
    req = step_run.state.req
    for s in draining:
        ends = req.finish[np.isclose(req.finish, s.to_s, atol=1e-12)]
        assert len(ends) >= 1  # the drain ends with a request
        assert s.to_s - s.from_s < 2.5  # an answer takes 2 s: nobody new came
    for s in (x for x in step_run.spans if x.phase is Phase.SERVING):
        assert s.from_s < s.to_s


def test_gpu_hours_are_the_integral_of_the_spans(step_run: ScaledRun) -> None:
    grid = np.arange(0.0, 1200.0, 0.25) + 0.125
    held = sum(((s.from_s <= grid) & (grid < s.to_s)) * s.gpus for s in step_run.spans)
    assert gpu_hours(step_run.spans, until_s=1200.0) == pytest.approx(held.sum() * 0.25 / 3600.0, rel=1e-3)
    parts = sum(gpu_hours(step_run.spans, until_s=1200.0, phase=p) for p in Phase)
    assert gpu_hours(step_run.spans, until_s=1200.0) == pytest.approx(parts)


def test_a_fixed_fleet_costs_groups_times_time_and_plays_as_the_plain_simulator() -> None:
    traffic = curve_traffic(single(64, 50), step_curve(), seed=5)
    run = scaled(2, traffic, first=2, cold_s=0.0, control=None, until_s=1200.0)
    assert gpu_hours(run.spans, until_s=1200.0) == pytest.approx(2 * 2 * 1200.0 / 3600.0, rel=1e-12)
    plain = play(cluster(2), traffic, seed=1).state
    assert np.array_equal(plain.req.finish, run.state.req.finish)


def test_looking_without_acting_changes_nothing() -> None:
    traffic = curve_traffic(single(64, 50), step_curve(), seed=5)
    behaviour = Behaviour()
    room = cluster(2)
    pools = pools_of(room, cold_s=0.0)
    for pool in pools:
        pool.begin(2)
    control = scaler(target=1.0, most=2, behaviour=behaviour)
    run = play_scaled(room, traffic, pools, control=control, seed=1, act=False)
    assert np.array_equal(play(cluster(2), traffic, seed=1).state.req.finish, run.state.req.finish)


def test_a_group_that_comes_back_has_a_cold_cache() -> None:
    room = replace(cluster(2), router=policy(RouterKind.ROUND_ROBIN))
    shape = replace(single(640, 20), shares_prefixes=True, system_tokens=6400)
    curve = LoadCurve(label="twice", time_s=(0, 100, 100, 200, 200, 300), rps=(8, 8, 0.1, 0.1, 8, 8))
    traffic = curve_traffic(shape, curve, seed=2)
    pools = pools_of(room, cold_s=10.0)
    pools[0].begin(2)

    class Script:
        """Two groups, then one, then two again."""

        def decide(self, t: float, seen: object) -> dict[str, int]:
            del seen
            return {"aggregated": 1 if 100.0 < t < 190.0 else 2}

    behaviour = Behaviour()
    control = Control(decider=Script(), metrics={"aggregated": Metric.RUNNING}, behaviour=behaviour)
    run = play_scaled(room, traffic, pools, control=control, seed=1, horizon_s=300.0)
    back = max(s.from_s for s in run.spans if s.phase is Phase.SERVING)
    req = run.state.req
    first = {k: np.flatnonzero((req.serve == k) & (req.arrival > back)) for k in (2, 3)}
    for k, served in first.items():
        assert len(served), k
        assert req.hit[served[np.argmin(req.first[served])]] == 0
    before = req.hit[(req.serve >= 2) & (req.arrival > 50.0) & (req.arrival < 100.0)]
    assert (before >= 6400 - 64).all()  # the system prompt had been cached there


def test_prefill_groups_drain_until_their_blocks_were_pulled() -> None:
    room = disaggregated(
        prefill={"groups": 3, "ranks": 2, "tables": constant_tables(400.0)},
        decode={"groups": 1, "ranks": 2, "tables": constant_tables(STEP_MS)},
    )
    traffic = curve_traffic(single(2000, 30), LoadCurve(label="flat", time_s=(0, 120), rps=(12, 12)), seed=4)
    pools = pools_of(room, cold_s=5.0)
    pools[0].begin(3)
    pools[1].begin(1)

    class Script:
        def decide(self, t: float, seen: object) -> dict[str, int]:
            del seen
            return {"prefill": 1 if 30.0 < t < 75.0 else 3, "decode": 1}

    metrics = {"prefill": Metric.BACKLOG, "decode": Metric.KV}
    control = Control(decider=Script(), metrics=metrics, behaviour=Behaviour(sync_s=3.0))
    run = play_scaled(room, traffic, pools, control=control, seed=1, horizon_s=120.0)
    req = run.state.req
    assert np.isfinite(req.finish).all()
    gone = [s for s in run.spans if s.phase is Phase.DRAINING]
    assert len(gone) >= 1
    for s in gone:
        on_time = req.moved_to[(req.prefill >= 2)]
        assert np.isclose(on_time, s.to_s, atol=1e-12).any()
    assert (run.state.rank.pinned == 0).all()
    assert [t for t, _ in run.samples["prefill"]][:120] == [1.0 * i for i in range(1, 121)]


def test_a_prefill_group_waits_for_a_slow_network_before_it_goes() -> None:
    # 2,000 tokens x 70,000 bytes over 0.05 GB/s take 2.8 s, alone
    slow = Network(gbps=0.05)
    room = disaggregated(
        prefill={"groups": 2, "ranks": 1, "tables": constant_tables(100.0), "network": slow},
        decode={"groups": 1, "ranks": 2, "tables": constant_tables(STEP_MS), "network": slow},
    )
    curve = LoadCurve(label="then nothing", time_s=(0, 29.9, 29.9, 100), rps=(0.3, 0.3, 0, 0))
    traffic = curve_traffic(single(2000, 5), curve, seed=0)
    pools = pools_of(room, cold_s=0.0)
    pools[0].begin(2)
    pools[1].begin(1)

    class Script:
        def decide(self, t: float, seen: object) -> dict[str, int]:
            del seen
            return {"prefill": 1 if t >= leave_at else 2, "decode": 1}

    leave_at = 0.0
    plain = play(room, traffic, seed=1).state
    second = plain.req.prefill == 1
    # leave right after a prompt was prefilled on the second group
    leave_at = float(np.ceil(plain.req.prefilled[second][0]))
    control = Control(decider=Script(), metrics={"prefill": Metric.BACKLOG}, behaviour=Behaviour(sync_s=1.0))
    run = play_scaled(room, traffic, pools, control=control, seed=1, horizon_s=100.0)
    (gone,) = [s for s in run.spans if s.phase is Phase.DRAINING]
    req = run.state.req
    last = req.moved_to[req.prefill == 1].max()
    assert gone.from_s == leave_at
    assert gone.to_s == pytest.approx(last)
    assert last - req.prefilled[req.prefill == 1].max() > 2.5


@given(
    total=hs.floats(0.0, 1e4),
    target=hs.floats(0.5, 100.0),
    current=hs.integers(1, 50),
    most=hs.integers(1, 60),
)
def test_the_recommendation_is_the_smallest_number_that_carries_the_load(
    total: float, target: float, current: int, most: int
) -> None:
    policy = RolePolicy(metric=Metric.KV, target=target, least=1, most=most)
    wanted = recommended(total, current=current, policy=policy, tolerance=0.0)
    assert 1 <= wanted <= most
    if wanted < most:
        assert wanted * target >= total * (1 - 1e-6) - 1e-6
    if wanted > 1:
        assert (wanted - 1) * target < total * (1 + 1e-6) + 1e-6


def test_windows_tolerance_and_steps_follow_the_autoscaler() -> None:
    b = Behaviour(down_window_s=60.0, up_window_s=30.0, step=2)
    s = RoleScaler(RolePolicy(metric=Metric.RUNNING, target=10.0, least=1, most=9), b)
    assert s.decide(0.0, total=10.9, current=1) == 1  # within 10 %
    assert s.decide(15.0, total=90.0, current=1) == 1  # the up window saw 1 at 0 s
    assert s.decide(45.1, total=90.0, current=1) == 3  # 9 wanted, 2 at a time
    assert s.decide(60.0, total=15.0, current=3) == 3  # the down window still remembers 9
    assert s.decide(106.0, total=15.0, current=3) == 2


@given(
    rates=hs.lists(hs.integers(0, 20), min_size=2, max_size=6).filter(lambda r: max(r) > 0),
    share=hs.floats(0.0, 1.0),
)
def test_arrivals_follow_the_area_under_the_curve(rates: list[int], share: float) -> None:
    curve = LoadCurve(
        label="c", time_s=tuple(100.0 * i for i in range(len(rates))), rps=tuple(map(float, rates))
    )
    t = float(curve.times_at(np.array([share * curve.requests]))[0])
    assert 0.0 <= t <= curve.end_s
    inside = [x for x in curve.time_s if x < t] + [t]
    area = np.trapezoid([curve.at(x) for x in inside], inside)
    assert area == pytest.approx(share * curve.requests, rel=1e-6, abs=1e-6)


def test_a_day_has_as_many_requests_as_its_mean_says() -> None:
    curve = diurnal(peak_rps=8.0, trough_rps=2.0, period_s=3600.0)
    assert curve.mean_rps == pytest.approx(5.0, rel=1e-3)
    traffic = curve_traffic(single(10, 10), curve, seed=0)
    assert abs(traffic.requests - 18_000) < 5 * math.sqrt(18_000)
    middle = ((traffic.arrival_s > 1650) & (traffic.arrival_s < 1950)).sum() / 300
    assert middle == pytest.approx(8.0, rel=0.1)


@pytest.fixture(scope="module")
def answer() -> Answer:
    """A curve with 4x between trough and peak, on single groups."""
    return compare_scaling(
        cluster(1),
        single(64, 100),
        diurnal(peak_rps=40.0, trough_rps=4.0, period_s=1800.0),
        asked={"aggregated": RoleAsked(metric=Metric.RUNNING)},
        concurrency=16,
        slo=SLO,
        behaviour=Behaviour(down_window_s=120.0, average_s=30.0),
        cold_start_s=120.0,
        replications=2,
    )


def named(answer: Answer, name: str) -> ScaledFigures:
    return next(v for v in answer.variants if v.name == name)


def test_sizes_come_from_the_plan_s_own_load(answer: Answer) -> None:
    # 16 in flight, 100 steps of 20 ms each: 8 requests/s; 80 % of 16 requests per group is the target
    assert answer.capacity.rps == pytest.approx(8.0, rel=0.02)
    assert answer.capacity.tpot_p50_ms == pytest.approx(STEP_MS)
    (sizing,) = answer.sizing
    assert sizing.policy.target == pytest.approx(0.8 * 16, rel=0.05)
    # 40 requests/s / 8 / 0.8 = 6.25 groups; the mean of 22 needs 3.4
    assert (sizing.peak, sizing.mean) == (7, 4)


def test_scaling_is_cheaper_than_the_peak_plan_and_cold_starts_cost_attainment(answer: Answer) -> None:
    peak, own, warm = (named(answer, n) for n in (STATIC_PEAK, INDEPENDENT, NO_COLD_START))
    (sizing,) = answer.sizing
    assert peak.gpu_hours == pytest.approx(sizing.peak * 2 * 0.5)
    assert own.gpu_hours < peak.gpu_hours
    assert peak.attainment >= own.attainment
    assert warm.attainment >= own.attainment
    assert warm.roles[0].starting_gpu_hours == 0.0
    assert own.roles[0].starting_gpu_hours == pytest.approx(own.started * 2 * 120.0 / 3600.0, rel=0.2)
    for v in answer.variants:
        assert v.requests == peak.requests
        assert v.failed == 0
        assert sum(w.requests for w in v.windows) == v.requests


def test_variants_share_their_arrivals(answer: Answer) -> None:
    for replication in answer.replications:
        counts = {tuple(w.requests for w in v.windows) for v in replication}
        assert len(counts) == 1
    assert answer.replications[0][0].requests != answer.replications[1][0].requests


def test_a_load_file_is_read_and_its_bad_lines_are_named(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    good = folder / "good.csv"
    good.write_text("time_s,rps\n100,1\n400,1\n400,5\n700,5\n")
    curve = read_load(good)
    assert curve.time_s == (0.0, 300.0, 300.0, 600.0)
    assert curve.at(299.0) == 1.0
    assert curve.at(300.0) == 5.0
    bad = folder / "bad.csv"
    bad.write_text("time_s,rps\n0,1\n10,-1\n5,2\n600,x\n1,2,3\n")
    with pytest.raises(InputError) as caught:
        read_load(bad)
    text = [i.what for i in caught.value.issues]
    assert [i.code for i in caught.value.issues] == ["scaling.curve_file"] * 4
    assert ":3:" in text[0]
    for content in ("", "time_s,rps\n", "0,1\n10,1\n", "0,0\n1000,0\n"):  # too short, no requests
        bad.write_text(content)
        with pytest.raises(InputError, match="points over"):
            read_load(bad)
    with pytest.raises(InputError):
        read_load(folder / "missing.csv")


@pytest.mark.parametrize(
    ("peak", "trough", "period"),
    [(1.0, 2.0, 3600.0), (0.0, 0.0, 3600.0), (2.0, 1.0, 1.0), (float("nan"), 0.0, 3600.0)],
)
def test_impossible_curves_are_refused(peak: float, trough: float, period: float) -> None:
    with pytest.raises(InputError):
        diurnal(peak_rps=peak, trough_rps=trough, period_s=period)


def test_too_many_requests_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="requests") as caught:
        curve_traffic(single(10, 10), diurnal(peak_rps=500.0, trough_rps=100.0, period_s=86_400.0), seed=0)
    assert caught.value.issues[0].code == "scaling.too_long"
