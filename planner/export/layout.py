"""How a role's engine groups become pods: sizes, ranks and ports.

    G = tp x dp                GPUs of one group
    g = GPUs per pod           largest divisor of G that fits a node, is a multiple of tp and holds at most 8 ranks
    N = G / g                  pods per group (LWS size)
    d = g / tp                 DP ranks per pod; start rank of pod w is w x d

One HTTP port per local rank: d ports from 8000 (from 8200 behind the routing sidecar), the supervisor on the port after
the eighth. The InferencePool takes at most 8 ports, hence d <= 8. A TP group wider than a node spans pods with d = 1/N.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.deployment import Parallelism, Role, RolePlan, Strategy
from planner.domain.errors import InputError, Issue

ROUTER_PORT = 8000  # first port the router talks to, on every pod
SIDECAR_ENGINE_PORT = 8200  # first engine port behind the routing sidecar
MAX_RANKS_PER_POD = 8  # InferencePool.spec.targetPorts holds at most 8 entries
RPC_PORT = 5555
MASTER_PORT = 29501
NIXL_PORT = 5600  # VLLM_NIXL_SIDE_CHANNEL_PORT; each engine adds its global DP rank
KV_EVENTS_PORT = 5557


class Balancing(StrEnum):
    """How a pod presents its DP ranks to the router."""

    SINGLE = "single"  # one engine in one pod
    MULTI_PORT = "multi-port"  # several ranks per pod under vLLM's supervisor
    EXTERNAL = "external"  # one rank per pod, several pods per group
    SPANNING = "spanning"  # one rank over several pods; only the leader serves


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLayout:
    """Pods of one role. Ports are those of every pod unless `balancing` is spanning."""

    role: Role
    groups: int
    pods_per_group: int
    gpus_per_pod: int
    parallelism: Parallelism
    balancing: Balancing
    sidecar: bool

    @property
    def ranks_per_pod(self) -> int:
        """DP ranks of one pod (1 when a rank spans pods)."""
        return max(1, self.gpus_per_pod // self.parallelism.tp)

    @property
    def pods(self) -> int:
        """Pods of the whole role."""
        return self.groups * self.pods_per_group

    @property
    def engine_port(self) -> int:
        """First port vLLM listens on."""
        return SIDECAR_ENGINE_PORT if self.sidecar else ROUTER_PORT

    @property
    def engine_ports(self) -> tuple[int, ...]:
        """Ports of vLLM, one per local rank."""
        return tuple(self.engine_port + i for i in range(self.ranks_per_pod))

    @property
    def router_ports(self) -> tuple[int, ...]:
        """Ports the router reaches, one per local rank."""
        return tuple(ROUTER_PORT + i for i in range(self.ranks_per_pod))

    @property
    def supervisor_port(self) -> int | None:
        """Port of the DP supervisor, outside the range of the ranks; None without a supervisor."""
        return self.engine_port + MAX_RANKS_PER_POD if self.balancing is Balancing.MULTI_PORT else None

    @property
    def endpoints(self) -> int:
        """(pod, port) pairs the router chooses from."""
        pods = self.groups if self.balancing is Balancing.SPANNING else self.pods
        return pods * self.ranks_per_pod

    def start_rank(self, pod: int) -> int:
        """First DP rank of pod number `pod` of a group."""
        return pod * self.ranks_per_pod if self.balancing is not Balancing.SPANNING else 0

    def nixl_ports(self, pod: int) -> tuple[int, ...]:
        """NIXL side-channel ports of pod number `pod` of a group: base + global DP rank."""
        return tuple(NIXL_PORT + self.start_rank(pod) + i for i in range(self.ranks_per_pod))


def lay_out(role: RolePlan, *, strategy: Strategy, gpus_per_node: int, moe: bool) -> RoleLayout:
    """Pods for `role` on nodes of `gpus_per_node` GPUs.

    Raises InputError: ``export.tp_across_pods`` when a DP group of ranks wider than a node is asked for,
    ``export.dense_dp`` when a dense model has DP ranks (vLLM refuses external balancing for it).
    """
    p = role.parallelism
    if p.dp > 1 and not moe:
        raise InputError(
            Issue(
                code="export.dense_dp",
                what=f"{role.role.value}: dp={p.dp} for a dense model",
                why="vLLM's external load balancing is for MoE models; dense DP ranks share nothing",
                fix=f"plan {role.groups * p.dp} groups of dp=1 instead",
            )
        )
    sidecar = strategy is Strategy.DISAGGREGATED and role.role is Role.DECODE
    if p.tp > gpus_per_node:
        return _span(role, gpus_per_node=gpus_per_node, sidecar=sidecar)
    per_pod = max(
        g
        for g in range(p.tp, min(p.gpus, gpus_per_node, p.tp * MAX_RANKS_PER_POD) + 1)
        if p.gpus % g == 0 and g % p.tp == 0
    )
    pods = p.gpus // per_pod
    if per_pod > p.tp:
        balancing = Balancing.MULTI_PORT
    else:
        balancing = Balancing.SINGLE if pods == 1 else Balancing.EXTERNAL
    return RoleLayout(
        role=role.role,
        groups=role.groups,
        pods_per_group=pods,
        gpus_per_pod=per_pod,
        parallelism=p,
        balancing=balancing,
        sidecar=sidecar,
    )


def _span(role: RolePlan, *, gpus_per_node: int, sidecar: bool) -> RoleLayout:
    p = role.parallelism
    if p.dp > 1:
        raise InputError(
            Issue(
                code="export.tp_across_pods",
                what=f"{role.role.value}: tp={p.tp} with dp={p.dp} on nodes of {gpus_per_node} GPUs",
                why="a DP rank that spans pods serves on its first pod only, and a pool cannot select those pods",
                fix=f"use tp <= {gpus_per_node}, or dp=1 with more groups",
            )
        )
    per_pod = max(g for g in range(1, gpus_per_node + 1) if p.tp % g == 0)
    return RoleLayout(
        role=role.role,
        groups=role.groups,
        pods_per_group=p.tp // per_pod,
        gpus_per_pod=per_pod,
        parallelism=p,
        balancing=Balancing.SPANNING,
        sidecar=sidecar,
    )
