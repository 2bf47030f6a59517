"""A campaign as a file: ``campaign.json`` with every run's plan and load, schema ``wideplan.campaign/v1``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue, MissingDataError, PlannerError, did_you_mean
from planner.storage.codec import CONVERTER, decode

SCHEMA: Final = "wideplan.campaign/v1"
FILE: Final = "campaign.json"
RESULTS: Final = "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRun:
    """One benchmark: deploy `plan`, put its concurrency on it with `requests` requests, measure.

    `information`: what it adds to log det of the factors' information, given the runs before it. `gpu_hours`: estimate of
    GPUs x (start-up and load), which a budget is checked against.
    """

    id: str
    plan: DeploymentPlan
    requests: int
    seed: int
    information: float
    gpu_hours: float

    @property
    def served_name(self) -> str:
        """Model name the endpoint serves."""
        return self.plan.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Runs in the order in which they tell most."""

    name: str
    runs: tuple[CampaignRun, ...]
    notes: tuple[str, ...] = ()
    schema: str = SCHEMA

    @property
    def gpu_hours(self) -> float:
        """Estimate for all runs."""
        return sum(r.gpu_hours for r in self.runs)

    def run(self, run_id: str) -> CampaignRun:
        """The run called `run_id`; MissingDataError ``campaign.run_unknown`` with near names."""
        for r in self.runs:
            if r.id == run_id:
                return r
        raise MissingDataError(
            Issue(
                code="campaign.run_unknown",
                what=f"run '{run_id}'",
                why=f"campaign {self.name} has {len(self.runs)} runs",
                fix=did_you_mean(run_id, [r.id for r in self.runs]),
                where="--run",
            )
        )


def save_campaign(campaign: Campaign, folder: Path) -> Path:
    """Write ``campaign.json`` into `folder`, whole or not at all. InputError ``campaign.unwritable``."""
    path = folder / FILE
    text = json.dumps(CONVERTER.unstructure(campaign), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            Issue(
                code="campaign.unwritable",
                what=f"cannot write {path}",
                why=error.strerror or str(error),
                fix="name a folder you can write to",
                where="--out",
            )
        ) from error
    return path


def load_campaign(folder: Path) -> Campaign:
    """The campaign in `folder` (or a ``campaign.json``). MissingDataError ``campaign.missing``, InputError ``campaign.unreadable``."""
    path = folder / FILE if folder.is_dir() else folder
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MissingDataError(
            Issue(
                code="campaign.missing",
                what=f"cannot read {path}",
                why=error.strerror or str(error),
                fix="planner campaign design RECIPE --out FOLDER writes one",
            )
        ) from error
    try:
        campaign = decode(text, Campaign)
    except PlannerError as error:
        raise InputError(_unreadable(path, error.issues[0].why)) from error
    if campaign.schema != SCHEMA:
        raise InputError(_unreadable(path, f"its schema is '{campaign.schema}', this version reads {SCHEMA}"))
    return campaign


def _unreadable(path: Path, why: str) -> Issue:
    return Issue(
        code="campaign.unreadable",
        what=f"{path} is not a campaign",
        why=why,
        fix="write it again with planner campaign design",
    )
