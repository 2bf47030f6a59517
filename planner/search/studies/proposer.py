"""Which point to try next: the expected gain in hypervolume under the belief, over the enumerated legal set."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np

from planner.domain.workload import SloTargets
from planner.perf.operators.base import FloatArray
from planner.search.studies.belief import RATE, TPOT, TTFT, Belief, FactorPrior
from planner.search.studies.evaluate import Observation
from planner.search.studies.hypervolume import Front
from planner.search.studies.space import IntArray, SearchSpace

DRAWS: Final = 48
# base points nearest to the front of the model: an eighth of the space, within these; the truth's best lie among them
DOMAIN: Final = (6000, 12000)
POOL_SHARE: Final = 0.5  # of them, those nearest to the front of the re-calibrated model are weighed
_REFRESH: Final = 5  # observations after which the pool is chosen anew
MOVES: Final = (8, 16, 30, 60, 120)  # observations after which the whole legal set is looked at again
MOVED: Final = 0.08  # of some log factor since then; less is not worth it
_LENIENCE: Final = 1.5  # targets missed by less than this factor may be met in truth


def _figures(logs: FloatArray) -> FloatArray:
    """Rate, tok/s/user and TTFT ``[..., 3]`` from the logs of rate, TPOT and TTFT."""
    result: FloatArray = np.exp(
        np.stack([logs[..., RATE], np.log(1000.0) - logs[..., TPOT], logs[..., TTFT]], axis=-1)
    )
    return result


class Proposer:
    """Proposes points of `space` one by one. Proposals are a function of the seed and of what was told, nothing else."""

    def __init__(self, space: SearchSpace, *, seed: int, prior: FactorPrior | None = None) -> None:
        self.space = space
        self.slo: SloTargets = space.problem.slo
        self._seed = seed
        analytic = np.column_stack([space.rate, space.user, space.ttft_ms])
        self._size = min(max(space.base_size // 8, DOMAIN[0]), DOMAIN[1])
        domain = self._nearest_rows(np.arange(space.base_size), analytic, self._size)
        self.belief = Belief(space, domain, seed=seed, prior=prior)
        self._observed: list[tuple[float, float]] = []
        self._taken: set[int] = set()
        self._pending: set[int] = set()
        self._pool: IntArray = np.empty(0, dtype=np.intp)
        self._pool_at = -1
        self._moves = deque(MOVES)
        if self.belief.prior.mean:
            self._move(self.belief.prior.mean)
        self.last_gain: float | None = None  # expected relative gain in hypervolume of the last proposal

    @property
    def reference(self) -> tuple[float, float]:
        """Corner of the hypervolume: no throughput, and the slowest rate a user accepts."""
        limit = self.slo.tpot_limit_ms
        return (0.0, 1000.0 / limit if limit is not None else 0.0)

    @property
    def front(self) -> Front:
        """Front of the feasible observations."""
        return Front.of(np.array(self._observed, dtype=np.float64).reshape(-1, 2), self.reference)

    def observe(self, index: int, observation: Observation) -> None:
        """Learn from a finished trial. One that failed is not proposed again and teaches nothing else."""
        self._pending.discard(index)
        self._taken.add(index)
        if not observation.usable:
            return
        figures = np.array([observation.output_tok_s_per_gpu, observation.tpot_ms, observation.ttft_ms])
        self.belief.observe(index, np.log(figures), np.array(observation.log_se))
        if observation.feasible(self.slo):
            self._observed.append((observation.output_tok_s_per_gpu, observation.tok_s_user))

    def pend(self, index: int) -> None:
        """A point that is being evaluated; it is assumed to give what the belief expects."""
        self._pending.add(index)
        self._taken.add(index)

    def exclude(self, index: int) -> None:
        """Never propose this point."""
        self._taken.add(index)

    def propose(self) -> int | None:
        """The next point, or None when every point of the pool is taken."""
        self._follow()
        pool = self._current_pool()
        pool = pool[~np.isin(pool, np.fromiter(self._taken, dtype=np.intp, count=len(self._taken)))]
        if not pool.size:
            return None
        front = self._front_with_pending()
        rng = np.random.default_rng([self._seed, len(self._taken)])
        residuals = self.belief.draws(pool, DRAWS, rng)
        gains = front.gains(self._feasible(self._predicted(pool, residuals))).mean(axis=0)
        best = int(gains.argmax())
        if gains[best] <= 0.0:
            best = self._nearest(pool, front)
        found = front.hypervolume  # nothing to be relative to before a point meets the targets
        self.last_gain = float(gains[best]) / found if found > 0.0 else None
        return int(pool[best])

    # --- inside ---

    def _predicted(self, index: IntArray, residuals: FloatArray) -> FloatArray:
        """Rate, tok/s/user, TTFT ``[..., n, 3]`` of points under given log residuals."""
        return _figures(self.belief.baseline(index) + residuals)

    def _follow(self) -> None:
        """Now and then, look at the whole legal set again with what was learnt, and take sensitivities there."""
        n = self.belief.observations
        if not self._moves or n < self._moves[0]:
            return
        while self._moves and n >= self._moves[0]:
            self._moves.popleft()
        factors = {name: mean for name, (mean, _) in self.belief.factors().items()}
        now = self.belief.centre
        if max(abs(v - now.get(name, 0.0)) for name, v in factors.items()) >= MOVED:
            self._move(factors)

    def _move(self, log_factors: Mapping[str, float]) -> None:
        """Cover the points nearest to the front of the model under `log_factors`, and those that were tried."""
        everything = np.arange(self.space.base_size)
        predicted = _figures(self.belief.physics(everything, log_factors))
        nearest = self._nearest_rows(everything, predicted, self._size)
        tried = np.array(sorted({self.space.base(i) for i in self._taken}), dtype=np.intp)
        self.belief.move(np.union1d(nearest, tried), log_factors)
        self._pool_at = -1

    def _feasible(self, predicted: FloatArray) -> FloatArray:
        """Objectives ``[..., 2]``; points past the TTFT target are moved to the origin, where they gain nothing.

        The TPOT target is the reference point's own coordinate.
        """
        values = predicted[..., :2]
        if self.slo.ttft_ms is None:
            return values
        met = predicted[..., 2] <= self.slo.ttft_ms
        result: FloatArray = np.where(met[..., None], values, 0.0)
        return result

    def _front_with_pending(self) -> Front:
        points = list(self._observed)
        if self._pending:
            index = np.array(sorted(self._pending), dtype=np.intp)
            points.extend(map(tuple, self._feasible(self._predicted(index, self.belief.mean(index)))))
        return Front.of(np.array(points, dtype=np.float64).reshape(-1, 2), self.reference)

    def _current_pool(self) -> IntArray:
        n = self.belief.observations
        if self._pool_at < 0 or n >= self._pool_at + _REFRESH:
            self._pool = self._choose_pool()
            self._pool_at = n
        return self._pool

    def _choose_pool(self) -> IntArray:
        """The points nearest to the front of the re-calibrated model, every router of each."""
        domain, routers = self.belief.domain, len(self.space.routers)
        predicted = self._predicted(domain * routers, self.belief.physical_mean())
        rows = self._nearest_rows(domain, predicted, max(int(POOL_SHARE * self._size) // routers, 1))
        pool: IntArray = (rows[:, None] * routers + np.arange(routers)[None, :]).ravel()
        return pool

    def _nearest_rows(self, base: IntArray, predicted: FloatArray, count: int) -> IntArray:
        """Of base points, the `count` nearest to their front among those that may meet the targets; sorted."""
        usable = predicted[:, 1] * _LENIENCE >= self.reference[1]
        if self.slo.ttft_ms is not None:
            usable &= predicted[:, 2] <= _LENIENCE * self.slo.ttft_ms
        if not usable.any():
            usable[:] = True
        rows = base[usable]
        values = predicted[usable, :2]
        distance = Front.of(values, (0.0, 0.0)).log_distance(values)
        result: IntArray = np.sort(rows[np.argsort(distance, kind="stable")[:count]])
        return result

    def _nearest(self, pool: IntArray, front: Front) -> int:
        """Without any expected gain: the point closest to the front, feasible ones first."""
        predicted = self._predicted(pool, self.belief.mean(pool))
        distance = front.log_distance(predicted[:, :2])
        excess = np.zeros(len(pool))
        if self.slo.ttft_ms is not None:
            excess += np.maximum(np.log(predicted[:, 2] / self.slo.ttft_ms), 0.0)
        if self.reference[1] > 0.0:
            excess += np.maximum(np.log(self.reference[1] / predicted[:, 1]), 0.0)
        return int((distance + 3.0 * excess).argmin())
