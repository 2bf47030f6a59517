"""Searches and what they tried: the records a study keeps, whatever sampler or simulator produced them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

Scalar = str | int | float | bool | None


class StudyLevel(StrEnum):
    """Fidelity of the trials of a study; each level is a study of its own."""

    ANALYTIC = "analytic"
    SIMULATED = "simulated"
    MEASURED = "measured"


class SamplerName(StrEnum):
    """Ways to choose the next point of a study."""

    CANDIDATES = (
        "candidates"  # expected hypervolume over the enumerated legal set, under the re-calibrated model
    )
    TPE = "tpe"
    NSGA2 = "nsga2"
    NSGA3 = "nsga3"
    GP = "gp"
    RANDOM = "random"


class Objective(StrEnum):
    """What a study optimises; the cost falls as throughput rises, so it never changes which points are best."""

    RATE = "output_tok_s_per_gpu"
    USER = "tok_s_user"
    COST = "usd_per_m_output_tokens"

    @property
    def maximise(self) -> bool:
        """Direction."""
        return self is not Objective.COST


class StudyState(StrEnum):
    """Where a study stands; an interrupted one can be resumed."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class TrialState(StrEnum):
    """Where a trial stands. Infeasible trials are complete, with a positive constraint."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        """Whether the trial has an outcome."""
        return self is not TrialState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyObjective:
    """One axis of the search; the unit is part of the name, e.g. ``output_tok_s_per_gpu``."""

    name: str
    maximise: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A search over one problem. `settings` are the sampler's and the fidelity ladder's own, as text and numbers."""

    name: str
    problem_hash: str
    level: StudyLevel
    sampler: str
    seed: int
    objectives: tuple[StudyObjective, ...]
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    parent: str | None = None  # the study of the level below that this one follows
    state: StudyState = StudyState.RUNNING
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What evaluating one point gave. A constraint is met when its value is <= 0."""

    state: TrialState
    values: tuple[float, ...] = ()
    constraints: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, Scalar] = field(default_factory=dict)
    plan_hash: str | None = None
    evaluation_hash: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluated point of a study. `spec_hash` identifies the evaluated specification inside the study."""

    study: str
    number: int
    spec_hash: str
    parameters: Mapping[str, Scalar]
    outcome: TrialOutcome
    created_at: datetime
    finished_at: datetime | None = None

    @property
    def state(self) -> TrialState:
        """Where the trial stands."""
        return self.outcome.state

    @property
    def feasible(self) -> bool:
        """Whether the trial is complete and every constraint is met."""
        return self.state is TrialState.COMPLETE and all(v <= 0.0 for v in self.outcome.constraints.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """A study with the number of its trials by state."""

    study: Study
    trials: Mapping[TrialState, int]

    @property
    def finished(self) -> int:
        """Trials that have an outcome."""
        return sum(n for s, n in self.trials.items() if s.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """Manifests that were written for a plan: which files, for which target, with which content."""

    plan_hash: str
    target: str
    directory: str
    files: Mapping[str, str]  # path inside the directory -> sha256
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action that changed something, in this store or in a cluster."""

    actor: str
    action: str
    subject: str
    detail: Mapping[str, Scalar] = field(default_factory=dict)
    at: datetime | None = None
