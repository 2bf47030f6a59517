"""Shipped calibration: a few physical log-factors per engine and GPU family that scale the step tables.

Factors multiply parts of the tables (or add a fixed time), so the search, single plans and the simulator all see the
same calibrated model. A factor that no measurement moved stays at its prior. They were fitted to published
measurements by `planner.measurements.fit_pack`; `profiles/calibration/pack.json` says on how many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from planner.catalog.locate import data_root
from planner.domain.dtypes import ComputeDtype
from planner.domain.hardware import GpuProfile
from planner.domain.model import ModelSpec
from planner.perf.operators.base import FloatArray
from planner.perf.tables import CHUNK, TOKENS, StepTables

SWITCH: Final = "WIDEPLAN_CALIBRATION"  # environment variable; "off" prices from curves and datasheets alone
TURN_TOKENS: Final = 512.0  # between memory-bound decode steps and compute-bound prefill steps
TURN_SHARPNESS: Final = 1.5
BASE_GAP_MS: Final = 0.25  # of a step outside kernels: sampling, copies, graph launch
TRANSFER_STRENGTH: Final = 0.5  # share of a log-factor that is believed outside what was measured
BASE_HANDOVER_MS: Final = 40.0  # router hop, transfer set-up and polling on both sides
BASE_ADMISSION_STEPS: Final = 1.0  # decode steps until a waiting prompt is looked at
LAUNCH_DTYPES: Final = {ComputeDtype.FP4: "fp4", ComputeDtype.FP8: "fp8", ComputeDtype.BF16: "bf16"}


@dataclass(frozen=True, slots=True)
class FactorSpec:
    """A factor's prior: mean 0 in the logarithm with this standard deviation; `where` says what it scales.

    `limit` bounds the logarithm: kernel curves come from measured tables, so a large factor on them would hide a
    scheduling effect that does not carry over to other models.
    """

    prior_log_sd: float
    where: str
    limit: float


FACTORS: Final[Mapping[str, FactorSpec]] = {
    "dense": FactorSpec(
        0.25, "attention projections, dense MLPs, shared experts and head in decode-sized steps", 0.6
    ),
    "experts": FactorSpec(0.35, "routed experts in decode-sized steps", 0.9),
    "experts_ep": FactorSpec(0.25, "the same, further, where experts are not split (expert parallel)", 0.6),
    "attention": FactorSpec(0.30, "core attention of decodes with a cache per head", 0.7),
    "attention_latent": FactorSpec(0.25, "core attention of decodes with a latent cache (MLA)", 0.5),
    "comm": FactorSpec(0.35, "collectives, dispatch and combine", 0.8),
    "prefill": FactorSpec(0.35, "all work of prompt-sized steps", 0.9),
    "gap": FactorSpec(0.8, "time of every step outside kernels", 3.0),
    "launch": FactorSpec(0.6, "host time to launch steps that no CUDA graph covers", 1.5),
    "frontend": FactorSpec(0.7, "request handling before the first token", 2.5),
    "handover": FactorSpec(0.8, "fixed time of passing a prompt from a prefill to a decode engine", 2.5),
    "admission": FactorSpec(1.2, "decode steps until the scheduler takes a prompt", 3.5),
}


def family_of_gpu(gpu: GpuProfile) -> str:
    """GPUs that share silicon and host architecture, and so factors: ``hopper``, ``blackwell``, ``grace-blackwell``…"""
    capability = gpu.compute_capability or ""
    if capability.startswith("gfx95"):
        return "cdna4"
    if capability.startswith("gfx9"):
        return "cdna3"
    name = gpu.architecture.lower().split()[0]
    return f"grace-{name}" if gpu.host_arch == "arm64" else name


def checkpoint_of(model: ModelSpec) -> str:
    """Structure and expert format: checkpoints that differ only in training share it."""
    moe = model.moe
    experts = f"{moe.experts}x{moe.intermediate}" if moe is not None else "dense"
    fmt = model.quantization.experts if moe is not None else model.quantization.dense_mlp
    return f"{model.num_layers}x{model.hidden}-{experts}-{fmt.value}"


def cell_of(model: ModelSpec, gpu: GpuProfile, dialect: str) -> tuple[str, str, str]:
    """(engine, GPU family, compute format of the experts): the key of a calibration cell."""
    fmt = (
        model.quantization.experts.compute if model.moe is not None else model.quantization.dense_mlp.compute
    )
    return dialect, family_of_gpu(gpu), LAUNCH_DTYPES[fmt]


def prompt_weight(tokens: FloatArray) -> FloatArray:
    """0 for decode-sized steps, 1 for prompt-sized ones, smooth in log tokens."""
    result: FloatArray = 1.0 / (1.0 + (TURN_TOKENS / np.maximum(tokens, 1e-9)) ** TURN_SHARPNESS)
    return result


def apply_factors(
    tables: StepTables, logs: Mapping[str, float], *, expert_parallel: bool, latent: bool
) -> StepTables:
    """`tables` with log-factors `logs` applied; missing names count as 0. Time stays monotone in the load.

    `expert_parallel`: of the role; `latent`: whether the model's cache is a latent that TP cannot shard.
    """

    def log(name: str) -> float:
        limit = FACTORS[name].limit
        return min(max(float(logs.get(name, 0.0)), -limit), limit)

    weight = prompt_weight(TOKENS)

    def scaled(part: FloatArray, name: str, extra: float = 0.0) -> FloatArray:
        factor = np.exp((1.0 - weight) * (log(name) + extra) + weight * log("prefill"))
        result: FloatArray = np.maximum.accumulate(part * factor)
        return result

    experts = log("experts_ep") if expert_parallel else 0.0
    comm = np.exp(log("comm"))
    gap = BASE_GAP_MS * (np.exp(log("gap")))
    return replace(
        tables,
        attn_linear_ms=scaled(tables.attn_linear_ms, "dense"),
        dense_mlp_ms=scaled(tables.dense_mlp_ms, "dense"),
        shared_ms=scaled(tables.shared_ms, "dense"),
        experts_ms=scaled(tables.experts_ms, "experts", experts),
        dispatch_ms=tables.dispatch_ms * comm,
        combine_ms=tables.combine_ms * comm,
        collectives_ms=tables.collectives_ms * comm,
        collectives_eager_ms=tables.collectives_eager_ms * comm,
        head_ms=scaled(tables.head_ms, "dense") + gap,
        decode_attn_ms=tables.decode_attn_ms * np.exp(log("attention_latent" if latent else "attention")),
        prefill_attn_ms=np.maximum.accumulate(
            tables.prefill_attn_ms * np.exp(log("prefill") * prompt_weight(CHUNK)[:, None]), axis=0
        ),
        launch_floor_ms=tables.launch_floor_ms * float(np.exp(log("launch"))),
        balance_steps=tables.balance_steps + BASE_ADMISSION_STEPS * float(np.exp(log("admission"))),
        handover_ms=BASE_HANDOVER_MS * float(np.exp(log("handover"))),
        frontend_ms=tables.frontend_ms * float(np.exp(log("frontend"))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFactors:
    """Log-factors that hold for one role. `rows`: measured rows of this engine and GPU family.

    `transferred_from` says, when not empty, what the factors were measured on instead; they are then faded.
    """

    logs: Mapping[str, float]
    rows: int
    transferred_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """What was measured of an engine on a GPU family: checkpoint structures and GPUs of the widest engine group."""

    checkpoints: frozenset[str]
    widest_group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorPack:
    """Log-factors by tree node: ``engine``, ``engine/family``, ``engine/family/format``; a cell is their sum.

    Outside what was measured (another GPU family, another model, wider engine groups) half of a log-factor is believed,
    the rest is left to the operator curves. Without `territory` (while fitting) nothing fades.
    """

    nodes: Mapping[str, Mapping[str, float]]
    rows: Mapping[str, int]
    measured_on: Mapping[str, int] = field(default_factory=dict)  # rows per ``engine/gpu``
    territory: Mapping[str, Territory] = field(default_factory=dict)  # per ``engine/family``

    def cell(
        self, engine: str, family: str, fmt: str, *, checkpoint: str = "", group_gpus: int = 1
    ) -> CellFactors:
        """Factors of a role of `group_gpus` GPUs that serves `checkpoint` (see `checkpoint_of`)."""
        names = (engine, f"{engine}/{family}", f"{engine}/{family}/{fmt}")
        logs: dict[str, float] = {}
        for name in names:
            for factor, value in self.nodes.get(name, {}).items():
                logs[factor] = logs.get(factor, 0.0) + value
        rows = self.rows.get(names[1], 0)
        strength, origin = self._strength(engine, names[1], checkpoint, group_gpus)
        return CellFactors(
            logs={n: v * strength for n, v in logs.items()}, rows=rows, transferred_from=", ".join(origin)
        )

    def _strength(
        self, engine: str, place: str, checkpoint: str, group_gpus: int
    ) -> tuple[float, tuple[str, ...]]:
        if not self.rows.get(engine, 0):
            return 1.0, ("nothing",)
        if not self.rows.get(place, 0):
            return TRANSFER_STRENGTH, (f"{engine} on other GPUs",)
        measured = self.territory.get(place)
        if measured is None:
            return 1.0, ()
        origin = []
        if checkpoint not in measured.checkpoints:
            origin.append(f"{engine} with other models")
        if group_gpus > measured.widest_group:
            origin.append(f"groups of up to {measured.widest_group} GPUs")
        return (TRANSFER_STRENGTH if origin else 1.0), tuple(origin)


def pack_folder() -> Path:
    """Where the shipped calibration lives."""
    return data_root() / "profiles" / "calibration"


@lru_cache(maxsize=4)
def load_factor_pack(folder: Path | None = None) -> FactorPack | None:
    """The shipped factors, or None when there are none."""
    path = (folder or pack_folder()) / "factors.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    return FactorPack(
        nodes=data["nodes"],
        rows=data["rows"],
        measured_on=data.get("measured_on", {}),
        territory={
            place: Territory(checkpoints=frozenset(t["checkpoints"]), widest_group=t["widest_group"])
            for place, t in data.get("territory", {}).items()
        },
    )


def shipped_cell(model: ModelSpec, gpu: GpuProfile, engine: str, group_gpus: int) -> CellFactors | None:
    """Shipped factors for an engine group of `group_gpus` GPUs; None without a pack or with ``WIDEPLAN_CALIBRATION=off``."""
    if os.environ.get(SWITCH, "on").lower() in {"off", "0", "no", "false"}:
        return None
    pack = load_factor_pack()
    if pack is None:
        return None
    return pack.cell(*cell_of(model, gpu, engine), checkpoint=checkpoint_of(model), group_gpus=group_gpus)


def far_half_width(metric: str, *, disaggregated: bool) -> float | None:
    """Log half-width of the 80 % interval far from every measured row; None without a pack."""
    found = load_bands().get(f"{metric}/{'disagg' if disaggregated else 'agg'}")
    return float(found[1].max()) if found is not None else None


@lru_cache(maxsize=4)
def load_bands(folder: Path | None = None) -> Mapping[str, tuple[FloatArray, FloatArray]]:
    """Per ``metric/phase`` (CSV names): closeness ascending and log half-widths of the 80 % interval; {} without a pack."""
    path = (folder or pack_folder()) / "intervals.json"
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        metric: (np.array([c for c, _ in pairs]), np.array([w for _, w in pairs]))
        for metric, pairs in data["bands"].items()
    }
