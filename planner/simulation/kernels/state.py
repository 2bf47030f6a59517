"""Memory of one simulation: record arrays that compiled and plain Python kernels share.

A request has up to two *sequences*, one per engine it visits: sequence ``r`` on the serving rank (decode or
aggregated) and sequence ``n_requests + r`` on the prefill rank. Times are seconds, lengths tokens unless named blocks.
Pools are numbered ``[0, R)`` GPU blocks of rank, ``[R, 2R)`` its host tier, ``[2R, 3R)`` the router's approximate index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

# --- statuses of a sequence ---
NEW: Final = 0
WAITING: Final = 1  # in its rank's waiting queue
WAITING_REMOTE: Final = 2  # as WAITING, but its KV is on a prefill rank and must be pulled
LOADING: Final = 3  # blocks reserved, KV on its way from a prefill rank or the host tier
READY: Final = 4  # KV arrived, waits for a place in the running list
RUNNING: Final = 5
PINNED: Final = 6  # prefill finished, blocks held for the puller
DONE: Final = 7
FAILED: Final = 8

# --- events ---
STEP_END: Final = 0
LOAD_DONE: Final = 1
TRANSFER_START: Final = 2
LEASE_END: Final = 3
ARRIVE: Final = 4
RETRY: Final = 5  # a client comes back after it was answered 503

# --- kinds of role ---
AGGREGATED: Final = 0
PREFILL: Final = 1
DECODE: Final = 2

# --- how a run ended ---
RUNNING_ON: Final = 0  # out of event budget, call again
FINISHED: Final = 1
STALLED: Final = 2  # requests left, nothing scheduled to happen
LIVELOCK: Final = 3  # steps without any output
NEED_ENTRIES: Final = 4  # grow the cache-entry table and call again
PAUSED: Final = 5  # everything up to `stop_at` has happened

# --- rows of StepTables by tokens ---
ATTN_LINEAR: Final = 0
DENSE_MLP: Final = 1
SHARED: Final = 2
EXPERTS: Final = 3
DISPATCH: Final = 4
COMBINE: Final = 5
COLLECTIVES: Final = 6
COLLECTIVES_EAGER: Final = 7
HEAD: Final = 8

GAP_BINS: Final = 400  # log-spaced bins of inter-token gaps
GAP_LOW_S: Final = 1e-5
GAP_PER_DECADE: Final = 50
SAMPLES: Final = 512  # points of the occupancy series; halved and spread when full

# one integer type everywhere: a kernel called with two integer types is compiled twice
_F, _I = np.float64, np.int64

REQUEST: Final = np.dtype(
    [
        ("arrival", _F), ("think", _F), ("first", _F), ("finish", _F), ("prefilled", _F),
        ("moved_from", _F), ("moved_to", _F),
        ("isl", _I), ("osl", _I), ("path", _I), ("path_n", _I), ("session", _I), ("follow", _I),
        ("serve", _I), ("prefill", _I), ("hit", _I), ("hit_prefill", _I), ("preempted", _I), ("charge", _I),
        ("charge_prefill", _I),
        ("follower", _I), ("failed", _I),
    ],
    align=True,
)  # fmt: skip

SEQUENCE: Final = np.dtype(
    [
        ("last", _F), ("rank", _I), ("next", _I), ("computed", _I), ("tokens", _I), ("stop", _I), ("blocks", _I), ("private", _I),
        ("refs", _I), ("sched", _I), ("draws", _I), ("eligible", _F), ("status", _I),
    ],
    align=True,
)  # fmt: skip

POOL: Final = np.dtype(
    [
        ("total", _I),
        ("free", _I),
        ("evictable", _I),
        ("head", _I),
        ("tail", _I),
        ("block", _I),
        ("evicted", _I),
    ],
    align=True,
)

RANK: Final = np.dtype(
    [
        ("group", _I), ("role", _I), ("head", _I), ("tail", _I), ("waiting", _I), ("ready_head", _I),
        ("ready_tail", _I), ("ready", _I), ("running", _I), ("loading", _I), ("pinned", _I),
        # this step
        ("tok", _I), ("dec", _I), ("sampled", _I), ("ctx", _I), ("prefill_ms", _F), ("core_ms", _F),
        # router's view
        ("seen_waiting", _I), ("seen_running", _I), ("seen_usage", _F), ("inflight", _I), ("inflight_tokens", _I),
        ("cold_use", _I),
        # network and host tier
        ("out_flows", _I), ("in_flows", _I), ("host_free_at", _F),
        # totals
        ("steps", _I), ("busy_steps", _I), ("prefill_tokens", _I), ("output_tokens", _I), ("queried", _I),
        ("hits", _I), ("host_hits", _I), ("preemptions", _I), ("peak_used", _I), ("requests", _I), ("expired", _I),
    ],
    align=True,
)  # fmt: skip

GROUP: Final = np.dtype(
    [
        ("role", _I), ("first", _I), ("end", _I), ("stepping", _I), ("woken", _I), ("with_prefill", _I), ("began", _F),
        ("steps", _I), ("dbo_steps", _I), ("dummy", _I), ("eplb_in", _I), ("since_eplb", _I), ("rearranged", _I),
        ("busy_s", _F), ("straggler_s", _F), ("paused_s", _F), ("experts_scale", _F),
        ("stall_until", _F), ("decode_s", _F),
    ],
    align=True,
)  # fmt: skip

ROLE: Final = np.dtype(
    [
        ("kind", _I), ("block", _I), ("max_tokens", _I), ("max_seqs", _I), ("long_prefill", _I), ("graph_max", _I),
        ("drafts", _I), ("acceptance", _F), ("caching", _I), ("reserve_full", _I), ("lockstep", _I),
        ("host_step_ms", _F), ("host_per_seq_ms", _F), ("async_host", _I), ("moe_share", _F),
        ("dbo", _I), ("dbo_decode", _I), ("dbo_prefill", _I), ("dbo_sm_share", _F), ("dbo_sync_ms", _F),
        ("eplb", _I), ("eplb_interval", _I), ("eplb_pause_s", _F), ("scale_before", _F), ("scale_after", _F),
        ("drift_steps", _F),
        ("kv_bytes", _F), ("nic_bytes_s", _F), ("setup_s", _F), ("per_block_s", _F),
        ("host_bytes_s", _F), ("lease_s", _F), ("heartbeat", _I), ("recompute_on_expiry", _I),
        ("launch_ms", _F), ("separate", _I), ("reserve_answer", _I), ("balance_steps", _F),
    ],
    align=True,
)  # fmt: skip

ENTRY: Final = np.dtype(
    [
        ("pool", _I),
        ("node", _I),
        ("blocks", _I),
        ("ref", _I),
        ("prev", _I),
        ("next", _I),
        ("near", _I),
        ("far", _I),
    ],
    align=True,
)

PLUGIN: Final = np.dtype(
    [("code", _I), ("weight", _F), ("p0", _F), ("p1", _F), ("p2", _F), ("p3", _F)], align=True
)

FLOW: Final = np.dtype([("seq", _I), ("left", _F), ("rate", _F)], align=True)  # bytes, bytes/s

HEAP: Final = np.dtype([("t", _F), ("key", _I), ("arg", _I)], align=True)

WORLD: Final = np.dtype(
    [
        ("now", _F), ("frontend_s", _F), ("scrape_s", _F), ("sample_s", _F), ("next_transfer", _F),
        ("rated_at", _F), ("stop_at", _F), ("retry_s", _F),
        ("scrape_tick", _I), ("sample_tick", _I), ("samples", _I),
        ("requests", _I), ("done", _I), ("failed", _I), ("arrivals", _I), ("arrived", _I), ("pool_next", _I),
        ("pool_end", _I), ("ranks", _I), ("serial", _I), ("heap_n", _I), ("flows", _I), ("woken", _I), ("free_entry", _I),
        ("free_entries", _I), ("events", _I), ("quiet_steps", _I), ("quiet_limit", _I), ("seed", _I),
        ("decider", _I), ("decider_non_cached", _I), ("decider_prompt", _I), ("turn", _I), ("turn_prefill", _I),
        ("cold", _I), ("index_tokens", _I),
        ("router", _I), ("index", _I), ("disaggregated", _I), ("not_disaggregated", _I), ("prefill_first", _I),
        ("refused", _I),
    ],
    align=True,
)  # fmt: skip


# Arrays of a simulation: name -> element type and number of dimensions.
FIELDS: Final = {
    "world": (WORLD, 1),  # one record of scalars
    "req": (REQUEST, 1),
    "seq": (SEQUENCE, 1),  # n or 2n, and one scratch sequence at the end
    "path": (
        np.dtype(_I),
        2,
    ),  # [p, 2]: tree nodes along each prompt, and prompt tokens up to each node's end
    "order": (np.dtype(_I), 1),  # requests with a given arrival time, ascending
    "pool_order": (np.dtype(_I), 1),  # session heads that a closed loop issues on completion
    "rank": (RANK, 1),
    "pool": (POOL, 1),  # 3 per rank
    "group": (GROUP, 1),
    "role": (ROLE, 1),
    "run": (np.dtype(_I), 2),  # [ranks, max_seqs]: running sequences in order of admission
    "entry": (ENTRY, 1),
    "node_head": (np.dtype(_I), 1),  # entries of a node, linked by near/far
    "table": (np.dtype(_I), 1),  # open-addressing index of entries by (pool, node)
    "heap": (HEAP, 1),
    "flow": (FLOW, 1),  # transfers under way
    "by_tokens": (np.dtype(_F), 3),  # [roles, 9, len(TOKENS)] ms
    "by_decode": (np.dtype(_F), 3),  # [roles, max_seqs + 1, len(CONTEXT)] ms, at every integer batch
    "by_chunk": (np.dtype(_F), 3),  # [roles, len(CHUNK), len(PREFIX)] ms
    "candidates": (
        np.dtype(_I),
        2,
    ),  # [2, ranks + 1]: prefill and serving ranks; their number in the last column
    "plugins": (PLUGIN, 2),  # [2, m + 1]: prefill and serving profile, closed by code 0
    "score": (
        np.dtype(_F),
        2,
    ),  # [4, ranks]: router scratch: totals, matched tokens, kept, one scorer's values
    "session_rank": (np.dtype(_I), 2),  # [2, sessions]: binding of session affinity, prefill and serving
    "gaps": (np.dtype(_F), 1),  # [GAP_BINS]: weight of inter-token gaps
    "series": (
        np.dtype(_F),
        3,
    ),  # [SAMPLES, 4, 4]: per kind waiting, running, used, busy; row 3 starts with the time
    "woken": (np.dtype(_I), 1),  # idle groups that may have work after this event
}


class State:
    """All arrays of one simulation, named by `FIELDS`.

    Kernels receive one pointer: to a table of addresses and shapes. (A tuple of arrays would be passed as two hundred
    scalars at every call, which costs both compile time and run time.)
    """

    __slots__ = (*FIELDS, "_header", "address")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, **arrays: Any) -> None:
        for name, (dtype, dimensions) in FIELDS.items():
            array = arrays[name]
            if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
                msg = f"{name}: expected {dimensions}-d contiguous {dtype}, got {array.ndim}-d {array.dtype}"
                raise TypeError(msg)
            setattr(self, name, array)
        self._header = np.zeros(4 * len(FIELDS), dtype=np.int64)
        for i, name in enumerate(FIELDS):
            array = getattr(self, name)
            self._header[4 * i] = array.ctypes.data
            self._header[4 * i + 1 : 4 * i + 1 + array.ndim] = array.shape
        self.address = int(self._header.ctypes.data)

    def replaced(self, **arrays: Any) -> State:
        """The same state with some arrays exchanged."""
        return State(**{name: arrays.get(name, getattr(self, name)) for name in FIELDS})
