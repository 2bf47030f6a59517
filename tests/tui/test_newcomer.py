"""Without the manual: from a recipe to the best plan under a target, compared with the runner-up and exported.

On the real planner, by what the screen itself offers: the footer names the keys.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from console.tui.app import PlannerApp
from console.tui.services import real_services
from planner.catalog.plans import load_plan
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.recommend import recommend
from planner.simulation.from_plan import cluster_from_plan
from tests.tui.harness import drive, press, text_of

RECIPE = "gpt-oss-120b-h200x8"


def test_best_plan_under_a_target_compared_and_exported(tmp_path: Path) -> None:
    request = with_recipe(RECIPE, Request())
    app = PlannerApp(replace(real_services(), folder=tmp_path), request=request, origin=f"recipe {RECIPE}")
    stricter = replace(request, ttft_ms=500.0, tpot_ms=10.0, tok_s_user=None)
    expected = recommend(*build_problem(stricter))
    assert expected.pick is not None

    async def script(pilot: Pilot[Any]) -> None:
        footer = text_of(app).splitlines()[-1]
        for offered in ("s Targets", "c Compare", "e Export", "? Help"):
            assert offered in footer
        # targets: the dialog starts in TTFT, the next field is TPOT
        await press(
            pilot, "s", "home", *["delete"] * 8, "'500", "tab", "home", *["delete"] * 8, "'10", "tab", "home"
        )
        await press(pilot, *["delete"] * 8, "enter")
        best = expected.pick
        assert best is not None
        assert f"Best {best.evaluation.output_tok_s_per_gpu.value:,.0f} tok/s/GPU" in text_of(app)
        assert best.plan.label() in text_of(app)
        # compare with the runner-up: pin the first row, move down, compare
        await press(pilot, "space", "j", "c")
        text = text_of(app)
        assert f"1 {best.plan.label()}" in text
        assert f"2 {expected.ranked[1].plan.label()}" in text
        assert "%" in text
        await press(pilot, "escape", "k", "e", "enter")

    drive(app, script)
    folder = next(tmp_path.iterdir())
    plan = load_plan(folder / "plan.json")
    assert plan.label() == expected.pick.plan.label()
    assert cluster_from_plan(plan).gpus == plan.gpus_used, "what was exported can be simulated"
    assert any("kind: " in f.read_text(encoding="utf-8") for f in folder.rglob("*.yaml"))
