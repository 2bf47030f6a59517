"""Pages in use: by keyboard alone, by address, live, and with hostile names."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

RECIPE = "gpt-oss-120b-h200x8"


def test_the_main_path_with_the_keyboard_alone(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    page = watched.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.locator("tbody tr[tabindex='0']").first.focus()
    first = page.locator("#page table tbody tr[data-key]").first
    page.keyboard.press("Space")
    expect(page.locator("tr.pinned")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("Space")
    expect(page.locator("tr.pinned")).to_have_count(2)
    expect(page.get_by_role("heading", name="Compare (2)")).to_be_visible()
    expect(page.locator("table.compare thead th")).to_have_count(3)
    page.keyboard.press("Enter")
    card = page.locator(".side.held")
    expect(card).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".side.held")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.locator("#c-filter")).to_be_focused()
    page.keyboard.type("disagg")
    page.keyboard.press("Tab")
    expect(page.locator(".summary")).to_contain_text("points meet")
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert first.is_visible()


def test_every_control_is_in_the_address_and_comes_back(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    page = watched.page
    page.locator("#c-y").select_option("cost")
    expect(page.locator("#page .chart .ytitle")).to_contain_text("$")
    page.get_by_label("log x").check()
    page.locator("#c-colour").select_option("EP width")
    page.locator("#c-ttft_ms").fill("700")
    page.locator("#c-ttft_ms").press("Enter")
    expect(page.locator(".summary")).to_contain_text("TTFT ≤ 700 ms")
    page.locator("#c-usd_per_gpu_hour").fill("5")
    page.locator("#c-usd_per_gpu_hour").press("Enter")
    page.locator("#page table tbody tr[data-key]").first.click()
    expect(page.locator("tr.pinned")).to_have_count(1)
    query = parse_qs(urlsplit(page.url).query)
    assert query["y"] == ["cost"]
    assert query["log_x"] == ["true"]
    assert query["colour"] == ["EP width"]
    assert query["ttft_ms"] == ["700"]
    assert query["usd_per_gpu_hour"] == ["5"]
    assert len(query["pins"]) == 1
    again = opened()
    again.go(page.url.removeprefix(again.address))
    expect(again.page.locator("#c-y")).to_have_value("cost")
    expect(again.page.locator("#c-ttft_ms")).to_have_value("700")
    expect(again.page.locator("tr.pinned")).to_have_count(1)
    assert again.page.locator(".summary").inner_text() == page.locator(".summary").inner_text()


def test_a_box_in_the_chart_and_a_range_on_an_axis_choose_rows(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    page = watched.page
    rows = page.locator("#page table tbody tr[data-key]")
    before = rows.count()
    axis = page.locator(".parallel .hit").nth(6)
    axis.scroll_into_view_if_needed()
    box = axis.bounding_box()
    page.mouse.move(box["x"] + 16, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 16, box["y"] + box["height"] * 0.4, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="Drop the selection")).to_be_visible()
    assert 0 < rows.count() < before
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Drop the selection")).to_have_count(0)
    assert rows.count() == before


def test_pointing_shows_a_card_and_clicking_pins(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    page = watched.page
    point = page.locator("#page .chart .scatterlayer .trace").last.locator("path.point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(400)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("heading", name="Compare (1)")).to_be_visible()
    expect(page.locator(".side article h2")).not_to_be_empty()


def test_charts_cannot_be_sent_anywhere(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    titles = watched.page.locator(".modebar-btn").evaluate_all("bs => bs.map(b => b.dataset.title || '')")
    assert titles
    assert not [t for t in titles if re.search("cloud|share|studio", t, re.IGNORECASE)]
    assert watched.page.locator(".modebar-btn--logo").count() == 0


def test_exports_are_what_is_shown(opened: Any) -> None:
    watched = opened()
    watched.go("/")
    page = watched.page
    with page.expect_download() as csv:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = csv.value.path().read_text().splitlines()
    assert lines[0].startswith("rank,plan,")
    assert "tok/s/user" in lines[0]
    assert len(lines) - 1 == page.locator("#page table tbody tr[data-key]").count()
    with page.expect_download() as png:
        page.get_by_role("button", name="PNG", exact=True).click()
    assert png.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as svg:
        page.get_by_role("button", name="SVG", exact=True).click()
    assert "predicted, not measured" in svg.value.path().read_text()


def test_a_new_problem_says_what_is_wrong_and_then_plans(opened: Any) -> None:
    watched = opened()
    watched.go("/new")
    page = watched.page
    page.get_by_label("start from a recipe").select_option(RECIPE)
    expect(page.get_by_text("✓ can be planned")).to_be_visible()
    page.locator("#p-gpu").fill("h20o")
    page.locator("#p-gpu").press("Tab")
    expect(page.locator("#e-gpu")).to_contain_text("did you mean")
    expect(page.locator("#p-gpu")).to_have_attribute("aria-invalid", "true")
    page.locator("#p-gpu").fill("")
    page.locator("#p-isl").fill("1500")
    page.locator("#p-isl").press("Tab")
    expect(page.get_by_text("✓ can be planned")).to_be_visible()
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_url("**/?*isl=1500*")
    watched.ready()
    expect(page.locator("#about")).to_contain_text("1500 in")


def test_a_search_starts_is_followed_and_stops(opened: Any) -> None:
    watched = opened()
    watched.go(f"/new?recipe={RECIPE}")
    page = watched.page
    page.get_by_label("level").select_option("analytic")
    page.get_by_label("trials").fill("3000")
    page.get_by_role("button", name="Start the search").click()
    page.wait_for_url("**/studies?name=*")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible(timeout=20_000)
    expect(page.locator("section[aria-label=Study]")).to_contain_text(
        re.compile(r"[1-9]\d* complete"), timeout=30_000
    )
    stop.click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=30_000)
    page.reload()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=20_000)


def test_hostile_names_are_text(opened: Any) -> None:
    for path in ("/studies?name=sample-study", "/cluster"):
        watched = opened()
        watched.go(path)
        expect(watched.page.get_by_text("<img src=x onerror").first).to_be_visible(timeout=20_000)
        assert watched.page.locator("#page img").count() == 0
        assert "owned" not in watched.page.title()


def test_the_cluster_is_live_and_readable(opened: Any, served: Any) -> None:
    watched = opened()
    watched.go(f"/cluster?saved={served.plan}")
    page = watched.page
    expect(page.locator(".badge", has_text="live")).to_be_visible()
    expect(page.locator("table.heat td.cell").first).to_be_visible(timeout=20_000)
    page.locator("#metric").select_option("running")
    expect(page.get_by_role("heading", name="Ranks: requests running")).to_be_visible()
    page.get_by_role("button", name="Drift").click()
    expect(page.get_by_text("✓ in sync")).to_be_visible(timeout=20_000)


def test_without_a_login_there_is_only_the_login_page(browser: Any, served: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.address)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("API token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("status")).to_contain_text("not valid")
    page.get_by_label("API token").fill(served.access.bearer)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("nav a[aria-current]")).to_have_text("Frontier")
    context.close()
