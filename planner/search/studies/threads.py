"""One thread per process for numerical libraries: small matrices on many threads cost more than they save."""

from __future__ import annotations

import os


def one_thread() -> None:
    """Must run before numpy is loaded; what the user set stays."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
