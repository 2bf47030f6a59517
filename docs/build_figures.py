"""Write the pictures of docs/figures. Run from anywhere.

python docs/build_figures.py            drawings from the model, and the terminal app's tested snapshots
python docs/build_figures.py --web      also the browser console's pages, by Chromium (playwright)
python docs/build_figures.py --check    are drawings and snapshots current?

Nothing here is drawn by hand: figures come from the functions that the program uses, screenshots from tests and pages.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
FIGURES = ROOT / "docs" / "figures"
SNAPSHOTS = ROOT / "tests" / "tui" / "__snapshots__" / "test_snapshots"
TERMINAL = {
    "tui-frontier.svg": "test_frontier[120x36].raw",
    "tui-compare.svg": "test_compare.raw",
    "tui-cluster.svg": "test_cluster[120x36].raw",
    "tui-simulation.svg": "test_records[simulation-keys0-120x36].raw",
}
PAGES = {
    "console-frontier.png": "/",
    "console-cluster.png": "/cluster",
}
# Okabe-Ito, legible in grey too
COLOURS = ("#0072b2", "#e69f00", "#999999", "#009e73", "#cc79a7", "#d55e00")
FONT = "font-family='sans-serif' font-size='12' fill='#222'"
LARGEST_BYTES = 300_000


def svg(width: int, height: int, parts: Iterable[str], *, title: str) -> str:
    """A drawing on white, with its title for those who cannot see it."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' {FONT}>\n<title>{html.escape(title)}</title>\n<rect width='{width}' height='{height}' "
        f"fill='#fff'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", extra: str = "") -> str:
    """Words at a place."""
    return f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}' {extra}>{html.escape(words)}</text>"


def stacked_bars(
    title: str, names: Sequence[str], layers: Sequence[tuple[str, Sequence[float]]], notes: Sequence[str]
) -> str:
    """Horizontal bars of stacked values (GiB); the note of each bar stands behind it."""
    left, right, top, bar, gap = 70, 170, 70, 26, 14
    width = 720
    total = max(sum(v[i] for _, v in layers) for i in range(len(names)))
    scale = (width - left - right) / total
    parts = [text(16, 22, title, extra="font-weight='bold'")]
    x = float(left)
    for index, (label, _) in enumerate(layers):
        parts.append(f"<rect x='{x:.0f}' y='36' width='12' height='12' fill='{COLOURS[index]}'/>")
        parts.append(text(x + 16, 47, label))
        x += 30 + 7.2 * len(label)
    for row, name in enumerate(names):
        y = top + row * (bar + gap)
        parts.append(text(left - 8, y + 18, name, anchor="end"))
        x = float(left)
        for index, (_, values) in enumerate(layers):
            wide = values[row] * scale
            parts.append(
                f"<rect x='{x:.1f}' y='{y}' width='{wide:.1f}' height='{bar}' fill='{COLOURS[index]}'/>"
            )
            if wide > 34:
                parts.append(
                    text(x + wide / 2, y + 17, f"{values[row]:.0f}", anchor="middle", extra="fill='#fff'")
                )
            x += wide
        parts.append(text(x + 8, y + 18, notes[row]))
    height = top + len(names) * (bar + gap) + 6
    return svg(width, height, parts, title=title)


def lines(
    title: str, x_label: str, xs: Sequence[float], series: Sequence[tuple[str, Sequence[float]]], unit: str
) -> str:
    """Lines over a logarithmic axis, labelled at their ends; the zero line is drawn."""
    import math

    left, right, top, bottom, width, height = 60, 200, 40, 46, 720, 320
    values = [v for _, ys in series for v in ys]
    low, high = math.floor(min(*values, 0.0) / 10) * 10, math.ceil(max(*values, 0.0) / 10) * 10
    logs = [math.log(x) for x in xs]

    def across(x: float) -> float:
        return left + (math.log(x) - logs[0]) / (logs[-1] - logs[0]) * (width - left - right)

    def up(y: float) -> float:
        return top + (high - y) / (high - low) * (height - top - bottom)

    parts = [text(16, 22, title, extra="font-weight='bold'")]
    for tick in range(low, high + 1, 10):
        heavy = "#222" if tick == 0 else "#ddd"
        parts.append(
            f"<line x1='{left}' x2='{width - right}' y1='{up(tick):.1f}' y2='{up(tick):.1f}' stroke='{heavy}'/>"
        )
        parts.append(text(left - 8, up(tick) + 4, f"{tick:+d}{unit}" if tick else "0", anchor="end"))
    parts += [text(across(x), height - bottom + 20, f"{x:g}", anchor="middle") for x in xs]
    parts.append(text((left + width - right) / 2, height - 8, x_label, anchor="middle"))
    for index, (label, ys) in enumerate(series):
        colour = COLOURS[index]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(xs, ys, strict=True))
        dash = "" if index == 0 else " stroke-dasharray='7 4'"
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.5'{dash}/>")
        parts += [
            f"<circle cx='{across(x):.1f}' cy='{up(y):.1f}' r='4' fill='{colour}'/>"
            for x, y in zip(xs, ys, strict=True)
        ]
        parts.append(text(width - right + 10, up(ys[-1]) + 4, label, extra=f"style='fill:{colour}'"))
    return svg(width, height, parts, title=title)


def kv_by_width() -> str:
    """Memory of one GPU of DeepSeek-R1 decode groups by EP width."""
    from planner.domain.deployment import All2AllBackend, Role
    from planner.simulation.experiments.widths import R1_H200

    widths = (8, 16, 32, 64)
    found = [
        R1_H200.memory(R1_H200.role(Role.DECODE, dp=w, all2all=All2AllBackend.DEEPEP_LOW_LATENCY))
        for w in widths
    ]
    rest = [m.total_gib - m.weights_experts_gib - m.weights_attention_gib - m.kv_gib for m in found]
    return stacked_bars(
        "DeepSeek-R1, one H200 of a decode group with DP attention, GiB",
        [f"EP{w}" for w in widths],
        [
            ("experts", [m.weights_experts_gib for m in found]),
            ("attention weights", [m.weights_attention_gib for m in found]),
            ("other weights, buffers, reserve", rest),
            ("KV cache", [m.kv_gib for m in found]),
        ],
        [f"{m.kv_tokens_per_rank / 1e6:.2f} M tokens" for m in found],
    )


def dbo() -> str:
    """Gain of dual-batch overlap over the batch, from the experiment of that law."""
    from planner.simulation.experiments.lockstep import overlap

    plot = overlap(0).plots[0]
    return lines("Gain of DBO in decode, step time, %", plot.x_label, plot.x, plot.lines, " %")


def terminal(snapshot: str) -> str:
    """A tested snapshot without the address of its web font."""
    drawn = (SNAPSHOTS / snapshot).read_text(encoding="utf-8")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def drawings() -> dict[str, str]:
    """All figures that are made from the program alone, by file name."""
    return {
        "kv-by-width.svg": kv_by_width(),
        "dbo.svg": dbo(),
        **{name: terminal(snapshot) for name, snapshot in TERMINAL.items()},
    }


def photograph(recipe: str = "gpt-oss-120b-h200x8") -> None:
    """Take pictures of the console's pages with a running demo cluster beside it."""
    from playwright.sync_api import sync_playwright

    planner = [sys.executable, "-m", "planner.cli.main"]
    with tempfile.TemporaryDirectory() as folder:
        import os

        environment = {**os.environ, "XDG_DATA_HOME": folder, "PYTHONPATH": str(ROOT)}
        run = {"cwd": folder, "env": environment, "text": True}
        plan = Path(folder) / "plan.yaml"
        subprocess.run(
            [*planner, "recommend", recipe, "--save", str(plan)], check=True, capture_output=True, **run
        )
        box = subprocess.Popen(
            [*planner, "cluster", "demo", str(plan), "--port", "0", "--kubeconfig", "k"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **run,
        )  # fmt: skip
        assert box.stdout is not None
        box.stdout.readline()
        console = subprocess.Popen(
            [*planner, "serve", recipe, "--port", "0", "--kubeconfig", "k"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **run,
        )  # fmt: skip
        try:
            assert console.stderr is not None
            address = next(a for line in console.stderr if (a := re.search(r"http://\S+", line)))[0]
            with sync_playwright() as play:
                browser = play.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_page(viewport={"width": 1280, "height": 860})
                page.goto(address)
                origin = re.match(r"http://[^/]+", address)
                assert origin is not None
                for name, path in PAGES.items():
                    page.goto(origin[0] + path)
                    page.wait_for_timeout(15_000)  # the answer is computed, the cluster scraped twice
                    page.screenshot(path=FIGURES / name)
                browser.close()
        finally:
            console.terminate()
            box.terminate()


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit status."""
    made = drawings()
    if "--check" in arguments:
        stale = [
            n for n, d in made.items() if not (FIGURES / n).exists() or (FIGURES / n).read_text("utf-8") != d
        ]
        stale += [n for n in PAGES if not (FIGURES / n).exists()]
        if stale:
            sys.stderr.write(f"stale: {', '.join(stale)}; run python docs/build_figures.py\n")
        return int(bool(stale))
    for name, drawn in made.items():
        (FIGURES / name).write_text(drawn, encoding="utf-8")
    if "--web" in arguments:
        photograph()
    for file in FIGURES.iterdir():
        assert file.stat().st_size < LARGEST_BYTES, f"{file.name} is larger than {LARGEST_BYTES} bytes"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
