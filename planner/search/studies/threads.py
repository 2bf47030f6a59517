"""What a process that runs studies sets up first: one thread for numerical libraries, and how it ends when terminated."""

from __future__ import annotations

import os
import signal
from types import FrameType


def one_thread() -> None:
    """Small matrices on many threads cost more than they save. Must run before numpy is loaded; what the user set stays."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def end_like_an_interrupt() -> None:
    """Being terminated means what Ctrl-C means: what runs is finished and recorded, and the study can be continued."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
