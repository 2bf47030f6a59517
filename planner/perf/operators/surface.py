"""Compact curves: log-residuals over a roofline reference on a load grid, for a list of measured shapes.

A `Surface` answers for an unmeasured shape by local kriging (exponential kernel) in log-shape space. Values are
stored as int8 steps of `STEP`, so a table of 480 shapes and 22 loads takes 10 kB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.perf.operators.base import BoolArray, FloatArray

STEP: Final = 0.02  # log-residual per int8 step: 2 %
CENTRE: Final = 1.0  # residual of step 0: kernels reach from a fifth to 34 times the reference time
_NEIGHBOURS: Final = 20
_LENGTH: Final = 3.0  # correlation length, in doublings of a dimension
_NUGGET: Final = 0.05  # shape-to-shape noise (tile quantisation) relative to the signal
_EXACT: Final = 1e-6
_NEAR: Final = 1.0  # a shape within one doubling of a measured one counts as inside the data


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Which measured table a surface was fitted to, and how well."""

    table: str
    engine: str
    version: str
    rows: int
    heldout_median: float | None
    heldout_p90: float | None


@dataclass(frozen=True, slots=True)
class Surface:
    """Residuals of one family, format and engine.

    `features`: [shapes, d], log2 of shape numbers. `axes`: one ascending grid per load, in natural units.
    `steps`: [shapes, *grid] int8. `covered`: [shapes, *grid], True where the table has data.
    """

    features: FloatArray
    axes: tuple[FloatArray, ...]
    steps: NDArray[np.int8]
    covered: BoolArray
    source: TableSource

    def weights(self, point: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return indices and weights (summing to 1) of the shapes that predict `point`."""
        squared = ((self.features - point) ** 2).sum(axis=1)
        nearest = np.argsort(squared, kind="stable")[: min(_NEIGHBOURS, squared.size)]
        if squared[nearest[0]] < _EXACT:
            return nearest[:1], np.ones(1)
        return nearest, kriging_weights(self.features[nearest], point)

    def residual(self, point: FloatArray) -> FloatArray:
        """Log-residual on the load grid for the shape at `point`."""
        index, w = self.weights(point)
        return np.asarray(np.tensordot(w, self.steps[index].astype(np.float64), axes=1) * STEP + CENTRE)

    def nearest(self, point: FloatArray) -> tuple[int, float]:
        """Index of the nearest measured shape and its distance in doublings."""
        squared = ((self.features - point) ** 2).sum(axis=1)
        best = int(np.argmin(squared))
        return best, float(np.sqrt(squared[best]))

    def inside(self, point: FloatArray) -> bool:
        """Whether `point` lies within the measured range of every dimension and near a measured shape."""
        low, high = self.features.min(axis=0), self.features.max(axis=0)
        in_range = bool(np.all(point >= low - _EXACT) and np.all(point <= high + _EXACT))
        return in_range and self.nearest(point)[1] <= _NEAR


def kriging_weights(features: FloatArray, point: FloatArray) -> FloatArray:
    """Ordinary-kriging weights of `features` ([n, d]) for `point`; they sum to 1."""
    n = len(features)
    if n == 1:
        return np.ones(1)
    gaps = np.sqrt(((features[:, None, :] - features[None, :, :]) ** 2).sum(axis=-1))
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = np.exp(-gaps / _LENGTH) + _NUGGET * np.eye(n)
    system[n, :n] = system[:n, n] = 1.0
    right = np.append(np.exp(-np.sqrt(((features - point) ** 2).sum(axis=1)) / _LENGTH), 1.0)
    return np.asarray(np.linalg.solve(system, right)[:n])


def quantise(residuals: FloatArray) -> NDArray[np.int8]:
    """Round log-residuals to int8 steps, clipped to the representable range."""
    return np.clip(np.rint((residuals - CENTRE) / STEP), -127, 127).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Surfaces of one GPU and engine, by key such as ``gemm/fp8_block``.

    `hbm_gbps`, `peak_tflops` and `scale_up_gbps` are the figures the references were computed with.
    """

    gpu: str
    engine: str
    hbm_gbps: float
    peak_tflops: dict[str, float]
    scale_up_gbps: float
    surfaces: dict[str, Surface]
    constants: dict[str, float]


def save_library(folder: Path, library: Library) -> None:
    """Write ``<gpu>-<engine>.npz`` (arrays) and ``.json`` (index and sources) into `folder`."""
    floats: list[FloatArray] = []
    steps: list[NDArray[np.int8]] = []
    bits: list[BoolArray] = []
    index: list[dict[str, Any]] = []
    for key, s in sorted(library.surfaces.items()):
        index.append(
            {
                "key": key, "shapes": len(s.features), "features": s.features.shape[1],
                "axes": [len(a) for a in s.axes], "table": s.source.table, "engine": s.source.engine,
                "version": s.source.version, "rows": s.source.rows,
                "heldout_median": s.source.heldout_median, "heldout_p90": s.source.heldout_p90,
            }
        )  # fmt: skip
        floats += [s.features.ravel(), *s.axes]
        steps.append(s.steps.ravel())
        bits.append(s.covered.ravel())
    stem = f"{library.gpu}-{library.engine}"
    np.savez_compressed(
        folder / f"{stem}.npz",
        floats=np.concatenate(floats).astype(np.float32),
        steps=np.concatenate(steps),
        covered=np.packbits(np.concatenate(bits)),
    )
    head = {
        "gpu": library.gpu, "engine": library.engine, "hbm_gbps": library.hbm_gbps,
        "peak_tflops": library.peak_tflops, "scale_up_gbps": library.scale_up_gbps,
        "constants": library.constants, "surfaces": index,
    }  # fmt: skip
    (folder / f"{stem}.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")


@lru_cache(maxsize=32)
def load_library(folder: Path, gpu: str, engine: str) -> Library | None:
    """Read the curves of one GPU and engine; None when there are none."""
    stem = f"{gpu}-{engine}"
    head_path = folder / f"{stem}.json"
    if not head_path.is_file():
        return None
    head = json.loads(head_path.read_text(encoding="utf-8"))
    with np.load(folder / f"{stem}.npz") as arrays:
        floats = arrays["floats"].astype(np.float64)
        steps = arrays["steps"]
        bits = np.unpackbits(arrays["covered"]).astype(np.bool_)
    at_float = at_step = 0
    surfaces: dict[str, Surface] = {}
    for entry in head["surfaces"]:
        shapes, width, grid = entry["shapes"], entry["features"], tuple(entry["axes"])
        features = floats[at_float : at_float + shapes * width].reshape(shapes, width)
        at_float += shapes * width
        axes = []
        for length in grid:
            axes.append(floats[at_float : at_float + length])
            at_float += length
        count = shapes * int(np.prod(grid))
        shape = (shapes, *grid)
        surfaces[entry["key"]] = Surface(
            features,
            tuple(axes),
            steps[at_step : at_step + count].reshape(shape),
            bits[at_step : at_step + count].reshape(shape),
            TableSource(
                table=entry["table"], engine=entry["engine"], version=entry["version"], rows=entry["rows"],
                heldout_median=entry["heldout_median"], heldout_p90=entry["heldout_p90"],
            ),
        )  # fmt: skip
        at_step += count
    return Library(
        gpu=head["gpu"], engine=head["engine"], hbm_gbps=head["hbm_gbps"], peak_tflops=head["peak_tflops"],
        scale_up_gbps=head["scale_up_gbps"], surfaces=surfaces, constants=head["constants"],
    )  # fmt: skip
