"""How the parts of a step add up. Written once, for numpy arrays (L1) and for scalars under numba (L2).

Only arithmetic and ``np.maximum``/``np.minimum`` are used, so every function works elementwise on arrays and compiles in
nopython mode. All arguments and results are milliseconds unless named otherwise.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.perf.operators.base import FloatArray

Ms = FloatArray | float
HIDDEN: Final = 0.65  # share of the shorter of two overlapped parts that dual-batch overlap hides


def plain_gpu_ms(
    attention: Ms, attn_linear: Ms, dense_mlp: Ms, shared: Ms, experts: Ms, dispatch: Ms, combine: Ms,
    collectives: Ms, head: Ms,
) -> Ms:  # fmt: skip
    """Device time of a step without overlap: the parts run one after the other.

    `attention`, `attn_linear`, `shared`, `dispatch`, `combine` and `collectives` are those of the slowest rank;
    `experts` is the hottest rank's at the group's mean tokens.
    """
    return attention + attn_linear + dense_mlp + shared + experts + dispatch + combine + collectives + head


def overlapped_gpu_ms(
    attention: Ms, attn_linear: Ms, dense_mlp: Ms, shared: Ms, experts: Ms, dispatch: Ms, combine: Ms,
    collectives: Ms, head: Ms, moe_layer_share: Ms, sync: Ms,
) -> Ms:  # fmt: skip
    """Device time of a step under dual-batch overlap; every load-dependent part is given at **half** the batch.

    vLLM's published schedule: per MoE layer ``max(A, D) + max(M, D) + max(S + M, C) + max(S + A, C)`` with A the
    attention side, D dispatch, M routed experts, S shared expert, C combine of one micro-batch. The attention work
    of dense layers (``1 - moe_layer_share``) and dense MLPs run twice, unoverlapped. `head` is the full batch's.
    Dispatch and combine reach the network while the other micro-batch computes, but both want memory bandwidth and
    launch slots: `HIDDEN` of the shorter side really disappears (LMSYS, H100 EP72: +25.5 % at 256 tokens per rank,
    break-even at 64-128; full hiding would give +60 %).
    """
    inside = (attention + attn_linear + collectives) * moe_layer_share
    outside = 2.0 * ((attention + attn_linear + collectives) * (1.0 - moe_layer_share) + dense_mlp)
    overlapped = (
        np.maximum(inside, dispatch)
        + np.maximum(experts, dispatch)
        + np.maximum(shared + experts, combine)
        + np.maximum(shared + inside, combine)
    )
    exposed = (
        np.minimum(inside, dispatch)
        + np.minimum(experts, dispatch)
        + np.minimum(shared + experts, combine)
        + np.minimum(shared + inside, combine)
    )
    overlapped = overlapped + (1.0 - HIDDEN) * exposed
    return outside + overlapped + head + sync


def step_ms(gpu: Ms, host: Ms, async_scheduling: bool) -> Ms:
    """Step time: host work hides behind the device under asynchronous scheduling, otherwise it adds."""
    if async_scheduling:
        return np.maximum(gpu, host)
    return gpu + host
