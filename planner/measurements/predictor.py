"""What calibration needs of a performance model: predictions as functions of a few physical factors.

A factor multiplies one kind of time (matrix compute, weight reads, KV reads, communication, host). Everything is in natural
logarithms: a log factor of 0 leaves the model as it is, 0.1 makes that kind of time about 10 % longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.domain.calibration import Metric

FloatArray = NDArray[np.float64]

METRICS: Final = (Metric.THROUGHPUT, Metric.TPOT, Metric.TTFT)  # order of the metric axis everywhere
PRIOR_LOG_SD: Final = 0.3
_STEP: Final = 1e-5

ConfigT_contra = TypeVar("ConfigT_contra", contravariant=True)


class Predictor(Protocol[ConfigT_contra]):
    """A performance model seen by calibration. `n` configurations, `k` factors, `d` features."""

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the k factors."""
        ...

    @property
    def prior_log_sd(self) -> FloatArray:
        """Prior standard deviations of the log factors, ``[k]``; usually `PRIOR_LOG_SD` each."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the d features, e.g. ``log batch per rank``; they say where the model was checked."""
        ...

    def predict(self, configurations: Sequence[ConfigT_contra], log_factors: FloatArray) -> FloatArray:
        """Log of `METRICS` per configuration, ``[n, 3]``, at ``log_factors[k]``; NaN where not predicted."""
        ...

    def jacobian(self, configurations: Sequence[ConfigT_contra], log_factors: FloatArray) -> FloatArray:
        """Derivative of `predict` by the log factors, ``[n, 3, k]``."""
        ...

    def describe(self, configurations: Sequence[ConfigT_contra]) -> FloatArray:
        """Features, ``[n, d]``."""
        ...


ConfigT = TypeVar("ConfigT")


class FunctionPredictor(Generic[ConfigT]):
    """A predictor from any function of configurations and log factors; the Jacobian is by forward differences."""

    def __init__(
        self,
        function: Callable[[Sequence[ConfigT], FloatArray], FloatArray],
        *,
        describe: Callable[[Sequence[ConfigT]], FloatArray],
        factors: tuple[str, ...],
        features: tuple[str, ...],
        step: float = _STEP,
        prior_log_sd: FloatArray | None = None,
    ) -> None:
        self._prior = np.full(len(factors), PRIOR_LOG_SD) if prior_log_sd is None else prior_log_sd
        self._step = step
        self._function = function
        self._describe = describe
        self._factors = factors
        self._features = features

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors."""
        return self._factors

    @property
    def prior_log_sd(self) -> FloatArray:
        """Prior standard deviations of the log factors."""
        return self._prior

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return self._features

    def predict(self, configurations: Sequence[ConfigT], log_factors: FloatArray) -> FloatArray:
        """See `Predictor.predict`."""
        return self._function(configurations, log_factors)

    def jacobian(self, configurations: Sequence[ConfigT], log_factors: FloatArray) -> FloatArray:
        """See `Predictor.jacobian`; costs one prediction per factor and one more."""
        here = self._function(configurations, log_factors)
        columns = []
        for j in range(len(self._factors)):
            moved = log_factors.copy()
            moved[j] += self._step
            columns.append((self._function(configurations, moved) - here) / self._step)
        return np.stack(columns, axis=-1)

    def describe(self, configurations: Sequence[ConfigT]) -> FloatArray:
        """See `Predictor.describe`."""
        return self._describe(configurations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Times of configurations by kind, ``[n, k]`` milliseconds, in the order of the factors.

    `prefill_ms`: from arrival to the first token, without what no factor scales. `step_ms`: one decode step.
    `fixed_ttft_ms[n]`: queueing and front end. `tokens_per_step[n]`: accepted tokens per decode step (1 without MTP).
    """

    prefill_ms: FloatArray
    step_ms: FloatArray
    fixed_ttft_ms: FloatArray
    tokens_per_step: FloatArray
    osl: FloatArray
    concurrency_per_gpu: FloatArray


class PartsPredictor(Generic[ConfigT]):
    """A closed loop of requests over summed parts, with its exact Jacobian.

    TPOT = step / tokens per step. TTFT = prefill + fixed. Throughput per GPU = N x OSL / (TTFT + (OSL - 1) x TPOT),
    N requests in flight per GPU of the whole plan.
    """

    def __init__(
        self,
        parts: Callable[[Sequence[ConfigT]], Parts],
        *,
        describe: Callable[[Sequence[ConfigT]], FloatArray],
        factors: tuple[str, ...],
        features: tuple[str, ...],
    ) -> None:
        self._parts = parts
        self._describe = describe
        self._factors = factors
        self._features = features

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors, in the order of the part columns."""
        return self._factors

    @property
    def prior_log_sd(self) -> FloatArray:
        """Prior standard deviations of the log factors."""
        return np.full(len(self._factors), PRIOR_LOG_SD)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return self._features

    def predict(self, configurations: Sequence[ConfigT], log_factors: FloatArray) -> FloatArray:
        """See `Predictor.predict`."""
        p = self._parts(configurations)
        scale = np.exp(log_factors)
        tpot = (p.step_ms @ scale) / p.tokens_per_step
        ttft = p.prefill_ms @ scale + p.fixed_ttft_ms
        seconds = (ttft + np.maximum(p.osl - 1.0, 0.0) * tpot) / 1000.0
        throughput = p.concurrency_per_gpu * p.osl / seconds
        return np.log(np.stack([throughput, tpot, ttft], axis=-1))

    def jacobian(self, configurations: Sequence[ConfigT], log_factors: FloatArray) -> FloatArray:
        """See `Predictor.jacobian`: shares of the parts in each time."""
        p = self._parts(configurations)
        scale = np.exp(log_factors)
        step, prefill = p.step_ms * scale, p.prefill_ms * scale
        tpot = step.sum(axis=1)
        ttft = prefill.sum(axis=1) + p.fixed_ttft_ms
        d_tpot = step / tpot[:, None]
        d_ttft = prefill / ttft[:, None]
        decode = np.maximum(p.osl - 1.0, 0.0) * tpot / p.tokens_per_step
        share = (decode / (ttft + decode))[:, None]
        d_throughput = -(share * d_tpot + (1.0 - share) * d_ttft)
        return np.stack([d_throughput, d_tpot, d_ttft], axis=1)

    def describe(self, configurations: Sequence[ConfigT]) -> FloatArray:
        """See `Predictor.describe`."""
        return self._describe(configurations)
