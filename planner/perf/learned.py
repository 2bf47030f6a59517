"""What measured rows teach beyond physics: a Gaussian process on the log residuals of calibrated predictions.

Its covariance is a sum over ever narrower circles: everything, the same engine, the same engine and GPU family, the same
model on the same GPU and engine, the same configuration at other loads. A prediction inside measured territory leans on
its neighbours; one far away falls back to physics. Evaluated with numpy alone; weights are fitted by
`planner.measurements.fit_pack`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.perf.operators.base import FloatArray

# feature -> length scale (in the feature's own unit, mostly natural logarithms)
LENGTHS: Final[Mapping[str, float]] = {
    "batch": 2.5, "load_per_gpu": 2.5, "isl": 2.0, "osl": 2.0, "tp": 1.5, "dp": 1.5, "ep": 1.5, "groups": 1.5,
    "disaggregated": 0.7, "speculation": 0.7, "utilisation": 0.5, "surplus": 0.5, "share_attention": 0.3,
    "share_experts": 0.3, "share_collectives": 0.3, "step": 1.5, "prefill_gpus": 2.0, "four_bit": 1.0, "tpot": 1.5,
}  # fmt: skip
NARROW: Final = 1.6  # how much shorter lengths are inside an engine and GPU family
LOAD_LENGTHS: Final[Mapping[str, float]] = {"load": 2.0, "age": 1.0}
CIRCLES: Final = ("engine", "family", "group", "configuration", "checkpoint")
AMPLITUDES: Final[Mapping[str, float]] = {
    "all": 0.02, "engine": 0.02, "family": 0.025, "group": 0.035, "configuration": 0.035, "checkpoint": 0.01,
}  # fmt: skip
TOTAL_AMPLITUDE: Final = sum(AMPLITUDES.values())
NOISE: Final = 0.006
FEATURES: Final = (*LENGTHS, *LOAD_LENGTHS)
_CHUNK: Final = 512

Labels = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Places:
    """Where n predictions lie: numeric features ``[n, len(FEATURES)]`` and, per circle, a label each ``[n]``."""

    numbers: FloatArray
    labels: Mapping[str, Labels]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Places:
        """The places at `index`."""
        return Places(self.numbers[index], {k: v[index] for k, v in self.labels.items()})


def places_of(rows: Sequence[tuple[Mapping[str, float], Mapping[str, str]]]) -> Places:
    """Stack (features, labels) pairs; a missing feature is a bug and raises KeyError."""
    numbers = np.array([[features[n] for n in FEATURES] for features, _ in rows], dtype=np.float64)
    labels = {c: np.array([label[c] for _, label in rows], dtype=np.str_) for c in CIRCLES}
    return Places(numbers.reshape(len(rows), len(FEATURES)), labels)


def covariance(a: Places, b: Places) -> FloatArray:
    """Prior covariance ``[len(a), len(b)]`` of the log residuals."""
    lengths = np.array(list(LENGTHS.values()))
    n = len(lengths)
    wide = _distance(a.numbers[:, :n] / lengths, b.numbers[:, :n] / lengths)
    near = _matern(wide * NARROW)
    wide = _matern(wide)
    loads = np.array(list(LOAD_LENGTHS.values()))
    load = _matern(_distance(a.numbers[:, n:] / loads, b.numbers[:, n:] / loads))

    def same(circle: str) -> NDArray[np.bool_]:
        return np.asarray(a.labels[circle][:, None] == b.labels[circle][None, :])

    w = AMPLITUDES
    result: FloatArray = (
        (w["all"] + w["engine"] * same("engine") + w["checkpoint"] * same("checkpoint")) * wide
        + (w["family"] * same("family") + w["group"] * same("group")) * near
        + w["configuration"] * same("configuration") * load
    )
    return result


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * a @ b.T
    result: FloatArray = np.sqrt(np.maximum(squared, 0.0))
    return result


def _matern(distance: FloatArray) -> FloatArray:
    scaled = np.sqrt(3.0) * distance
    result: FloatArray = (1.0 + scaled) * np.exp(-scaled)
    return result


@dataclass(frozen=True, slots=True)
class Learned:
    """The fitted process. `weights` ``[n, metrics]`` = (K + noise)^-1 y, zero where a row lacks the metric."""

    places: Places
    weights: FloatArray

    def at(self, places: Places) -> tuple[FloatArray, FloatArray]:
        """Mean log residual ``[n, metrics]`` and closeness ``[n]`` to the nearest measured row (0 far, 1 on it)."""
        codes = _coded(self.places, places)
        means, close = [], []
        for start in range(0, len(places), _CHUNK):
            part = codes[1].take(np.arange(start, min(start + _CHUNK, len(places))))
            k = covariance(part, codes[0])
            means.append(k @ self.weights)
            close.append(k.max(axis=1) / TOTAL_AMPLITUDE)
        return np.concatenate(means), np.concatenate(close)


def _coded(known: Places, new: Places) -> tuple[Places, Places]:
    """The same places with integer labels, which compare faster than text."""
    first: dict[str, Labels] = {}
    second: dict[str, Labels] = {}
    for circle in CIRCLES:
        both = np.concatenate([known.labels[circle], new.labels[circle]])
        index = np.unique(both, return_inverse=True)[1].astype(np.int32).reshape(-1)
        first[circle], second[circle] = index[: len(known)], index[len(known) :]  # type: ignore[assignment]
    return Places(known.numbers, first), Places(new.numbers, second)


def save_learned(path: Path, learned: Learned) -> None:
    """Write the process as a compressed archive."""
    words, index = {}, {}
    for circle, labels in learned.places.labels.items():
        words[circle], index[circle] = np.unique(labels, return_inverse=True)
    arrays: dict[str, NDArray[Any]] = {
        "features": np.array(FEATURES),
        "numbers": learned.places.numbers.astype(np.float32),
        "weights": learned.weights.astype(np.float32),
    }
    for circle in CIRCLES:
        arrays[f"words_{circle}"] = words[circle]
        arrays[f"index_{circle}"] = index[circle].astype(np.int16)
    with path.open("wb") as handle:
        np.savez_compressed(handle, allow_pickle=False, **arrays)


@lru_cache(maxsize=4)
def load_learned(path: Path) -> Learned | None:
    """Read a process; None when the file is absent or was fitted for other features."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as data:
        if tuple(data["features"].tolist()) != FEATURES:
            return None
        labels = {c: data[f"words_{c}"][data[f"index_{c}"]] for c in CIRCLES}
        return Learned(Places(data["numbers"].astype(np.float64), labels), data["weights"].astype(np.float64))
