"""``lint --against PLAN``: where a deployment differs from a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from planner.domain.deployment import DeploymentPlan, RolePlan


@dataclass(frozen=True, slots=True)
class Difference:
    """One field: what the plan says and what runs."""

    where: str
    planned: str
    running: str


# Set by the planner or by traffic, not by a deployment.
_NOT_DEPLOYED = frozenset({"concurrency", "gpu", "node"})


def differences(planned: DeploymentPlan, running: DeploymentPlan) -> tuple[Difference, ...]:
    """Differences in what is deployed: model, roles, widths, limits, router."""
    out: list[Difference] = []
    for name in ("model", "strategy", "max_model_len"):
        left, right = getattr(planned, name), getattr(running, name)
        if left != right:
            out.append(Difference(name, str(left), str(right)))
    for role in planned.roles:
        other = running.role(role.role)
        if other is None:
            out.append(Difference(role.role.value, role.label(), "absent"))
        else:
            out += _role(role, other)
    out += [
        Difference(r.role.value, "absent", r.label()) for r in running.roles if planned.role(r.role) is None
    ]
    if planned.router != running.router:
        out.append(Difference("router", _policy(planned), _policy(running)))
    return tuple(out)


def _role(left: RolePlan, right: RolePlan) -> Iterator[Difference]:
    for field in fields(RolePlan):
        if field.name in _NOT_DEPLOYED or field.name == "speculation":
            continue
        a, b = getattr(left, field.name), getattr(right, field.name)
        if a != b:
            shown = [x.label() if field.name == "parallelism" else str(x) for x in (a, b)]
            yield Difference(f"{left.role.value}.{field.name}", *shown)
    drafts = [r.speculation.draft_tokens if r.speculation else 0 for r in (left, right)]
    if drafts[0] != drafts[1]:
        yield Difference(f"{left.role.value}.draft_tokens", str(drafts[0]), str(drafts[1]))


def _policy(plan: DeploymentPlan) -> str:
    def shown(scorers: object) -> str:
        return ", ".join(f"{s.type} {s.weight:g}" for s in scorers) or "guide default"  # type: ignore[attr-defined]

    r = plan.router
    return (
        f"{r.kind.value}; prefill {shown(r.prefill_scorers)}; decode {shown(r.decode_scorers)}; {r.decider}"
    )
