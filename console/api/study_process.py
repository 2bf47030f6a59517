"""Run one stored study: ``python -m console.api.study_process NAME [TRIALS]``.

It stops, keeping every finished trial, when somebody stops the study, here or in a terminal, when it is interrupted or
terminated, and when the server that started it is gone.
"""

from __future__ import annotations

import os
import sys


def main(name: str, trials: int | None) -> None:
    """Resume `name` and follow its state."""
    from planner.search.studies.threads import end_like_an_interrupt, one_thread

    one_thread()
    from planner.search.studies.progress import Progress
    from planner.search.studies.runner import Changes, resume
    from planner.storage.store import open_store

    parent = os.getppid()
    end_like_an_interrupt()
    with open_store() as store:

        def report(progress: Progress) -> None:
            del progress  # what is shown is read from the store, whoever runs the study
            if os.getppid() != parent:
                raise KeyboardInterrupt

        resume(store, name, report=report, changes=Changes(trials=trials))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
