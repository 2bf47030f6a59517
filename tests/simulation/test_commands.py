"""The commands as a user runs them, and kernels as plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.main import main
from planner.simulation.experiments.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]
RECIPE = "gpt-oss-120b-h200x8"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    status = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_simulate_writes_one_stable_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, html = tmp_path / "t.csv", tmp_path / "r.html"
    arguments = ("simulate", RECIPE, "--requests", "400", "--concurrency", "16", "--json")
    status, out, _ = run(capsys, *arguments, "--trace", str(trace), "--html", str(html))
    assert status == 0
    document = json.loads(out)
    assert document["schema"] == "wideplan.simulation/v1"
    result = document["result"]
    assert result["measured"] < result["requests"] == 400
    assert result["output_tok_s"]["value"] > 0
    assert result["engine"].startswith("vllm ")
    assert len(trace.read_text().splitlines()) == 401
    assert "<svg" in html.read_text()
    assert run(capsys, *arguments)[1] == out


def test_simulate_prints_tables_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "simulate", RECIPE, "--requests", "200", "--concurrency", "8", "--router", "random"
    )
    assert status == 0
    assert "warm-up" in out
    assert "TTFT" in out
    assert "P99 rests on" in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_burst_has_no_steady_state_and_its_rate_covers_the_run_down(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("simulate", RECIPE, "--requests", "60", "--arrival", "burst", "--rate", "2", "--json")
    result = json.loads(run(capsys, *arguments)[1])["result"]
    assert any("No steady state" in n for n in result["notes"])
    assert result["window_s"] > result["e2e_ms"]["p50"]["value"] / 1000.0
    assert 0 < result["requests_per_s"] < 1000
    assert result["output_tok_s"]["value"] > 0


def test_what_contradicts_the_plan_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("simulate", RECIPE, "--workload", "60000/10", "--requests", "40", "--concurrency", "40")
    notes = run(capsys, *arguments)[1].split("note: ")[1:]
    assert any("40 of 40 requests are longer (up to 60,010 tokens)" in " ".join(n.split()) for n in notes)
    assert any(n.startswith("Target missed: TTFT p50") for n in notes)
    fits = run(capsys, "simulate", RECIPE, "--requests", "40", "--concurrency", "1")[1]
    assert "Target missed: TPOT" not in fits
    assert "max-model-len" not in fits


@pytest.mark.parametrize(
    "command",
    [("simulate", RECIPE), ("compare", RECIPE), ("experiments", "run", "--all"), ("search", RECIPE)],
)
def test_a_negative_seed_is_refused(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    status, _, err = run(capsys, *command, "--seed", "-1")
    assert status == 2
    assert "--seed" in err


def test_compare_pairs_routers(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "compare", RECIPE, "--router", "prefix+active-request", "--router", "random", "--workload", "seed-talk",
        "--concurrency", "16", "--requests", "240", "--replications", "2", "--json",
    )  # fmt: skip
    assert status == 0
    document = json.loads(out)
    assert len(document["results"]) == 2
    assert {d["metric"] for d in document["differences"]} >= {"output tok/s/GPU", "TTFT p50, ms"}
    assert document["results"][0]["prefix_hit_rate"] > document["results"][1]["prefix_hit_rate"]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("simulate", RECIPE, "--router", "randm"), 2, "router.unknown"),
        (("simulate", RECIPE, "--arrival", "poison", "--rate", "3"), 2, "workload.arrival"),
        (("simulate", RECIPE, "--arrival", "poisson"), 2, "workload.rate"),
        (("simulate", RECIPE, "--requests", "0"), 2, "workload.empty"),
        (("simulate", RECIPE, "--workload", "none.jsonl"), 3, "file.not_found"),
        (("simulate", RECIPE, "--workload", "90000000/10"), 2, "simulation.capacity"),
        (("simulate", "nothing.yaml"), 3, "file.not_found"),
        (("compare", RECIPE), 2, "compare.too_few"),
        (("compare", RECIPE, RECIPE, "--router", "random", "--router", "prefix"), 2, "compare.too_many"),
        (("experiments", "run", "herdin"), 2, "experiment.unknown"),
        (("experiments", "run"), 2, "experiment.which"),
    ],
)
def test_mistakes_are_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, code: str
) -> None:
    found, out, err = run(capsys, *arguments)
    assert found == status
    assert f"error[{code}]" in err
    assert "Traceback" not in err
    assert out == ""


def test_experiments_are_listed_and_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert {e.law for e in EXPERIMENTS.values()} == set(range(1, 17))
    status, out, _ = run(capsys, "experiments", "list", "--json")
    assert status == 0
    assert len(json.loads(out)["experiments"]) == len(EXPERIMENTS)
    html = tmp_path / "e.html"
    status, out, _ = run(
        capsys,
        "experiments",
        "run",
        "dual-batch-overlap",
        "slowest-rank",
        "herding",
        "--json",
        "--html",
        str(html),
    )
    results = json.loads(out)["results"]
    assert status == (0 if all(r["passed"] for r in results) else 1)
    assert next(r for r in results if r["name"] == "herding")["passed"]
    assert html.read_text().count("<h2>") == 3


PROGRAM = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import builders as b
from planner.simulation.engine import play
from planner.simulation.traffic import Shape, Turn, make_traffic
shape = Shape(label="x", turns=(Turn(new_tokens=300, answer_tokens=6), Turn(new_tokens=20, answer_tokens=5)),
              system_tokens=100, length_cv=0.3)
traffic = make_traffic(shape, sessions=12, seed=3, concurrency=5)
state = play(b.disaggregated(prefill={"kv_blocks": 40}, decode={"kv_blocks": 30}), traffic, seed=1).state
print(hashlib.sha256(state.req.tobytes() + state.rank.tobytes() + state.pool.tobytes()).hexdigest())
"""


def test_kernels_do_the_same_as_plain_python() -> None:
    digests = set()
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)], env=environment, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
