"""Whether a plan can be deployed as it is: roles, profiles, and what prefill and decode must share."""

from __future__ import annotations

from collections.abc import Mapping

from planner.domain.deployment import DeploymentPlan, Role, Strategy
from planner.domain.errors import InputError, Issue
from planner.domain.model import ModelSpec
from planner.export.options import RoleHardware


def check_plan(plan: DeploymentPlan, model: ModelSpec, hardware: Mapping[Role, RoleHardware]) -> None:
    """Raise InputError with every ``export.*`` issue of `plan` against its model and profiles."""
    issues: list[Issue] = []
    roles = [r.role for r in plan.roles]
    wanted = {
        Strategy.AGGREGATED: [Role.AGGREGATED],
        Strategy.DISAGGREGATED: [Role.PREFILL, Role.DECODE],
    }[plan.strategy]
    if sorted(roles) != sorted(wanted):
        issues.append(
            Issue(
                code="export.roles",
                what=f"a {plan.strategy.value} plan with roles {', '.join(r.value for r in roles) or 'none'}",
                why=f"exactly these roles make one deployment: {', '.join(r.value for r in wanted)}",
                fix="export one deployment per plan",
            )
        )
    if plan.engine != "vllm" and not plan.engine.startswith("vllm"):
        issues.append(
            Issue(
                code="export.engine",
                what=f"plan for engine '{plan.engine}'",
                why="manifests are written for vLLM only; other engines can be priced",
                fix="plan with a vLLM engine profile",
            )
        )
    if model.id != plan.model and plan.model not in model.aliases:
        issues.append(
            Issue(
                code="export.model_mismatch",
                what=f"plan for '{plan.model}' with the model '{model.id}'",
                why="names, sizes and flags come from the model",
                fix=f"pass the model '{plan.model}'",
            )
        )
    for r in plan.roles:
        known = hardware.get(r.role)
        if known is None or known.gpu.id != r.gpu or known.node.id != r.node:
            have = f"gpu '{known.gpu.id}', node '{known.node.id}'" if known else "nothing"
            issues.append(
                Issue(
                    code="export.hardware_mismatch",
                    what=f"{r.role.value}: plan names gpu '{r.gpu}' on node '{r.node}', given {have}",
                    why="resources, labels and sizes come from the profiles the plan was made with",
                    fix="load the profiles the plan names",
                )
            )
        elif known.node.gpu != r.gpu:
            issues.append(
                Issue(
                    code="export.plan_outgrew_profile",
                    what=f"{r.role.value}: node '{r.node}' now holds gpu '{known.node.gpu}', the plan wants '{r.gpu}'",
                    why="the profile changed since the plan was made",
                    fix="plan again with today's profiles",
                )
            )
    if plan.strategy is Strategy.DISAGGREGATED and not issues:
        issues += _check_pair(plan, model)
        vendors = {hardware[r.role].gpu.vendor.value for r in plan.roles}
        if len(vendors) > 1:
            issues.append(
                Issue(
                    code="export.pair_vendor",
                    what=f"prefill and decode on GPUs of {' and '.join(sorted(vendors))}",
                    why="both roles must run one engine image",
                    fix="plan both roles on GPUs of one vendor",
                )
            )
    if plan.gpus_used > plan.gpus_owned:
        issues.append(
            Issue(
                code="export.gpus",
                what=f"{plan.gpus_used} GPUs used, {plan.gpus_owned} owned",
                why="the last pods would stay Pending",
                fix="plan again for the GPUs there are",
            )
        )
    if issues:
        raise InputError(*issues)


def _check_pair(plan: DeploymentPlan, model: ModelSpec) -> list[Issue]:
    """What NIXL compares between prefill and decode at handshake, or asserts at the first transfer."""
    prefill = next(r for r in plan.roles if r.role is Role.PREFILL)
    decode = next(r for r in plan.roles if r.role is Role.DECODE)
    issues: list[Issue] = []

    def add(code: str, what: str, why: str, fix: str) -> None:
        issues.append(Issue(code=f"export.{code}", what=what, why=why, fix=fix))

    if prefill.kv_dtype is not decode.kv_dtype:
        add(
            "pair_kv_dtype",
            f"prefill KV {prefill.kv_dtype.value}, decode KV {decode.kv_dtype.value}",
            "the KV cache crosses as bytes; the NIXL handshake compares its type",
            "use one KV dtype on both roles",
        )
    small, large = sorted((prefill.parallelism.tp, decode.parallelism.tp))
    if large % small:
        add(
            "pair_tp",
            f"prefill tp{prefill.parallelism.tp}, decode tp{decode.parallelism.tp}",
            "NIXL maps ranks by an integer ratio",
            "make one TP size a multiple of the other",
        )
    elif prefill.parallelism.tp > decode.parallelism.tp and not model.is_mla and not model.is_hybrid:
        add(
            "pair_tp",
            f"prefill tp{prefill.parallelism.tp} > decode tp{decode.parallelism.tp}",
            "with replicated KV heads the decode side fails at the first transfer (vllm#43523)",
            "use decode TP >= prefill TP",
        )
    if model.is_hybrid and (small != large or prefill.block_size != decode.block_size):
        add(
            "pair_hybrid",
            f"hybrid model with tp {prefill.parallelism.tp}/{decode.parallelism.tp} and block sizes "
            f"{prefill.block_size}/{decode.block_size}",
            "page alignment of recurrent layers depends on TP and block size (vllm#42895)",
            "same TP and same block size on both roles",
        )
    elif prefill.block_size > decode.block_size:
        add(
            "pair_block_size",
            f"prefill block size {prefill.block_size} > decode {decode.block_size}",
            "NIXL splits decode blocks into prefill blocks, never the other way",
            "use equal block sizes",
        )
    if (prefill.speculation is None) != (decode.speculation is None):
        add(
            "pair_speculation",
            "speculation on one role only",
            "the drafter is part of the handshake: the method must match on both roles",
            "switch speculation on or off for both",
        )
    return issues
