"""Counter-based random numbers: a draw depends on its key only, never on how many draws came before.

Two configurations that are compared therefore see the same draws for the same request (common random numbers).
"""

from __future__ import annotations

from typing import Final

from planner.simulation.kernels.jit import kernel

ROUTE_TIES: Final = 1
ACCEPTANCE: Final = 2
PICKER: Final = 3
EXPLORE: Final = 4
RANDOM_ROUTE: Final = 5

_MASK = 0xFFFFFFFF


@kernel
def mix(x: int) -> int:
    """Scramble 32 bits (lowbias32 of C. Wellons' hash-prospector). Arithmetic stays exact in int64 and in Python ints."""
    x = int(x) & _MASK
    x ^= x >> 16
    x = (x * 0x7FEB352D) & _MASK
    x ^= x >> 15
    x = (x * 0x846CA68B) & _MASK
    x ^= x >> 16
    return x


@kernel
def uniform(seed: int, stream: int, a: int, b: int) -> float:
    """A number in [0, 1) for the key (seed, stream, a, b)."""
    h = mix(mix(mix(mix(seed) + stream * 0x9E37) + int(a)) + int(b) * 0x85EB)
    return h / 4294967296.0
