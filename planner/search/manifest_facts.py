"""What manifests need of the catalogue: a plan's model and hardware, and names looked up for linter and importer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planner.catalog.hardware import list_nodes, load_fabric, load_gpu, load_node, with_fabric
from planner.catalog.models import load_model
from planner.domain.deployment import DeploymentPlan, Role
from planner.domain.errors import PlannerError
from planner.domain.hardware import NodeShape
from planner.domain.model import ModelSpec
from planner.export.options import RoleHardware


class CatalogueFacts:
    """Looks names up once; an unknown name is None, never an error."""

    def __init__(self, *, profiles: Path | None = None) -> None:
        self._profiles = profiles
        self._models: dict[str, ModelSpec | None] = {}
        self._nodes: list[NodeShape] | None = None

    def model(self, name: str) -> ModelSpec | None:
        """The model called `name`, when the catalogue or the local hub cache has it."""
        if name not in self._models:
            try:
                self._models[name] = load_model(name, overlay=self._profiles)
            except PlannerError:
                self._models[name] = None
        return self._models[name]

    def node(self, labels: Mapping[str, str]) -> NodeShape | None:
        """The node shape whose labels the selector names; generic shapes before those of a cloud."""
        if self._nodes is None:
            names = sorted(
                list_nodes(overlay=self._profiles), key=lambda n: (not n.startswith("generic-"), n)
            )
            self._nodes = [load_node(n, overlay=self._profiles) for n in names]
        wanted = {k: v for k, v in labels.items() if k != "kubernetes.io/arch"}
        for node in self._nodes:
            if node.node_labels and node.node_labels.items() <= wanted.items():
                return node
        return None


def load_facts(
    plan: DeploymentPlan, *, profiles: Path | None = None
) -> tuple[ModelSpec, dict[Role, RoleHardware]]:
    """The model and the profiles that `plan` names. Raises PlannerError for names that are unknown here."""
    fabric = load_fabric(plan.fabric, overlay=profiles)
    hardware = {}
    for role in plan.roles:
        node = load_node(role.node, overlay=profiles)
        shape = node if node.fabric == fabric.id else with_fabric(node, fabric)
        hardware[role.role] = RoleHardware(
            gpu=load_gpu(role.gpu, overlay=profiles), node=shape, fabric=fabric
        )
    return load_model(plan.model, overlay=profiles), hardware
