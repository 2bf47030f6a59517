"""`planner size` as its user meets it: documents, text, statuses, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.main import main
from planner.search.sizing.load import Load, LoadKind, parse_rate, plain
from planner.search.sizing.size import enough_data, read_gpus

QUICK = (
    "size", "--model", "openai/gpt-oss-120b", "--isl", "4000", "--osl", "500", "--kv-dtype", "fp8",
    "--no-dbo", "--no-eplb", "--strategy", "aggregated", "--no-calibration",
)  # fmt: skip
TARGETS = ("--ttft-ms", "700", "--tpot-ms", "20")


def _run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(list(args))
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


# --- units ---


@pytest.mark.parametrize(
    ("text", "per_second"),
    [("20", 20.0), ("20rps", 20.0), (" 1.5 RPS ", 1.5), ("1200rpm", 20.0), ("72000rph", 20.0), (".5", 0.5)],
)
def test_rates_with_units(text: str, per_second: float) -> None:
    assert parse_rate(text) == pytest.approx(per_second)


@pytest.mark.parametrize("text", ["", "rps", "20tps", "1e3", "-5", "20 per s", "1.5krps", "nan", "inf"])
def test_what_is_no_rate(text: str) -> None:
    assert parse_rate(text) is None


def test_loads_read_back_as_they_were_asked() -> None:
    assert Load(LoadKind.RATE, 20.0).text() == "20 requests/s"
    assert Load(LoadKind.USERS, 2000.0).text() == "2,000 users"
    assert plain(1999.6) == "2,000"
    assert read_gpus("h200, b200,h200") == ("h200", "b200")


def test_types_without_data_are_named_with_the_reason() -> None:
    chosen, left_out = enough_data()
    assert {"h100-sxm", "h200-sxm", "b200-sxm", "gb200"} <= set(chosen)
    reasons = {entry.gpu: entry.why for entry in left_out}
    assert "announced" in reasons["rubin-vr200"]
    assert "export-restricted" in reasons["h20"]
    assert "not measured" in reasons["mi300x"]
    assert "taken from h100-sxm" in reasons["gh200"]
    assert not set(chosen) & set(reasons)


# --- answers ---


def test_the_document_holds_fleets_frontier_and_headroom(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    status, out, err = _run(
        capsys, *QUICK, *TARGETS, "--users", "450", "--gpu", "h200-sxm", "--json", "--save", str(saved)
    )
    assert status == 0
    document = json.loads(out)
    assert document["schema"] == "wideplan.sizing/v1"
    assert "h200-sxm: 24 GPUs (1 of 1)" in err
    (entry,) = document["types"]
    fleet = entry["fleet"]
    assert document["cheapest"] == document["fewest"] == "h200-sxm"
    assert fleet["gpus"] == 24
    assert fleet["cost"]["usd_per_hour"] == pytest.approx(24 * fleet["cost"]["usd_per_gpu_hour"])
    evaluation = fleet["evaluation"]
    tokens_per_hour = evaluation["requests_per_s"] * 500 * 3600
    assert fleet["cost"]["usd_per_m_output_tokens"] == pytest.approx(
        fleet["cost"]["usd_per_hour"] / tokens_per_hour * 1e6
    )
    assert evaluation["usd_per_m_output_tokens"] == pytest.approx(fleet["cost"]["usd_per_m_output_tokens"])
    sizes = [p["gpus"] for p in fleet["frontier"]]
    speeds = [p["tok_s_user"] for p in fleet["frontier"]]
    assert sizes == sorted(set(sizes))
    assert speeds == sorted(speeds)
    assert all(p["tpot_ms"] <= 1000.0 / p["tok_s_user"] * 1.001 for p in fleet["frontier"])
    low, high = fleet["gpus_interval"]
    assert low <= 24 <= high
    assert next(h["event"] for h in fleet["headroom"]) == "1 node lost"
    assert fleet["one_more_lost"] > 24
    assert json.loads(saved.read_text())["schema"] == "wideplan.plan/v1"


def test_the_text_fits_and_says_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(
        capsys, *QUICK, *TARGETS, "--rate", "600rpm", "--gpu", "h200-sxm,h100-sxm", "--spare-nodes", "1",
        "--rollout", "surge",
    )  # fmt: skip
    assert status == 0
    assert max(len(line) for line in out.splitlines()) <= 100
    for words in (
        "for 10 requests/s",
        "any node may fail; rollout surge",
        "Poisson",
        "Smallest fleet per GPU type",
        "What speed costs",
        "holds 2 lost",
        "one node less carries",
        "Pick (cheapest)",
    ):
        assert words in " ".join(out.split()), words


def test_workers_change_nothing(planner_cli, capsys: pytest.CaptureFixture[str]) -> None:
    """Two types in processes of their own give the bytes of one after the other."""
    args = (*QUICK, *TARGETS, "--users", "100", "--gpu", "h200-sxm,h100-sxm", "--json")
    done = planner_cli(*args)
    assert done.returncode == 0, done.stderr
    alone = []
    for gpu in ("h200-sxm", "h100-sxm"):
        _, out, _ = _run(capsys, *args[:-2], gpu, "--json")
        alone.append(json.loads(out)["types"][0]["fleet"])
    assert [t["fleet"] for t in json.loads(done.stdout)["types"]] == alone


def test_no_fleet_is_an_answer_with_status_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    status, out, err = _run(
        capsys, *QUICK, "--ttft-ms", "60", "--tpot-ms", "20", "--rate", "5", "--gpu", "h200-sxm", "--save", str(saved)
    )  # fmt: skip
    assert status == 1
    assert "No fleet of h200-sxm carries the load" in out
    assert "binding: TTFT target" in out
    assert "without the TTFT target" in out
    assert "Traceback" not in err
    assert not saved.exists()


def test_a_bound_of_physics_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, *QUICK, "--tpot-ms", "0.001", "--rate", "5", "--gpu", "h200-sxm", "--json")
    assert status == 1
    (entry,) = json.loads(out)["types"]
    assert entry["fleet"] is None
    assert "reading the active weights" in entry["shortfall"]["binding"]


def test_a_load_beyond_one_plan_says_what_is_carried(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, *QUICK, *TARGETS, "--rate", "900000", "--gpu", "h200-sxm")
    assert status == 1
    assert "10,000 GPUs carry" in out


def test_prices_of_one_tier(capsys: pytest.CaptureFixture[str]) -> None:
    args = (*QUICK, *TARGETS, "--users", "100", "--gpu", "h200-sxm,h800-sxm", "--json")
    status, out, _ = _run(capsys, *args, "--price-tier", "rental-3yr")
    assert status == 0
    h200, h800 = json.loads(out)["types"]
    assert h200["fleet"]["cost"]["usd_per_gpu_hour"] == 1.6
    assert h800["fleet"]["cost"] is None
    assert json.loads(out)["cheapest"] == "h200-sxm"
    _, text, _ = _run(capsys, *args[:-1])
    assert "prices are of different tiers" not in text  # both are neocloud prices
    assert "(neocloud)" in text


def test_a_recipe_gives_model_traffic_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(
        capsys, "size", "deepseek-r1-h200x32", "--rate", "2", "--gpu", "gb200", "--strategy", "aggregated",
        "--tpot-ms", "45", "--json",
    )  # fmt: skip
    assert status == 0
    document = json.loads(out)
    assert "10000 in / 2000 out" in document["question"]
    assert "TTFT <= 2000 ms, TPOT <= 45 ms" in document["question"]
    (entry,) = document["types"]
    assert entry["gpu"] == "gb200"
    assert entry["fleet"]["scale_up_domains"] == 1
    assert entry["fleet"]["plan"]["name"] == f"deepseek-r1-gb200x{entry['fleet']['gpus']}"


def test_part_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, *QUICK, *TARGETS, "--users", "20", "--gpu", "h200-sxm", "--json")
    fleet = json.loads(out)["types"][0]["fleet"]
    assert fleet["gpus"] == 8
    assert fleet["gpus_enough"] in (1, 2, 4)


# --- refusals ---

BAD = {
    "neither load": ((), "size.load"),
    "both loads": (("--rate", "5", "--users", "5"), "size.load"),
    "unit": (("--rate", "20tps"), "size.rate"),
    "zero": (("--rate", "0rps"), "size.rate"),
    "no users": (("--users", "0"), "size.users"),
    "users without target": (("--users", "5"), "size.no-target"),
    "spare nodes": (("--rate", "5", "--spare-nodes", "-1"), "size.spare-nodes"),
    "rollout": (("--rate", "5", "--rollout", "bluegreen"), "size.rollout"),
    "price tier": (("--rate", "5", "--price-tier", "spot"), "size.price-tier"),
    "two prices": (
        ("--rate", "5", "--price-tier", "neocloud", "--usd-per-gpu-hour", "2"),
        "flags.conflict",
    ),
    "gpu": (("--rate", "5", "--gpu", "h201"), "gpu.unknown"),
    "fabric": (("--rate", "5", "--gpu", "h200", "--fabric", "ib"), "fabric.unknown"),
    "node": (("--rate", "5", "--cluster", "nowhere"), "node.unknown"),
    "node and gpu": (("--rate", "5", "--cluster", "coreweave-h200", "--gpu", "b200"), "flags.conflict"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags, code = BAD[name]
    gpu = () if "--gpu" in flags or "--cluster" in flags else ("--gpu", "h200-sxm")
    status, out, err = _run(capsys, *QUICK, *gpu, *flags)
    assert status == 2
    assert out == ""
    assert f"error[{code}]" in err
    assert "fix:" in err


def test_all_mistakes_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _run(
        capsys, "size", "--model", "nope", "--rate", "5x", "--gpu", "h201", "--spare-nodes", "99", "--isl", "0",
        "--ttft-ms", "-1", "--rollout", "x",
    )  # fmt: skip
    assert status == 2
    for code in (
        "model.unknown", "size.rate", "gpu.unknown", "size.spare-nodes", "isl.not-positive",
        "ttft-ms.not-positive", "size.rollout",
    ):  # fmt: skip
        assert f"error[{code}]" in err, code


def test_a_missing_model_keeps_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _run(capsys, "size", "--model", "nope-7b", "--rate", "5", "--gpu", "h200-sxm")
    assert status == 3
    assert "error[model.unknown]" in err


def test_an_interrupt_ends_all_processes_without_a_traceback() -> None:
    types = "h200-sxm,h100-sxm,b200-sxm,b300-sxm,gb200,gb300,a100-80-sxm"
    with subprocess.Popen(
        [sys.executable, "-m", "planner.cli.main", *QUICK, *TARGETS, "--users", "100", "--gpu", types],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        first = process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert "(1 of 7)" in first
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
