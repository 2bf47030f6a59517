"""Rules between roles and on whole plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.domain.deployment import (
    DeploymentPlan,
    Role,
    RolePlan,
    RouterPolicy,
    Speculation,
    Strategy,
)
from planner.domain.dtypes import KvDtype
from planner.domain.hardware import FabricKind, Vendor
from planner.domain.legality import (
    PAIR_RULES,
    PLAN_RULES,
    check_pair,
    check_plan,
    pair_codes,
    ranks_per_pod,
)
from planner.domain.workload import SloTargets, Workload
from tests.memory import specs

R1 = specs.deepseek_r1()
QWEN = specs.qwen3_235b()
HYBRID = specs.qwen36_35b()
POOL = specs.pool()
DRAFT = Speculation(draft_tokens=1, acceptance=0.8)


def prefill(**changes: object) -> RolePlan:
    return specs.role(**{"kind": Role.PREFILL, "dp": 8, "ep": True, **changes})  # type: ignore[arg-type]


def decode(**changes: object) -> RolePlan:
    return specs.role(**{"kind": Role.DECODE, "dp": 16, "ep": True, **changes})  # type: ignore[arg-type]


AMD = specs.pool(card=specs.gpu("mi300x", vendor=Vendor.AMD, architecture="gfx942"))
NO_NET = specs.pool(net=specs.fabric(FabricKind.NONE, rdma=False, ibgda=False))

# code, model, prefill, decode, prefill pool, decode pool, words
PAIRS = [
    ("pair.tp-ratio", QWEN, prefill(tp=2, dp=4), decode(tp=3, dp=2), POOL, POOL, ("TP 2", "TP 3")),
    ("pair.prefill-tp", QWEN, prefill(tp=4, dp=2), decode(tp=2, dp=4), POOL, POOL, ("TP 4", "TP 2")),
    ("pair.ranks", R1, prefill(dp=4), decode(dp=16), POOL, POOL, ("4 DP ranks", "8")),
    ("pair.kv-dtype", R1, prefill(kv=KvDtype.BF16), decode(), POOL, POOL, ("bf16", "fp8")),
    ("pair.block-size", R1, prefill(block_size=128), decode(block_size=64), POOL, POOL, ("128", "64")),
    ("pair.speculation", R1, prefill(), decode(speculation=DRAFT), POOL, POOL, ("decode",)),
    ("pair.vendor", R1, prefill(), decode(), AMD, POOL, ("mi300x", "h200-sxm")),
    ("pair.fabric", R1, prefill(), decode(dp=8), NO_NET, NO_NET, ("8 prefill", "8 decode")),
]


@pytest.mark.parametrize("row", PAIRS, ids=[p[0] for p in PAIRS])
def test_pair_rule_refuses_with_numbers(row: tuple) -> None:
    code, model, p, d, p_pool, d_pool, words = row
    found = {v.code: v for v in check_pair(model, p, d, prefill_pool=p_pool, decode_pool=d_pool)}
    assert code in found
    text = f"{found[code].what} {found[code].why} {found[code].fix}"
    for word in words:
        assert word in text


def test_every_pair_rule_has_a_case() -> None:
    assert {r.code for r in PAIR_RULES} == {p[0] for p in PAIRS}


@pytest.mark.parametrize(
    ("model", "p", "d"),
    [
        (R1, prefill(), decode()),
        (QWEN, prefill(tp=2, dp=4), decode(tp=2, dp=8)),
        (R1, prefill(block_size=32), decode(block_size=64)),
        (R1, prefill(speculation=DRAFT), decode(speculation=replace(DRAFT, draft_tokens=3))),
        # One latent copy per rank, so a wide prefill can feed narrow decode ranks (4 GPUs per pod each).
        (R1, prefill(tp=4, dp=1, ep=False), decode(tp=8, dp=1, ep=False)),
        (R1, prefill(tp=8, dp=1, ep=False), decode(tp=4, dp=1, ep=False)),
    ],
)
def test_legal_pairs(model, p: RolePlan, d: RolePlan) -> None:
    assert pair_codes(model, p, d, prefill_pool=POOL, decode_pool=POOL) == ()


def test_hybrid_blocks_must_be_equal() -> None:
    p, d = prefill(tp=8, dp=1, block_size=32), decode(tp=8, dp=1)
    assert pair_codes(HYBRID, p, d, prefill_pool=POOL, decode_pool=POOL) == ("pair.block-size",)


def test_ranks_per_pod_follow_the_node() -> None:
    assert ranks_per_pod(decode(), POOL) == 8
    assert ranks_per_pod(decode(tp=4, dp=4), POOL) == 2
    assert ranks_per_pod(prefill(tp=2, dp=1), POOL) == 1


def plan(*roles: RolePlan, **changes: object) -> DeploymentPlan:
    base = DeploymentPlan(
        name="p",
        model=R1.id,
        strategy=Strategy.DISAGGREGATED,
        roles=roles,
        router=RouterPolicy(),
        engine="vllm",
        engine_version="0.33.0",
        fabric="ib",
        workload=Workload(isl=10000, osl=2000),
        slo=SloTargets(),
        concurrency=64,
        gpus_owned=64,
        max_model_len=16384,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


POOLS = {Role.PREFILL: POOL, Role.DECODE: POOL, Role.AGGREGATED: POOL}


def test_a_sound_plan_is_legal() -> None:
    assert check_plan(R1, plan(prefill(groups=2), decode()), POOLS, specs.engine()) == ()
    single = plan(specs.role(tp=8), strategy=Strategy.AGGREGATED)
    assert check_plan(R1, single, POOLS, specs.engine()) == ()


PLANS = [
    ("plan.roles", plan(prefill()), ("prefill", "decode")),
    ("plan.gpus", plan(prefill(groups=2), decode(), gpus_owned=24), ("32", "24")),
    ("plan.context", plan(prefill(), decode(), max_model_len=8192), ("8192", "12000", "163840")),
]


@pytest.mark.parametrize("row", PLANS, ids=[p[0] for p in PLANS])
def test_plan_rule_refuses_with_numbers(row: tuple) -> None:
    code, subject, words = row
    found = {v.code: v for v in check_plan(R1, subject, POOLS, specs.engine())}
    assert set(found) == {code}
    text = f"{found[code].what} {found[code].why} {found[code].fix}"
    for word in words:
        assert word in text


def test_every_plan_rule_has_a_case() -> None:
    assert {r.code for r in PLAN_RULES} == {p[0] for p in PLANS}


def test_plan_reports_roles_first_and_pairs_only_of_legal_roles() -> None:
    bad_role = check_plan(R1, plan(prefill(dp=12), decode()), POOLS, specs.engine())
    assert [v.code for v in bad_role] == ["pod.tiling"]
    bad_pair = check_plan(R1, plan(prefill(dp=4), decode()), POOLS, specs.engine())
    assert [v.code for v in bad_pair] == ["pair.ranks"]
