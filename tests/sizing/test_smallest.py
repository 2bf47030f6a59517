"""The smallest fleet against brute force by other equations, against recommend, and against the single-plan pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.analytic.operating import aggregated_at, disaggregated_at
from planner.analytic.stack import RoleStack
from planner.domain.deployment import Strategy
from planner.domain.problem import PREFILL_HEADROOM
from planner.domain.workload import SloTargets
from planner.search.recommend import recommend
from planner.search.sizing.curves import greatest_load
from planner.search.sizing.families import AggregatedFamily, DisaggregatedFamily
from planner.search.sizing.load import Load, LoadKind, Reserve, Rollout, Targets
from planner.search.sizing.losses import Counts, Shape
from planner.search.sizing.one_type import size_problem
from planner.search.sizing.smallest import FleetSearch, states_to_hold
from planner.search.solve import meets_slo, solve

TIGHT = Targets(ttft_ms=700.0, tpot_ms=20.0)
LOOSE = Targets(ttft_ms=3000.0, tpot_ms=40.0)
QUICK = Targets(ttft_ms=350.0, tpot_ms=9.0)


def _search(small, load: Load, reserve: Reserve | None = None) -> FleetSearch:
    return FleetSearch(small.families, node=8, load=load, reserve=reserve or Reserve(), max_gpus=32)


def _sub(stack: RoleStack, rows) -> RoleStack:
    return RoleStack(
        [stack.roles[i] for i in rows],
        [stack.tables[i] for i in rows],
        [float(stack.kv_tokens[i, 0]) for i in rows],
    )


def _aggregated_carries(
    family: AggregatedFamily, workload, gpus: int, users: float, targets: Targets
) -> bool:
    """Whether some number of copies on `gpus` GPUs meets the targets at `users`, by inversion of the closed loop."""
    stack = family._stack
    for groups in range(1, gpus + 1):
        rows = np.flatnonzero(stack.group_gpus[:, 0] * groups <= gpus)
        if not len(rows):
            continue
        at = aggregated_at(
            _sub(stack, rows), workload, groups=np.full((len(rows), 1), float(groups)),
            concurrency=np.full((len(rows), 1), users),
        )  # fmt: skip
        if ((at.ttft_ms <= targets.ttft_ms) & (at.tpot_ms <= targets.tpot_ms) & ~at.surplus).any():
            return True
    return False


def _disaggregated_carries(
    family: DisaggregatedFamily, workload, gpus: int, users: float, targets: Targets
) -> bool:
    """The same over every legal pair and every pair of group counts that fits."""
    cells = [
        (row, p, d)
        for row in range(len(family.first_gpus))
        for d in range(1, gpus // int(family.second_gpus[row]) + 1)
        for p in range(1, (gpus - d * int(family.second_gpus[row])) // int(family.first_gpus[row]) + 1)
    ]
    for start in range(0, len(cells), 2000):
        rows, p, d = (np.array(x) for x in zip(*cells[start : start + 2000], strict=True))
        at = disaggregated_at(
            _sub(family._prefill, family._p[rows]),
            _sub(family._decode, family._d[rows]),
            workload,
            prefill_groups=p[:, None].astype(float),
            decode_groups=d[:, None].astype(float),
            transfer_ms=family._transfer[rows][:, None],
            concurrency=np.full((len(rows), 1), users),
        )
        ok = (at.ttft_ms <= targets.ttft_ms) & (at.tpot_ms <= targets.tpot_ms) & ~at.surplus
        if (ok & (at.utilisation <= PREFILL_HEADROOM)).any():
            return True
    return False


BOTH = (Strategy.AGGREGATED, Strategy.DISAGGREGATED)


@pytest.mark.parametrize(
    ("strategies", "users", "targets", "expected"),
    [
        (BOTH, 60, TIGHT, 8),
        (BOTH, 330, TIGHT, 16),
        (BOTH, 700, TIGHT, 24),
        (BOTH, 900, TIGHT, 32),
        (BOTH, 1200, TIGHT, None),
        (BOTH, 60, QUICK, 8),
        (BOTH, 330, QUICK, 32),
        (BOTH, 900, LOOSE, 16),
        (BOTH[:1], 450, TIGHT, 24),
        (BOTH[:1], 60, QUICK, 16),
        (BOTH[1:], 450, TIGHT, 16),
        (BOTH[1:], 200, QUICK, 24),
        (BOTH[1:], 1200, LOOSE, 24),
    ],
)
def test_the_smallest_count_is_that_of_brute_force(
    small, strategies: tuple[Strategy, ...], users: int, targets: Targets, expected: int | None
) -> None:
    """`expected` pins that the cases differ; the other equations decide."""
    families = [f for f in small.families if f.strategy in strategies]
    search = FleetSearch(
        families, node=8, load=Load(LoadKind.USERS, float(users)), reserve=Reserve(), max_gpus=32
    )
    found = search.smallest(targets)
    owned = None if found is None else search.owned(found)
    carries = {AggregatedFamily: _aggregated_carries, DisaggregatedFamily: _disaggregated_carries}
    workload = small.problem.workload
    forced = next(
        (
            gpus
            for gpus in range(8, 33, 8)
            if any(carries[type(f)](f, workload, gpus, users, targets) for f in families)
        ),
        None,
    )
    assert owned == forced == expected


def test_recommend_at_the_resulting_count_agrees(small) -> None:
    """Disaggregated plans are priced alike in both; recommend prices fewer loads, so it never finds more."""
    problem = replace(
        small.problem, bounds=replace(small.problem.bounds, strategies=(Strategy.DISAGGREGATED,))
    )
    family = next(f for f in small.families if f.strategy is Strategy.DISAGGREGATED)
    best = {}
    for gpus in (8, 16, 24, 32):
        pool = replace(problem.decode_pool, gpus=gpus)
        solution = solve(replace(problem, prefill_pool=pool, decode_pool=pool), small.engine)
        points = solution.strategies[0].points
        best[gpus] = float(points.concurrency[meets_slo(points, problem)].max(initial=0.0))
    assert best[8] < best[16] < best[24] < best[32]
    for gpus, users in best.items():
        load = Load(LoadKind.USERS, users)
        search = FleetSearch([family], node=8, load=load, reserve=Reserve(), max_gpus=32)
        # never less than at a load of recommend's grid, and at most what lies before the next one
        assert users * 0.999 <= search.best(gpus, TIGHT)[0].carries <= users * 1.2
        found = search.smallest(TIGHT)
        assert found is not None
        assert search.owned(found) == gpus
        # with one node less no load of that grid is as high
        assert gpus == 8 or best[gpus - 8] < users


def test_open_arrivals_stay_clear_of_the_highest_throughput(small) -> None:
    """In the simulator an aggregated fleet at 91 % of it never drains a burst, at 82 % it does."""
    for family in small.families:
        search = FleetSearch([family], node=8, load=Load(LoadKind.RATE, 1.0), reserve=Reserve(), max_gpus=32)
        free = Targets(ttft_ms=None, tpot_ms=None)
        carries = search.best(8, free)[0].carries
        rows = np.arange(len(family.first_gpus))
        highest = 0.0
        for d in range(1, 8) if family.second_gpus.any() else (0,):
            p = (8 - d * family.second_gpus) // family.first_gpus
            fits = rows[p > 0]
            curve = family.curve(fits, p[fits], np.full(len(fits), d), LoadKind.USERS, free)
            ok = np.max(np.stack(list(curve.excess.values())), axis=0) <= 0.0
            highest = max(highest, float(np.where(ok, curve.rate_per_s, 0.0).max(initial=0.0)))
        assert 0.0 < carries <= highest * 0.98


@pytest.mark.parametrize("load", [Load(LoadKind.USERS, 450.0), Load(LoadKind.RATE, 30.0)])
def test_the_answer_meets_the_targets_and_one_node_less_does_not(small, load: Load) -> None:
    answer = size_problem(small.problem, small.engine, load=load, reserve=Reserve(), named=None)
    fleet = answer.fleet
    assert fleet is not None
    assert fleet.gpus > 8
    assert fleet.gpus_used <= fleet.gpus == fleet.nodes * 8 == fleet.plan.gpus_owned
    assert fleet.carries >= load.amount * (1.0 - 1e-6)
    assert fleet.smaller_carries is not None
    assert 0.0 < fleet.smaller_carries < load.amount
    assert fleet.evaluation.ttft_ms.value <= 700.0 * 1.001
    assert fleet.evaluation.tpot_ms.value <= 20.0 * 1.001
    asked = fleet.evaluation.requests_per_s if load.kind is LoadKind.RATE else float(fleet.plan.concurrency)
    assert asked == pytest.approx(load.amount)


def test_the_single_plan_pass_agrees_on_what_a_fleet_carries(small) -> None:
    answer = size_problem(
        small.problem, small.engine, load=Load(LoadKind.USERS, 450.0), reserve=Reserve(), named=None
    )
    assert answer.fleet is not None
    plan, most = answer.fleet.plan, answer.fleet.carries
    within = small.pricer.evaluate(replace(plan, concurrency=int(most * 0.99)))
    beyond = small.pricer.evaluate(replace(plan, concurrency=int(most * 1.06) + 1))
    assert within.ttft_ms.value <= 700.0
    assert within.tpot_ms.value <= 20.0
    assert beyond.ttft_ms.value > 700.0 or beyond.tpot_ms.value > 20.0


def test_recommend_names_the_same_plan_at_the_resulting_count(small) -> None:
    answer = size_problem(
        small.problem, small.engine, load=Load(LoadKind.USERS, 450.0), reserve=Reserve(), named=None
    )
    assert answer.fleet is not None
    pool = replace(small.problem.decode_pool, gpus=answer.fleet.gpus)
    picked = recommend(replace(small.problem, prefill_pool=pool, decode_pool=pool), small.engine).pick
    assert picked is not None
    assert picked.plan.concurrency <= answer.fleet.carries * 1.01
    again = small.pricer.evaluate(replace(picked.plan, concurrency=answer.fleet.plan.concurrency))
    assert answer.fleet.evaluation.requests_per_s == pytest.approx(again.requests_per_s, rel=0.1)


def test_more_load_never_needs_fewer_gpus(small) -> None:
    sizes = []
    for users in (10, 50, 100, 200, 400, 600, 800):
        found = _search(small, Load(LoadKind.USERS, float(users))).smallest(LOOSE)
        assert found is not None
        sizes.append(-(-found.used // 8) * 8)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_spare_node_is_held_in_every_state(small) -> None:
    load = Load(LoadKind.USERS, 200.0)
    plain = _search(small, load)
    spared = _search(small, load, Reserve(spare_nodes=1))
    small_fleet, fleet = plain.smallest(TIGHT), spared.smallest(TIGHT)
    assert small_fleet is not None
    assert fleet is not None
    assert spared.owned(fleet) > plain.owned(small_fleet)
    family = fleet.family
    shape = Shape(int(family.first_gpus[fleet.row]), int(family.second_gpus[fleet.row]), 8)
    states = states_to_hold(shape, fleet.counts, spared.reserve)
    assert len(states) > 1
    for state in states:
        assert spared.carried_by(fleet, state, TIGHT).load[0] >= load.amount * (1.0 - 1e-6)


def test_rollouts_reserve_what_they_need(small) -> None:
    load = Load(LoadKind.USERS, 200.0)
    turn = _search(small, load, Reserve(rollout=Rollout.IN_PLACE)).smallest(TIGHT)
    assert turn is not None
    assert turn.worst >= load.amount * (1.0 - 1e-6)
    assert turn.worst < turn.carries
    beside = _search(small, load, Reserve(rollout=Rollout.SURGE))
    fleet = beside.smallest(TIGHT)
    assert fleet is not None
    widest = max(int(fleet.family.first_gpus[fleet.row]), int(fleet.family.second_gpus[fleet.row]))
    assert beside.owned(fleet) >= fleet.used + widest


def test_open_arrivals_need_room_that_a_closed_loop_does_not(small) -> None:
    """At equal throughput Poisson arrivals queue, so the same fleet carries less."""
    aggregated = next(f for f in small.families if f.strategy is Strategy.AGGREGATED)
    rows = np.arange(len(aggregated.first_gpus))
    one, none = np.ones_like(rows), np.zeros_like(rows)
    closed = aggregated.curve(rows, one, none, LoadKind.USERS, TIGHT)
    opened = aggregated.curve(rows, one, none, LoadKind.RATE, TIGHT)
    assert (opened.ttft_ms >= closed.ttft_ms - 1e-9).all()
    assert (opened.ttft_ms > closed.ttft_ms + 1.0).any()
    assert (opened.rate_per_s == closed.rate_per_s).all()


def test_unreachable_targets_say_what_binds_and_what_would_do(small) -> None:
    slo = SloTargets(ttft_ms=15.0, tpot_ms=20.0)
    answer = size_problem(
        replace(small.problem, slo=slo),
        small.engine,
        load=Load(LoadKind.RATE, 5.0),
        reserve=Reserve(),
        named=None,
    )
    assert answer.fleet is None
    shortfall = answer.shortfall
    assert shortfall is not None
    assert "TTFT" in shortfall.binding
    assert any("without the TTFT target" in line for line in shortfall.needed)
    if shortfall.nearest is not None:
        assert shortfall.nearest.evaluation.ttft_ms.value > 15.0


def test_a_group_state_without_a_role_carries_nothing(small) -> None:
    reserve = Reserve(spare_nodes=1)
    assert Counts(0, 1) in states_to_hold(Shape(8, 8, 8), Counts(1, 1), reserve)
    search = _search(small, Load(LoadKind.USERS, 10.0), reserve)
    fleet = search.smallest(LOOSE)
    assert fleet is not None
    assert fleet.counts.first > 1


@pytest.mark.parametrize("kind", list(LoadKind))
@pytest.mark.parametrize(
    "targets",
    [TIGHT, QUICK, LOOSE, Targets(ttft_ms=None, tpot_ms=12.0), Targets(ttft_ms=250.0, tpot_ms=None)],
)
def test_bounds_leave_out_nothing_that_could_carry_more(small, kind: LoadKind, targets: Targets) -> None:
    rng = np.random.default_rng(5)
    seen = 0
    for family in small.families:
        rows = rng.integers(0, len(family.first_gpus), 400)
        first = rng.integers(1, 12, 400)
        second = np.where(family.second_gpus[rows] > 0, rng.integers(1, 12, 400), 0)
        carries = greatest_load(family.curve(rows, first, second, kind, targets)).load
        per_first, per_second = (b[rows] for b in family.bounds(kind, targets))
        alone = np.where(second > 0, second * np.where(np.isfinite(per_second), per_second, 0.0), np.inf)
        assert (carries <= np.minimum(first * per_first, alone) * (1.0 + 1e-9)).all()
        seen += int((carries > 0.0).sum())
    assert seen > 100
