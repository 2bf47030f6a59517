"""One evaluation as a value: what to evaluate, and what came out. Versioned JSON, identified by content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue
from planner.domain.study import Scalar, StudyLevel
from planner.search.studies.evaluate import Fidelity, Observation
from planner.storage.codec import decode, encode
from planner.storage.plans import evaluation_spec_hash

SPEC_SCHEMA: Final = "wideplan.evaluation-spec/v1"
RESULT_SCHEMA: Final = "wideplan.evaluation-result/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSpec:
    """Evaluate `plan` of the problem with `problem_hash`. `version`: of the model or simulator asked for."""

    problem_hash: str
    plan: DeploymentPlan
    level: StudyLevel
    version: str
    fidelity: Fidelity
    seed: int
    schema: str = SPEC_SCHEMA

    @property
    def hash(self) -> str:
        """Identity of the result; the plan's name and the study do not matter."""
        settings: dict[str, Scalar] = {**self.fidelity.settings(), "seed": self.seed}
        return evaluation_spec_hash(
            self.plan, level=self.level, model_version=self.version, settings=settings
        )

    def to_json(self) -> str:
        """One line of canonical JSON."""
        return encode(self)

    @staticmethod
    def from_json(text: str) -> EvalSpec:
        """The spec of a line. InputError ``spec.schema`` for another version."""
        spec = decode(text, EvalSpec)
        _require(spec.schema, SPEC_SCHEMA)
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What evaluating the spec with `spec_hash` gave."""

    spec_hash: str
    observation: Observation
    schema: str = RESULT_SCHEMA

    def to_json(self) -> str:
        """One line of canonical JSON; figures that are not there are left out."""
        o = self.observation
        if o.usable:
            return encode(self)
        return encode(
            EvalResult(
                spec_hash=self.spec_hash,
                observation=Observation(
                    output_tok_s_per_gpu=0.0, tpot_ms=0.0, ttft_ms=0.0, error=o.error or "no figures"
                ),
            )
        )

    @staticmethod
    def from_json(text: str) -> EvalResult:
        """The result of a line. InputError ``spec.schema`` for another version."""
        result = decode(text, EvalResult)
        _require(result.schema, RESULT_SCHEMA)
        return result


def _require(found: str, wanted: str) -> None:
    if found != wanted:
        raise InputError(
            Issue(
                code="spec.schema",
                what=f"a document of schema '{found}'",
                why=f"this version reads {wanted}",
                fix="write the shards again with this version",
            )
        )
