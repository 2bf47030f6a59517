"""Where a priced row lies in the space of measured configurations: features and circles for the learned residual."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Final

from planner.domain.dtypes import ComputeDtype
from planner.measurements.points import Point
from planner.measurements.pricing import RawPrediction
from planner.measurements.subjects import Subject
from planner.perf.calibration import checkpoint_of, family_of_gpu

EPOCH: Final = dt.date(2026, 1, 1)
DAYS_PER_UNIT: Final = 100.0


def place_of(
    point: Point, answer: RawPrediction, subject: Subject
) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """Numeric features and circle labels of one priced row."""
    c = point.config
    decode = c.decode or c.prefill
    if decode is None:
        msg = f"row {point.id} has no widths"
        raise ValueError(msg)
    f = answer.features
    moe = subject.model.moe
    fmt = subject.model.quantization.experts if moe is not None else subject.model.quantization.dense_mlp
    load = f.get("load", point.load or 1.0)
    numbers = {
        "batch": _log(f.get("batch", 1.0)),
        "load_per_gpu": _log(load / decode.gpus),
        "isl": _log(c.isl),
        "osl": _log(c.osl),
        "tp": _log(decode.tp),
        "dp": _log(decode.dp),
        "ep": _log(decode.ep),
        "groups": _log(decode.groups),
        "disaggregated": float(c.prefill is not None),
        "speculation": float(c.mtp),
        "utilisation": f.get("utilisation", 0.0),
        "surplus": f.get("surplus", 0.0),
        "share_attention": f.get("share_attention", 0.0),
        "share_experts": f.get("share_experts", 0.0),
        "share_collectives": f.get("share_collectives", 0.0),
        "step": _log(f.get("step_ms", answer.tpot_ms)),
        "prefill_gpus": _log(c.prefill.gpus / decode.gpus) if c.prefill is not None else -5.0,
        "four_bit": float(fmt.compute is ComputeDtype.FP4),
        "tpot": _log(answer.tpot_ms),
        "load": _log(load),
        "age": (point.date - EPOCH).days / DAYS_PER_UNIT if point.date is not None else 0.5,
    }
    checkpoint = checkpoint_of(subject.model)
    group = f"{checkpoint}|{c.gpu}|{c.dialect}|{c.mode.value}"
    labels = {
        "engine": c.dialect,
        "family": f"{c.dialect}/{family_of_gpu(subject.pool.gpu)}",
        "group": group,
        "configuration": f"{group}|{c.prefill}|{c.decode}|{c.isl}|{c.osl}|{c.mtp}|{c.prefix_hit:.2f}",
        "checkpoint": checkpoint,
    }
    return numbers, labels


def _log(value: float) -> float:
    return math.log(max(value, 1e-3))
