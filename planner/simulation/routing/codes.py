"""Numbers of routers, plugins and deciders as the kernels see them."""

from __future__ import annotations

from typing import Final

# routers
RANDOM: Final = 0
ROUND_ROBIN: Final = 1
LEAST_QUEUE: Final = 2
VLLM_DP: Final = 3
LLM_D: Final = 4

# filters, applied in order
PREFIX_AFFINITY: Final = 1
UTILIZATION: Final = 2
# scorers
PREFIX_CACHE: Final = 10
QUEUE: Final = 11
RUNNING_REQUESTS: Final = 12
KV_USAGE: Final = 13
LOAD_AWARE: Final = 14
ACTIVE_REQUEST: Final = 15
TOKEN_LOAD: Final = 16
NO_HIT_LRU: Final = 17
SESSION_AFFINITY: Final = 18
NEUTRAL: Final = 19
# pickers
MAX_SCORE: Final = 30
WEIGHTED_RANDOM: Final = 31
RANDOM_PICK: Final = 32

# prefix index the router consults
INDEX_NONE: Final = 0
INDEX_APPROXIMATE: Final = 1
INDEX_PRECISE: Final = 2

# deciders
ALWAYS: Final = 0
PREFIX_BASED: Final = 1

# rows of the scratch array
TOTAL: Final = 0
MATCHED: Final = 1
KEPT: Final = 2
VALUE: Final = 3
