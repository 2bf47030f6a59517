"""A made-up simulation result."""

from __future__ import annotations

import math

from planner.domain.deployment import Role
from planner.simulation.result import (
    Distribution,
    Figure,
    RankFigures,
    RoleFigures,
    RoleSeries,
    SimulationResult,
)


def spread(value: float, *, reliable: bool = True) -> Distribution:
    """A distribution around `value`."""
    exact = Figure(value, 0.95 * value, 1.05 * value)
    return Distribution(
        count=2000, mean=exact, p50=exact, p90=Figure(2 * value, value, 3 * value), p99=Figure(4 * value, value, 9 * value),
        reliable_p99=reliable,
    )  # fmt: skip


def sample_result(n: int = 1, *, samples: int = 300) -> SimulationResult:
    """The `n`-th result: each is a tenth faster than the one before."""
    factor = 1.0 + 0.1 * (n - 1)
    seconds = tuple(float(i) for i in range(samples))

    def series(role: Role, base: float) -> RoleSeries:
        wave = tuple(base * factor * (1.0 + math.sin(t / 20.0)) for t in seconds)
        share = tuple(0.5 + 0.4 * math.sin(t / 30.0) for t in seconds)
        return RoleSeries(role=role, waiting=wave, running=wave, kv_share=share, busy_share=share)

    def role(name: Role) -> RoleFigures:
        ranks = tuple(
            RankFigures(rank=i, group=0, requests=100, output_tokens=1000 * i, prefill_tokens=50, busy_share=0.9,
                        hit_rate=0.1 * i, peak_kv_share=0.8, preemptions=0)
            for i in range(4)
        )  # fmt: skip
        return RoleFigures(
            name=name.value, role=name, gpus=16, steps=1000, step_ms=40.0, busy_share=0.9, straggler_share=0.1,
            dummy_share=0.05, dbo_share=0.0, rearrangements=0, paused_s=0.0, hit_rate=0.3, host_hit_rate=0.0, preemptions=2,
            expired_leases=0, peak_kv_share=0.8, ranks=ranks,
        )  # fmt: skip

    return SimulationResult(
        cluster="sample", workload="4000/1000", engine="vllm 0.33.0", replications=1, requests=3000, measured=2000,
        warmup=300, failed=0, window_s=250.0, simulated_s=300.0, wall_s=2.0, events=40_000, gpus=32, requests_per_s=8.0,
        goodput_per_s=7.0, output_tok_s=Figure(16_000.0 * factor, 15_000.0, 17_000.0), total_tok_s=80_000.0,
        ttft_ms=spread(900.0 / factor), tpot_ms=spread(40.0, reliable=False), itl_ms=spread(39.0), e2e_ms=spread(41_000.0),
        transfer_ms=spread(20.0), prefix_hit_rate=0.3, prefilled_in_place=0, mean_in_flight=700.0,
        roles=(role(Role.PREFILL), role(Role.DECODE)), series_s=seconds,
        series=(series(Role.PREFILL, 5.0), series(Role.DECODE, 60.0)), notes=("a note",),
    )  # fmt: skip
