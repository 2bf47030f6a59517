"""The enumerated legal set as a search space: every point by index, by readable parameters, and as a plan.

A point is a configuration (roles and group counts), a load (requests per decode rank) and a router policy. Points come
from the exact analytic solution, so whatever a sampler proposes from here is legal and fits in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.domain.deployment import DeploymentPlan, RolePlan, Strategy
from planner.domain.study import Scalar
from planner.perf.operators.base import FloatArray
from planner.search.plans import plan_of
from planner.search.solve import Solution
from planner.search.studies.hypervolume import Front
from planner.search.studies.routers import DEFAULT_ONLY, RouterVariant

IntArray = NDArray[np.intp]
MAX_POINTS: Final = 300_000
LOAD: Final = "requests_per_rank"
ROUTER: Final = "router"
STRATEGY: Final = "strategy"
_NEAREST: Final = 1.5  # a load further than this factor from a reachable one is not that point


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration without its load: indexes into the roles of `strategy`."""

    strategy: Strategy
    first: int
    second: int
    first_groups: int
    second_groups: int


class SearchSpace:
    """All points of a solution. Index = base point x routers + router; base points are sorted by (config, load).

    Arrays over base points: `rate` (output tok/s per owned GPU), `user` (tok/s of one user), `ttft_ms`, `tpot_ms`,
    `batch` (requests per decode rank), `concurrency` (whole plan), `config` (index into `configs`).
    """

    def __init__(self, solution: Solution, routers: tuple[RouterVariant, ...] = DEFAULT_ONLY) -> None:
        self.solution = solution
        self.problem = solution.problem
        self.routers = routers
        self._blocks = {s.strategy: s for s in solution.strategies if len(s.points)}
        raw = _flatten(solution)
        keep = _closest(raw, MAX_POINTS)
        keys, config = np.unique(raw.key[keep], axis=0, return_inverse=True)
        config = config.reshape(-1)
        order = np.lexsort((raw.batch[keep], config))
        rows = keep[order]
        self.config: IntArray = config[order]
        self.rate, self.user = raw.rate[rows], raw.user[rows]
        self.ttft_ms, self.tpot_ms = raw.ttft_ms[rows], raw.tpot_ms[rows]
        self.batch, self.concurrency = raw.batch[rows], np.maximum(np.rint(raw.concurrency[rows]), 1.0)
        self.utilisation = raw.utilisation[rows]
        self._row = raw.row[rows]
        strategies = tuple(self._blocks)
        self.configs = tuple(Config(strategies[k[0]], *(int(v) for v in k[1:])) for k in keys)
        self._start = np.searchsorted(self.config, np.arange(len(self.configs) + 1))
        self._roles: dict[int, tuple[RolePlan, ...]] = {}
        self._by_key = {c: i for i, c in enumerate(self.configs)}
        self._role_index = {
            s: (
                {role_key(r): i for i, r in enumerate(b.first)},
                {role_key(r): i for i, r in enumerate(b.second)},
            )
            for s, b in self._blocks.items()
        }
        self._varying = self._find_varying()
        self._codes: dict[Strategy, tuple[IntArray, tuple[str, ...], FloatArray]] = {}
        self._router_index = {r.name: i for i, r in enumerate(routers)}

    def __len__(self) -> int:
        return self.base_size * len(self.routers)

    @property
    def base_size(self) -> int:
        """Points without the router dimension."""
        return int(self.rate.size)

    def base(self, index: int) -> int:
        """The base point behind `index`."""
        return index // len(self.routers)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Strategies that have points."""
        return tuple(self._blocks)

    def roles(self, config: int) -> tuple[RolePlan, ...]:
        """Roles of a configuration with their group counts, the one that decodes last."""
        found = self._roles.get(config)
        if found is None:
            c = self.configs[config]
            block = self._blocks[c.strategy]
            found = (replace(block.first[c.first], groups=c.first_groups),)
            if c.strategy is not Strategy.AGGREGATED:
                found = (*found, replace(block.second[c.second], groups=c.second_groups))
            self._roles[config] = found
        return found

    def role_tables(self, strategy: Strategy) -> tuple[tuple[RolePlan, ...], tuple[RolePlan, ...]]:
        """First and second roles that the configurations of `strategy` index."""
        block = self._blocks[strategy]
        return block.first, block.second

    def plan(self, index: int) -> DeploymentPlan:
        """The deployment plan at `index`."""
        base, router = divmod(index, len(self.routers))
        config = self.configs[int(self.config[base])]
        plan = plan_of(self.solution, self._blocks[config.strategy], int(self._row[base]))
        policy = self.routers[router].policy(config.strategy, self.problem.workload)
        return replace(plan, router=policy)

    def layouts(self) -> IntArray:
        """Number of the layout of each configuration: near-duplicates, see `layout_key`, have the same."""
        keys = [layout_key(self.roles(i)) for i in range(len(self.configs))]
        numbers = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[k] for k in keys], dtype=np.intp)

    # --- parameters ---

    def parameters(self, index: int) -> dict[str, Scalar]:
        """Readable parameters of a point; only those that differ somewhere in the space."""
        base, router = divmod(index, len(self.routers))
        config = self.configs[int(self.config[base])]
        values = self._config_parameters(int(self.config[base]))
        chosen = {n: v for n, v in values.items() if n in self._varying[config.strategy]}
        if len(self._blocks) > 1:
            chosen[STRATEGY] = config.strategy.value
        chosen[LOAD] = int(self.batch[base])
        if len(self.routers) > 1:
            chosen[ROUTER] = self.routers[router].name
        return chosen

    def index_of(self, parameters: Mapping[str, Scalar]) -> int | None:
        """The point with these parameters, None when they describe no legal point."""
        found = self._strategy_of(parameters)
        if found is None:
            return None
        fixed, varying = self._constant(found), self._varying[found]
        given = {**fixed, **{n: v for n, v in parameters.items() if n in varying}}
        names = self._role_names(found)
        indexes = [
            table.get(tuple(given.get(f"{name}_{field}") for field in ROLE_FIELDS))
            for name, table in zip(names, self._role_index[found], strict=False)
        ]
        if any(i is None for i in indexes):
            return None
        counts = [int(float(str(given.get(f"{n}_groups", 0)))) for n in names]
        if len(names) == 1:
            key = Config(found, indexes[0] or 0, -1, counts[0], 0)
        else:
            key = Config(found, indexes[0] or 0, indexes[1] or 0, counts[0], counts[1])
        config = self._by_key.get(key)
        router = self._router_index.get(str(parameters.get(ROUTER, self.routers[0].name)))
        if config is None or router is None:
            return None
        base = self._nearest_load(config, float(str(parameters.get(LOAD, 0))))
        return None if base is None else base * len(self.routers) + router

    def nearest(self, parameters: Mapping[str, Scalar]) -> int:
        """The legal point nearest to `parameters`: the same point when they are legal.

        Distance: factors of two for sizes and counts, 2 for a different named choice; the load follows as near as it can.
        """
        exact = self.index_of(parameters)
        if exact is not None:
            return exact
        strategy = self._strategy_of(parameters) or next(iter(self._blocks))
        configs, names, table = self._coded(strategy)
        wanted = np.array([_code(parameters.get(n)) for n in names])
        named = np.array([_is_named(self._varying[strategy][n][0]) for n in names])
        gap = np.abs(table - wanted)
        distance = np.where(named, 2.0 * (gap > 0.0), gap).sum(axis=1)
        config = int(configs[int(distance.argmin())])
        start, stop = int(self._start[config]), int(self._start[config + 1])
        load = max(float(str(parameters.get(LOAD, 1))), 1e-9)
        base = start + int(np.abs(np.log(self.batch[start:stop] / load)).argmin())
        router = self._router_index.get(str(parameters.get(ROUTER, self.routers[0].name)), 0)
        return base * len(self.routers) + router

    def _coded(self, strategy: Strategy) -> tuple[IntArray, tuple[str, ...], FloatArray]:
        if strategy not in self._codes:
            names = tuple(self._varying[strategy])
            configs = [i for i, c in enumerate(self.configs) if c.strategy is strategy]
            rows = [self._config_parameters(i) for i in configs]
            table = np.array([[_code(r[n]) for n in names] for r in rows], dtype=np.float64)
            self._codes[strategy] = (
                np.array(configs, dtype=np.intp),
                names,
                table.reshape(len(configs), len(names)),
            )
        return self._codes[strategy]

    def choices(self, strategy: Strategy) -> Mapping[str, tuple[Scalar, ...]]:
        """Values of each varying parameter of `strategy`, ascending; the strategy, load and router are not among them."""
        return self._varying[strategy]

    def _strategy_of(self, parameters: Mapping[str, Scalar]) -> Strategy | None:
        if STRATEGY not in parameters:
            return next(iter(self._blocks)) if len(self._blocks) == 1 else None
        return next((s for s in self._blocks if s.value == parameters[STRATEGY]), None)

    def _nearest_load(self, config: int, load: float) -> int | None:
        start, stop = int(self._start[config]), int(self._start[config + 1])
        if load <= 0.0:
            return None
        gap = np.abs(np.log(self.batch[start:stop] / load))
        best = int(gap.argmin())
        return start + best if gap[best] <= np.log(_NEAREST) else None

    @staticmethod
    def _role_names(strategy: Strategy) -> tuple[str, ...]:
        return ("aggregated",) if strategy is Strategy.AGGREGATED else ("prefill", "decode")

    def _config_parameters(self, config: int) -> dict[str, Scalar]:
        values: dict[str, Scalar] = {}
        for name, role in zip(
            self._role_names(self.configs[config].strategy), self.roles(config), strict=True
        ):
            values |= {f"{name}_{f}": v for f, v in zip(ROLE_FIELDS, role_key(role), strict=True)}
            values[f"{name}_groups"] = role.groups
        return values

    def _find_varying(self) -> dict[Strategy, dict[str, tuple[Scalar, ...]]]:
        seen: dict[Strategy, dict[str, set[Scalar]]] = {s: {} for s in self._blocks}
        self._constants: dict[Strategy, dict[str, Scalar]] = {s: {} for s in self._blocks}
        for i, c in enumerate(self.configs):
            for name, value in self._config_parameters(i).items():
                seen[c.strategy].setdefault(name, set()).add(value)
        for strategy, names in seen.items():
            self._constants[strategy] = {n: next(iter(v)) for n, v in names.items() if len(v) == 1}
        return {
            s: {n: tuple(sorted(v, key=_order)) for n, v in sorted(names.items()) if len(v) > 1}
            for s, names in seen.items()
        }

    def _constant(self, strategy: Strategy) -> dict[str, Scalar]:
        return self._constants[strategy]


def layout_key(roles: tuple[RolePlan, ...]) -> tuple[object, ...]:
    """What near-duplicate configurations share: counts and widths of the groups, backends and DBO."""
    return tuple(
        (
            r.role,
            r.groups,
            r.parallelism.tp,
            r.parallelism.dp,
            r.parallelism.expert_parallel,
            r.all2all,
            r.dbo,
        )
        for r in roles
    )


ROLE_FIELDS: Final = (
    "tp", "dp", "dcp", "expert_parallel", "all2all", "kv_dtype", "dbo", "eplb", "batched_tokens", "draft_tokens",
)  # fmt: skip


def role_key(role: RolePlan) -> tuple[Scalar, ...]:
    """Values of `ROLE_FIELDS`."""
    p = role.parallelism
    return (
        p.tp, p.dp, p.dcp, p.expert_parallel, role.all2all.value, role.kv_dtype.value, role.dbo, role.eplb is not None,
        role.max_num_batched_tokens, role.speculation.draft_tokens if role.speculation else 0,
    )  # fmt: skip


def _is_named(value: Scalar) -> bool:
    return isinstance(value, bool | str)


def _code(value: Scalar) -> float:
    """A number that equals another's exactly when the values do; sizes on a scale of factors of two."""
    if isinstance(value, str):
        return float(zlib.crc32(value.encode()))
    if isinstance(value, bool) or value is None:
        return float(bool(value))
    return float(np.log2(max(float(value), 0.5)))


def _order(value: Scalar) -> tuple[int, float, str]:
    if isinstance(value, str):
        return (1, 0.0, value)
    return (0, float(value or 0.0), "")


@dataclass(frozen=True, slots=True)
class _Raw:
    key: NDArray[np.int64]
    row: IntArray
    rate: FloatArray
    user: FloatArray
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    batch: FloatArray
    concurrency: FloatArray
    utilisation: FloatArray


def _flatten(solution: Solution) -> _Raw:
    gpus = solution.problem.gpus
    blocks = [s for s in solution.strategies if len(s.points)]
    keys = [
        np.column_stack(
            [
                np.full(len(s.points), i),
                s.points.first,
                s.points.second,
                s.points.first_groups,
                s.points.second_groups,
            ]
        ).astype(np.int64)
        for i, s in enumerate(blocks)
    ]

    def joined(name: str) -> FloatArray:
        parts = [np.asarray(getattr(s.points, name), dtype=np.float64) for s in blocks]
        return np.concatenate(parts) if parts else np.empty(0)

    tpot = joined("tpot_ms")
    return _Raw(
        key=np.concatenate(keys) if keys else np.empty((0, 5), dtype=np.int64),
        row=np.concatenate([np.arange(len(s.points)) for s in blocks]) if blocks else np.empty(0, dtype=np.intp),
        rate=joined("output_tok_s") / gpus,
        user=1000.0 / tpot,
        ttft_ms=joined("ttft_ms"),
        tpot_ms=tpot,
        batch=joined("batch"),
        concurrency=joined("concurrency"),
        utilisation=joined("utilisation"),
    )  # fmt: skip


def _closest(raw: _Raw, limit: int) -> IntArray:
    """All points, or for very large spaces those nearest to the analytic front (in factors of both objectives)."""
    if raw.rate.size <= limit:
        return np.arange(raw.rate.size)
    values = np.column_stack([raw.rate, raw.user])
    distance = Front.of(values, (0.0, 0.0)).log_distance(values)
    return np.sort(np.argsort(distance, kind="stable")[:limit])
