"""Rules on a whole plan: which roles it has, its GPUs and its context length."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import DeploymentPlan, Role, Strategy
from planner.domain.legality.facts import ModelFacts
from planner.domain.legality.rule import Message, Rule, always


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCase:
    """A plan and its model."""

    facts: ModelFacts
    plan: DeploymentPlan


def _roles(c: PlanCase) -> bool:
    roles = {r.role for r in c.plan.roles}
    if c.plan.strategy is Strategy.AGGREGATED:
        return roles == {Role.AGGREGATED}
    return roles == {Role.PREFILL, Role.DECODE}


def _roles_message(c: PlanCase) -> Message:
    names = ", ".join(r.role for r in c.plan.roles) or "no roles"
    wanted = "aggregated roles" if c.plan.strategy is Strategy.AGGREGATED else "a prefill and a decode role"
    return Message(
        f"a plan with {names}, strategy {c.plan.strategy}",
        f"the strategy needs {wanted} and no other",
        "change the strategy or the roles",
    )


def _gpus(c: PlanCase) -> bool:
    return c.plan.gpus_used <= c.plan.gpus_owned


def _gpus_message(c: PlanCase) -> Message:
    return Message(
        f"{c.plan.gpus_used} GPUs used, {c.plan.gpus_owned} owned",
        "a plan uses no more GPUs than there are",
        "use fewer or smaller groups, or more GPUs",
    )


def _context(c: PlanCase) -> bool:
    return c.plan.workload.context_at_end <= c.plan.max_model_len <= c.facts.max_position


def _context_message(c: PlanCase) -> Message:
    w = c.plan.workload
    return Message(
        f"max_model_len {c.plan.max_model_len} for {w.isl} + {w.osl} tokens, model maximum {c.facts.max_position}",
        "it must hold a whole request and stay within what the model was trained for",
        f"use {w.context_at_end} to {c.facts.max_position}"
        if w.context_at_end <= c.facts.max_position
        else "use shorter prompts or outputs, or a model with a longer context",
    )


PLAN_RULES: tuple[Rule[PlanCase], ...] = (
    Rule(
        code="plan.roles",
        title="The strategy names the roles",
        applies=always,
        check=_roles,
        message=_roles_message,
    ),
    Rule(code="plan.gpus", title="GPUs used are owned", applies=always, check=_gpus, message=_gpus_message),
    Rule(
        code="plan.context",
        title="Requests fit the context length",
        applies=always,
        check=_context,
        message=_context_message,
    ),
)
