"""Lay out the arrays of one simulation from a cluster and its traffic, and refuse what cannot run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.domain.deployment import Role
from planner.domain.errors import InputError, Issue
from planner.perf.tables import BATCH, StepTables
from planner.simulation.cluster import Cluster, EngineRole
from planner.simulation.kernels import cache
from planner.simulation.kernels import state as st
from planner.simulation.kernels import state_type as _state_type  # noqa: F401  (teaches numba the State)
from planner.simulation.kernels.run import scrape
from planner.simulation.routing import codes
from planner.simulation.routing.registry import DECIDERS, ROUTERS, needs_prefix, plugin_rows, require
from planner.simulation.traffic import Traffic

_KIND = {Role.AGGREGATED: st.AGGREGATED, Role.PREFILL: st.PREFILL, Role.DECODE: st.DECODE}
_QUIET_STEPS_PER_RANK = 20_000
RETRY_S = 1.0  # a client's pause after a 503; only elastic EP makes everybody refuse
_EVERY_STEP = 1 << 40


def dense_decode(table: NDArray[np.float64], largest: int) -> NDArray[np.float64]:
    """Rows of ``[len(BATCH), len(CONTEXT)]`` at every integer batch 0..`largest`: linear in log1p, proportional above."""
    batch = np.arange(largest + 1, dtype=np.float64)
    position = np.log1p(BATCH)
    x = np.log1p(batch)
    hi = np.clip(np.searchsorted(position, x), 1, len(BATCH) - 1)
    weight = np.maximum((x - position[hi - 1]) / (position[hi] - position[hi - 1]), 0.0)[:, None]
    inside = table[hi - 1] + (table[hi] - table[hi - 1]) * weight
    above = table[-1] * np.maximum(batch, 1.0)[:, None] / BATCH[-1]
    rows: NDArray[np.float64] = np.where((batch > BATCH[-1])[:, None], above, inside)
    return rows


def by_tokens(t: StepTables) -> NDArray[np.float64]:
    """Tables over tokens in the order the kernels index them."""
    return np.stack(
        [
            t.attn_linear_ms, t.dense_mlp_ms, t.shared_ms, t.experts_ms, t.dispatch_ms, t.combine_ms,
            t.collectives_ms, t.collectives_eager_ms, t.head_ms,
        ]
    )  # fmt: skip


def require_runnable(cluster: Cluster, traffic: Traffic) -> None:
    """Raise `InputError` naming everything that would make the run meaningless or endless."""
    require(cluster.router)
    issues: list[Issue] = []
    if traffic.requests == 0:
        issues.append(
            Issue(
                code="workload.empty",
                what=f"workload '{traffic.label}' has no requests",
                why="there is nothing to simulate",
                fix="ask for at least one request or give a trace with entries",
            )
        )
    serving = [r for r in cluster.roles if r.role is not Role.PREFILL]
    if not serving:
        issues.append(
            Issue(
                code="simulation.roles",
                what=f"plan '{cluster.name}' has no role that serves",
                why="prefilled prompts need a decode role to go to",
                fix="add a decode or an aggregated role",
            )
        )
    for role in cluster.roles:
        issues += _check_role(role, traffic)
        if cluster.disaggregated and role.network is None:
            issues.append(
                Issue(
                    code="simulation.network",
                    what=f"role '{role.name}' of a disaggregated plan has no network",
                    why="KV has to move between prefill and decode",
                    fix="state the NIC bandwidth of a rank",
                )
            )
    if issues:
        raise InputError(*issues)


def _check_role(role: EngineRole, traffic: Traffic) -> list[Issue]:
    if traffic.requests == 0:
        return []
    answer = 1 if role.role is Role.PREFILL else traffic.osl
    longest = int((traffic.isl + answer).max())
    held = role.kv_blocks * role.block_size
    if longest <= held - (role.block_size if role.role is Role.DECODE else 0):
        return []
    return [
        Issue(
            code="simulation.capacity",
            what=f"a request of {longest} tokens does not fit in the KV cache of one {role.name} rank",
            why=f"the rank holds {role.kv_blocks} blocks of {role.block_size} tokens = {held} tokens",
            fix="more GPUs per rank (larger TP), a wider EP group, fp8 KV, or shorter requests",
        )
    ]


def build_state(cluster: Cluster, traffic: Traffic, *, seed: int) -> st.State:
    """Arrays of a fresh run. Raises `InputError` for what cannot run."""
    require_runnable(cluster, traffic)
    n = traffic.requests
    ranks = cluster.ranks
    disaggregated = cluster.disaggregated
    groups = sum(r.groups * (1 if r.lockstep else r.ranks) for r in cluster.roles)
    most_seqs = max(r.max_num_seqs for r in cluster.roles)
    profiles = (plugin_rows(cluster.router.prefill_scorers), plugin_rows(cluster.router.decode_scorers))
    plugins = np.zeros((2, 1 + max(len(p) for p in profiles)), dtype=st.PLUGIN)
    for leg, profile in enumerate(profiles):
        for i, row in enumerate(profile):
            plugins[leg, i] = (row.code, row.weight, *row.parameters)
    entries = 1024 if traffic.nodes else 1
    state = st.State(
        world=_records(1, st.WORLD),
        req=_records(n, st.REQUEST),
        seq=_records((2 * n if disaggregated else n) + 1, st.SEQUENCE),
        path=np.stack([traffic.path_nodes, traffic.path_ends], axis=1).astype(np.int64),
        order=_arrival_order(traffic),
        pool_order=traffic.pool.astype(np.int64),
        rank=_records(ranks, st.RANK),
        pool=_records(3 * ranks, st.POOL),
        group=_records(groups, st.GROUP),
        role=_records(len(cluster.roles), st.ROLE),
        run=np.zeros((ranks, most_seqs), dtype=np.int64),
        entry=_records(entries, st.ENTRY),
        node_head=np.full(max(traffic.nodes, 1), -1, dtype=np.int64),
        table=np.full(2 * entries if entries > 1 else 2, -1, dtype=np.int64),
        heap=_records(3 * n + ranks + 16, st.HEAP),
        flow=_records(n if disaggregated else 1, st.FLOW),
        by_tokens=np.stack([by_tokens(r.tables) for r in cluster.roles]),
        by_decode=np.stack([dense_decode(r.tables.decode_attn_ms, most_seqs) for r in cluster.roles]),
        by_chunk=np.stack([np.asarray(r.tables.prefill_attn_ms, dtype=np.float64) for r in cluster.roles]),
        candidates=np.zeros((2, ranks + 1), dtype=np.int64),
        plugins=plugins.view(np.recarray),
        score=np.zeros((4, ranks)),
        session_rank=np.full((2, max(traffic.sessions, 1)), -1, dtype=np.int64),
        gaps=np.zeros(st.GAP_BINS),
        series=np.zeros((st.SAMPLES, 4, 4)),
        woken=np.zeros(groups, dtype=np.int64),
    )
    _fill_requests(state, traffic)
    _fill_world(state, cluster, traffic, seed=seed)
    _link_free(state, 0)
    _fill_roles(state, cluster)
    for k in range(ranks):
        scrape(state, k)
    return state


def _records(count: int, dtype: np.dtype[np.void]) -> Any:
    return np.zeros(count, dtype=dtype).view(np.recarray)


def _arrival_order(traffic: Traffic) -> NDArray[np.int64]:
    timed = np.flatnonzero(np.isfinite(traffic.arrival_s))
    return timed[np.argsort(traffic.arrival_s[timed], kind="stable")].astype(np.int64)


def _fill_requests(state: st.State, traffic: Traffic) -> None:
    req = state.req
    req.arrival = traffic.arrival_s
    req.think = traffic.think_s
    req.isl = traffic.isl
    req.osl = traffic.osl
    req.follow = traffic.follow
    req.session = traffic.session if traffic.nodes else -1
    req.path = traffic.path_start[:-1]
    req.path_n = np.diff(traffic.path_start)
    for name in ("first", "finish", "prefilled", "moved_from", "moved_to"):
        req[name] = np.nan
    req.serve = -1
    req.prefill = -1
    state.seq.rank = -1
    state.seq.next = -1
    state.seq.last = -1.0


def _fill_world(state: st.State, cluster: Cluster, traffic: Traffic, *, seed: int) -> None:
    w = state.world[0]
    timing, policy = cluster.timing, cluster.router
    w.frontend_s = cluster.frontend_ms * 1e-3
    w.scrape_s = timing.scrape_ms * 1e-3
    w.sample_s = 0.01
    w.sample_tick = -1
    w.next_transfer = np.inf
    w.stop_at = np.inf
    w.retry_s = RETRY_S
    w.requests = traffic.requests
    w.arrivals = len(state.order)
    w.pool_end = len(traffic.pool)
    w.ranks = cluster.ranks
    w.seed = seed & 0xFFFFFFFF
    w.quiet_limit = _QUIET_STEPS_PER_RANK * cluster.ranks
    w.router = ROUTERS[policy.kind]
    w.decider = DECIDERS[policy.decider]
    w.decider_non_cached = int(policy.decider_parameters.get("nonCachedTokens", 0))
    w.decider_prompt = int(policy.decider_parameters.get("promptTokens", 0))
    w.disaggregated = cluster.disaggregated
    w.index = codes.INDEX_NONE
    if traffic.nodes and needs_prefix(policy):
        w.index = codes.INDEX_PRECISE if timing.precise_index else codes.INDEX_APPROXIMATE
    w.index_tokens = timing.index_max_tokens


def _fill_roles(state: st.State, cluster: Cluster) -> None:
    rank = group = 0
    timing = cluster.timing
    for i, role in enumerate(cluster.roles):
        _fill_role(state.role[i], role)
        for _ in range(role.groups * (1 if role.lockstep else role.ranks)):
            size = role.ranks if role.lockstep else 1
            g = state.group[group]
            g.role, g.first, g.end = i, rank, rank + size
            g.experts_scale = role.experts.before
            # vLLM starts three quarters into the first interval
            g.eplb_in = max(role.eplb.step_interval // 4, 1) if role.eplb else 0
            for k in range(rank, rank + size):
                r = state.rank[k]
                r.group, r.role = group, i
                r.head = r.tail = r.ready_head = r.ready_tail = -1
                host = role.host_tier.blocks if role.host_tier else 0
                _fill_pool(state.pool[k], role.kv_blocks, role.block_size)
                _fill_pool(state.pool[cluster.ranks + k], host, role.block_size)
                _fill_pool(
                    state.pool[2 * cluster.ranks + k],
                    timing.index_blocks_per_server,
                    timing.index_block_tokens,
                )
                leg = 0 if role.role is Role.PREFILL else 1
                state.candidates[leg, state.candidates[leg, -1]] = k
                state.candidates[leg, -1] += 1
            rank += size
            group += 1


def _fill_pool(pool: Any, blocks: int, block_size: int) -> None:
    pool.total = pool.free = blocks
    pool.block = block_size
    pool.head = pool.tail = -1


def _fill_role(r: Any, role: EngineRole) -> None:
    tables = role.tables
    r.kind = _KIND[role.role]
    r.block = role.block_size
    r.max_tokens = role.max_num_batched_tokens
    r.max_seqs = role.max_num_seqs
    r.long_prefill = role.long_prefill_tokens or role.max_num_batched_tokens
    r.graph_max = role.graph_max_tokens
    r.caching = role.prefix_caching
    r.reserve_full = role.reserve_full_isl
    r.lockstep = role.lockstep
    r.host_step_ms = tables.host_step_ms
    r.host_per_seq_ms = tables.host_per_seq_ms
    r.async_host = tables.async_scheduling
    r.moe_share = tables.moe_layer_share
    if role.speculation:
        r.drafts = role.speculation.draft_tokens
        r.acceptance = role.speculation.acceptance
    if tables.dbo:
        r.dbo = 1
        r.dbo_decode = tables.dbo.decode_threshold
        r.dbo_prefill = tables.dbo.prefill_threshold
        r.dbo_sm_share = tables.dbo.comm_sm_share
        r.dbo_sync_ms = tables.dbo.sync_ms
    r.scale_before = role.experts.before
    r.scale_after = role.experts.after
    r.drift_steps = role.experts.drift_steps
    if role.eplb:
        r.eplb = 1
        r.eplb_interval = role.eplb.step_interval
        r.eplb_pause_s = 0.0 if role.eplb.use_async else role.experts.pause_s
    r.kv_bytes = role.kv_bytes_per_token
    if role.network:
        r.nic_bytes_s = role.network.gbps * 1e9
        r.setup_s = (role.network.setup_ms + tables.handover_ms) * 1e-3
        r.per_block_s = role.network.per_block_us * 1e-6
        r.lease_s = role.network.lease_s
        r.heartbeat = role.network.heartbeat
        r.recompute_on_expiry = role.network.recompute_on_expiry
    r.launch_ms = tables.launch_floor_ms
    r.separate = tables.separate_prefill
    r.reserve_answer = role.reserve_answer
    r.balance_steps = tables.balance_steps
    r.host_bytes_s = role.host_tier.gbps * 1e9 if role.host_tier else 0.0


def _link_free(state: st.State, first: int) -> None:
    """Chain the cache entries from `first` on into the free list."""
    w = state.world[0]
    count = len(state.entry)
    state.entry.next[first:] = np.arange(first + 1, count + 1)
    state.entry.next[-1] = w.free_entry if first else -1
    w.free_entry = first
    w.free_entries += count - first


def grown(state: st.State, factor: int = 2) -> st.State:
    """The same run with `factor` times the cache entries."""
    old = len(state.entry)
    entry = _records(old * factor, st.ENTRY)
    entry[:old] = state.entry
    bigger = state.replaced(entry=entry, table=np.full(2 * old * factor, -1, dtype=np.int64))
    live = np.zeros(old, dtype=bool)
    live[state.table[state.table >= 0]] = True
    for e in np.flatnonzero(live):
        cache.index(bigger, int(e))
    _link_free(bigger, old)
    return bigger


def entry_margin(cluster: Cluster, traffic: Traffic) -> int:
    """Entries one event can create: every running sequence of a group may publish its whole path."""
    if traffic.nodes == 0:
        return 0
    depth = int(np.diff(traffic.path_start).max())
    widest = max(
        (r.ranks if r.lockstep else 1) * min(r.max_num_seqs, traffic.requests) for r in cluster.roles
    )
    return depth * (min(widest, traffic.requests) + 8)
