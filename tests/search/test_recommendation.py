"""The recommendation as a user and as a program reads it."""

from __future__ import annotations

import json

import pytest

RECIPES = (
    "deepseek-r1-h200x32",
    "qwen3-235b-h100x16",
    "gpt-oss-120b-h200x8",
    "deepseek-r1-h200x16-aggregated",
)


@pytest.fixture(scope="module")
def document(planner_cli) -> dict:
    done = planner_cli("recommend", "deepseek-r1-h200x32", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_answered_within_100_columns(recipe: str, planner_cli) -> None:
    done = planner_cli("recommend", recipe)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    for part in ("Assumed", "Space", "Frontier", "Pick", "Why", "binding:", "KV tokens per rank", "80 %"):
        assert part in done.stdout


def test_json_is_one_versioned_document(document) -> None:
    assert document["schema"] == "wideplan.recommendation/v1"
    assert document["space"]["points"] >= 100_000
    assert {"assumptions", "frontier", "ranked", "pick", "reasons", "space"} <= document.keys()
    assert {e["plan"]["strategy"] for e in document["ranked"]} == {"aggregated", "disaggregated"}


def test_every_number_carries_interval_provenance_and_engine(document) -> None:
    for entry in document["ranked"]:
        evaluation = entry["evaluation"]
        for metric in ("ttft_ms", "tpot_ms", "output_tok_s_per_gpu"):
            value = evaluation[metric]
            assert 0.0 < value["low"] <= value["value"] <= value["high"]
        assert evaluation["provenance"]
        assert "vllm" in evaluation["engine"]
        for step in evaluation["steps"]:
            assert step["total_ms"] == pytest.approx(sum(t["ms"] for t in step["terms"]), rel=1e-6)


def test_the_pick_meets_the_targets_and_ranks_first(document) -> None:
    pick = document["pick"]
    assert pick["evaluation"]["ttft_ms"]["value"] <= 2000.0 * 1.02
    assert pick["evaluation"]["tpot_ms"]["value"] <= 50.0 * 1.02
    rates = [e["evaluation"]["output_tok_s_per_gpu"]["value"] for e in document["ranked"]]
    assert rates == sorted(rates, reverse=True)


def test_same_question_same_bytes(planner_cli, document) -> None:
    again = planner_cli("recommend", "deepseek-r1-h200x32", "--json")
    assert json.loads(again.stdout) == document
    assert planner_cli("recommend", "deepseek-r1-h200x32", "--json").stdout == again.stdout


def test_flags_and_recipe_agree(planner_cli, document) -> None:
    done = planner_cli(
        "recommend", "--model", "deepseek-ai/DeepSeek-R1", "--gpu", "h200-sxm", "--fabric", "ib-ndr400", "--gpus",
        "32", "--isl", "10000", "--osl", "2000", "--ttft-ms", "2000", "--tpot-ms", "50", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    other = json.loads(done.stdout)
    assert other["space"] == document["space"]
    assert other["frontier"] == document["frontier"]


def test_nothing_meets_the_targets_is_an_answer(planner_cli) -> None:
    done = planner_cli("recommend", "deepseek-r1-h200x32", "--tpot-ms", "5", "--ttft-ms", "150")
    assert done.returncode == 1
    for part in ("No plan meets the targets", "binding:", "nearest:", "would do:"):
        assert part in done.stdout


def test_saved_plan_feeds_estimate(tmp_path, planner_cli, document) -> None:
    plan = tmp_path / "plan.json"
    assert planner_cli("recommend", "deepseek-r1-h200x32", "--save", str(plan)).returncode == 0
    done = planner_cli("estimate", str(plan), "--json")
    assert done.returncode == 0, done.stderr
    priced = json.loads(done.stdout)
    assert priced["plan"] == document["pick"]["plan"]
    mine, theirs = (
        priced["evaluation"]["tpot_ms"]["value"],
        document["pick"]["evaluation"]["tpot_ms"]["value"],
    )
    assert mine == pytest.approx(theirs, rel=1e-6)


def test_why_not_names_rule_numbers_and_remedy(planner_cli) -> None:
    done = planner_cli(
        "why-not", "deepseek-r1-h200x32", "--prefill", "1x(tp3,dp4)", "--decode", "1x(tp1,dp16,deepep-ll)"
    )
    assert done.returncode == 1
    assert "not legal" in done.stdout
    assert "tp.heads" in done.stdout
    assert "use TP" in done.stdout


def test_why_not_takes_a_saved_plan(planner_cli, tmp_path) -> None:
    saved = tmp_path / "plan.json"
    done = planner_cli("recommend", "gpt-oss-120b-h200x8", "--save", saved)
    assert done.returncode == 0, done.stderr
    done = planner_cli("why-not", "--plan", saved, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "on the frontier"
    assert [r["parallelism"] for r in answer["plan"]["roles"]] == [
        r["parallelism"] for r in json.loads(saved.read_text())["plan"]["roles"]
    ]


def test_why_not_compares_a_dominated_plan_with_a_better_one(planner_cli) -> None:
    done = planner_cli(
        "why-not", "deepseek-r1-h200x32", "--prefill", "2x(tp8,dp1)", "--decode", "2x(tp8,dp1)", "--json"
    )
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "dominated"
    assert (
        answer["better_evaluation"]["output_tok_s_per_gpu"]["value"]
        > answer["evaluation"]["output_tok_s_per_gpu"]["value"]
    )


def test_the_pick_is_on_the_frontier(planner_cli, document) -> None:
    """why-not of the pick itself finds nothing better (or something within the load grid's resolution)."""
    roles = {r["role"]: r for r in document["pick"]["plan"]["roles"]}

    def notation(role: dict) -> str:
        p = role["parallelism"]
        parts = [f"tp{p['tp']}", f"dp{p['dp']}", f"dcp{p['dcp']}", "ep" if p["expert_parallel"] else "noep"]
        parts += [role["all2all"], f"kv={role['kv_dtype']}", f"tokens={role['max_num_batched_tokens']}"]
        parts += ["dbo"] if role["dbo"] else []
        parts += [f"eplb+{role['eplb']['redundant_experts']}"] if role["eplb"] else []
        return f"{role['groups']}x({','.join(parts)})"

    args = [a for name, r in roles.items() for a in (f"--{name}", notation(r))]
    done = planner_cli("why-not", "deepseek-r1-h200x32", *args, "--json")
    answer = json.loads(done.stdout)
    if answer["verdict"] == "dominated":
        better = answer["better_evaluation"]["output_tok_s_per_gpu"]["value"]
        assert answer["evaluation"]["output_tok_s_per_gpu"]["value"] > 0.9 * better
    else:
        assert answer["verdict"] == "on the frontier"
