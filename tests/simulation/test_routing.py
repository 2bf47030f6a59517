"""llm-d's formulas one by one, the pickers, the deciders, and what routers do to a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import builders as b
import numpy as np
import pytest

from planner.domain.deployment import RouterKind, RouterPolicy, Scorer
from planner.domain.errors import InputError
from planner.simulation.build import build_state
from planner.simulation.cluster import RouterTiming
from planner.simulation.engine import play, simulate
from planner.simulation.epp_config import read_epp_config
from planner.simulation.kernels import state as st
from planner.simulation.presets import ROUTERS, llm_d, router_named
from planner.simulation.routing import codes
from planner.simulation.routing.picker import pick_llm_d
from planner.simulation.routing.registry import PLUGINS, check_policy
from planner.simulation.traffic import SEED_TALK, make_traffic, single

SERVING = 1


def scored(*scorers: Scorer, **ranks: list[float]) -> st.State:
    """A four-rank state with the given rank fields, after one decision with `scorers`."""
    policy = RouterPolicy(kind=RouterKind.LLM_D, decode_scorers=scorers)
    traffic = make_traffic(SEED_TALK, sessions=4, seed=0, concurrency=4)
    state = build_state(b.aggregated(policy), traffic, seed=0)
    for name, values in ranks.items():
        if name == "matched":
            state.score[codes.MATCHED] = values
        else:
            state.rank[name] = values
    pick_llm_d(state, state.candidates[SERVING], 4, 0, SERVING)
    return state


@pytest.mark.parametrize(
    ("scorer", "ranks", "expected"),
    [
        ("queue-scorer", {"seen_waiting": [0, 5, 10, 2]}, [1.0, 0.5, 0.0, 0.8]),
        ("queue-scorer", {"seen_waiting": [3, 3, 3, 3]}, [1.0, 1.0, 1.0, 1.0]),
        ("running-requests-size-scorer", {"seen_running": [8, 4, 0, 8]}, [0.0, 0.5, 1.0, 0.0]),
        ("kv-cache-utilization-scorer", {"seen_usage": [0.0, 0.25, 1.0, 0.9]}, [1.0, 0.75, 0.0, 0.1]),
        ("load-aware-scorer", {"seen_waiting": [0, 64, 128, 500]}, [0.5, 0.25, 0.0, 0.0]),
        ("active-request-scorer", {"inflight": [0, 1, 4, 2]}, [1.0, 0.75, 0.0, 0.5]),
        ("prefix-cache-scorer", {"matched": [0, 5000, 10000, 2500]}, [0.0, 0.5, 1.0, 0.25]),
        ("token-load-scorer", {"inflight_tokens": [0, 2_087_152, 9e6, 0], "matched": [0, 0, 0, 10000]},
         [1 - 10000 / 4194304, 0.5, 0.0, 1.0]),
        ("no-hit-lru-scorer", {"cold_use": [0, 7, 3, 0]}, [1.0, 0.0, 1 / 3, 2 / 3]),
        ("no-hit-lru-scorer", {"cold_use": [0, 7, 3, 0], "matched": [0, 0, 1, 0]}, [0.5, 0.5, 0.5, 0.5]),
    ],
)  # fmt: skip
def test_scores_follow_the_published_formulas(
    scorer: str, ranks: dict[str, list[float]], expected: list[float]
) -> None:
    state = scored(Scorer(type=scorer), **ranks)
    np.testing.assert_allclose(state.score[codes.TOTAL], expected, rtol=0.002)


def test_match_length_weight_rewards_long_matches() -> None:
    scorer = Scorer(
        type="prefix-cache-scorer", parameters={"matchLengthWeight": 0.5, "matchLengthScaleTokens": 8192}
    )
    state = scored(scorer, matched=[0, 4096, 8192, 10000])
    expected = [0.5 * min(1, m / 8192) ** 2 + 0.5 * m / 10000 for m in (0, 4096, 8192, 10000)]
    np.testing.assert_allclose(state.score[codes.TOTAL], expected)


def test_weights_add_up() -> None:
    state = scored(
        Scorer(type="queue-scorer", weight=2.0), Scorer(type="kv-cache-utilization-scorer", weight=3.0),
        seen_waiting=[0, 10, 5, 5], seen_usage=[1.0, 0.0, 0.5, 0.5],
    )  # fmt: skip
    np.testing.assert_allclose(state.score[codes.TOTAL], [2.0, 3.0, 2.5, 2.5])


def test_affinity_filter_keeps_the_warm_endpoint_until_it_costs_too_much() -> None:
    near = Scorer(type="prefix-cache-affinity-filter", parameters={"peakPrefillThroughput": 1000})
    kept = scored(near, matched=[0, 9000, 0, 8500]).score[codes.KEPT]
    np.testing.assert_array_equal(kept, [0, 1, 0, 1])
    # 30 s of queued prompt tokens against nothing elsewhere exceeds 18 s
    kept = scored(near, matched=[0, 9000, 0, 0], inflight_tokens=[0, 30_000, 0, 0]).score[codes.KEPT]
    np.testing.assert_array_equal(kept, [1, 1, 1, 1])


def test_utilization_filter_drops_full_endpoints_unless_all_are() -> None:
    cap = Scorer(type="utilization-filter", parameters={"maxWaitingRequests": 5})
    np.testing.assert_array_equal(scored(cap, seen_waiting=[0, 9, 2, 6]).score[codes.KEPT], [1, 0, 1, 0])
    np.testing.assert_array_equal(scored(cap, seen_waiting=[7, 9, 8, 6]).score[codes.KEPT], [1, 1, 1, 1])


def test_ties_are_broken_evenly_and_reproducibly() -> None:
    traffic = make_traffic(single(64, 2), sessions=4000, seed=0, concurrency=1)
    cluster = b.aggregated(llm_d(("queue-scorer", 1.0)), tables=b.constant_tables(1.0))
    first, second = (play(cluster, traffic, seed=9).state for _ in range(2))
    counts = np.bincount(first.req.serve, minlength=4)
    assert counts.min() > 900
    np.testing.assert_array_equal(first.req.serve, second.req.serve)
    assert (play(cluster, traffic, seed=10).state.req.serve != first.req.serve).any()


def test_stale_metrics_send_a_burst_to_the_same_rank() -> None:
    traffic = make_traffic(single(3000, 50), sessions=16, seed=0, concurrency=16, spread_s=0.02)
    policy = llm_d(("queue-scorer", 1.0), ("kv-cache-utilization-scorer", 1.0))
    spread = {}
    for scrape_ms in (0.001, 50.0):
        cluster = b.disaggregated(policy, prefill={"groups": 4}, timing=RouterTiming(scrape_ms=scrape_ms))
        state = play(replace(cluster, timing=RouterTiming(scrape_ms=scrape_ms)), traffic, seed=0).state
        spread[scrape_ms] = np.bincount(state.req.prefill, minlength=4).max()
    assert spread[0.001] == 4
    assert spread[50.0] > 4


@pytest.mark.parametrize("router", sorted(ROUTERS))
def test_every_router_serves_every_rank_under_load(router: str) -> None:
    traffic = make_traffic(SEED_TALK, sessions=40, seed=0, concurrency=40, spread_s=5.0)
    result = simulate(b.disaggregated(ROUTERS[router], decode={"kv_blocks": 9000}), traffic)
    assert all(r.requests > 0 for r in result.roles[1].ranks)


def test_decider_keeps_short_new_prompts_on_the_decode_rank() -> None:
    traffic = make_traffic(SEED_TALK, sessions=6, seed=0, concurrency=2)
    policy = llm_d(("prefix-cache-scorer", 3.0), decider="prefix-based-pd-decider", non_cached=4096)
    cluster = b.disaggregated(policy, timing=RouterTiming(precise_index=True))
    state = play(cluster, traffic, seed=0).state
    split = state.req.prefill >= 0
    np.testing.assert_array_equal(split, traffic.isl == 10_000)
    # without a threshold the decider never disaggregates
    never = b.disaggregated(llm_d(("prefix-cache-scorer", 3.0), decider="prefix-based-pd-decider"))
    assert (play(never, traffic, seed=0).state.req.prefill == -1).all()


def test_session_affinity_holds_sessions() -> None:
    traffic = make_traffic(SEED_TALK, sessions=10, seed=0, concurrency=5)
    state = play(b.aggregated(llm_d(("session-affinity-scorer", 1.0))), traffic, seed=0).state
    assert all(len(set(state.req.serve[traffic.session == s])) == 1 for s in range(10))


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (llm_d(("queue-scorer", 0.0)), "router.weights"),
        (llm_d(("queue-scorer", -1.0), ("kv-cache-utilization-scorer", 2.0)), "router.weights"),
        (llm_d(("queue-score", 1.0)), "router.plugin"),
        (llm_d(("queue-scorer", 1.0), decider="sometimes"), "router.decider"),
        (
            RouterPolicy(decode_scorers=(Scorer(type="queue-scorer", parameters={"x": 1}),)),
            "router.parameter",
        ),
    ],
)
def test_bad_policies_are_refused_by_name(policy: RouterPolicy, code: str) -> None:
    with pytest.raises(InputError) as caught:
        build_state(
            b.aggregated(policy), make_traffic(single(10, 2), sessions=1, seed=0, concurrency=1), seed=0
        )
    assert code in {i.code for i in caught.value.issues}


FIRST = "- type: disagg-profile-handler"
CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: disagg-profile-handler
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 512}
- type: precise-prefix-cache-producer
- type: prefill-filter
- name: warm
  type: prefix-cache-scorer
  parameters: {matchLengthWeight: 0.2}
- type: active-request-scorer
- type: weighted-random-picker
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: warm, weight: 3}, {pluginRef: active-request-scorer, weight: 2}]
- name: decode
  plugins: [{pluginRef: active-request-scorer}, {pluginRef: weighted-random-picker}]
"""


def test_reads_an_endpoint_picker_config(tmp_path: Path) -> None:
    path = tmp_path / "epp.yaml"
    path.write_text(CONFIG)
    found = read_epp_config(path)
    assert found.timing.precise_index
    assert found.policy.decider == "prefix-based-pd-decider"
    assert found.policy.decider_parameters == {"nonCachedTokens": 512}
    assert [(s.type, s.weight) for s in found.policy.prefill_scorers] == [
        ("prefix-cache-scorer", 3.0), ("active-request-scorer", 2.0)
    ]  # fmt: skip
    assert found.policy.prefill_scorers[0].parameters == {"matchLengthWeight": 0.2}
    assert [s.type for s in found.policy.decode_scorers] == [
        "active-request-scorer",
        "weighted-random-picker",
    ]
    assert check_policy(found.policy) == ()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("type: active-request-scorer", "type: active-requests-scorer", "router.plugin"),
        ("pluginRef: warm", "pluginRef: worm", "router.reference"),
        ("matchLengthWeight: 0.2", "matchLenWeight: 0.2", "router.parameter"),
        ("weight: 2}", "weight: heavy}", "router.weights"),
        (
            FIRST,
            "- {type: approx-prefix-cache-producer, parameters: {blockSizeTokens: big}}\n" + FIRST,
            "router.parameter",
        ),
        (FIRST, "- {type: queue-scorer, parameters: 5}\n" + FIRST, "router.parameter"),
        ("kind: EndpointPickerConfig", "kind: ConfigMap\ndata: [1]", "router.file"),
        ("kind: EndpointPickerConfig", "kind: Deployment", "router.file"),
        ("kind: EndpointPickerConfig", "kind: [", "file.malformed"),
    ],
)
def test_config_errors_name_the_line_or_the_plugin(tmp_path: Path, old: str, new: str, code: str) -> None:
    path = tmp_path / "epp.yaml"
    path.write_text(CONFIG.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_epp_config(path)
    assert code in {i.code for i in caught.value.issues}


def test_unknown_router_suggests_a_name() -> None:
    with pytest.raises(InputError) as caught:
        router_named("leastqueue")
    assert "least-queue" in caught.value.issues[0].fix


def test_every_plugin_code_is_distinct_per_formula() -> None:
    shared = {"precise-prefix-cache-scorer", "lora-affinity-scorer", "context-length-aware"}
    own = [p.code for name, p in PLUGINS.items() if name not in shared]
    assert len(own) == len(set(own))
