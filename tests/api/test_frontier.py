"""The frontier's answer: same as the views', cheap to ask again, honest about mistakes, closed to paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.views.frontier import frontier_view
from console.views.frontier_model import FrontierOptions
from console.views.points import points_of
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.solve import solve

RECIPE = "gpt-oss-120b-h200x8"


def test_the_answer_is_the_view(console: Any) -> None:
    page = console.get("/api/v1/frontier", recipe=RECIPE, limit=500).json()
    problem, engine = build_problem(with_recipe(RECIPE, Request()))
    points = points_of(solve(problem, engine))
    view = frontier_view(points, FrontierOptions(slo=problem.slo))
    assert page["total"] == view.total
    assert page["meeting"] == view.meeting
    assert page["rows_total"] == len(view.rows)
    assert [r["plan"] for r in page["rows"]] == [r.plan for r in view.rows[:500]]
    assert page["best"]["plan"] == view.best.plan if view.best else page["best"] is None
    for row, own in zip(page["rows"], view.rows, strict=False):
        assert row["values"] == pytest.approx(own.values, rel=1e-5)


def test_asking_again_costs_nothing(console: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import planner.search.solve as solving

    first = console.get("/api/v1/frontier", recipe=RECIPE)
    monkeypatch.setattr(solving, "solve", None)  # any further solve would fail
    again = console.get("/api/v1/frontier", recipe=RECIPE)
    assert again.content == first.content
    tag = first.headers["etag"]
    unchanged = console.ask(
        "GET", "/api/v1/frontier", params={"recipe": RECIPE}, headers={"if-none-match": tag}
    )
    assert unchanged.status_code == 304
    assert unchanged.content == b""
    for change in (
        {"usd_per_gpu_hour": "9"},
        {"ttft_ms": "500"},
        {"tpot_ms": "30"},
        {"log_x": "true"},
        {"limit": 3},
    ):
        assert console.get("/api/v1/frontier", recipe=RECIPE, **change).status_code == 200


def test_readers_at_once_solve_once(console: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    import planner.search.solve as solving

    calls = []
    real = solving.solve

    def counted(*args: Any) -> Any:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(solving, "solve", counted)

    async def crowd() -> list[int]:
        headers = {"authorization": f"Bearer {console.access.bearer}"}
        async with console.client(**headers) as client:
            asked = [
                client.get("/api/v1/frontier", params={"recipe": RECIPE, "isl": "3000"}) for _ in range(20)
            ]
            return [a.status_code for a in await asyncio.gather(*asked)]

    assert console.run(crowd) == [200] * 20
    assert len(calls) == 1


def test_the_price_changes_cost_and_nothing_else(console: Any) -> None:
    cheap = console.get("/api/v1/frontier", recipe=RECIPE, usd_per_gpu_hour="1").json()
    dear = console.get("/api/v1/frontier", recipe=RECIPE, usd_per_gpu_hour="2").json()
    cost = next(i for i, a in enumerate(cheap["axes"]) if a["key"] == "cost")
    assert [r["plan"] for r in cheap["rows"]] == [r["plan"] for r in dear["rows"]]
    for a, b in zip(cheap["rows"], dear["rows"], strict=True):
        assert b["values"][cost] == pytest.approx(2.0 * a["values"][cost], rel=1e-4)
        assert [v for i, v in enumerate(a["values"]) if i != cost] == [
            v for i, v in enumerate(b["values"]) if i != cost
        ]
    point = cheap["rows"][0]["point"]
    shown = console.get("/api/v1/plan", recipe=RECIPE, usd_per_gpu_hour="2", point=point).json()["values"][
        "cost"
    ]
    assert shown == pytest.approx(dear["rows"][0]["values"][cost], rel=0.02)


def test_targets_of_the_address_replace_those_of_the_recipe(console: Any) -> None:
    loose = console.get("/api/v1/frontier", recipe=RECIPE, ttft_ms="100000", tpot_ms="1000").json()
    tight = console.get("/api/v1/frontier", recipe=RECIPE, ttft_ms="300", tpot_ms="10").json()
    assert loose["meeting"] > tight["meeting"] > 0
    ttft = next(i for i, a in enumerate(tight["axes"]) if a["key"] == "ttft")
    assert all(r["values"][ttft] <= 300.0 for r in tight["rows"])


def test_pages_of_rows_join_to_the_whole(console: Any) -> None:
    whole = console.get("/api/v1/frontier", recipe=RECIPE, limit=60).json()["rows"]
    parts = [
        console.get("/api/v1/frontier", recipe=RECIPE, limit=20, offset=o).json()["rows"] for o in (0, 20, 40)
    ]
    assert [r for p in parts for r in p] == whole


def test_compressed_is_the_same(console: Any) -> None:
    plain = console.ask(
        "GET", "/api/v1/frontier", params={"recipe": RECIPE}, headers={"accept-encoding": "identity"}
    )
    packed = console.ask(
        "GET", "/api/v1/frontier", params={"recipe": RECIPE}, headers={"accept-encoding": "gzip"}
    )
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < 0.6 * len(plain.content)


def test_several_mistakes_at_once_each_with_a_fix(console: Any) -> None:
    answer = console.get("/api/v1/frontier", model="deepseek-ai/DeepSeek-R2", gpu="h20x", gpus="x")
    assert answer.status_code == 422
    issues = answer.json()["issues"]
    assert issues
    assert all(i["why"] and i["fix"] for i in issues)
    filtered = console.get("/api/v1/frontier", recipe=RECIPE, filter="ttfx<3")
    assert filtered.status_code == 422
    assert "ttft" in filtered.json()["issues"][0]["fix"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("model", "/etc/passwd"), ("model", "../../etc/passwd"), ("model", "console/api"), ("model", "config.json"),
        ("model", "~/x"), ("model", "file:///etc/passwd"), ("model", "upload:zz"), ("gpu", "../gpus/x"),
        ("fabric", "/usr"), ("node", "a/b/c"), ("recipe", "../recipes/x"), ("recipe", "/etc/hosts"),
        ("model", "<img src=x onerror=alert(1)>"), ("model", "a" * 250), ("engine_version", "../../x.yaml"),
    ],
)  # fmt: skip
def test_names_never_become_paths(console: Any, key: str, text: str) -> None:
    query = {"recipe": RECIPE, key: text}
    answer = console.get("/api/v1/frontier", **query)
    assert answer.status_code in {404, 422}, answer.text
    codes = {i["code"] for i in answer.json()["issues"]}
    assert codes <= {"form.value", "recipe.unknown", "model.unknown"}, codes
    assert "root:" not in answer.text


def test_what_was_not_tried_adds_up(console: Any) -> None:
    page = console.get("/api/v1/frontier", recipe=RECIPE).json()
    roles = [e for e in page["exclusions"] if not e["code"].startswith("pair.")]
    assert sum(e["count"] for e in roles) == page["role_configurations"] - page["legal"]


def test_the_recommendation_is_that_of_the_command_line(console: Any, planner_cli: Any) -> None:
    told = json.loads(planner_cli("recommend", RECIPE, "--json").stdout)
    asked = console.get("/api/v1/recommendation", recipe=RECIPE).json()
    assert asked == told


def test_compare_manifests_diff_and_why_not(console: Any) -> None:
    rows = console.get("/api/v1/frontier", recipe=RECIPE, limit=3).json()["rows"]
    points = [r["point"] for r in rows]
    compared = console.get("/api/v1/compare", recipe=RECIPE, points=points).json()
    assert compared["labels"] == [r["plan"] for r in rows]
    made = console.get("/api/v1/manifests", recipe=RECIPE, point=points[0]).json()
    assert made["files"]
    assert not [f for f in made["findings"] if f["severity"] == "error"]
    assert console.get("/api/v1/diff", recipe=RECIPE, points=[points[0], points[0]]).json()["lines"] == []
    answer = console.get("/api/v1/why-not", recipe=RECIPE, text="1x(tp1,dp7)").json()
    assert answer["good"] is False
    assert answer["lines"]
    beyond = console.get("/api/v1/plan", recipe=RECIPE, point=2**31 - 1)
    assert beyond.json()["issues"][0]["code"] == "plan.point"


def test_measured_points_lie_over_the_predicted_ones(console: Any) -> None:
    header = "id,source,date,model,gpu,engine,engine_version,mode,decode_groups,decode_tp,decode_dp,decode_ep,total_gpus,isl,osl,concurrency,output_tok_s_per_gpu,ttft_ms_p50,tpot_ms_p50"
    rows = [
        "a1,own,2026-01-02,openai/gpt-oss-120b,h200-sxm,vllm,0.33.0,agg,1,4,1,1,4,2000,1000,32,900,300,8",
        "a2,own,2026-01-02,openai/gpt-oss-120b,h200-sxm,vllm,0.33.0,agg,1,4,1,1,4,9000,1000,32,700,300,8",
    ]
    body = "\n".join([header, *rows]).encode()
    sent = console.ask(
        "POST", "/api/v1/uploads/measurements", content=body, params={"name": "m.csv"},
        headers={"content-type": "application/octet-stream"},
    )  # fmt: skip
    assert sent.status_code == 201, sent.text
    page = console.get("/api/v1/frontier", recipe=RECIPE, measured="true").json()
    assert page["measured"] == 1  # the other has prompts of another length
    trace = next(t for t in page["figure"]["data"] if t.get("meta") == "measured")
    assert trace["x"] == [pytest.approx(125.0)]
    assert trace["y"] == [pytest.approx(900.0)]
    assert console.get("/api/v1/frontier", recipe=RECIPE).json()["measured"] == 0
