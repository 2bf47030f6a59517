"""The user's own calibration, looked up without creating a database and without loading one that is not there."""

from __future__ import annotations

import os

from planner.domain.calibration import Calibration, CalibrationScope
from planner.domain.errors import Issue


def stored_calibration(scope: CalibrationScope) -> Calibration | Issue | None:
    """The newest calibration stored for `scope`; None when there is none, or no database yet.

    An Issue when there is a database that cannot be read, for instance because a newer program has migrated it.
    """
    if not os.environ.get("WIDEPLAN_DATABASE_URL"):
        from platformdirs import user_data_path

        if not (user_data_path("wideplan") / "wideplan.db").exists():
            return None
    from planner.storage.errors import StoreError
    from planner.storage.store import open_store

    try:
        with open_store() as store:
            return store.calibrations.latest(scope)
    except StoreError as error:
        return error.issues[0]
