"""The analytic model at the points of a space under other physical factors: what a study can learn, and how far it reaches.

A factor multiplies one kind of time of the step. Its effect is computed with the full model, queueing included, because near
saturation TTFT responds far more than in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from planner.analytic.operating import Operating, aggregated_at, disaggregated_at
from planner.analytic.stack import RoleStack
from planner.domain.deployment import Role, RolePlan, Strategy
from planner.perf.memory import rank_memory
from planner.perf.operators.base import FloatArray
from planner.perf.step import build_tables
from planner.perf.tables import TOKENS, StepTables
from planner.perf.transfer import kv_transfer_ms
from planner.search.studies.space import IntArray, SearchSpace

STEP: Final = 0.2  # of a log factor: as far as factors usually are off
_MATRICES: Final = ("attn_linear_ms", "dense_mlp_ms", "shared_ms", "experts_ms", "head_ms")
_TURN_TOKENS: Final = 512.0  # between steps that wait for weights and steps that wait for the matrix units
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "attention": ("decode_attn_ms",),
    "prompt attention": ("prefill_attn_ms",),
    "communication": ("dispatch_ms", "combine_ms", "collectives_ms", "collectives_eager_ms"),
    "host": ("host_step_ms", "host_per_seq_ms", "launch_floor_ms"),
}
FACTORS: Final = ("compute", "weights", *_FIELDS)


def scale_tables(tables: StepTables, log_factors: Mapping[str, float]) -> StepTables:
    """`tables` with each kind of time multiplied by exp(log factor); factors left out are 0."""
    share = 1.0 / (1.0 + (_TURN_TOKENS / TOKENS) ** 1.5)
    matrix = np.exp(share * log_factors.get("compute", 0.0) + (1.0 - share) * log_factors.get("weights", 0.0))
    changes: dict[str, Any] = {f: getattr(tables, f) * matrix for f in _MATRICES}
    for name, fields in _FIELDS.items():
        factor = float(np.exp(log_factors.get(name, 0.0)))
        changes |= {f: getattr(tables, f) * factor for f in fields}
    return replace(tables, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Figures at some base points, ``[n]`` each; rates are per owned GPU."""

    rate: FloatArray
    tpot_ms: FloatArray
    ttft_ms: FloatArray

    def logs(self) -> FloatArray:
        """Logarithms of throughput, TPOT and TTFT, ``[n, 3]``."""
        result: FloatArray = np.log(np.column_stack([self.rate, self.tpot_ms, self.ttft_ms]))
        return result


class FactorModel:
    """Solves points of `space` under log factors; step tables are built once per role."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self._built: dict[RolePlan, tuple[StepTables, float]] = {}
        self._one_group: dict[RolePlan, RolePlan] = {}
        self._moved: dict[int, float] = {}
        self._strategy = np.array([space.strategies.index(c.strategy) for c in space.configs], dtype=np.intp)

    def linearise(self, base: IntArray, centre: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
        """Log throughput, TPOT and TTFT ``[n, 3]``, and their change per unit of each log factor ``[n, 3, k]``.

        Throughput is per owned GPU; the change is taken from the factors `centre`, over a step of `STEP`.
        """
        plain = self.solve(base, centre).logs()
        stepped = [dict(centre) | {f: centre.get(f, 0.0) + STEP} for f in FACTORS]
        columns = [(self.solve(base, s).logs() - plain) / STEP for s in stepped]
        return plain, np.stack(columns, axis=-1)

    def solve(self, base: IntArray, log_factors: Mapping[str, float]) -> Solved:
        """The model with `log_factors` at the concurrency of each point in `base`, queueing past saturation included."""
        space = self.space
        rate, tpot, ttft = np.empty(len(base)), np.empty(len(base)), np.empty(len(base))
        of_row = self._strategy[space.config[base]]
        for number, strategy in enumerate(space.strategies):
            rows = np.flatnonzero(of_row == number)
            if not rows.size:
                continue
            configs, position = np.unique(space.config[base[rows]], return_inverse=True)
            position = position.reshape(-1)
            # loads of a configuration side by side; rows with fewer loads are filled with 1
            order = np.argsort(position, kind="stable")
            column = np.empty(len(rows), dtype=np.intp)
            column[order] = np.arange(len(rows)) - np.searchsorted(position[order], position[order])
            loads = np.ones((len(configs), int(column.max()) + 1))
            loads[position, column] = space.concurrency[base[rows]]
            at = self._operate(strategy, configs.tolist(), loads, log_factors)
            pick = (position, column)
            rate[rows] = at.rate_per_ms[pick] * 1000.0 * space.problem.workload.osl / space.problem.gpus
            tpot[rows], ttft[rows] = at.tpot_ms[pick], at.ttft_ms[pick]
        return Solved(rate=rate, tpot_ms=tpot, ttft_ms=ttft)

    def _operate(
        self,
        strategy: Strategy,
        configs: list[int],
        loads: FloatArray,
        log_factors: Mapping[str, float],
    ) -> Operating:
        space = self.space
        workload = space.problem.workload
        roles = [space.roles(c) for c in configs]
        last = self._stack([r[-1] for r in roles], log_factors)
        groups = np.array([[float(r[-1].groups)] for r in roles])
        if strategy is Strategy.AGGREGATED:
            return aggregated_at(last, workload, groups=groups, concurrency=loads)
        return disaggregated_at(
            self._stack([r[0] for r in roles], log_factors),
            last,
            workload,
            prefill_groups=np.array([[float(r[0].groups)] for r in roles]),
            decode_groups=groups,
            transfer_ms=np.array([self._transfer_ms(c) for c in configs])[:, None],
            concurrency=loads,
        )

    def _transfer_ms(self, config: int) -> float:
        if config not in self._moved:
            problem = self.space.problem
            prefill, decode = self.space.roles(config)
            self._moved[config] = kv_transfer_ms(
                problem.model,
                problem.workload,
                prefill=prefill,
                decode=decode,
                fabric=problem.decode_pool.fabric,
            )
        return self._moved[config]

    def _stack(self, roles: Sequence[RolePlan], log_factors: Mapping[str, float]) -> RoleStack:
        scaled: dict[RolePlan, StepTables] = {}
        tables, kv = [], []
        for role in roles:
            one = self._one_group.get(role)
            if one is None:
                one = self._one_group[role] = replace(role, groups=1)
            built, tokens = self._role(one)
            if one not in scaled:
                scaled[one] = scale_tables(built, log_factors) if log_factors else built
            tables.append(scaled[one])
            kv.append(tokens)
        return RoleStack(roles, tables, kv)

    def _role(self, role: RolePlan) -> tuple[StepTables, float]:
        if role not in self._built:
            solution, problem = self.space.solution, self.space.problem
            pool = solution.pricer.pools[role.gpu]
            context = problem.workload.isl if role.role is Role.PREFILL else problem.workload.context_at_end
            memory = rank_memory(
                problem.model,
                role,
                pool.gpu,
                solution.engine,
                ranks_per_domain=pool.scale_up_gpus,
                context_tokens=context,
            )
            tables = build_tables(solution.pricer.components[role.gpu], role, pool, solution.engine)
            self._built[role] = (tables, float(memory.kv_tokens_per_rank))
        return self._built[role]
