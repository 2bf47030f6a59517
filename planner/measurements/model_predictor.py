"""The performance model as calibration sees it: predictions for measured operating points under physical factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from planner.domain.deployment import Role, Strategy
from planner.domain.engine import EngineName
from planner.domain.measurement import MeasuredRole, Measurement
from planner.measurements.points import Point, PointConfig, PointMode
from planner.measurements.predictor import PRIOR_LOG_SD, FloatArray, FunctionPredictor
from planner.measurements.pricing import Failure, PointPricer
from planner.measurements.widths import Widths
from planner.perf.calibration import FactorPack

# factors a user's measurements may move, and how far before data; the shares of the step are physics, the rest habits
FACTOR_PRIORS: Final[Mapping[str, float]] = {
    "dense": PRIOR_LOG_SD,
    "experts": PRIOR_LOG_SD,
    "attention": PRIOR_LOG_SD,
    "comm": PRIOR_LOG_SD,
    "prefill": PRIOR_LOG_SD,
    "gap": 2.0 * PRIOR_LOG_SD,
    "frontend": 2.0 * PRIOR_LOG_SD,
    "admission": 2.0 * PRIOR_LOG_SD,
}
FEATURES: Final = ("batch per rank", "context", "EP width", "disaggregated")
_STEP: Final = 0.02  # of the log factors: above the kinks of interpolated tables


def point_of(measurement: Measurement) -> Point:
    """The measurement as a row that can be priced; rates are per GPU of the whole deployment."""
    prefill = measurement.role(Role.PREFILL)
    decode = measurement.role(Role.DECODE) or measurement.role(Role.AGGREGATED)
    if measurement.strategy is Strategy.AGGREGATED:
        mode = PointMode.AGGREGATED
    elif prefill is None:
        mode = PointMode.DECODE_ONLY
    else:
        mode = PointMode.PREFILL_ONLY if decode is None else PointMode.DISAGGREGATED
    workload, settings = measurement.workload, measurement.settings
    return Point(
        line=0,
        id=measurement.origin.position,
        source=measurement.origin.file,
        config=PointConfig(
            model=measurement.model,
            quantization=settings.quantization or "",
            gpu=measurement.gpu,
            dialect=_DIALECTS[measurement.engine],
            mode=mode,
            decode=_widths(decode),
            prefill=_widths(prefill),
            isl=workload.isl,
            osl=workload.osl,
            length_cv=workload.length_cv,
            prefix_hit=workload.prefix_hit,
            mtp=settings.mtp is True,
            draft_tokens=settings.draft_tokens,
            dbo=settings.dbo is True,
            eplb=settings.eplb is True,
        ),
        load=measurement.load.concurrency,
        request_rate=measurement.load.request_rate_per_s,
        date=None,
        output_denominator_gpus=measurement.gpus,
        measured={},
    )


_DIALECTS: Final = {EngineName.VLLM: "vllm", EngineName.SGLANG: "sglang", EngineName.TRTLLM: "trtllm"}


def _widths(role: MeasuredRole | None) -> Widths | None:
    return None if role is None else Widths(groups=role.groups, tp=role.tp, dp=role.dp, ep=role.ep)


def with_factors(pack: FactorPack | None, engine: str, added: Mapping[str, float]) -> FactorPack:
    """`pack` with log factors added for everything that runs on `engine`."""
    base = pack or FactorPack(nodes={}, rows={})
    node = dict(base.nodes.get(engine, {}))
    for name, value in added.items():
        node[name] = node.get(name, 0.0) + value
    return FactorPack(nodes={**base.nodes, engine: node}, rows=base.rows)


class ModelPredictor(FunctionPredictor[Measurement]):
    """The performance model over measurements of one engine. What cannot be priced is NaN; `failures` says why.

    Factors come on top of the shipped ones: 1 means that those were right.
    """

    def __init__(self, pricer: PointPricer, engine: EngineName) -> None:
        super().__init__(
            self._predict,
            describe=self._described,
            factors=tuple(FACTOR_PRIORS),
            features=FEATURES,
            step=_STEP,
            prior_log_sd=np.array(list(FACTOR_PRIORS.values())),
        )
        self._pricer = pricer
        self._engine = _DIALECTS[engine]

    def failures(self, measurements: Sequence[Measurement]) -> tuple[Failure | None, ...]:
        """Per measurement why it has no prediction, or None."""
        priced = self._pricer.price([point_of(m) for m in measurements])
        return tuple(p if isinstance(p, Failure) else None for p in priced)

    def _predict(self, measurements: Sequence[Measurement], log_factors: FloatArray) -> FloatArray:
        added = dict(zip(FACTOR_PRIORS, map(float, log_factors), strict=True))
        pricer = PointPricer.sharing(
            self._pricer, factors=with_factors(self._pricer.factors, self._engine, added)
        )
        rows = [
            (np.nan, np.nan, np.nan)
            if isinstance(p, Failure)
            else (np.log(p.output_tok_s_per_gpu), np.log(p.tpot_ms), np.log(p.ttft_ms))
            for p in pricer.price([point_of(m) for m in measurements])
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3)

    def _described(self, measurements: Sequence[Measurement]) -> FloatArray:
        rows = []
        for m, priced in zip(
            measurements, self._pricer.price([point_of(m) for m in measurements]), strict=True
        ):
            batch = 1.0 if isinstance(priced, Failure) else priced.features.get("batch", 1.0)
            rows.append(
                (
                    np.log(max(batch, 0.1)),
                    np.log(m.workload.mean_context),
                    np.log(m.roles[-1].ep),
                    float(m.strategy is Strategy.DISAGGREGATED),
                )
            )
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(FEATURES))
