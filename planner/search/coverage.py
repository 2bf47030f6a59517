"""What stands behind predictions for a model on a GPU: which curves are measured, and how wide the intervals will be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu, nodes_for
from planner.catalog.models import load_model
from planner.domain.deployment import All2AllBackend, Parallelism
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError, Issue
from planner.domain.provenance import Provenance
from planner.perf.balance import Phase
from planner.perf.calibration import shipped_cell
from planner.perf.components import SIGNIFICANT_SHARE, Components, Part
from planner.perf.intervals import Metric, calibrated_interval, prior_interval
from planner.perf.operators.library import load_operators
from planner.search.ask import DEFAULT_ENGINE

_DECODE_PARTS: Final = ("attention projections", "decode attention", "routed experts", "dense MLPs")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCoverage:
    """One part of a step. `within`: share of the load grid that lies inside measured data, 0 to 1."""

    part: str
    provenance: Provenance
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedInterval:
    """80 % interval of one metric as factors on the prediction, e.g. 0.8 to 1.25."""

    metric: str
    disaggregated: bool
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Data behind `model` on `gpu`.

    `layout`: the engine group that was looked at. `calibration_rows`: measured serving rows of this engine and GPU
    family; `transferred_from`: what the calibration was measured on instead, empty when it is this very territory.
    """

    model: str
    gpu: str
    fabric: str
    engine: str
    layout: str
    parts: tuple[PartCoverage, ...]
    calibration_rows: int
    transferred_from: str
    intervals: tuple[ExpectedInterval, ...]

    @property
    def calibrated(self) -> bool:
        """Whether measured rows of this model on this GPU stand behind the figures."""
        return self.calibration_rows > 0 and not self.transferred_from

    @property
    def measured_parts(self) -> int:
        """Parts that come from curves measured on this GPU, or fitted to them."""
        return sum(p.provenance.rank < Provenance.DATASHEET.rank for p in self.parts)


def find_coverage(
    model_name: str, gpu_name: str, *, engine_version: str | None = None, overlay: Path | None = None
) -> Coverage:
    """Look at every part of a step of the model on the GPU's usual node shape.

    Raises InputError ``gpu.unknown``, ``node.none_for_gpu``; MissingDataError ``model.unknown``.
    """
    model = load_model(model_name, overlay=overlay)
    gpu = load_gpu(gpu_name, overlay=overlay)
    engine = load_engine(DEFAULT_ENGINE, engine_version, overlay=overlay)
    shapes = nodes_for(gpu, overlay=overlay)
    if not shapes:
        raise InputError(
            Issue(
                code="node.none_for_gpu",
                what=f"no node shape holds {gpu.id}",
                why=f"the catalogue has none for this GPU ({gpu.availability.value})",
                fix="write clusters/<name>.yaml and pass its folder with --profiles DIR",
                where="--gpu",
            )
        )
    node = shapes[0]
    fabric = load_fabric(node.fabric, overlay=overlay)
    parts_of = Components(model, load_operators(gpu, fabric, engine.engine))
    per_node = node.gpus_per_node
    domain = max(gpu.scale_up.domain_gpus, 1)
    wide = model.moe is not None
    layout = (
        Parallelism(tp=1, dp=2 * per_node, expert_parallel=True) if wide else Parallelism(tp=per_node, dp=1)
    )
    found: list[tuple[str, Part]] = [
        ("attention projections", parts_of.attn_linear(layout.tp)),
        ("prefill attention", parts_of.prefill_attention(layout.tp, KvDtype.BF16)),
        ("decode attention", parts_of.decode_attention(layout.tp, 1, KvDtype.BF16, 1)),
        ("dense MLPs", parts_of.dense_mlp(layout.tp)),
        ("all-reduce inside a node", parts_of.collectives(Parallelism(tp=per_node), per_node, graph=True)),
    ]
    if wide:
        experts = parts_of.experts(layout, redundant=0, phase=Phase.DECODE, eplb=False)
        found.append(("routed experts", experts))
        for name, backend in (
            ("dispatch, prefill", All2AllBackend.DEEPEP_HIGH_THROUGHPUT),
            ("dispatch, decode", All2AllBackend.DEEPEP_LOW_LATENCY),
        ):
            found.append((name, parts_of.exchange(layout, backend, domain, combine=False)))
    parts = tuple(
        PartCoverage(part=name, provenance=part.provenance, within=float(part.within.mean()))
        for name, part in found
        if float(part.ms.max()) > 0.0
    )
    cell = shipped_cell(model, gpu, engine.engine.value, layout.gpus)
    rows, origin = (0, "nothing") if cell is None else (cell.rows, cell.transferred_from)
    weighty = {name: float(part.ms.mean()) for name, part in found if name in _DECODE_PARTS}
    total = sum(weighty.values())
    weakest = Provenance.weakest(
        *(p.provenance for name, p in found if weighty.get(name, 0.0) > SIGNIFICANT_SHARE * total)
    )
    calibrated = rows > 0 and not origin
    intervals = tuple(
        _expected(metric, disaggregated, weakest, calibrated=calibrated)
        for metric in Metric
        for disaggregated in (False, True)
    )
    return Coverage(
        model=model.id,
        gpu=gpu.id,
        fabric=fabric.id,
        engine=engine.id,
        layout=layout.label(),
        parts=parts,
        calibration_rows=rows,
        transferred_from=origin,
        intervals=intervals,
    )


def _expected(
    metric: Metric, disaggregated: bool, weakest: Provenance, *, calibrated: bool
) -> ExpectedInterval:
    band = (
        calibrated_interval(1.0, metric, disaggregated=disaggregated, extrapolates=False)
        if calibrated
        else prior_interval(1.0, metric, weakest, extrapolates=True)
    )
    return ExpectedInterval(metric=metric.value, disaggregated=disaggregated, low=band.low, high=band.high)
