"""The start script of an engine container: clear shared memory, work out the first rank, wait for the leader, serve."""

from __future__ import annotations

from planner.export.engine_args import EngineCommand
from planner.export.layout import Balancing, RoleLayout

_CLEAR = (
    "# A crash leaves its segments in /dev/shm, which outlives the container (llm-d#352).",
    "find /dev/shm -type f -delete",
)
# A worker may start before the leader's DNS name exists (lws#746): 10 minutes of patience, then fail loudly.
_WAIT = (
    "for _ in $(seq 1 300); do",
    '  getent hosts "$LWS_LEADER_ADDRESS" >/dev/null && break',
    "  sleep 2",
    "done",
    'getent hosts "$LWS_LEADER_ADDRESS" >/dev/null || { echo "no DNS name for $LWS_LEADER_ADDRESS" >&2; exit 1; }',
)


def start_script(command: EngineCommand, layout: RoleLayout, *, in_lws: bool) -> str:
    """Bash script for ``/bin/bash -c``."""
    lines = ["set -eu", *_CLEAR]
    if in_lws and layout.pods_per_group > 1:
        lines += _WAIT
    if in_lws and layout.balancing in (Balancing.MULTI_PORT, Balancing.EXTERNAL):
        lines.append("START_RANK=$(( LWS_WORKER_INDEX * DP_SIZE_LOCAL ))")
    words = command.lines()
    lines.append(f"exec {words[0]} \\")
    lines += [f"  {w} \\" for w in words[1:-1]]
    lines.append(f"  {words[-1]}")
    return "\n".join(lines)
