"""Which configurations to measure next: D-optimal choice over the legal space."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.domain.errors import InputError, Issue
from planner.measurements.factors import NOISE_PRIOR, SE_FLOOR
from planner.measurements.predictor import PRIOR_LOG_SD, FloatArray

_PASSES: Final = 20
_GAIN: Final = 1e-9


def d_optimal(
    jacobian: FloatArray, count: int, *, measured: FloatArray | None = None, noise_sd: float = NOISE_PRIOR
) -> tuple[int, ...]:
    """Indexes of the `count` candidates that tell most about the factors, in the order of their gain.

    `jacobian` ``[N, 3, k]`` of all candidates, `measured` ``[n, 3, k]`` of what was measured before. Maximises
    log det(prior precision + sum of J^T J / variance): greedily, then exchanging single candidates while that helps. No
    candidate is chosen twice. Deterministic. InputError ``campaign.too_few_candidates``.
    """
    n = len(jacobian)
    if count > n:
        raise InputError(
            Issue(
                code="campaign.too_few_candidates",
                what=f"{count} runs were asked for, {n} legal configurations exist",
                why="each configuration is measured once",
                fix=f"ask for at most {n} runs, or widen the space",
            )
        )
    scaled = np.where(np.isfinite(jacobian), jacobian, 0.0) / np.sqrt(noise_sd**2 + SE_FLOOR**2)
    information = np.eye(jacobian.shape[-1]) / PRIOR_LOG_SD**2
    if measured is not None:
        past = np.where(np.isfinite(measured), measured, 0.0) / np.sqrt(noise_sd**2 + SE_FLOOR**2)
        information = information + np.einsum("nmk,nml->kl", past, past)
    chosen: list[int] = []
    for _ in range(count):
        best = _best(scaled, information, excluded=chosen)
        chosen.append(best)
        information = information + scaled[best].T @ scaled[best]
    return _exchanged(scaled, information, chosen)


def log_det_information(jacobian: FloatArray, *, noise_sd: float = NOISE_PRIOR) -> float:
    """The criterion for a set of configurations with this Jacobian ``[n, 3, k]``."""
    scaled = np.where(np.isfinite(jacobian), jacobian, 0.0) / np.sqrt(noise_sd**2 + SE_FLOOR**2)
    information = np.eye(jacobian.shape[-1]) / PRIOR_LOG_SD**2 + np.einsum("nmk,nml->kl", scaled, scaled)
    return float(np.linalg.slogdet(information)[1])


def _gains(scaled: FloatArray, information: FloatArray) -> FloatArray:
    """Increase of the log determinant by each candidate: log det(I + J M^-1 J^T)."""
    inner = np.einsum("nmk,kl,npl->nmp", scaled, np.linalg.inv(information), scaled)
    gains: FloatArray = np.linalg.slogdet(np.eye(scaled.shape[1]) + inner)[1]
    return gains


def _best(scaled: FloatArray, information: FloatArray, *, excluded: list[int]) -> int:
    gains = _gains(scaled, information)
    gains[excluded] = -np.inf
    return int(gains.argmax())


def _exchanged(scaled: FloatArray, information: FloatArray, chosen: list[int]) -> tuple[int, ...]:
    """Swap single members for better ones until a whole pass changes nothing."""
    for _ in range(_PASSES):
        changed = False
        for position, old in enumerate(chosen):
            without = information - scaled[old].T @ scaled[old]
            gains = _gains(scaled, without)
            own = gains[old]
            gains[chosen] = -np.inf
            new = int(gains.argmax())
            if gains[new] > own + _GAIN:
                chosen[position] = new
                information = without + scaled[new].T @ scaled[new]
                changed = True
        if not changed:
            break
    return tuple(chosen)
