"""`planner simulate --autoscale` and `--scenario` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli.main import main
from planner.cli.render_scaling import bars

RECIPE = "gpt-oss-120b-h200x8"
CURVE = ("--peak-rps", "30", "--trough-rps", "6", "--period", "6m")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    status = 0
    try:
        main(["simulate", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recipe's plan, saved once."""
    from planner.catalog.plans import save_plan
    from planner.cli.simulation_inputs import load

    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    save_plan(load(RECIPE, None), path)
    return str(path)


@pytest.fixture(scope="module")
def ep_plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two ranks with expert parallelism."""
    from dataclasses import replace

    from planner.catalog.plans import save_plan
    from planner.domain.deployment import Role
    from planner.domain.workload import SloTargets
    from planner.simulation.experiments.lab import Lab

    lab = Lab("openai/gpt-oss-120b", "h200-sxm", "ib-ndr400")
    plan = lab.plan(lab.role(Role.AGGREGATED, dp=2), isl=500, osl=100)
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    save_plan(replace(plan, concurrency=64, slo=SloTargets(ttft_ms=1000.0, tpot_ms=50.0)), path)
    return str(path)


def test_autoscale_writes_one_stable_document(
    capsys: pytest.CaptureFixture[str], plan_file: str, tmp_path: Path
) -> None:
    html = tmp_path / "a.html"
    arguments = (plan_file, "--autoscale", *CURVE, "--cold-start-s", "60", "--json")
    status, out, _ = run(capsys, *arguments, "--html", str(html))
    assert status == 0
    document = json.loads(out)
    assert document["schema"] == "wideplan.scaling/v1"
    names = [v["name"] for v in document["variants"]]
    assert names[0] == "static for the peak"
    assert len(set(names)) == len(names) == 5
    assert len({v["requests"] for v in document["variants"]}) == 1
    for v in document["variants"]:
        assert v["gpu_hours"] == pytest.approx(sum(r["gpu_hours"] for r in v["roles"]))
        assert len(v["windows"]) == 48
        assert all(len(r["groups"]) == 48 for r in v["roles"])
    assert document["cold_start_s"] == 60.0
    assert "<svg" in html.read_text()
    assert run(capsys, *arguments)[1] == out


def test_autoscale_prints_what_it_saves_and_what_is_supported(
    capsys: pytest.CaptureFixture[str], plan_file: str
) -> None:
    status, out, err = run(
        capsys, plan_file, "--autoscale", *CURVE, "--cold-start-s", "30", "--replications", "2",
        "--metric", "decode=kv", "--target", "prefill=3000", "--max-groups", "decode=2",
    )  # fmt: skip
    assert status == 0, err
    for text in (
        "static for the peak",
        "GPU-h",
        "Price of cold starts",
        "DisaggregatedSetRoleScaler",
        "over 2 days",
        "KV cache in use",
    ):
        assert text in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_load_file_replaces_the_daily_curve(
    capsys: pytest.CaptureFixture[str], plan_file: str, tmp_path: Path
) -> None:
    path = tmp_path / "load.csv"
    path.write_text("time_s,rps\n0,4\n200,4\n200,20\n400,20\n")
    status, out, _ = run(
        capsys, plan_file, "--autoscale", "--load-curve", str(path), "--cold-start-s", "20", "--json"
    )
    assert status == 0
    document = json.loads(out)
    assert document["curve"]["label"] == "load.csv"
    assert document["curve"]["time_s"][-1] == 400.0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--peak-rps", "3"), "scaling.flag"),
        (("--autoscale",), "scaling.load"),
        (("--autoscale", *CURVE), "scaling.assumption"),
        (("--autoscale", *CURVE, "--cold-start-s", "-1"), "scaling.assumption"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--rate", "3"), "scaling.conflict"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--load-curve", "x.csv"), "scaling.conflict"),
        (("--autoscale", "--scenario", "elastic-ep"), "scaling.conflict"),
        (("--autoscale", "--peak-rps", "1", "--trough-rps", "1", "--period", "soon"), "scaling.period"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--sync-s", "0"), "scaling.behaviour"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--metric", "decode=joy"), "scaling.metric"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--metric", "kv"), "scaling.role"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--target", "decode=nan"), "scaling.role"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--max-groups", "decode=1.5"), "scaling.role"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--max-groups", "router=2"), "scaling.role"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--min-groups", "decode=9", "--max-groups", "decode=2"), "scaling.bounds"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--workload", "trace.csv"), "scaling.workload"),
        (("--scenario", "elastic"), "scaling.scenario"),
        (("--autoscale", *CURVE, "--cold-start-s", "9", "--ttft-ms", "0"), "scaling.targets"),
        (("--scenario", "elastic-ep", *CURVE, "--cold-start-s", "9"), "scaling.assumption"),
        (("--scenario", "async-eplb", "--peak-rps", "3"), "scaling.conflict"),
        (("--scenario", "elastic-ep", "--max-groups", "3"), "scaling.conflict"),
        (("--scenario", "async-eplb", "--replications", "3"), "scaling.conflict"),
        (("--scenario", "async-eplb", "--workload", "500/100"), "elastic.no_ep"),
        (("--scenario", "elastic-ep", *CURVE, "--cold-start-s", "9", "--prepare-s", "1", "--pause-s", "1", "--dp-sizes", "a"), "elastic.widths"),
        (("--scenario", "elastic-ep", *CURVE, "--cold-start-s", "9", "--prepare-s", "1", "--pause-s", "1"), "elastic.no_ep"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_a_fix(
    capsys: pytest.CaptureFixture[str], plan_file: str, arguments: tuple[str, ...], code: str
) -> None:
    status, out, err = run(capsys, plan_file, *arguments)
    assert status == 2
    assert out == ""
    assert f"error[{code}]" in err
    assert "fix:" in err
    assert "Traceback" not in err


def test_all_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str], plan_file: str) -> None:
    _, _, err = run(capsys, plan_file, "--scenario", "elastic-ep", "--sync-s", "0", "--dp-sizes", "x")
    for code in ("scaling.load", "scaling.assumption", "scaling.behaviour", "elastic.widths"):
        assert f"error[{code}]" in err
    assert err.count("error[scaling.assumption]") == 3  # cold start, preparation, pause


def test_elastic_ep_compares_five_fleets(capsys: pytest.CaptureFixture[str], ep_plan_file: str) -> None:
    arguments = (
        ep_plan_file, "--scenario", "elastic-ep", "--peak-rps", "90", "--trough-rps", "10", "--period", "8m",
        "--cold-start-s", "60", "--prepare-s", "20", "--pause-s", "5",
    )  # fmt: skip
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["schema"] == "wideplan.elastic-ep/v1"
    assert [w["dp"] for w in document["widths"]] == [2, 4]
    narrow, wide = document["widths"]
    assert wide["redundant_experts"] == 2 * (128 + narrow["redundant_experts"]) - 128
    assert wide["kv_tokens"] == narrow["kv_tokens"] < wide["launched_kv_tokens"]
    fleets = {v["name"]: v for v in document["variants"]}
    assert list(fleets) == [
        "always dp4",
        "always dp2",
        "1-2 groups of dp2",
        "elastic, drained",
        "elastic, live",
    ]
    assert fleets["elastic, live"]["started"] >= 1
    assert fleets["elastic, live"]["refused"] == 0
    assert fleets["elastic, live"]["gpu_hours"] < fleets["always dp4"]["gpu_hours"]
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "--enable-elastic-ep" in out


def test_async_eplb_prints_the_cost_of_a_stall_beside_the_hand_calculation(
    capsys: pytest.CaptureFixture[str], ep_plan_file: str
) -> None:
    status, out, err = run(capsys, ep_plan_file, "--scenario", "async-eplb", "--pause-s", "2", "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["schema"] == "wideplan.async-eplb/v1"
    ways = {w["name"]: w for w in document["ways"]}
    loss = (
        1
        - ways["sync, no drift"]["result"]["output_tok_s"]["value"]
        / ways["async, no drift"]["result"]["output_tok_s"]["value"]
    )
    interval_s = ways["sync, no drift"]["interval_steps"] * document["step_ms"] * 1e-3
    assert loss == pytest.approx(2.0 / (interval_s + 2.0), rel=0.4)
    assert document["slowdown_before"] <= document["hottest_load"]
    status, out, _ = run(capsys, ep_plan_file, "--scenario", "async-eplb", "--requests", "500")
    assert status == 0
    assert "by hand" in out
    assert "do not cover" in out
    assert max(map(len, out.splitlines())) <= 100


def test_bars_show_shares_and_gaps() -> None:
    assert bars([0.0, 0.5, 1.0, float("nan")], 1.0) == "▁▄█ "
