"""Where pods may run: the node labels of the profile, and closeness of the pods of one group."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.export.environment import nvlink_multinode
from planner.export.layout import RoleLayout
from planner.export.objects import (
    Affinity,
    LabelSelector,
    MatchExpression,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from planner.export.options import RoleHardware
from planner.export.providers import ProviderOverlay

NVLINK_DOMAIN_LABEL = "nvidia.com/gpu.clique"
GROUP_KEY_LABEL = "leaderworkerset.sigs.k8s.io/group-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAffinityTerm(PodAffinityTerm):
    """Affinity among the pods of one group: `match_label_keys` compares with the incoming pod's own label."""

    match_label_keys: tuple[str, ...] = field(default=())


def node_selector(hardware: RoleHardware) -> dict[str, str]:
    """Labels of the node profile; the GPU's single product label when the profile names none; arm64 hosts marked."""
    labels = dict(hardware.node.node_labels)
    gpu = hardware.gpu.kubernetes
    if gpu.label_key not in labels and len(gpu.label_values) == 1 and not labels:
        labels[gpu.label_key] = gpu.label_values[0]
    if "arm64" in (hardware.node.host_arch, hardware.gpu.host_arch):
        labels["kubernetes.io/arch"] = "arm64"
    return labels


def affinity_for(
    layout: RoleLayout, hardware: RoleHardware, overlay: ProviderOverlay, *, name: str
) -> Affinity | None:
    """Node affinity for a GPU with several product names; pod affinity for groups of several pods."""
    gpu = hardware.gpu.kubernetes
    nodes = None
    if not hardware.node.node_labels and len(gpu.label_values) > 1:
        expression = MatchExpression(key=gpu.label_key, operator="In", values=gpu.label_values)
        nodes = NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(
                node_selector_terms=(NodeSelectorTerm(match_expressions=(expression,)),)
            )
        )
    pods = _pod_affinity(layout, hardware, overlay, name=name)
    return Affinity(node_affinity=nodes, pod_affinity=pods) if nodes or pods else None


def _pod_affinity(
    layout: RoleLayout, hardware: RoleHardware, overlay: ProviderOverlay, *, name: str
) -> PodAffinity | None:
    if layout.pods_per_group == 1:
        return None

    def term(key: str) -> GroupAffinityTerm:
        return GroupAffinityTerm(
            topology_key=key,
            label_selector=LabelSelector(
                match_labels={"llm-d.ai/guide": name, "llm-d.ai/role": role_label(layout)}
            ),
            match_label_keys=(GROUP_KEY_LABEL,),
        )

    required = overlay.require_topology
    if nvlink_multinode(layout, hardware):
        required = hardware.node.topology_key or NVLINK_DOMAIN_LABEL
    preferred = dict(overlay.prefer_topology)
    if not preferred and hardware.node.topology_key and hardware.node.topology_key != required:
        preferred = {hardware.node.topology_key: 1}
    if required is None and not preferred:
        return None
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=(term(required),) if required else (),
        preferred_during_scheduling_ignored_during_execution=tuple(
            WeightedPodAffinityTerm(weight=w, pod_affinity_term=term(k)) for k, w in preferred.items()
        ),
    )


def role_label(layout: RoleLayout) -> str:
    """Value of ``llm-d.ai/role``."""
    return "prefill-decode" if layout.role.value == "aggregated" else layout.role.value
