"""Speed of the simulator: requests per second, growth with the number of requests, a 1,000-GPU cluster, and a peer.

Run: ``python benchmarks/simulation.py [--quick] [--peer PATH_OF_AISIMULATE]``. Prints figures and ratios, never fails on a
clock. The peer is NVIDIA's AISimulate (PyPI ``aisimulate``, a compiled discrete-event simulator); it runs when its command
is found, on the same closed loops with fixed step times.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.domain.deployment import Role, RouterKind, RouterPolicy
from planner.domain.provenance import Provenance
from planner.perf.tables import BATCH, CHUNK, CONTEXT, PREFIX, TOKENS, StepTables
from planner.simulation.cluster import Cluster, EngineRole, Network
from planner.simulation.engine import announce_compilation, play
from planner.simulation.presets import ROUTERS
from planner.simulation.traffic import SEED_TALK, Arrival, Traffic, make_traffic, single

LONG = replace(SEED_TALK, label="10,000/2,000", turns=SEED_TALK.turns[:1])


def tables(fixed_ms: float, *, constant: bool = False) -> StepTables:
    """Step times of the size of a large MoE on one rank; `constant` ignores the load."""
    scale = 0.0 if constant else 1.0
    n = len(TOKENS)
    b, c = np.meshgrid(BATCH, CONTEXT, indexing="ij")
    k, p = np.meshgrid(CHUNK, PREFIX, indexing="ij")
    zero = np.zeros(n)
    return StepTables(
        attn_linear_ms=fixed_ms + scale * 0.02 * TOKENS,
        dense_mlp_ms=zero,
        shared_ms=zero,
        experts_ms=scale * (2.0 + 0.004 * TOKENS),
        dispatch_ms=np.full(n, scale),
        combine_ms=np.full(n, scale),
        collectives_ms=zero,
        collectives_eager_ms=zero,
        head_ms=np.full(n, 0.3 * scale),
        decode_attn_ms=scale * 0.5e-6 * b * c,
        prefill_attn_ms=scale * 50e-9 * k * (p + k / 2),
        host_step_ms=0.0,
        host_per_seq_ms=0.0,
        async_scheduling=True,
        moe_layer_share=0.95,
        dbo=None,
        provenance=(("attn_linear", Provenance.FITTED),),
        max_tokens_within=65536.0,
        max_context_within=131072.0,
    )


def role(kind: Role, *, groups: int, ranks: int, lockstep: bool, step: StepTables, blocks: int) -> EngineRole:
    """One role of the benchmark clusters."""
    return EngineRole(
        name=kind.value, role=kind, groups=groups, ranks=ranks, gpus_per_rank=1, tables=step, kv_blocks=blocks,
        block_size=64, max_num_seqs=256, max_num_batched_tokens=8192, lockstep=lockstep, kv_bytes_per_token=70_000.0,
        network=Network(gbps=40.0),
    )  # fmt: skip


def disaggregated(prefill: int, decode_groups: int, decode_ranks: int) -> Cluster:
    """P/D with `decode_ranks` in lockstep per group, prefix cache and llm-d scorers."""
    step = tables(8.0)
    return Cluster(
        name="P/D",
        roles=(
            role(Role.PREFILL, groups=prefill, ranks=1, lockstep=False, step=step, blocks=20_000),
            role(
                Role.DECODE, groups=decode_groups, ranks=decode_ranks, lockstep=True, step=step, blocks=20_000
            ),
        ),
        router=ROUTERS["prefix+active-request"],
    )


def replicas(count: int) -> Cluster:
    """Independent engines with fixed step times behind a least-queue router."""
    only = role(
        Role.AGGREGATED, groups=count, ranks=1, lockstep=False, step=tables(10.0, constant=True), blocks=8000
    )
    return Cluster(
        name="replicas",
        roles=(replace(only, prefix_caching=False),),
        router=RouterPolicy(kind=RouterKind.LEAST_QUEUE),
    )


def timed(cluster: Cluster, traffic: Traffic) -> tuple[float, float, float]:
    """(wall seconds, simulated seconds, events) of one run after a warm one."""
    began = time.perf_counter()
    state = play(cluster, traffic, seed=0).state
    return time.perf_counter() - began, float(state.world[0].now), float(state.world[0].events)


def report(label: str, traffic: Traffic, result: tuple[float, float, float]) -> float:
    """Print one line; returns requests per second."""
    wall, simulated, events = result
    rate = traffic.requests / wall
    print(
        f"{label:<46} {traffic.requests:>9,} requests {wall:8.2f} s {rate:>10,.0f} req/s "
        f"{events / wall / 1e6:6.2f} M events/s {simulated / wall:>9,.0f}x real time"
    )
    return rate


def peer_rate(
    command: str, *, isl: int, osl: int, concurrency: int, requests: int, count: int
) -> float | None:
    """Requests per second of AISimulate by its own wall clock; None when it fails."""
    config = f"""
engine:
  model: Qwen/Qwen3-32B
  backend: vllm
  hardware: h200_sxm
  workers:
    aggregated:
      parallelism: {{replicas: {count}, tensor: 1}}
      scheduler: {{max_batched_tokens: 8192, max_sequences: 256}}
      kv_cache:
        block_size: 64
        capacity: {{type: fixed, blocks: 8000}}
      timing: {{type: fixed, prefill_ms: 10.0, decode_ms: 10.0}}
traffic:
  source: {{type: synthetic, input_tokens: {isl}, output_tokens: {osl}}}
  load: {{type: concurrency, concurrency: {concurrency}}}
  stop: {{requests: {requests}}}
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(config)
        done = subprocess.run(
            [command, "predict", "-c", str(path), "--format", "json", "--output-dir", f"{folder}/out"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        print(f"peer failed: {done.stderr.strip()[-200:]}")
        return None
    document = json.loads(done.stdout[start:])
    wall_ms = _find(document, "wall_time_ms")
    return requests / (wall_ms * 1e-3) if wall_ms else None


def _find(value: object, key: str) -> float | None:
    if isinstance(value, dict):
        if key in value:
            return float(value[key])
        for inner in value.values():
            found = _find(inner, key)
            if found is not None:
                return found
    return None


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="leave out 10^6 requests and the 1,000-GPU cluster"
    )
    parser.add_argument("--peer", default=shutil.which("aisimulate"), help="path of the aisimulate command")
    options = parser.parse_args()
    announce_compilation()
    began = time.perf_counter()
    timed(replicas(2), make_traffic(single(64, 4), sessions=50, seed=0, concurrency=4))
    print(f"first run, compilation or cache load included: {time.perf_counter() - began:.1f} s")

    print("\nlong requests, P/D, 16 decode ranks in lockstep, prefix cache, llm-d scorers")
    cluster = disaggregated(8, 1, 16)
    for label, shape, sessions in (
        ("10,000 in / 2,000 out", LONG, 6000),
        ("seed talk, 6 turns", SEED_TALK, 1500),
    ):
        traffic = make_traffic(shape, sessions=sessions, seed=1, concurrency=128, spread_s=20.0)
        report(label, traffic, timed(cluster, traffic))

    print("\nlight requests, 8 replicas, least queue")
    light = make_traffic(single(512, 110), sessions=200_000, seed=1, concurrency=2048, spread_s=2.0)
    report("512 in / 110 out", light, timed(replicas(8), light))

    print("\ngrowth with the number of requests (512/110, 1,024 in flight)")
    for count in (1_000, 10_000, 100_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000):
        traffic = make_traffic(single(512, 110), sessions=count, seed=1, concurrency=1024, spread_s=2.0)
        report(f"10^{len(str(count)) - 1}", traffic, timed(replicas(8), traffic))

    if not options.quick:
        print(
            "\n1,000 GPUs: 136 prefill ranks, 54 decode groups of 16 in lockstep, 10^5 long requests, Poisson"
        )
        large = disaggregated(136, 54, 16)
        traffic = make_traffic(LONG, sessions=100_000, seed=1, arrival=Arrival.POISSON, rate_per_s=120.0)
        report(f"{large.gpus} GPUs", traffic, timed(large, traffic))
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")

    if options.peer:
        print("\nagainst AISimulate, same closed loop, fixed step times, its own wall clock")
        for isl, osl, users, count in ((512, 110, 512, 20_000), (4096, 1000, 512, 4_000)):
            traffic = make_traffic(single(isl, osl), sessions=count, seed=1, concurrency=users)
            ours = report(f"ours {isl}/{osl}", traffic, timed(replicas(8), traffic))
            theirs = peer_rate(options.peer, isl=isl, osl=osl, concurrency=users, requests=count, count=8)
            if theirs is not None:
                print(
                    f"{f'aisimulate {isl}/{osl}':<46} {count:>9,} requests {count / theirs:8.2f} s {theirs:>10,.0f} req/s; ratio {ours / theirs:.1f}"
                )
    else:
        print("\nno aisimulate command found: pip install aisimulate for the comparison", file=sys.stderr)


if __name__ == "__main__":
    main()
