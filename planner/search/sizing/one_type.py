"""Size one GPU type: the smallest fleet, its plan, its neighbours, its headroom and what speed costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np

from planner.analytic.evaluate import Pricer
from planner.analytic.space import MEMORY_TITLES
from planner.domain.engine import EngineProfile
from planner.domain.hardware import FabricKind, Pool
from planner.domain.legality import rule_title
from planner.domain.problem import PlanningProblem
from planner.domain.recommendation import RankedPlan, Shortfall
from planner.search.request import MAX_GPUS
from planner.search.sizing.answer import Cost, GpuAnswer, SizedFleet, SpeedPoint
from planner.search.sizing.curves import Operating
from planner.search.sizing.describe import Described, describe, headroom_of, meets
from planner.search.sizing.families import TPOT, TTFT, build_families
from planner.search.sizing.load import Load, LoadKind, Reserve, Targets
from planner.search.sizing.losses import Shape, domains_needed
from planner.search.sizing.smallest import Fleet, FleetSearch
from planner.search.solve import make_pricer

GROUP_GPUS: Final = 144  # widest engine group considered: two NVL72 racks, or 16 nodes of 8
SPEEDS: Final = (
    5.0,
    8.0,
    10.0,
    12.5,
    15.0,
    20.0,
    25.0,
    30.0,
    40.0,
    50.0,
    60.0,
    80.0,
    100.0,
    125.0,
    150.0,
    200.0,
    300.0,
)
FRONTIER_REACH: Final = 6  # the frontier ends where speed costs this many times the fleet that was asked for
RELAXED: Final = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
SMALLER_FLEETS_TRIED: Final = 8


def size_problem(
    problem: PlanningProblem, engine: EngineProfile, *, load: Load, reserve: Reserve, named: str | None = None
) -> GpuAnswer:
    """The smallest fleet of the problem's GPU type; the pool's size only bounds the width of engine groups."""
    pricer = make_pricer(problem, engine)
    families, excluded = build_families(problem, engine, pricer)
    pool = problem.decode_pool
    search = FleetSearch(
        families, node=pool.gpus_per_node, load=load, reserve=reserve, max_gpus=most_gpus(pool)
    )
    sizing = _Sizing(problem, pricer, search, named)
    fleet = sizing.fleet()
    return GpuAnswer(
        gpu=pool.gpu.id,
        gpu_name=pool.gpu.name,
        fabric=pool.fabric.id,
        node=pool.node.id,
        gpus_per_node=pool.gpus_per_node,
        assumptions=problem.assumptions,
        fleet=fleet,
        shortfall=None if fleet is not None else sizing.shortfall(excluded),
    )


def most_gpus(pool: Pool) -> int:
    """GPUs that one plan may cover: without a network, those of one scale-up domain."""
    if pool.fabric.kind is FabricKind.NONE:
        return max(pool.gpus_per_node, pool.scale_up_gpus)
    return MAX_GPUS


class _Sizing:
    def __init__(
        self, problem: PlanningProblem, pricer: Pricer, search: FleetSearch, named: str | None
    ) -> None:
        self.problem = problem
        self.pricer = pricer
        self.search = search
        self.load = search.load
        self.named = named
        self.targets = Targets.of(problem.slo)

    # --- the fleet ---

    def fleet(self) -> SizedFleet | None:
        above = 0
        for _ in range(SMALLER_FLEETS_TRIED):
            smallest = self.search.smallest(self.targets, above=above)
            if smallest is None:
                return None
            owned = self.search.owned(smallest)
            for candidate in [*self.search.best(owned, self.targets), smallest]:
                if candidate.worst < self.load.amount * (1.0 - 1e-9):
                    continue
                at = self._at(candidate)
                described = self._described(candidate, at, owned)
                if meets(described.evaluation, self.targets):
                    return self._sized(candidate, described, owned)
            above = owned  # on this size the load is carried between two batches of the grid only
        return None

    def _at(self, fleet: Fleet) -> Operating:
        return self.search.operating(fleet, self.load.amount, self.targets)

    def _described(self, fleet: Fleet, at: Operating, owned: int) -> Described:
        return describe(
            self.problem, self.pricer, fleet, at, load=self.load, owned=owned, name=self._name(owned)
        )

    def _name(self, owned: int) -> str:
        pool = self.problem.decode_pool
        return self.named or f"{self.problem.name.removesuffix(str(pool.gpus))}{owned}"

    def _sized(self, fleet: Fleet, described: Described, owned: int) -> SizedFleet:
        node = self.search.node
        below = self.search.best(owned - node, self.targets, enough=False, count=1) if owned > node else []
        return SizedFleet(
            gpus=owned,
            nodes=owned // node,
            scale_up_domains=self._domains(fleet),
            gpus_used=fleet.used,
            gpus_enough=self._part_of_a_node(owned),
            plan=described.plan,
            evaluation=described.evaluation,
            carries=fleet.carries,
            binding=fleet.binding,
            gpus_interval=self._interval(described),
            one_more_lost=self._one_more_lost(),
            smaller_carries=below[0].worst if below else (0.0 if owned > node else None),
            smaller_binding=below[0].binding if below else "",
            cost=self._cost(owned, described.evaluation.requests_per_s),
            headroom=headroom_of(self.search, fleet, self.targets, owned=owned, reserve=self.search.reserve),
            frontier=self._frontier(owned, fleet),
        )

    def _interval(self, described: Described) -> tuple[int | None, int | None]:
        rate = described.evaluation.output_tok_s_per_gpu
        return self._scaled_size(rate.value / rate.high), self._scaled_size(rate.value / rate.low)

    def _domains(self, fleet: Fleet) -> int | None:
        pool = self.problem.decode_pool
        if pool.scale_up_gpus <= pool.gpus_per_node:
            return None
        sizes = (int(fleet.family.first_gpus[fleet.row]), int(fleet.family.second_gpus[fleet.row]))
        return domains_needed(Shape(*sizes, pool.gpus_per_node), fleet.counts, pool.scale_up_gpus)

    def _part_of_a_node(self, owned: int) -> int | None:
        if owned > self.search.node or self.search.reserve != Reserve():
            return None
        by_gpu = FleetSearch(
            self.search.families, node=1, load=self.load, reserve=Reserve(), max_gpus=self.search.node
        )
        found = by_gpu.smallest(self.targets)
        if found is None:
            return None
        part = next(n for n in range(found.used, owned + 1) if owned % n == 0)
        return part if part < owned else None

    def _one_more_lost(self) -> int | None:
        reserve = self.search.reserve
        return self._size_of(self.load, replace(reserve, spare_nodes=reserve.spare_nodes + 1))

    def _scaled_size(self, factor: float) -> int | None:
        return self._size_of(Load(self.load.kind, self.load.amount * factor), self.search.reserve)

    def _size_of(self, load: Load, reserve: Reserve) -> int | None:
        search = FleetSearch(
            self.search.families,
            node=self.search.node,
            load=load,
            reserve=reserve,
            max_gpus=self.search.max_gpus,
        )
        found = search.smallest(self.targets)
        return search.owned(found) if found is not None else None

    def _cost(self, owned: int, requests_per_s: float) -> Cost | None:
        price = self.problem.usd_per_gpu_hour
        if price is None:
            return None
        tokens_per_hour = requests_per_s * self.problem.workload.osl * 3600.0
        return Cost(
            usd_per_gpu_hour=price,
            usd_per_hour=price * owned,
            usd_per_m_output_tokens=price * owned / tokens_per_hour * 1e6,
        )

    # --- what speed costs ---

    def _frontier(self, owned: int, pick: Fleet) -> tuple[SpeedPoint, ...]:
        """The smallest fleet at each speed, slow to fast; only speeds that a smaller fleet does not reach as well."""
        found: list[SpeedPoint] = []
        last = 0
        asked = 1000.0 / self.targets.tpot_ms if self.targets.tpot_ms is not None else None
        for speed in sorted({*SPEEDS, *([asked] if asked else [])}):
            targets = Targets(ttft_ms=self.targets.ttft_ms, tpot_ms=1000.0 / speed)
            fleet = (
                pick
                if speed == asked
                else self.search.smallest(
                    targets, above=last - self.search.node if last else 0, limit=FRONTIER_REACH * owned
                )
            )
            if fleet is None:
                break
            last = owned if speed == asked else self.search.owned(fleet)
            if found and found[-1].gpus == last:
                found.pop()
            found.append(self._point(fleet, last, speed))
        return tuple(found)

    def _point(self, fleet: Fleet, owned: int, speed: float) -> SpeedPoint:
        at = self._at(fleet)
        cost = self._cost(owned, float(at.rate_per_s[0]))
        return SpeedPoint(
            tok_s_user=speed,
            gpus=owned,
            usd_per_hour=cost.usd_per_hour if cost else None,
            usd_per_m_output_tokens=cost.usd_per_m_output_tokens if cost else None,
            tpot_ms=float(at.tpot_ms[0]),
            ttft_ms=float(at.ttft_ms[0]),
            label=label_of(fleet),
        )

    # --- when no fleet carries the load ---

    def shortfall(self, excluded: Counter[str]) -> Shortfall:
        if not self.search.families:
            return Shortfall(binding=_nothing_fits(excluded), nearest=None, needed=())
        binding, needed = [], []
        for name, without in self._without_one():
            found = self.search.smallest(without)
            if found is not None:
                binding.append(name)
                needed.append(f"without the {name}, {self.search.owned(found)} GPUs carry the load")
        nearest = None
        for factor in RELAXED:
            relaxed = Targets(
                ttft_ms=None if self.targets.ttft_ms is None else self.targets.ttft_ms * factor,
                tpot_ms=None if self.targets.tpot_ms is None else self.targets.tpot_ms * factor,
            )
            found = self.search.smallest(relaxed)
            if found is not None:
                owned = self.search.owned(found)
                nearest = self._nearest(found, owned)
                needed.append(_relaxed_text(relaxed, owned))
                break
        needed.append(self._lowest())
        if not binding:
            binding = ["the targets together"]
        most = self.search.best(self.search.max_gpus, self.targets, enough=False, count=1)
        if most:
            binding = [f"more than the {self.search.max_gpus:,} GPUs that one plan covers would be needed"]
            needed = [
                f"{self.search.max_gpus:,} GPUs carry {self.load.text(most[0].worst)} within the targets"
            ]
        return Shortfall(binding=" and ".join(binding), nearest=nearest, needed=tuple(needed))

    def _without_one(self) -> list[tuple[str, Targets]]:
        found = []
        if self.targets.ttft_ms is not None and (
            self.targets.tpot_ms is not None or self.load.kind is LoadKind.RATE
        ):
            found.append((TTFT, Targets(ttft_ms=None, tpot_ms=self.targets.tpot_ms)))
        if self.targets.tpot_ms is not None and (
            self.targets.ttft_ms is not None or self.load.kind is LoadKind.RATE
        ):
            found.append((TPOT, Targets(ttft_ms=self.targets.ttft_ms, tpot_ms=None)))
        return found

    def _nearest(self, fleet: Fleet, owned: int) -> RankedPlan:
        described = self._described(fleet, self._at(fleet), owned)
        return RankedPlan(
            rank=1,
            plan=described.plan,
            evaluation=described.evaluation,
            meets_slo=False,
            distinguishable=True,
            loses="",
        )

    def _lowest(self) -> str:
        """The shortest times of a lone request on one group of each role."""
        lowest_ttft, lowest_tpot = np.inf, np.inf
        for family in self.search.families:
            for start in range(0, len(family.first_gpus), 4096):
                rows = np.arange(start, min(start + 4096, len(family.first_gpus)))
                one = np.ones(len(rows), dtype=np.intp)
                curve = family.curve(rows, one, one, self.load.kind, self.targets)
                lowest_ttft = min(lowest_ttft, float(curve.ttft_ms.min()))
                lowest_tpot = min(lowest_tpot, float(curve.tpot_ms.min()))
        return f"lowest anywhere in the space: TTFT {lowest_ttft:,.0f} ms, TPOT {lowest_tpot:.1f} ms (not together)"


def _nothing_fits(excluded: Counter[str]) -> str:
    """Why no configuration is left; one that is legal and only lacks memory tells more than the most frequent rule."""
    memory = {c: n for c, n in excluded.items() if c in MEMORY_TITLES}
    counts = Counter(memory) if memory else excluded
    if not counts:
        return "no configuration of this strategy exists"
    code = counts.most_common(1)[0][0]
    title = MEMORY_TITLES.get(code) or rule_title(code)
    last = "of the legal ones " if memory else ""
    return f"no configuration fits; {last}most were left out by {code} ({title})"


def label_of(fleet: Fleet) -> str:
    """Short text such as ``P 2x(tp1,dp8,ep8) D 1x(tp1,dp16,ep16)``."""
    roles = fleet.family.roles(fleet.row)
    counts = (fleet.counts.first, fleet.counts.second)
    texts = [f"{n}x({r.parallelism.label()})" for n, r in zip(counts, roles, strict=False)]
    return texts[0] if len(texts) == 1 else f"P {texts[0]} D {texts[1]}"


def _relaxed_text(targets: Targets, owned: int) -> str:
    flags = [f"--ttft-ms {targets.ttft_ms:.0f}"] if targets.ttft_ms is not None else []
    flags += [f"--tpot-ms {targets.tpot_ms:.3g}"] if targets.tpot_ms is not None else []
    return f"{' '.join(flags)} is met by {owned} GPUs"
