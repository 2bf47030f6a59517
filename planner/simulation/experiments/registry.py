"""All experiments by name. A new one is a function and a line in its module's `EXPERIMENTS`."""

from __future__ import annotations

from planner.domain.errors import InputError, Issue, did_you_mean
from planner.simulation.experiments import lockstep, routing, serving, widths
from planner.simulation.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in sorted(
        (*serving.EXPERIMENTS, *routing.EXPERIMENTS, *lockstep.EXPERIMENTS, *widths.EXPERIMENTS),
        key=lambda e: (e.law, e.name),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment called `name`. Raises `InputError`."""
    if name not in EXPERIMENTS:
        raise InputError(
            Issue(
                code="experiment.unknown",
                what=f"'{name}' is not an experiment",
                why="experiments are named after the law they check",
                fix=did_you_mean(name, EXPERIMENTS),
            )
        )
    return EXPERIMENTS[name]
