"""The shipped calibration: what factors may do to a step, what is said where they are transferred."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accuracy_lab import pool, role
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analytic.closed_loop import aggregated_points
from planner.analytic.stack import RoleStack
from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_gpu
from planner.catalog.models import load_model
from planner.domain.deployment import All2AllBackend, Role
from planner.domain.workload import Workload
from planner.perf.calibration import (
    FACTORS,
    SWITCH,
    FactorPack,
    Territory,
    apply_factors,
    family_of_gpu,
    shipped_cell,
)
from planner.perf.components import Components
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.step import build_tables
from planner.perf.tables import TOKENS, StepTables

CURVES = (
    "attn_linear_ms", "dense_mlp_ms", "shared_ms", "experts_ms", "dispatch_ms", "combine_ms", "collectives_ms",
)  # fmt: skip


def raw_tables(gpu: str = "h200-sxm") -> StepTables:
    p = pool(gpu)
    engine = load_engine("vllm")
    parts = Components(load_model("deepseek-r1"), DatasheetOperators(p.gpu, p.fabric, engine.engine))
    return build_tables(parts, role(gpu, dp=16), p, engine, calibrated=False)


logs = st.fixed_dictionaries({n: st.floats(-1.5 * f.limit, 1.5 * f.limit) for n, f in FACTORS.items()})


@settings(max_examples=40, deadline=None)
@given(values=logs)
def test_factors_keep_time_monotone_in_the_load(values: dict[str, float]) -> None:
    scaled = apply_factors(raw_tables(), values, expert_parallel=True, latent=True)
    for name in CURVES:
        curve = getattr(scaled, name)
        assert np.all(np.diff(curve) >= -1e-12), name
        assert np.all(curve >= 0.0), name
    assert np.all(np.diff(scaled.prefill_attn_ms, axis=0) >= -1e-12)


def test_zero_factors_change_no_kernel() -> None:
    before = raw_tables()
    after = apply_factors(before, {}, expert_parallel=True, latent=True)
    for name in CURVES:
        np.testing.assert_allclose(getattr(after, name), np.maximum.accumulate(getattr(before, name)))


def test_kernel_factors_are_bounded() -> None:
    before = raw_tables()
    far = apply_factors(before, {"experts": -50.0}, expert_parallel=False, latent=True)
    small = TOKENS <= 8
    ratio = far.experts_ms[small] / before.experts_ms[small]
    assert ratio.min() >= np.exp(-FACTORS["experts"].limit) - 1e-9


def test_cell_is_the_sum_of_its_nodes_and_says_when_it_is_transferred() -> None:
    pack = FactorPack(
        nodes={
            "vllm": {"gap": 0.5},
            "vllm/hopper": {"gap": 0.2, "dense": 0.1},
            "vllm/hopper/fp8": {"dense": -0.3},
        },
        rows={"vllm": 9, "vllm/hopper": 9},
    )
    cell = pack.cell("vllm", "hopper", "fp8")
    assert cell.logs == pytest.approx({"gap": 0.7, "dense": -0.2})
    assert (cell.rows, cell.transferred_from) == (9, "")
    other = pack.cell("vllm", "ampere", "bf16")
    assert other.logs == {"gap": 0.25}  # half on another GPU family
    assert (other.rows, other.transferred_from) == (0, "vllm on other GPUs")
    faded = FactorPack(
        nodes=pack.nodes,
        rows=pack.rows,
        territory={"vllm/hopper": Territory(checkpoints=frozenset({"known"}), widest_group=8)},
    )
    at_home = faded.cell("vllm", "hopper", "fp8", checkpoint="known", group_gpus=8)
    assert (at_home.logs, at_home.transferred_from) == (cell.logs, "")
    assert faded.cell("vllm", "hopper", "fp8", checkpoint="new", group_gpus=8).logs["gap"] == pytest.approx(
        0.35
    )
    wide = faded.cell("vllm", "hopper", "fp8", checkpoint="known", group_gpus=16)
    assert wide.logs["gap"] == pytest.approx(0.35)
    assert "8 GPUs" in wide.transferred_from
    assert pack.cell("sglang", "hopper", "fp8").transferred_from == "nothing"


@pytest.mark.parametrize(
    ("gpu", "family"),
    [
        ("h200-sxm", "hopper"), ("b200-sxm", "blackwell"), ("gb200", "grace-blackwell"), ("mi300x", "cdna3"),
        ("mi355x", "cdna4"), ("a100-80-sxm", "ampere"),
    ],
)  # fmt: skip
def test_families(gpu: str, family: str) -> None:
    assert family_of_gpu(load_gpu(gpu)) == family


def test_switch_prices_without_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    model, gpu = load_model("deepseek-r1"), load_gpu("h200-sxm")
    assert shipped_cell(model, gpu, "vllm", 8) is not None
    monkeypatch.setenv(SWITCH, "off")
    assert shipped_cell(model, gpu, "vllm", 8) is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_tpot_never_falls_when_concurrency_rises(engine: str) -> None:
    p = pool("h200-sxm")
    profile = load_engine(engine)
    parts = Components(load_model("deepseek-r1"), DatasheetOperators(p.gpu, p.fabric, profile.engine))
    plan = replace(
        role(
            "h200-sxm", kind=Role.AGGREGATED, tp=8, ep=False, backend=All2AllBackend.ALLGATHER_REDUCESCATTER
        ),
        max_num_batched_tokens=8192,
    )
    s = RoleStack([plan], [build_tables(parts, plan, p, profile)], [1e9])
    at = aggregated_points(s, Workload(isl=2048, osl=512), np.geomspace(0.1, 512, 60)[None, :])
    assert np.all(np.diff(at.tpot_ms[0]) >= -1e-9)


@pytest.mark.parametrize("gpu", ["h200-sxm", "mi300x"])
def test_more_bandwidth_is_never_slower(gpu: str) -> None:
    p = pool(gpu)
    engine = load_engine("vllm")
    model = load_model("deepseek-r1")
    plan = role(gpu, tp=8, ep=False, backend=All2AllBackend.ALLGATHER_REDUCESCATTER)

    def curve(hbm: float) -> np.ndarray:
        part = replace(p.gpu, hbm_gbps=p.gpu.hbm_gbps * hbm)
        tables = build_tables(
            Components(model, DatasheetOperators(part, p.fabric, engine.engine)),
            plan,
            replace(p, gpu=part),
            engine,
        )
        s = RoleStack([plan], [tables], [1e9])
        at = aggregated_points(s, Workload(isl=2048, osl=512), np.geomspace(0.1, 256, 30)[None, :])
        return at.tpot_ms[0]

    assert np.all(curve(1.3) <= curve(1.0) + 1e-9)
