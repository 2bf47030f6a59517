"""Predictions beside measurements as one JSON document: ``python -m console.api.accuracy_process FILE.csv|--stored``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from planner.domain.errors import PlannerError


def main(what: str) -> None:
    """Predict every point of a CSV file, or every stored measurement, and score the answers."""
    from planner.cli.output import print_error

    try:
        document = _document(what)
    except PlannerError as error:
        print_error(error)
        sys.exit(int(error.exit_code))
    json.dump(document, sys.stdout, allow_nan=False)


def _document(what: str) -> dict[str, Any]:
    from planner.cli.validate import document
    from planner.measurements.points import PointsFile, read_points
    from planner.measurements.predictions import predict_points
    from planner.measurements.validation import validate

    if what == "--stored":
        from planner.measurements.model_predictor import point_of
        from planner.storage.store import open_store

        path = Path("stored measurements")
        with open_store() as store:
            rows = tuple(point_of(s.measurement) for s in store.measurements.list())
        file = PointsFile(path=path, rows=rows)
    else:
        path = Path(what)
        file = read_points(path)
    answers = predict_points(file)
    return {**document(validate(answers), path), "pairs": _pairs(answers)}


def _pairs(answers: Any) -> list[dict[str, Any]]:
    from planner.measurements.predictions import PointPrediction

    found = []
    for a in answers:
        if not isinstance(a, PointPrediction) or not a.point.scored:
            continue
        c = a.point.config
        label = f"{a.id}: {c.model} on {c.gpu}, {c.dialect} {c.mode.value}, {c.isl}/{c.osl}, load {a.point.load or 0:g}"
        for metric, measured in a.point.measured.items():
            e = a.values.get(metric)
            if e is not None and measured > 0.0 and e.value > 0.0:
                found.append(
                    {"metric": metric.value, "engine": c.dialect, "label": label, "measured": measured,
                     "predicted": e.value, "low": e.low, "high": e.high}
                )  # fmt: skip
    return found


if __name__ == "__main__":
    main(sys.argv[1])
