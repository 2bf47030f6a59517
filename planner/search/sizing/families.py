"""The two kinds of plans as families of rows: aggregated configurations, and legal pairs of prefill and decode ones."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

import numpy as np

from planner.analytic.closed_loop import (
    aggregated_points,
    decode_points,
    prefill_points,
    sequences_that_fit,
    waiting_ms,
)
from planner.analytic.evaluate import Pricer
from planner.analytic.operating import PREFILL_SATURATION, prefill_tokens_held, prefill_ttft_ms
from planner.analytic.points import prune_decode, prune_prefill
from planner.analytic.space import LOADS
from planner.analytic.stack import RoleStack
from planner.domain.deployment import Role, RolePlan, Strategy
from planner.domain.engine import EngineProfile
from planner.domain.legality import pair_codes
from planner.domain.problem import PREFILL_HEADROOM, PlanningProblem
from planner.domain.workload import Workload
from planner.perf.operators.base import BoolArray, FloatArray
from planner.perf.transfer import kv_transfer_ms
from planner.search.plans import peak_prefill_tok_s
from planner.search.sizing.curves import GRID, Curve, IndexArray
from planner.search.sizing.load import LoadKind, Targets
from planner.search.solve import pair_key, role_space, role_stack

NO_LIMIT: Final = np.inf
MANY: Final = 1_000_000  # groups, so many that arrivals hardly fluctuate
UNREACHABLE: Final = 1e9  # excess of a batch that cannot be: nothing of the way to it is taken
# what binds, in words
TTFT: Final = "TTFT target"
TPOT: Final = "TPOT target"
_BUSY: Final = "prefill rate"
_BUDGET: Final = "token budget per step"
_ROOM: Final = "KV capacity or batch limit"
_FULL: Final = "highest throughput"
_PREFILL_ROOM: Final = "KV capacity of prefill groups"


class Family(Protocol):
    """Plans of one strategy. A row is a configuration (or pair); groups are counts of each of its roles."""

    strategy: Strategy
    first_gpus: IndexArray  # GPUs of one group, per row
    second_gpus: IndexArray  # 0 where there is no second role

    def bounds(self, kind: LoadKind, targets: Targets) -> tuple[FloatArray, FloatArray]:
        """Upper bounds, per row, on the load that one group of either role can carry within the targets."""
        ...

    def curve(
        self, rows: IndexArray, first: IndexArray, second: IndexArray, kind: LoadKind, targets: Targets
    ) -> Curve:
        """The rows with these group counts along the batch grid."""
        ...

    def roles(self, row: int) -> tuple[RolePlan, ...]:
        """The roles of a row, one group each."""
        ...


class AggregatedFamily:
    """Copies of one configuration."""

    strategy = Strategy.AGGREGATED

    def __init__(self, stack: RoleStack, workload: Workload) -> None:
        self._stack = stack
        self._at = aggregated_points(stack, workload, GRID[None, :])
        self._limit = np.minimum(sequences_that_fit(stack.kv_tokens, workload), stack.max_num_seqs)
        self._highest = _highest_rate(self._at.rate_per_ms, self._at.feasible)
        # what a prompt and its beside decodes leave of the token budget bounds the batch; infeasible only because of it
        self._budget_ok = self._at.feasible | (self._at.concurrency > self._limit)
        self._endless: dict[LoadKind, tuple[Curve, BoolArray]] = {}
        self.first_gpus = stack.group_gpus[:, 0].astype(np.intp)
        self.second_gpus = np.zeros(len(stack), dtype=np.intp)

    def roles(self, row: int) -> tuple[RolePlan, ...]:
        """See `Family.roles`."""
        return (self._stack.roles[row],)

    def bounds(self, kind: LoadKind, targets: Targets) -> tuple[FloatArray, FloatArray]:
        """See `Family.bounds`: a group's load does not depend on how many there are, waits apart."""
        if kind not in self._endless:
            rows = np.arange(len(self._stack))
            many = np.full(len(rows), MANY, dtype=np.intp)
            free = self.curve(rows, many, np.zeros_like(many), kind, Targets(ttft_ms=None, tpot_ms=None))
            self._endless[kind] = free, np.max(np.stack(list(free.excess.values())), axis=0) <= 0.0
        free, possible = self._endless[kind]
        ok = possible.copy()
        if targets.ttft_ms is not None:
            ok &= free.ttft_ms <= targets.ttft_ms
        if targets.tpot_ms is not None:
            ok &= free.tpot_ms <= targets.tpot_ms
        # one step of the grid more than the last feasible batch
        ok[:, 1:] |= ok[:, :-1]
        per_group = np.max(np.where(ok, free.load, 0.0), axis=1) / MANY
        return per_group, np.full(len(per_group), NO_LIMIT)

    def curve(
        self, rows: IndexArray, first: IndexArray, second: IndexArray, kind: LoadKind, targets: Targets
    ) -> Curve:
        """See `Family.curve`."""
        del second
        at, stack = self._at, self._stack
        ranks = stack.ranks[rows] * first[:, None]
        batch, rate = at.batch[rows], at.rate_per_ms[rows]
        ttft, in_flight = at.ttft_ms[rows], at.concurrency[rows]
        excess = {_BUDGET: np.where(self._budget_ok[rows], -1.0, UNREACHABLE)}
        peak = in_flight
        if kind is LoadKind.RATE:
            # arrivals do not wait for answers: the queue of an open loop instead of the closed one's
            busy = rate * at.service_ms[rows]
            wait = waiting_ms(service_ms=at.service_ms[rows], utilisation=busy, servers=ranks)
            ttft = ttft - at.wait_ms[rows] + np.maximum(wait, at.wait_ms[rows])
            in_flight = batch + rate * ttft
            peak = _with_fluctuation(in_flight, rate, ranks)
            excess[_BUSY] = busy / PREFILL_SATURATION - 1.0
            excess[_FULL] = rate / (PREFILL_HEADROOM * self._highest[rows]) - 1.0
        excess[_ROOM] = peak / self._limit[rows] - 1.0
        _add_targets(excess, targets, ttft, at.tpot_ms[rows])
        load = in_flight * ranks if kind is LoadKind.USERS else rate * ranks * 1000.0
        return Curve(
            load=load, batch=batch, ttft_ms=ttft, tpot_ms=at.tpot_ms[rows], rate_per_s=rate * ranks * 1000.0,
            in_flight=in_flight * ranks, excess=excess,
        )  # fmt: skip


class DisaggregatedFamily:
    """Legal pairs of a prefill and a decode configuration."""

    strategy = Strategy.DISAGGREGATED

    def __init__(
        self,
        prefill: RoleStack,
        decode: RoleStack,
        workload: Workload,
        pairs: tuple[IndexArray, IndexArray, FloatArray],
    ) -> None:
        self._prefill, self._decode, self._workload = prefill, decode, workload
        self._p, self._d, self._transfer = pairs
        self._pre = prefill_points(prefill, workload)
        self._dec = decode_points(decode, workload, GRID[None, :])
        self._limit = np.minimum(sequences_that_fit(decode.kv_tokens, workload), decode.max_num_seqs)
        self._highest = _highest_rate(self._dec.rate_per_ms, self._dec.feasible)
        self.first_gpus = prefill.group_gpus[self._p, 0].astype(np.intp)
        self.second_gpus = decode.group_gpus[self._d, 0].astype(np.intp)

    def roles(self, row: int) -> tuple[RolePlan, ...]:
        """See `Family.roles`."""
        return self._prefill.roles[int(self._p[row])], self._decode.roles[int(self._d[row])]

    def prefill_tok_s_per_rank(self, row: int) -> float:
        """Prompt tokens/s that a full prefill rank computes; cached ones cost it nothing."""
        return peak_prefill_tok_s(self._pre, int(self._p[row]), self._workload)

    def bounds(self, kind: LoadKind, targets: Targets) -> tuple[FloatArray, FloatArray]:
        """See `Family.bounds`: decode alone at the TPOT limit, prefill alone at its highest utilisation."""
        dec, pre = self._dec, self._pre
        within = np.ones_like(dec.batch, dtype=bool)
        if targets.tpot_ms is not None:
            within &= dec.tpot_ms <= targets.tpot_ms
        # the limits cut between two batches of the grid: one step more bounds what lies between
        ok = within & (dec.batch <= self._limit)
        alone_ms = pre.idle_ms[:, 0] + self._prefill.frontend_ms[:, 0]
        admitted_ms = np.min(dec.admission_ms, axis=1)
        top = np.full(len(alone_ms), _headroom(targets, kind))
        possible = np.ones(len(self._p), dtype=bool)
        if targets.ttft_ms is not None:
            possible = alone_ms[self._p] + self._transfer + admitted_ms[self._d] <= targets.ttft_ms
            least = float(np.min(alone_ms) + np.min(self._transfer))
            ok &= dec.admission_ms <= targets.ttft_ms - least
            left = targets.ttft_ms - float(np.min(self._transfer)) - float(np.min(admitted_ms))
            top = self._highest_use(left)
        ok[:, 1:] |= ok[:, :-1]
        ranks, servers = self._decode.ranks[:, 0], self._prefill.ranks[:, 0]
        rate = np.max(np.where(ok, dec.rate_per_ms, 0.0), axis=1)  # per rank
        if kind is LoadKind.RATE:
            second = 1000.0 * rate[self._d] * ranks[self._d]
            first = 1000.0 * (top * pre.capacity_per_ms[:, 0] * servers)[self._p]
        else:
            longest = self._longest_ttft_ms(targets)
            batch = np.max(np.where(ok, dec.batch, 0.0), axis=1)
            second = ranks[self._d] * (batch[self._d] + rate[self._d] * longest)
            slowest = np.max(np.where(ok, dec.tpot_ms, 0.0), axis=1)[self._d]
            cycle = longest + slowest * max(self._workload.osl - 1, 1)
            first = (top * pre.capacity_per_ms[:, 0] * servers)[self._p] * cycle
        return np.where(possible, first, 0.0), np.where(possible, second, 0.0)

    def _highest_use(self, left_ms: float) -> FloatArray:
        """Per prefill configuration, the highest utilisation at which it takes `left_ms` when it never queues."""
        use = np.linspace(0.0, PREFILL_HEADROOM, 29)
        endless = np.full_like(self._pre.idle_ms, 1e9)
        took = prefill_ttft_ms(self._pre, np.broadcast_to(use, (len(endless), len(use))), endless)
        ok = took <= left_ms
        ok[:, 1:] |= ok[:, :-1]  # what lies between two of these
        result: FloatArray = np.max(np.where(ok, use[None, :], 0.0), axis=1)
        return result

    def _longest_ttft_ms(self, targets: Targets) -> FloatArray:
        if targets.ttft_ms is not None:
            return np.full(len(self._p), targets.ttft_ms)
        pre = self._pre
        full = np.full_like(pre.idle_ms, PREFILL_SATURATION)
        before = prefill_ttft_ms(pre, full, self._prefill.ranks)[:, 0]
        result: FloatArray = (
            before[self._p] + self._transfer + np.max(self._dec.admission_ms, axis=1)[self._d]
        )
        return result

    def curve(
        self, rows: IndexArray, first: IndexArray, second: IndexArray, kind: LoadKind, targets: Targets
    ) -> Curve:
        """See `Family.curve`."""
        p, d = self._p[rows], self._d[rows]
        dec = self._dec
        pre = self._pre.rows(p)
        ranks = self._decode.ranks[d] * second[:, None]
        servers = self._prefill.ranks[p] * first[:, None]
        batch = dec.batch[d]
        demand = dec.rate_per_ms[d] * ranks
        used = demand / (pre.capacity_per_ms * servers)
        before = prefill_ttft_ms(pre, used, servers) + self._transfer[rows][:, None]
        ttft = before + dec.admission_ms[d]
        in_flight = batch * ranks + demand * ttft
        held = prefill_tokens_held(
            self._workload, rate_per_ms=demand, before_ms=before, concurrency=in_flight
        )
        peak = _with_fluctuation(batch, dec.rate_per_ms[d], ranks) if kind is LoadKind.RATE else batch
        excess = {
            _BUSY: used / _headroom(targets, kind) - 1.0,
            _PREFILL_ROOM: held / (self._prefill.kv_tokens[p] * servers) - 1.0,
            _ROOM: peak / self._limit[d] - 1.0,
        }
        if kind is LoadKind.RATE:
            excess[_FULL] = dec.rate_per_ms[d] / (PREFILL_HEADROOM * self._highest[d]) - 1.0
        _add_targets(excess, targets, ttft, dec.tpot_ms[d])
        load = in_flight if kind is LoadKind.USERS else demand * 1000.0
        return Curve(
            load=load, batch=batch, ttft_ms=ttft, tpot_ms=dec.tpot_ms[d], rate_per_s=demand * 1000.0,
            in_flight=in_flight, excess=excess,
        )  # fmt: skip


def _headroom(targets: Targets, kind: LoadKind) -> float:
    """Highest utilisation of prefill groups: the search's rule where a TTFT is promised, or arrivals cannot be held back."""
    held = targets.ttft_ms is None and kind is LoadKind.USERS
    return PREFILL_SATURATION if held else PREFILL_HEADROOM


def _highest_rate(rate_per_ms: FloatArray, feasible: BoolArray) -> FloatArray:
    """Per configuration, the throughput of a rank that no load surpasses, ``[C, 1]``."""
    result: FloatArray = np.max(np.where(feasible, rate_per_ms, 0.0), axis=1, keepdims=True)
    return np.maximum(result, 1e-12)


def _with_fluctuation(per_rank: FloatArray, rate: FloatArray, ranks: FloatArray) -> FloatArray:
    """Requests per rank two standard deviations above the mean under Poisson arrivals, balanced over all ranks.

    Where throughput grows by less than the requests in flight do (elasticity below 1), what a burst adds drains slower:
    the variance of a birth-death process around its balance is the mean divided by that elasticity.
    """
    elasticity = np.gradient(np.log(rate), axis=1) / np.gradient(np.log(per_rank), axis=1)
    result: FloatArray = per_rank + 2.0 * np.sqrt(per_rank / (ranks * np.clip(elasticity, 0.02, 1.0)))
    return result


def _add_targets(
    excess: dict[str, FloatArray], targets: Targets, ttft_ms: FloatArray, tpot_ms: FloatArray
) -> None:
    if targets.ttft_ms is not None:
        excess[TTFT] = ttft_ms / targets.ttft_ms - 1.0
    if targets.tpot_ms is not None:
        excess[TPOT] = tpot_ms / targets.tpot_ms - 1.0


def build_families(
    problem: PlanningProblem, engine: EngineProfile, pricer: Pricer
) -> tuple[tuple[Family, ...], Counter[str]]:
    """Families of all legal configurations up to the size of the problem's pool, and what was left out by rule."""
    excluded: Counter[str] = Counter()
    families: list[Family] = []
    if Strategy.AGGREGATED in problem.bounds.strategies:
        space = role_space(Role.AGGREGATED, problem, engine, excluded, Counter())
        if space.candidates:
            stack = role_stack(space.candidates, problem.decode_pool, engine, pricer)
            families.append(AggregatedFamily(stack, problem.workload))
    if Strategy.DISAGGREGATED in problem.bounds.strategies:
        found = _disaggregated(problem, engine, pricer, excluded)
        if found is not None:
            families.append(found)
    return tuple(families), excluded


def _disaggregated(
    problem: PlanningProblem, engine: EngineProfile, pricer: Pricer, excluded: Counter[str]
) -> DisaggregatedFamily | None:
    workload = problem.workload
    spaces = [role_space(r, problem, engine, excluded, Counter()) for r in (Role.PREFILL, Role.DECODE)]
    if not all(s.candidates for s in spaces):
        return None
    prefill, decode = (role_stack(s.candidates, problem.decode_pool, engine, pricer) for s in spaces)
    kept_p = prune_prefill(prefill, prefill_points(prefill, workload), [pair_key(r) for r in prefill.roles])
    kept_d = prune_decode(
        decode_points(decode, workload, LOADS[None, :]), [pair_key(r) for r in decode.roles]
    )
    prefill, decode = _part(prefill, kept_p), _part(decode, kept_d)
    pairs = _pairs(problem, prefill, decode)
    return DisaggregatedFamily(prefill, decode, workload, pairs) if len(pairs[0]) else None


def _part(stack: RoleStack, rows: IndexArray) -> RoleStack:
    return RoleStack(
        [stack.roles[i] for i in rows],
        [stack.tables[i] for i in rows],
        [float(stack.kv_tokens[i, 0]) for i in rows],
    )


def _pairs(
    problem: PlanningProblem, prefill: RoleStack, decode: RoleStack
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Legal pairs and their KV transfer time. Verdict and time depend on `pair_key` alone, so they are asked once each."""
    keys_p, keys_d = [pair_key(r) for r in prefill.roles], [pair_key(r) for r in decode.roles]
    kinds_p, kinds_d = list(dict.fromkeys(keys_p)), list(dict.fromkeys(keys_d))
    moved = np.full((len(kinds_p), len(kinds_d)), np.nan)
    for i, kind_p in enumerate(kinds_p):
        giver = prefill.roles[keys_p.index(kind_p)]
        for j, kind_d in enumerate(kinds_d):
            taker = decode.roles[keys_d.index(kind_d)]
            if not pair_codes(
                problem.model,
                giver,
                taker,
                prefill_pool=problem.prefill_pool,
                decode_pool=problem.decode_pool,
            ):
                moved[i, j] = kv_transfer_ms(
                    problem.model,
                    problem.workload,
                    prefill=giver,
                    decode=taker,
                    fabric=problem.decode_pool.fabric,
                )
    of_p = np.array([kinds_p.index(k) for k in keys_p])
    of_d = np.array([kinds_d.index(k) for k in keys_d])
    times = moved[of_p[:, None], of_d[None, :]]
    p, d = np.nonzero(np.isfinite(times))
    return p, d, times[p, d]
