"""`fit_operators`: read the tables, report held-out errors, fit on everything, write ``profiles/operators``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from planner.domain.dtypes import WeightFormat
from planner.perf.operators import reference as ref
from planner.perf.operators.base import FloatArray
from planner.perf.operators.fit import attention, comm, dense
from planner.perf.operators.fit.grid import HELD_OUT, SEED, Samples, fit_surface, held_out, predict_us
from planner.perf.operators.fit.tables import SYSTEMS, engines, roofline, systems_folder
from planner.perf.operators.fitted import grid_residual
from planner.perf.operators.reference import Roofline
from planner.perf.operators.surface import Library, Surface, save_library

TARGET_MEDIAN: Final = 0.07
TARGET_P90: Final = 0.25
WORST_OWN: Final = 0.2  # median error on the very rows a curve was fitted to
_DATE: Final = "2026-08"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """Held-out error of one surface. `family` groups keys as the issue and the docs list them."""

    gpu: str
    engine: str
    key: str
    family: str
    unit: str
    rows: int
    errors: FloatArray
    shipped: bool  # False: an unfused path outside the range a curve can hold

    @property
    def median(self) -> float:
        """Median absolute relative error."""
        return round(float(np.median(self.errors)), 4)

    @property
    def p90(self) -> float:
        """90th percentile of the absolute relative error."""
        return round(float(np.quantile(self.errors, 0.9)), 4)


Report = Callable[[FitError], None]


def family_of_key(key: str) -> str:
    """Family a surface key is reported under."""
    head = key.split("/", maxsplit=1)[0]
    if head.startswith("experts"):
        return "experts"
    if head.startswith("deepep"):
        return "-".join(head.split("-")[:2])
    for name in ("gdn", "kda", "mamba2"):
        if head.startswith(name):
            return "linear"
    for name in ("csa", "hca"):
        if head.startswith(name):
            return "compressed-" + head.split("-")[-1]
    return head.replace("-shared", "").replace("-one", "").replace("-two", "")


def gemm_from(surfaces: dict[str, Surface], roof: Roofline) -> attention.Gemm:
    """GEMM times from fitted surfaces, for taking projections out of module rows."""

    @lru_cache(maxsize=4096)
    def line(fmt: WeightFormat, n: int, k: int) -> FloatArray:
        surface = surfaces.get(f"gemm/{fmt.value}") or surfaces.get("gemm/fp8") or surfaces["gemm/bf16"]
        dense_m = dense.M_AXIS
        r = grid_residual(surface, surface.residual(ref.gemm_features(n, k)), (dense_m,))
        return np.asarray(np.log(ref.gemm_us(roof, fmt, n=n, k=k, m=dense_m) * np.exp(r)))

    def us(fmt: WeightFormat, n: int, k: int, m: FloatArray) -> FloatArray:
        top = dense.M_AXIS[-1]
        inside = np.exp(np.interp(np.log(np.minimum(m, top)), np.log(dense.M_AXIS), line(fmt, n, k)))
        return np.asarray(inside * np.maximum(m / top, 1.0))

    return us


def fit_library(gpu: str, system: str, engine: str, *, report: Report) -> Library | None:
    """Fit every family of one GPU and engine; None when it has no GEMM table."""
    roof = roofline(system)
    surfaces: dict[str, Surface] = {}

    def add(samples: Samples) -> None:
        test = held_out(samples)
        surface = fit_surface(samples)
        own = np.abs(predict_us(surface, samples) / samples.measured_us - 1.0)
        shipped = bool(np.median(own) <= WORST_OWN)
        if test.errors.size:
            error = FitError(
                gpu=gpu,
                engine=engine,
                key=samples.key,
                family=family_of_key(samples.key),
                unit=test.unit,
                rows=test.errors.size,
                errors=test.errors,
                shipped=shipped,
            )
            report(error)
            source = replace(samples.source, heldout_median=error.median, heldout_p90=error.p90)
            surface = replace(surface, source=source)
        if shipped:
            surfaces[samples.key] = surface

    for samples in dense.gemm_samples(system, engine, roof):
        add(samples)
    if not surfaces:
        return None
    gemm = gemm_from(surfaces, roof)
    experts, foreign = dense.expert_samples(system, engine, roof)
    deepep, ranks = comm.deepep_samples(system, roof)
    for samples in (
        *experts,
        *attention.gqa_samples(system, engine, roof),
        *attention.mla_samples(system, engine, roof, gemm),
        *attention.dsa_samples(system, engine, roof, gemm),
        *attention.compressed_samples(system, engine, roof, gemm),
        *attention.msa_samples(system, engine, roof, gemm),
        *attention.linear_samples(system, engine, roof),
        *comm.collective_samples(system, engine, roof),
        *deepep,
        *comm.nvlink_samples(system, roof),
    ):
        add(samples)
    return Library(
        gpu=gpu,
        engine=engine,
        hbm_gbps=roof.hbm_gbps,
        peak_tflops=roof.peak_tflops,
        scale_up_gbps=roof.scale_up_gbps,
        surfaces=surfaces,
        constants={"foreign_row_us_per_kib": round(foreign, 6), "deepep_ranks": float(ranks)},
    )


def summary(errors: list[FitError]) -> list[dict[str, object]]:
    """Held-out error per family and GPU over all rows; `meets` when median and p90 are within the targets."""
    out: list[dict[str, object]] = []
    for family in sorted({e.family for e in errors}):
        for gpu in [*SYSTEMS, "all"]:
            part = [e.errors for e in errors if e.family == family and gpu in (e.gpu, "all")]
            if not part:
                continue
            joined = np.concatenate(part)
            median, p90 = float(np.median(joined)), float(np.quantile(joined, 0.9))
            out.append(
                {
                    "family": family, "gpu": gpu, "rows": joined.size, "median": round(median, 4),
                    "p90": round(p90, 4), "meets": bool(median <= TARGET_MEDIAN and p90 <= TARGET_P90),
                }
            )  # fmt: skip
    return out


def fit_operators(out: Path, *, report: Report) -> list[FitError]:
    """Fit all systems and engines of the installed tables and write the curves to `out`.

    `report` is called with each held-out result. Returns all of them. Raises MissingDataError ``opdb.missing``.
    """
    systems_folder()
    out.mkdir(parents=True, exist_ok=True)
    errors: list[FitError] = []

    def note(error: FitError) -> None:
        errors.append(error)
        report(error)

    for gpu, system in SYSTEMS.items():
        for engine in engines():
            library = fit_library(gpu, system, engine, report=note)
            if library is not None:
                save_library(out, library)
    held = {
        "schema": "wideplan.operators-heldout/v1",
        "source": "aiconfigurator-core 0.12.0 measured tables (Apache-2.0, NVIDIA CORPORATION & AFFILIATES)",
        "date": _DATE,
        "seed": SEED,
        "held_out_fraction": HELD_OUT,
        "targets": {"median": TARGET_MEDIAN, "p90": TARGET_P90},
        "families": summary(errors),
        "surfaces": [
            {
                "gpu": e.gpu, "engine": e.engine, "key": e.key, "unit": e.unit, "rows": e.rows,
                "median": e.median, "p90": e.p90, "shipped": e.shipped,
            }
            for e in errors
        ],
    }  # fmt: skip
    (out / "heldout.json").write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    return errors
