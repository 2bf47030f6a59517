"""Device memory of one rank: weights, transient peak, buffers, and the KV cache in what is left."""

from planner.perf.memory.kv import CacheKind, KvLayout, LayoutKey, kv_layout
from planner.perf.memory.overheads import activation_bytes, buffer_bytes, low_latency_buffer_bytes
from planner.perf.memory.rank import MemoryMode, kv_tokens_per_rank, max_concurrency, rank_memory
from planner.perf.memory.weights import RankWeights, weights_per_rank_bytes

__all__ = [
    "CacheKind",
    "KvLayout",
    "LayoutKey",
    "MemoryMode",
    "RankWeights",
    "activation_bytes",
    "buffer_bytes",
    "kv_layout",
    "kv_tokens_per_rank",
    "low_latency_buffer_bytes",
    "max_concurrency",
    "rank_memory",
    "weights_per_rank_bytes",
]
