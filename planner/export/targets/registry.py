"""The one list of targets."""

from __future__ import annotations

from collections.abc import Mapping

from planner.domain.deployment import DeploymentPlan, Role
from planner.domain.model import ModelSpec
from planner.export.options import ExportOptions, RoleHardware, Target
from planner.export.render import prepare
from planner.export.targets import compose, dynamo, helm_values, kserve, kustomize, llm_d
from planner.export.targets.base import Export, TargetWriter

TARGETS: Mapping[Target, TargetWriter] = {
    Target.LLM_D: llm_d.write,
    Target.KUSTOMIZE: kustomize.write,
    Target.HELM_VALUES: helm_values.write,
    Target.COMPOSE: compose.write,
    Target.KSERVE: kserve.write,
    Target.DYNAMO: dynamo.write,
}


def export_plan(
    plan: DeploymentPlan,
    *,
    model: ModelSpec,
    hardware: Mapping[Role, RoleHardware],
    options: ExportOptions,
) -> Export:
    """Write `plan` for ``options.target``. Raises InputError with ``export.*`` codes."""
    return TARGETS[options.target](prepare(plan, model=model, hardware=hardware, options=options))
