"""Simulated against measured closed loops, beside the analytic level, on the development rows.

Run: ``python benchmarks/simulation_accuracy.py POINTS.csv [--rows 400] [--seed 0]``. Both levels get the same step tables
(calibration factors applied, no learned residual), so the difference is queueing alone. Each row is simulated as the
benchmark was run: all users start together, ten requests each, nothing left out. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from planner.domain.errors import PlannerError
from planner.measurements.points import Metric, Point, PointMode, read_points
from planner.measurements.pricing import PointPricer, Prepared, PricedRoleOfRow, RawPrediction
from planner.measurements.subjects import CannotPriceError
from planner.perf.calibration import load_factor_pack, pack_folder
from planner.simulation.cluster import Cluster, EngineRole, Network
from planner.simulation.engine import announce_compilation, simulate
from planner.simulation.presets import ROUTERS
from planner.simulation.result import SimulationResult
from planner.simulation.traffic import make_traffic, single

RESERVING = {"trtllm"}
REQUESTS_PER_USER = 10
MOST_REQUESTS = 12_000


def engine_role(row: PricedRoleOfRow, prepared: Prepared) -> EngineRole:
    """The role as the simulator wants it; transfers as one fixed delay, as the analytic level has them."""
    p = row.plan
    subject = prepared.subject
    return EngineRole(
        name=p.role.value,
        role=p.role,
        groups=p.groups,
        ranks=p.parallelism.dp,
        gpus_per_rank=p.parallelism.tp,
        tables=row.tables,
        kv_blocks=max(int(row.kv_tokens) // p.block_size, 1),
        block_size=p.block_size,
        max_num_seqs=p.max_num_seqs,
        max_num_batched_tokens=p.max_num_batched_tokens,
        lockstep=subject.model.moe is not None,
        reserve_answer=prepared.config.dialect in RESERVING,
        kv_bytes_per_token=1.0,
        network=Network(gbps=1e6, setup_ms=prepared.transfer_ms, per_block_us=0.0),
        speculation=p.speculation,
    )


def simulated(point: Point, prepared: Prepared, seed: int) -> SimulationResult:
    """The benchmark run of one row."""
    roles = [engine_role(r, prepared) for r in (prepared.prefill, prepared.decode) if r is not None]
    cluster = Cluster(
        name=point.id, roles=tuple(roles), router=ROUTERS["active-request"],
        frontend_ms=roles[0].tables.frontend_ms,
    )  # fmt: skip
    users = max(int(point.load or 1), 1)
    c = point.config
    traffic = make_traffic(
        single(c.isl, c.osl, c.length_cv),
        sessions=min(max(REQUESTS_PER_USER * users, 20), max(MOST_REQUESTS, 3 * users)),
        seed=seed,
        concurrency=users,
        warmup_share=0.0,
    )
    return simulate(cluster, traffic, seed=seed)


def chosen(points: Sequence[Point], count: int, seed: int) -> list[Point]:
    """A fixed random sample of scored closed-loop rows that report TTFT."""
    usable = [
        p for p in points
        if p.scored and p.load is not None and Metric.TTFT in p.measured
        and p.config.mode in {PointMode.AGGREGATED, PointMode.DISAGGREGATED}
    ]  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(usable))[:count]
    return [usable[i] for i in sorted(order)]


def main() -> None:
    """Simulate the sample and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", type=Path)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    announce_compilation()
    folder = pack_folder()
    pricer = PointPricer(factors=load_factor_pack(folder) if folder is not None else None)
    points = chosen(read_points(options.points).points, options.rows, options.seed)
    analytic = pricer.price(points)
    errors: dict[tuple[str, Metric, str], list[float]] = {}
    refused = 0
    for point, answer in zip(points, analytic, strict=True):
        if not isinstance(answer, RawPrediction):
            refused += 1
            continue
        try:
            prepared = pricer.calibrated(point.config)
            result = simulated(point, prepared, options.seed)
        except (CannotPriceError, PlannerError):
            refused += 1
            continue
        values = {
            Metric.TTFT: result.ttft_ms.p50.value,
            Metric.TPOT: result.tpot_ms.p50.value,
            Metric.OUTPUT: result.output_tok_s.value / point.output_denominator_gpus,
        }
        used, waiting = answer.features.get("utilisation", 0.0), answer.features.get("surplus", 0.0)
        band = "past saturation" if waiting > 0.05 else ("prefill busy over half" if used > 0.5 else "light")
        for name in (f"{point.config.mode.value}, {band}", f"engine {point.config.dialect}", "all"):
            for metric, measured in point.measured.items():
                if measured > 0.0 and math.isfinite(values[metric]):
                    errors.setdefault((name, metric, "L1"), []).append(
                        math.log(answer.value(metric) / measured)
                    )
                    errors.setdefault((name, metric, "L2"), []).append(math.log(values[metric] / measured))
    print(
        f"{len(points) - refused} rows simulated, {refused} refused; median absolute error, and bias as a factor\n"
    )
    print("| rows | metric | n | L1 | L1 bias | L2 | L2 bias |\n|---|---|---|---|---|---|---|")
    for name, metric in sorted({(n, m) for n, m, _ in errors}, key=lambda x: (x[0], x[1].value)):
        cells = []
        for level in ("L1", "L2"):
            logs = np.array(errors[name, metric, level])
            cells += [f"{np.median(np.abs(np.expm1(logs))):.1%}", f"x{math.exp(float(np.median(logs))):.2f}"]
        print(f"| {name} | {metric.value} | {len(errors[name, metric, 'L1'])} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
