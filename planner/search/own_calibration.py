"""The user's own calibration, looked up without creating a database and without loading one that is not there."""

from __future__ import annotations

import os

from planner.domain.calibration import Calibration, CalibrationScope


def stored_calibration(scope: CalibrationScope) -> Calibration | None:
    """The newest calibration stored for `scope`; None when there is none, or no database yet.

    Raises StoreError when there is a database that cannot be read.
    """
    if not os.environ.get("WIDEPLAN_DATABASE_URL"):
        from platformdirs import user_data_path

        if not (user_data_path("wideplan") / "wideplan.db").exists():
            return None
    from planner.storage.store import open_store

    with open_store() as store:
        return store.calibrations.latest(scope)
