"""The subject of role rules: a role with the numbers rules ask for, worked out once."""

from __future__ import annotations

from planner.domain.deployment import RolePlan
from planner.domain.engine import EngineProfile
from planner.domain.hardware import Pool
from planner.domain.legality.facts import ModelFacts, model_facts
from planner.domain.model import ModelSpec, MoeMlp


class RoleCase:
    """A role of a plan on a pool. Plain attributes: thousands of these are made per search.

    `group_gpus`: GPUs of one engine group; `node_gpus`: of one node; `domain_gpus`: that reach each other without the
    scale-out fabric, at least one node. `pod_gpus`: of one pod, which is one node or the whole group if smaller.
    `exchanges`: the all-to-all backend is used (EP on and DP > 1). `scattered`: sequence-parallel MoE.
    """

    __slots__ = (
        "dcp",
        "domain_gpus",
        "dp",
        "engine",
        "ep",
        "ep_on",
        "exchanges",
        "facts",
        "group_gpus",
        "moe",
        "moe_tp",
        "node_gpus",
        "pod_gpus",
        "pool",
        "redundant",
        "role",
        "scattered",
        "tp",
    )

    def __init__(self, model: ModelSpec, role: RolePlan, pool: Pool, engine: EngineProfile) -> None:
        p = role.parallelism
        self.facts: ModelFacts = model_facts(model)
        self.role = role
        self.pool = pool
        self.engine = engine
        self.tp: int = p.tp
        self.dp: int = p.dp
        self.dcp: int = p.dcp
        self.ep_on: bool = p.expert_parallel
        self.group_gpus: int = p.tp * p.dp
        self.ep: int = self.group_gpus if self.ep_on else 1
        self.moe_tp: int = 1 if self.ep_on else self.group_gpus
        self.moe: MoeMlp | None = self.facts.moe
        self.redundant: int = role.eplb.redundant_experts if role.eplb is not None else 0
        self.node_gpus: int = pool.gpus_per_node
        self.domain_gpus: int = max(pool.scale_up_gpus, self.node_gpus)
        self.pod_gpus: int = min(self.group_gpus, self.node_gpus)
        self.exchanges: bool = self.ep_on and p.dp > 1
        self.scattered: bool = self.exchanges and p.tp > 1

    @property
    def leaves_domain(self) -> bool:
        """Whether the group needs the scale-out fabric."""
        return self.group_gpus > self.domain_gpus

    @property
    def label(self) -> str:
        """Role and widths, for messages."""
        return f"{self.role.role} {self.role.label()}"
