"""Play several fleets beside each other: compiled kernels release the interpreter, and an interrupt stops them all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from planner.simulation.engine import Progress

J = TypeVar("J")
R = TypeVar("R")
_THREADS = 2


class _StoppedError(RuntimeError):
    """Raised inside a run when another one failed or the user interrupted."""


def play_all(
    jobs: Sequence[J], play: Callable[[J, Progress], R], *, requests: int, progress: Progress | None
) -> list[R]:
    """`play` every job with a progress callback of its own, in order of `jobs`; `requests` is the sum over all.

    The first error ends the other runs at their next report and is raised; so is an interrupt.
    """
    done = [0] * len(jobs)
    stop = threading.Event()

    def one(n: int) -> R:
        def report(count: int, _: int) -> None:
            if stop.is_set():
                raise _StoppedError
            done[n] = count
            if progress is not None:
                progress(sum(done), requests)

        return play(jobs[n], report)

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        futures = [pool.submit(one, n) for n in range(len(jobs))]
        try:
            return [f.result() for f in futures]
        finally:
            stop.set()
            for f in futures:
                f.cancel()
