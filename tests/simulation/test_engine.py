"""Transfers, leases, speculation, EPLB, graph padding, failures, and the measurement window."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import builders as b
import numpy as np
import pytest

from planner.domain.deployment import Eplb, Role, RouterKind, Speculation
from planner.domain.errors import InputError, MissingDataError, NotFeasibleError
from planner.domain.workload import SloTargets
from planner.simulation import build
from planner.simulation.cluster import Cluster, ExpertBalance, Network
from planner.simulation.collect import trace
from planner.simulation.engine import play, simulate
from planner.simulation.export import result_document, write_trace
from planner.simulation.paired import compare
from planner.simulation.report import html_report
from planner.simulation.traces import read_trace
from planner.simulation.traffic import Arrival, make_traffic, single

GB = 1e9


def pulls(prefill: int, decode: int, *, gbps: float = 1.0) -> np.ndarray:  # type: ignore[type-arg]
    """Transfer times of requests that finish prefill together, one per prefill rank, 1 GB each."""
    network = Network(gbps=gbps, setup_ms=0.0, per_block_us=0.0)
    common: dict[str, object] = {
        "network": network,
        "tables": b.constant_tables(5.0),
        "prefix_caching": False,
    }
    cluster = b.disaggregated(
        b.policy(RouterKind.ROUND_ROBIN),
        prefill={**common, "groups": prefill},
        decode={**common, "ranks": 1, "groups": decode, "kv_bytes_per_token": GB / 1000},
    )
    traffic = make_traffic(single(1001, 3), sessions=prefill, seed=0, concurrency=prefill)
    state = play(cluster, traffic, seed=0).state
    return np.asarray(state.req.moved_to - state.req.moved_from)


def test_a_lone_transfer_runs_at_the_nic_rate() -> None:
    np.testing.assert_allclose(pulls(1, 1, gbps=4.0), [0.25], rtol=1e-9)


def test_flows_share_the_destination_nic() -> None:
    np.testing.assert_allclose(pulls(3, 1), [3.0, 3.0, 3.0], rtol=1e-9)


def test_flows_to_different_ranks_do_not_slow_each_other() -> None:
    np.testing.assert_allclose(pulls(3, 3), [1.0, 1.0, 1.0], rtol=1e-9)


def test_a_later_flow_slows_the_earlier_one_down() -> None:
    """Processor sharing: 1 GB alone for 0.5 s, then two flows at half rate."""
    network = Network(gbps=1.0, setup_ms=0.0, per_block_us=0.0)
    common: dict[str, object] = {
        "network": network,
        "tables": b.constant_tables(5.0),
        "prefix_caching": False,
    }
    cluster = b.disaggregated(
        b.policy(RouterKind.ROUND_ROBIN),
        prefill={**common, "groups": 2},
        decode={**common, "ranks": 1, "kv_bytes_per_token": GB / 1000},
    )
    traffic = make_traffic(single(1001, 2), sessions=2, seed=0, concurrency=2)
    traffic.arrival_s[:] = [0.0, 0.5]
    req = play(cluster, traffic, seed=0).state.req
    np.testing.assert_allclose(req.moved_to - req.moved_from, [1.5, 1.5], rtol=1e-9)


def starved(*, heartbeat: bool, recompute: bool) -> Cluster:
    """Decode holds one request at a time, so finished prompts wait beyond their lease of one second."""
    network = Network(gbps=40.0, lease_s=1.0, heartbeat=heartbeat, recompute_on_expiry=recompute)
    return b.disaggregated(
        b.policy(RouterKind.ROUND_ROBIN),
        prefill={"network": network, "prefix_caching": False},
        decode={"network": network, "ranks": 1, "kv_blocks": 22, "prefix_caching": False},
    )


@pytest.mark.parametrize(("heartbeat", "recompute"), [(True, False), (False, False), (False, True)])
def test_leases(heartbeat: bool, recompute: bool) -> None:
    traffic = make_traffic(single(1000, 300), sessions=6, seed=0, concurrency=6)
    state = play(starved(heartbeat=heartbeat, recompute=recompute), traffic, seed=0).state
    expired = int(state.rank.expired.sum())
    assert (expired > 0) is not heartbeat
    assert int(state.world[0].failed) == (0 if heartbeat or recompute else expired)
    assert state.world[0].done + state.world[0].failed == 6
    assert (state.rank.pinned == 0).all()
    if recompute:
        assert state.rank.prefill_tokens[-1] >= 1000 * expired


def test_back_pressure_fills_the_prefill_pool() -> None:
    """When decode cannot take prompts, they stay pinned on the prefill ranks and new prompts wait."""
    traffic = make_traffic(single(1000, 300), sessions=30, seed=0, concurrency=30)
    narrow = simulate(starved(heartbeat=True, recompute=False), traffic)
    wide = simulate(b.disaggregated(decode={"ranks": 1}), traffic)
    assert narrow.roles[0].peak_kv_share > wide.roles[0].peak_kv_share
    assert narrow.ttft_ms.p50.value > 3 * wide.ttft_ms.p50.value


@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.9])
def test_drafted_tokens_are_drawn_per_request_and_step(acceptance: float) -> None:
    spec = Speculation(draft_tokens=3, acceptance=acceptance)
    cluster = b.aggregated(ranks=1, tables=b.constant_tables(10.0), speculation=spec)
    traffic = make_traffic(single(100, 2000), sessions=40, seed=0, concurrency=8)
    result = simulate(cluster, traffic)
    assert result.tpot_ms.mean.value == pytest.approx(10.0 / spec.tokens_per_step, rel=0.02)
    # chunks come once per step, whatever they carry
    assert result.itl_ms.p50.value == pytest.approx(10.0, rel=0.05)
    assert (result.tpot_ms.p90.value - result.tpot_ms.p50.value > 0.01) is (0.0 < acceptance < 1.0)


def test_expert_rebalancing_pauses_and_pays() -> None:
    eplb = Eplb(step_interval=200, use_async=False)
    traffic = make_traffic(single(50, 400), sessions=64, seed=0, concurrency=32)
    heavy = b.tables(experts_ms=20.0)
    skewed = ExpertBalance(before=2.0, after=1.0, pause_s=0.5)
    never, paused, background = (
        simulate(b.aggregated(tables=heavy, experts=skewed, eplb=e), traffic)
        for e in (None, eplb, replace(eplb, use_async=True))
    )
    steps = paused.roles[0].steps
    # the first comes after a quarter of an interval
    assert paused.roles[0].rearrangements == (steps - 50) // 200 + 1
    assert paused.roles[0].paused_s == pytest.approx(0.5 * paused.roles[0].rearrangements)
    assert background.roles[0].paused_s == 0.0
    assert background.output_tok_s.value > 1.5 * never.output_tok_s.value
    drifting = simulate(
        b.aggregated(
            tables=heavy, experts=replace(skewed, drift_steps=50.0), eplb=replace(eplb, use_async=True)
        ),
        traffic,
    )
    assert never.output_tok_s.value < drifting.output_tok_s.value < background.output_tok_s.value


def test_one_long_prompt_delays_every_rank_of_a_group() -> None:
    """The argument for disaggregation: in lockstep a prefill chunk anywhere is in everybody's step."""
    traffic = make_traffic(single(64, 400, 0.5), sessions=300, seed=0, concurrency=32)
    traffic.isl[::16] = 8000
    together, apart = (
        simulate(
            b.aggregated(b.policy(RouterKind.ROUND_ROBIN), lockstep=x, tables=b.tables(per_token_us=60)),
            traffic,
        )
        for x in (True, False)
    )
    assert together.tpot_ms.p50.value > 1.15 * apart.tpot_ms.p50.value
    assert together.output_tok_s.value < apart.output_tok_s.value


def test_prompts_in_steps_of_their_own_stall_the_decodes() -> None:
    """SGLang's way: a step holds prompts or decodes; a prompt's step is then shorter, and decodes skip it."""
    traffic = make_traffic(single(2000, 300, 0.3), sessions=200, seed=0, concurrency=16)
    mixed, apart = (
        simulate(b.aggregated(ranks=1, tables=replace(b.tables(), separate_prefill=x)), traffic)
        for x in (False, True)
    )
    assert apart.roles[0].steps > mixed.roles[0].steps
    assert apart.tpot_ms.p50.value > mixed.tpot_ms.p50.value
    assert apart.itl_ms.p99.value > apart.itl_ms.p50.value


def test_a_prompt_waits_for_company_only_while_there_is_other_work() -> None:
    tables = replace(b.constant_tables(10.0), balance_steps=20.0)
    busy = make_traffic(single(100, 400, 0.5), sessions=200, seed=0, concurrency=16)
    waited = simulate(b.aggregated(tables=tables), busy).ttft_ms.p50.value
    assert waited == pytest.approx(200.0 + 15.0, abs=10.0)
    alone = make_traffic(single(100, 20), sessions=20, seed=0, concurrency=1)
    assert simulate(b.aggregated(tables=tables), alone).ttft_ms.p50.value == pytest.approx(10.0)


def test_waiting_for_company_is_counted_in_decode_steps_so_a_prefill_engine_takes_prompts_at_once() -> None:
    traffic = make_traffic(single(4000, 50, 0.3), sessions=300, seed=0, concurrency=24)
    eager, waiting = (
        simulate(
            b.disaggregated(
                prefill={"groups": 1, "ranks": 4, "tables": replace(b.tables(), balance_steps=steps)},
                decode={"tables": b.tables()},
            ),
            traffic,
        ).ttft_ms.mean.value
        for steps in (0.0, 20.0)
    )
    assert waiting == pytest.approx(eager)


def test_engines_that_keep_room_for_the_answer_queue_instead_of_preempting() -> None:
    traffic = make_traffic(single(200, 400), sessions=200, seed=0, concurrency=40)
    eager, careful = (
        simulate(b.aggregated(ranks=1, kv_blocks=120, prefix_caching=False, reserve_answer=x), traffic)
        for x in (False, True)
    )
    assert eager.roles[0].preemptions > 0
    assert careful.roles[0].preemptions == 0
    assert careful.ttft_ms.p50.value > eager.ttft_ms.p50.value
    assert careful.tpot_ms.p50.value < eager.tpot_ms.p50.value


def test_prompts_cannot_be_launched_faster_than_the_host() -> None:
    tables = replace(b.tables(), launch_floor_ms=100.0)
    traffic = make_traffic(single(64, 20), sessions=10, seed=0, concurrency=1)
    result = simulate(b.aggregated(tables=tables), traffic)
    assert result.ttft_ms.p50.value == pytest.approx(100.0)
    assert result.tpot_ms.p50.value < 20.0


@pytest.mark.parametrize("kind", [Role.AGGREGATED, Role.PREFILL, Role.DECODE])
def test_a_request_that_cannot_fit_is_refused(kind: Role) -> None:
    traffic = make_traffic(single(3000, 100), sessions=2, seed=0, concurrency=1)
    if kind is Role.AGGREGATED:
        cluster = b.aggregated(kv_blocks=48)
    else:
        cluster = b.disaggregated(**{kind.value: {"kv_blocks": 46}})  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        simulate(cluster, traffic)
    assert [i.code for i in caught.value.issues] == ["simulation.capacity"]
    assert (
        str(3000) in caught.value.issues[0].what
        or str(3001) in caught.value.issues[0].what
        or "3100" in caught.value.issues[0].what
    )


def test_endless_runs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_QUIET_STEPS_PER_RANK", 3)
    traffic = make_traffic(single(8000, 4), sessions=2, seed=0, concurrency=1)
    with pytest.raises(NotFeasibleError) as caught:
        simulate(b.aggregated(ranks=1, max_num_batched_tokens=512), traffic)
    assert caught.value.issues[0].code == "simulation.livelock"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sessions": 0, "concurrency": 1}, "workload.empty"),
        ({"sessions": 5, "concurrency": 0}, "workload.concurrency"),
        ({"sessions": 5, "arrival": Arrival.POISSON}, "workload.rate"),
        ({"sessions": 5, "arrival": Arrival.GAMMA, "rate_per_s": -2.0}, "workload.rate"),
    ],
)
def test_workloads_without_meaning_are_refused(changes: dict[str, object], code: str) -> None:
    with pytest.raises(InputError) as caught:
        make_traffic(single(10, 10), seed=0, **changes)  # type: ignore[arg-type]
    assert code in {i.code for i in caught.value.issues}


def test_ramps_and_bursts_have_the_asked_rate() -> None:
    for kind in (Arrival.POISSON, Arrival.GAMMA, Arrival.RAMP):
        t = make_traffic(
            single(10, 10), sessions=20_000, seed=0, arrival=kind, rate_per_s=50.0, cv=3.0
        ).arrival_s
        assert (np.diff(t) >= 0).all()
        assert len(t) / t[-1] == pytest.approx(50.0, rel=0.06)
        # a rate that grows from nothing needs 71 % of the time for the first half
        assert t[10_000] / t[-1] == pytest.approx(0.5**0.5 if kind is Arrival.RAMP else 0.5, rel=0.08)
    gaps = np.diff(
        make_traffic(
            single(10, 10), sessions=20_000, seed=0, arrival=Arrival.GAMMA, rate_per_s=50.0, cv=3.0
        ).arrival_s
    )
    assert gaps.std() / gaps.mean() == pytest.approx(3.0, rel=0.1)


def test_same_traffic_for_both_sides_gives_no_difference() -> None:
    traffics = [make_traffic(single(500, 50, 0.5), sessions=300, seed=s, concurrency=16) for s in range(3)]
    results, differences = compare([b.aggregated(), b.aggregated()], traffics, seed=0)
    assert len(results) == 2
    assert all(d.difference.value == 0.0 and not d.significant for d in differences)
    _, faster = compare([b.aggregated(), b.aggregated(tables=b.tables(fixed_ms=6.0))], traffics, seed=0)
    assert all(d.significant for d in faster if d.metric.startswith(("output", "TPOT")))


def test_goodput_counts_requests_within_targets() -> None:
    traffic = make_traffic(single(500, 50, 0.5), sessions=600, seed=0, concurrency=64)
    loose, tight = (
        simulate(b.aggregated(), traffic, slo=SloTargets(ttft_ms=limit, tpot_ms=100.0))
        for limit in (1e9, 60.0)
    )
    assert loose.goodput_per_s == pytest.approx(loose.requests_per_s)
    assert tight.goodput_per_s is not None
    assert 0.0 < tight.goodput_per_s < 0.9 * tight.requests_per_s


def test_reports_are_stable_and_say_what_was_left_out(tmp_path: Path) -> None:
    traffic = make_traffic(single(500, 50), sessions=200, seed=0, concurrency=8)
    first, second = (simulate(b.disaggregated(), traffic) for _ in range(2))
    assert json.dumps(result_document(first)) == json.dumps(result_document(second))
    assert html_report([first], seed=0) == html_report([second], seed=0)
    assert first.warmup == 20
    assert any("P99" in n for n in first.notes)
    assert "polyline" in html_report([first], seed=0)
    rows = trace(traffic, play(b.disaggregated(), traffic, seed=0).state)
    write_trace(rows, tmp_path / "t.csv")
    write_trace(rows, tmp_path / "t.jsonl")
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 201
    loaded = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert sum(r["measured"] for r in loaded) == first.measured
    with pytest.raises(InputError):
        write_trace(rows, tmp_path / "missing" / "t.csv")


# --- traces ---

MOONCAKE = "\n".join(
    json.dumps({"timestamp": t, "input_length": n, "output_length": 20, "hash_ids": ids})
    for t, n, ids in [
        (0, 1500, [1, 2, 3]),
        (60_000, 1500, [1, 2, 3]),
        (120_000, 2000, [1, 2, 9, 10]),
        (180_000, 1000, [5, 6]),
        (240_000, 1024, [1, 2]),
    ]
)


def test_mooncake_prefixes_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(MOONCAKE)
    traffic = read_trace(path)
    state = play(b.aggregated(ranks=1), traffic, seed=0).state
    # the last block of an equal prompt is computed again when it is full
    np.testing.assert_array_equal(state.req.hit, [0, 1472, 1024, 0, 960])
    assert traffic.arrival_s.tolist() == [0.0, 60.0, 120.0, 180.0, 240.0]


def test_azure_and_own_formats(tmp_path: Path) -> None:
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.4799600,110,27\n"
    )
    traffic = read_trace(azure)
    np.testing.assert_allclose(traffic.arrival_s, [0.0, 0.5], atol=1e-6)
    assert traffic.isl.tolist() == [4808, 110]
    own = tmp_path / "own.jsonl"
    lines = [
        {"arrival_s": 0, "isl": 640, "osl": 64, "session": "a"},
        {"arrival_s": 60, "isl": 1000, "osl": 5, "session": "a"},
    ]
    own.write_text("\n".join(json.dumps(x) for x in lines))
    state = play(b.aggregated(ranks=1), read_trace(own), seed=0).state
    # the second turn finds prompt and answer of the first: 703 computed tokens, 10 full blocks
    assert state.req.hit.tolist() == [0, 640]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"timestamp": -5, "input_length": 10, "output_length": 2}', "arrival at -0.005 s"),
        ('{"timestamp": 5, "input_length": 0, "output_length": 2}', "prompt of 0 tokens"),
        ('{"timestamp": 5, "input_length": 10}', "no field output_length"),
        ('{"timestamp": "5", "input_length": 10, "output_length": 2}', "timestamp = '5'"),
        ('{"timestamp": 5, "input_length": 10, "output_length": 2, "hash_ids": "x"}', "hash_ids"),
        ("not json", "not JSON"),
        (
            '{"timestamp": 250, "input_length": 10, "output_length": 2}',
            "arrival at 0.25 s after one at 240 s",
        ),
    ],
)
def test_each_bad_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(MOONCAKE + "\n" + line + "\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.issues[0].what.startswith(what)
    assert caught.value.issues[0].where == f"{path}:6"


def test_missing_and_empty_traces(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError):
        read_trace(tmp_path / "none.jsonl")
    empty = tmp_path / "empty.csv"
    empty.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    with pytest.raises(InputError) as caught:
        read_trace(empty)
    assert caught.value.issues[0].code == "workload.empty"
