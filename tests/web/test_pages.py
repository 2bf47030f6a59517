"""Every page, light and dark, wide and narrow: drawn, accessible, within its width, without an error."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest

PAGES = {
    "frontier": "/",
    "plan": "/plan?recipe=gpt-oss-120b-h200x8&point=10",
    "manifests": "/plan?recipe=gpt-oss-120b-h200x8&point=10&tab=manifests",
    "new": "/new?recipe=gpt-oss-120b-h200x8",
    "studies": "/studies",
    "cluster": "/cluster",
    "simulation": "/simulation",
    "measurements": "/measurements",
    "experiments": "/experiments",
    "saved plans": "/plan",
}
CHARTS = {"frontier": 1, "plan": 1, "studies": 2}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(opened: Any, name: str, width: int, scheme: str) -> None:
    watched = opened(width=width, height=800, scheme=scheme)
    watched.go(PAGES[name])
    page = watched.page
    assert page.locator("h1").inner_text()
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 1, f"{overflow} px too wide"
    charts = page.locator(".chart:visible").all()
    assert len(charts) >= CHARTS.get(name, 0)
    for chart in charts:
        colours = distinct_colours(chart.screenshot())
        assert colours >= 12, f"the chart shows {colours} colours"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(opened: Any, axe: str, name: str, scheme: str) -> None:
    watched = opened(scheme=scheme)
    watched.go(PAGES[name])
    watched.page.evaluate(axe)  # through the debugger, so the page's policy stays as it is
    found = watched.page.evaluate(
        "axe.run({resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')))"
    )
    assert found == []


def distinct_colours(png: bytes) -> int:
    """Distinct colours of a PNG (8 bit, RGB or RGBA), quantised to 32 levels; counted, not looked at."""
    stream = io.BytesIO(png)
    assert stream.read(8) == b"\x89PNG\r\n\x1a\n"
    width = height = channels = 0
    data = b""
    while header := stream.read(8):
        length, kind = struct.unpack(">I4s", header)
        body = stream.read(length)
        stream.read(4)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
    rows = _unfilter(zlib.decompress(data), width, height, channels)
    seen = set()
    for row in rows[::2]:
        for i in range(0, len(row), channels * 2):
            seen.add((row[i] >> 3, row[i + 1] >> 3, row[i + 2] >> 3))
    return len(seen)


def _unfilter(raw: bytes, width: int, height: int, channels: int) -> list[bytearray]:
    stride = width * channels
    rows: list[bytearray] = []
    above = bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for i in range(stride):
            left = row[i - channels] if i >= channels else 0
            up = above[i]
            corner = above[i - channels] if i >= channels else 0
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + up) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif kind == 4:
                guess = left + up - corner
                near = min(
                    (abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner)
                )
                row[i] = (row[i] + near[2]) & 255
        rows.append(row)
        above = row
    return rows
