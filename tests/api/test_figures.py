"""Figures are valid plotly, their colours can be told from both backgrounds, and nothing offers to send them away."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from console.api.routes.pages import asset
from console.figures.plain import plotly_script
from console.figures.study import MOST_POINTS, TrialColumns, front_of, history_figure, trials_figure
from console.figures.theme import CONFIG, DARK, LIGHT, PALETTE, SYMBOLS, template

RECIPE = "gpt-oss-120b-h200x8"


def _luminance(colour: str) -> float:
    def channel(value: int) -> float:
        share = value / 255.0
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)


def _contrast(one: str, other: str) -> float:
    a, b = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


@pytest.mark.parametrize("background", [LIGHT.background, DARK.background])
def test_marks_have_three_to_one_on_both_backgrounds(background: str) -> None:
    assert {c: _contrast(c, background) for c in PALETTE if _contrast(c, background) < 3.0} == {}


def test_text_has_four_and_a_half_to_one() -> None:
    for theme in (LIGHT, DARK):
        assert _contrast(theme.text, theme.background) >= 4.5
        assert _contrast(theme.muted, theme.background) >= 4.5


def test_colours_come_with_shapes() -> None:
    assert len(set(PALETTE)) == len(PALETTE) <= len(set(SYMBOLS))


def test_no_chart_offers_to_send_itself_away() -> None:
    assert CONFIG["showSendToCloud"] is False
    assert CONFIG["displaylogo"] is False
    for theme in (LIGHT, DARK):
        go.layout.Template(template(theme))


def test_every_page_uses_the_one_configuration(console: Any) -> None:
    text = console.get("/").text
    found = re.search(r'id="appearance">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert json.loads(found[1])["config"]["showSendToCloud"] is False


def test_plotly_is_the_installed_one_and_is_kept_for_ever(console: Any) -> None:
    page = console.get("/").text
    address = re.search(r'data-plotly="([^"]+)"', page)
    assert address is not None
    answer = console.get(address[1])
    assert answer.content == plotly_script().read_bytes()
    assert "immutable" in answer.headers["cache-control"]
    assert asset("plotly.min.js") is asset("plotly.min.js")


@pytest.mark.parametrize(
    "view",
    [
        {},
        {"intervals": "true", "log_x": "true", "log_y": "true"},
        {"x": "ttft", "y": "cost", "colour": "EP width", "table": "frontier"},
        {"colour": "provenance", "dominated": "false"},
        {"filter": "disagg"},
        {"ttft_ms": "5"},
        {"filter": "nothing-is-called-that"},
    ],
)
def test_the_frontier_is_a_valid_figure(console: Any, view: dict[str, str]) -> None:
    answer = console.get("/api/v1/frontier", recipe=RECIPE, **view)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    go.Figure(page["figure"])
    shown = [t for t in page["figure"]["data"] if t.get("meta") in {"front", "dominated"}]
    assert sum(_size(t["x"]) for t in shown) <= 3100


def _size(array: Any) -> int:
    import base64

    return len(base64.b64decode(array["bdata"])) // 4 if isinstance(array, dict) else len(array)


def test_the_plan_is_a_valid_figure(console: Any) -> None:
    go.Figure(console.get("/api/v1/plan", recipe=RECIPE, point=7).json()["breakdown"])


def _columns(rng: np.random.Generator, n: int) -> TrialColumns:
    return TrialColumns(
        number=np.arange(n),
        rate=rng.uniform(1, 100, n).round(1),
        user=rng.uniform(1, 100, n).round(1),
        feasible=rng.uniform(size=n) < 0.7,
    )


def test_the_front_of_trials_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 50, 300):
        c = _columns(rng, n)
        found = set(front_of(c).tolist())
        for i in range(n):
            beaten = any(
                c.feasible[j]
                and c.rate[j] >= c.rate[i]
                and c.user[j] >= c.user[i]
                and (c.rate[j] > c.rate[i] or c.user[j] > c.user[i])
                for j in range(n)
            )
            same = [
                j for j in range(n) if c.rate[j] == c.rate[i] and c.user[j] == c.user[i] and c.feasible[j]
            ]
            assert (i in found) == (c.feasible[i] and not beaten and i == min(same))


def test_fifty_thousand_trials_are_thinned_and_lose_no_front() -> None:
    c = _columns(np.random.default_rng(2), 50_000)
    figure = trials_figure(c)
    go.Figure(figure)
    go.Figure(history_figure(c))
    assert len(json.dumps(figure)) < 400_000
    sizes = {t["name"]: len(json.dumps(t["x"])) for t in figure["data"] if "name" in t}
    assert sizes["frontier"] > 0
    assert MOST_POINTS == 3000
