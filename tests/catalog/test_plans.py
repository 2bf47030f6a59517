"""Saved plans: what is loaded is what was saved, byte for byte stable, and nothing is half written."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.catalog.plans import SCHEMA, check_writable, dump_plan, load_plan, save_plan
from planner.domain.deployment import (
    All2AllBackend,
    DeploymentPlan,
    Eplb,
    Parallelism,
    Role,
    RolePlan,
    RouterKind,
    RouterPolicy,
    Scorer,
    Speculation,
    Strategy,
)
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError
from planner.domain.workload import SloTargets, Workload

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
positive = st.floats(min_value=1e-3, max_value=1e9, allow_nan=False)
small = st.integers(1, 64)

scorers = st.builds(
    Scorer,
    type=text,
    weight=positive,
    parameters=st.dictionaries(text, st.booleans() | st.integers() | positive | text, max_size=3),
)
routers = st.builds(
    RouterPolicy,
    kind=st.sampled_from(RouterKind),
    prefill_scorers=st.lists(scorers, max_size=2).map(tuple),
    decode_scorers=st.lists(scorers, max_size=2).map(tuple),
    decider=text,
    decider_parameters=st.dictionaries(text, st.integers(), max_size=2),
)


def role_plans(role: Role) -> st.SearchStrategy[RolePlan]:
    return st.builds(
        RolePlan,
        role=st.just(role),
        groups=small,
        parallelism=st.builds(Parallelism, tp=small, dp=small, expert_parallel=st.booleans(), dcp=small),
        gpu=text,
        node=text,
        max_num_seqs=small,
        max_num_batched_tokens=small,
        kv_dtype=st.sampled_from(KvDtype),
        all2all=st.sampled_from(All2AllBackend),
        dbo=st.booleans(),
        eplb=st.none() | st.builds(Eplb, redundant_experts=st.integers(0, 64)),
        speculation=st.none() | st.builds(Speculation, draft_tokens=small, acceptance=st.floats(0, 1)),
        gpu_memory_utilization=st.floats(0.1, 1.0),
        concurrency=positive,
    )


def plans() -> st.SearchStrategy[DeploymentPlan]:
    roles = st.one_of(
        role_plans(Role.AGGREGATED).map(lambda r: (Strategy.AGGREGATED, (r,))),
        st.tuples(role_plans(Role.PREFILL), role_plans(Role.DECODE)).map(
            lambda r: (Strategy.DISAGGREGATED, r)
        ),
    )
    return roles.flatmap(
        lambda pair: st.builds(
            DeploymentPlan,
            name=text,
            model=text,
            strategy=st.just(pair[0]),
            roles=st.just(pair[1]),
            router=routers,
            engine=text,
            engine_version=st.sampled_from(["0.33.0", "1.0", "2026-11-29", "1e3", "no", "~"]),
            fabric=text,
            workload=st.builds(Workload, isl=small, osl=small, prefix_hit=st.floats(0, 0.9)),
            slo=st.builds(SloTargets, ttft_ms=st.none() | positive, tpot_ms=st.none() | positive),
            concurrency=small,
            gpus_owned=st.just(sum(r.gpus for r in pair[1])),
            max_model_len=small,
            peak_prefill_tok_s_per_rank=st.none() | positive,
        )
    )


def example() -> DeploymentPlan:
    role = RolePlan(
        role=Role.AGGREGATED,
        groups=2,
        parallelism=Parallelism(tp=1, dp=8, expert_parallel=True),
        gpu="h200-sxm",
        node="generic-h200-sxm",
        max_num_seqs=256,
        max_num_batched_tokens=8192,
        kv_dtype=KvDtype.FP8,
        concurrency=12.5,
    )
    return DeploymentPlan(
        name="example",
        model="deepseek-ai/DeepSeek-R1",
        strategy=Strategy.AGGREGATED,
        roles=(role,),
        router=RouterPolicy(),
        engine="vllm",
        engine_version="0.33.0",
        fabric="ib-ndr400",
        workload=Workload(isl=10000, osl=2000),
        slo=SloTargets(ttft_ms=2000, tpot_ms=50),
        concurrency=200,
        gpus_owned=32,
        max_model_len=12000,
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(plan=plans(), suffix=st.sampled_from([".json", ".yaml", ""]))
def test_load_undoes_save(tmp_path: Path, plan: DeploymentPlan, suffix: str) -> None:
    path = tmp_path / f"plan{suffix}"
    save_plan(plan, path)
    assert load_plan(path) == plan


@settings(max_examples=20, deadline=None)
@given(plan=plans(), as_yaml=st.booleans())
def test_the_same_plan_gives_the_same_bytes(plan: DeploymentPlan, as_yaml: bool) -> None:
    again = replace(plan, roles=tuple(replace(r) for r in plan.roles))
    assert dump_plan(plan, as_yaml=as_yaml) == dump_plan(again, as_yaml=as_yaml)


def test_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_plan(example(), path)
    first = path.read_bytes()
    save_plan(load_plan(path), path)
    assert path.read_bytes() == first
    assert json.loads(first)["schema"] == SCHEMA
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ('"wideplan.plan/v2"', "plan.schema_newer"),
        ('"wideplan.plan"', "plan.schema_unknown"),
        ('"kubernetes/v1"', "plan.schema_unknown"),
        ("7", "plan.schema_unknown"),
        (None, "plan.schema_missing"),
    ],
)
def test_other_schemas_are_refused_politely(tmp_path: Path, schema: str | None, code: str) -> None:
    document = json.loads(dump_plan(example()))
    del document["schema"]
    if schema is not None:
        document = {"schema": json.loads(schema), **document}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_plan(path)
    assert [i.code for i in caught.value.issues] == [code]


def test_a_recommendation_carries_a_plan(tmp_path: Path) -> None:
    document = json.loads(dump_plan(example())) | {"schema": "wideplan.recommendation/v1", "frontier": []}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert load_plan(path) == example()
    del document["plan"]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_plan(path)
    assert [i.code for i in caught.value.issues] == ["plan.missing"]


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("gpus_owned",), 8, "$.plan.gpus_owned"),
        (("roles", 0, "groups"), 0, "$.plan.roles[0].groups"),
        (("roles", 0, "parallelism", "tp"), -1, "$.plan.roles[0].parallelism.tp"),
        (("roles", 0, "gpu_memory_utilization"), 92, "$.plan.roles[0].gpu_memory_utilization"),
        (("roles", 0, "role"), "decode", "$.plan.roles"),
        (("roles",), [], "$.plan.roles"),
        (("workload", "isl"), 0, "$.plan.workload"),
    ],
)
def test_values_no_plan_can_have_are_refused(
    tmp_path: Path, path: tuple[str | int, ...], value: object, where: str
) -> None:
    document = json.loads(dump_plan(example()))
    target = document["plan"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_plan(file)
    assert {i.code for i in caught.value.issues} == {"plan.invalid"}
    assert any((i.where or "").endswith(f"@ {where}") for i in caught.value.issues)


def test_structural_problems_name_the_line(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(dump_plan(example()).replace('"dbo": false', '"dbo": "off"'), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_plan(file)
    line = next(i for i, t in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if '"dbo"' in t)
    assert caught.value.issues[0].where == f"{file}:{line} @ $.plan.roles[0].dbo"


@pytest.mark.parametrize("target", ["", "none/plan.json", "file.txt/plan.json"])
def test_unwritable_places_are_found_before_the_work(tmp_path: Path, target: str) -> None:
    (tmp_path / "file.txt").write_text("x", encoding="utf-8")
    for act in (check_writable, lambda p: save_plan(example(), p)):
        with pytest.raises(InputError) as caught:
            act(tmp_path / target)
        assert [i.code for i in caught.value.issues] == ["save.unwritable"]


def test_checking_leaves_nothing_behind_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", encoding="utf-8")
    check_writable(path)
    assert path.read_text(encoding="utf-8") == "old"


def test_a_failed_write_keeps_the_old_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    save_plan(example(), path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as caught:
        save_plan(replace(example(), name="other"), path)
    assert caught.value.issues[0].why == "No space left on device"
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
