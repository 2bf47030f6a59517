"""Which deployments the engine, the exporter and the hardware accept, as named rules with worded reasons.

Rules follow vLLM 0.33 and llm-d. KV heads below TP are legal (they are copied); a hidden size is not checked against
TP because no linear layer shards it. The moonep backend is left out: it cannot be planned with.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.domain.deployment import DeploymentPlan, Role, RolePlan, Strategy
from planner.domain.engine import EngineProfile
from planner.domain.hardware import Pool
from planner.domain.legality.case import RoleCase
from planner.domain.legality.exchange import EXCHANGE_RULES
from planner.domain.legality.experts import EXPERT_RULES
from planner.domain.legality.facts import model_facts
from planner.domain.legality.hardware import HARDWARE_RULES, WeightSupport, weight_support
from planner.domain.legality.pair import PAIR_RULES, PairCase, ranks_per_pod
from planner.domain.legality.plan import PLAN_RULES, PlanCase
from planner.domain.legality.rule import Message, Rule, Violation, codes_of, violations_of
from planner.domain.legality.widths import WIDTH_RULES
from planner.domain.model import ModelSpec

ROLE_RULES: tuple[Rule[RoleCase], ...] = WIDTH_RULES + EXPERT_RULES + EXCHANGE_RULES + HARDWARE_RULES
# Other rules divide by widths and read limits, so they are asked only when these hold.
_SOUND = tuple(r for r in ROLE_RULES if r.code in ("width.positive", "batch.limits"))
_REST = tuple(r for r in ROLE_RULES if r not in _SOUND)
_TITLES = {r.code: r.title for rules in (ROLE_RULES, PAIR_RULES, PLAN_RULES) for r in rules}


def check_role(model: ModelSpec, role: RolePlan, pool: Pool, engine: EngineProfile) -> tuple[Violation, ...]:
    """Return what is illegal about one role on its pool; empty when nothing is."""
    case = RoleCase(model, role, pool, engine)
    return violations_of(_SOUND, case) or violations_of(_REST, case)


def role_codes(model: ModelSpec, role: RolePlan, pool: Pool, engine: EngineProfile) -> tuple[str, ...]:
    """Codes of the rules `check_role` would report, without wording them; for counting exclusions."""
    case = RoleCase(model, role, pool, engine)
    return codes_of(_SOUND, case) or codes_of(_REST, case)


def check_pair(
    model: ModelSpec, prefill: RolePlan, decode: RolePlan, *, prefill_pool: Pool, decode_pool: Pool
) -> tuple[Violation, ...]:
    """Return what is illegal about handing KV from `prefill` to `decode`. Both roles must be legal themselves."""
    return violations_of(PAIR_RULES, _pair(model, prefill, decode, prefill_pool, decode_pool))


def pair_codes(
    model: ModelSpec, prefill: RolePlan, decode: RolePlan, *, prefill_pool: Pool, decode_pool: Pool
) -> tuple[str, ...]:
    """Codes of the rules `check_pair` would report."""
    return codes_of(PAIR_RULES, _pair(model, prefill, decode, prefill_pool, decode_pool))


def check_plan(
    model: ModelSpec, plan: DeploymentPlan, pools: Mapping[Role, Pool], engine: EngineProfile
) -> tuple[Violation, ...]:
    """Return what is illegal about a plan: its roles, their pairing and the whole. `pools`: one per role used."""
    found = list(violations_of(PLAN_RULES, PlanCase(facts=model_facts(model), plan=plan)))
    roles = [v for role in plan.roles for v in check_role(model, role, pools[role.role], engine)]
    found += roles
    prefill, decode = plan.role(Role.PREFILL), plan.role(Role.DECODE)
    if plan.strategy is Strategy.DISAGGREGATED and prefill and decode and not roles:
        found += check_pair(
            model,
            prefill,
            decode,
            prefill_pool=pools[Role.PREFILL],
            decode_pool=pools[Role.DECODE],
        )
    return tuple(found)


def rule_title(code: str) -> str:
    """What the rule with `code` demands; for tables of exclusions. Raises KeyError for an unknown code."""
    return _TITLES[code]


def _pair(
    model: ModelSpec, prefill: RolePlan, decode: RolePlan, prefill_pool: Pool, decode_pool: Pool
) -> PairCase:
    return PairCase(
        facts=model_facts(model),
        prefill=prefill,
        decode=decode,
        prefill_pool=prefill_pool,
        decode_pool=decode_pool,
    )


__all__ = [
    "PAIR_RULES",
    "PLAN_RULES",
    "ROLE_RULES",
    "Message",
    "PairCase",
    "PlanCase",
    "RoleCase",
    "Rule",
    "Violation",
    "WeightSupport",
    "check_pair",
    "check_plan",
    "check_role",
    "pair_codes",
    "ranks_per_pod",
    "role_codes",
    "rule_title",
    "weight_support",
]
