"""Differences between configurations under common random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain.workload import SloTargets
from planner.simulation.cluster import Cluster
from planner.simulation.engine import simulate
from planner.simulation.result import Figure, SimulationResult
from planner.simulation.traffic import Traffic

_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """`other` minus the first configuration, averaged over replications that saw the same traffic."""

    other: int
    metric: str
    difference: Figure
    relative: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.difference.low > 0.0 or self.difference.high < 0.0


METRICS: dict[str, Callable[[SimulationResult], float]] = {
    "output tok/s/GPU": lambda r: r.output_tok_s_per_gpu,
    "TTFT p50, ms": lambda r: r.ttft_ms.p50.value,
    "TTFT p99, ms": lambda r: r.ttft_ms.p99.value,
    "TPOT p50, ms": lambda r: r.tpot_ms.p50.value,
}


def student_interval(values: Sequence[float]) -> Figure:
    """Mean of `values` with its 95 % Student interval; one value has an unbounded one."""
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return Figure(mean, float("-inf"), float("inf"))
    half = _T95[min(len(data) - 2, len(_T95) - 1)] * float(data.std(ddof=1)) / len(data) ** 0.5
    return Figure(mean, mean - half, mean + half)


def compare(
    clusters: Sequence[Cluster],
    traffics: Sequence[Traffic],
    *,
    seed: int,
    slo: SloTargets | Sequence[SloTargets] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[SimulationResult], list[PairedDifference]]:
    """Simulate every cluster on the same traffics; differences to the first, replication by replication."""
    runs: list[list[SimulationResult]] = []
    total = len(clusters) * sum(t.requests for t in traffics)
    before = 0
    for i, cluster in enumerate(clusters):
        target = slo[i] if isinstance(slo, Sequence) else slo
        own: list[SimulationResult] = []
        for k, traffic in enumerate(traffics):

            def report(done: int, _: int, offset: int = before) -> None:
                if progress is not None:
                    progress(offset + done, total)

            own.append(simulate(cluster, traffic, seed=seed + k, slo=target, progress=report))
            before += traffic.requests
        runs.append(own)
    pooled = [
        own[0]
        if len(own) == 1
        else simulate(cluster, list(traffics), seed=seed, slo=slo[i] if isinstance(slo, Sequence) else slo)
        for i, (cluster, own) in enumerate(zip(clusters, runs, strict=True))
    ]
    differences = []
    for other in range(1, len(clusters)):
        for metric, value in METRICS.items():
            pairs = [value(b) - value(a) for a, b in zip(runs[0], runs[other], strict=True)]
            base = float(np.mean([value(a) for a in runs[0]]))
            figure = student_interval(pairs)
            differences.append(PairedDifference(other, metric, figure, figure.value / base if base else 0.0))
    return pooled, differences
