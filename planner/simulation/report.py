"""A self-contained HTML report with inline SVG plots: no script, no download, readable in dark and light."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planner.simulation.result import Distribution, RoleSeries, SimulationResult

_W, _H, _PAD = 560, 170, 42
_COLOURS = ("#2f7ed8", "#d9822b", "#3a9a5b", "#a05195")
_DASHES = ("none", "7 3", "2 3", "8 3 2 3")  # colour is not the only difference
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;background:Canvas;color:CanvasText}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #8884}
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}.plots{display:flex;flex-wrap:wrap;gap:1rem}
:root{color-scheme:light dark}.note{color:#b5591c}svg text{fill:currentColor;font-size:11px}
"""


def line_plot(
    title: str,
    x: Sequence[float],
    lines: Sequence[tuple[str, Sequence[float]]],
    unit: str,
    x_label: str = "s",
) -> str:
    """An SVG of one or more lines over `x`; both axes begin at 0, or at the lowest value below it."""
    top = max((max(y, default=0.0) for _, y in lines), default=0.0)
    low = min(0.0, min((min(y, default=0.0) for _, y in lines), default=0.0))
    height = top - low or 1.0
    right = max(x, default=0.0) or 1.0

    def point(i: int, y: Sequence[float]) -> str:
        return (
            f"{_PAD + x[i] / right * (_W - _PAD - 10):.1f},{_H - 24 - (y[i] - low) / height * (_H - 50):.1f}"
        )

    parts = [
        f'<svg viewBox="0 0 {_W} {_H}" role="img" aria-label="{escape(title)}">',
        f'<text x="4" y="14">{escape(title)}</text>',
        f'<path d="M{_PAD},26V{_H - 24}H{_W - 10}" fill="none" stroke="#888"/>',
        f'<text x="4" y="32">{top:.3g}</text><text x="4" y="{_H - 24}">{low:.3g} {escape(unit)}</text>',
        f'<text x="{_W - 10}" y="{_H - 8}" text-anchor="end">{right:,.0f} {escape(x_label)}</text>',
    ]
    for n, (name, y) in enumerate(lines):
        path = " ".join(point(i, y) for i in range(len(x)))
        colour, dash = _COLOURS[n % len(_COLOURS)], _DASHES[n % len(_DASHES)]
        style = f'stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"'
        left = _PAD + 8 + 150 * n
        parts.append(f'<polyline points="{path}" fill="none" {style}/>')
        parts.append(f'<path d="M{left},{_H - 12}h20" fill="none" {style}/>')
        parts.append(f'<text x="{left + 25}" y="{_H - 8}" style="fill:{colour}">{escape(name)}</text>')
    return "".join(parts) + "</svg>"


def _row(name: str, d: Distribution) -> str:
    cells = "".join(
        f"<td>{f.value:,.1f}<br><small>{f.low:,.1f}-{f.high:,.1f}</small></td>"
        for f in (d.mean, d.p50, d.p90, d.p99)
    )
    return f"<tr><td>{name}</td>{cells}<td>{d.count:,}</td></tr>"


def _series(result: SimulationResult, kind: str, unit: str) -> str:
    def values(s: RoleSeries) -> Sequence[float]:
        return tuple(100.0 * v for v in s.kv_share) if kind == "kv_share" else getattr(s, kind)

    titles = {"waiting": "Requests waiting", "running": "Requests running", "kv_share": "KV cache in use"}
    return line_plot(titles[kind], result.series_s, [(s.role.value, values(s)) for s in result.series], unit)


def html_report(results: Sequence[SimulationResult], *, seed: int) -> str:
    """The report of one or several simulations, byte-stable for equal results."""
    out = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Simulation</title>",
        f"<style>{STYLE}</style>",
    ]
    for r in results:
        out.append(
            f"<h1>{escape(r.cluster)}</h1><p>Workload {escape(r.workload)}, {r.gpus} GPUs, seed {seed}, "
        )
        out.append(
            f"{r.measured:,} of {r.requests:,} requests measured after {r.warmup:,} warm-up requests, "
            f"{r.simulated_s:,.0f} s simulated.</p>"
        )
        out += [f"<p class='note'>{escape(n)}</p>" for n in r.notes]
        out.append(
            f"<p><b>{r.output_tok_s.value:,.0f} output tok/s</b> ({r.output_tok_s_per_gpu:,.1f} per GPU), "
            f"{r.requests_per_s:.3g} requests/s, prefix hits {r.prefix_hit_rate:.1%}"
        )
        if r.goodput_per_s is not None:
            out.append(f", goodput {r.goodput_per_s:.3g} requests/s")
        out.append(
            "</p><table><tr><th>ms</th><th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>values</th></tr>"
        )
        rows = [("TTFT", r.ttft_ms), ("TPOT", r.tpot_ms), ("ITL", r.itl_ms), ("E2E", r.e2e_ms)]
        if r.transfer_ms is not None:
            rows.append(("KV transfer", r.transfer_ms))
        out += [_row(name, d) for name, d in rows]
        out.append("</table><div class='plots'>")
        out += [
            _series(r, kind, unit) for kind, unit in (("waiting", ""), ("running", ""), ("kv_share", "%"))
        ]
        out.append(
            "</div><table><tr><th>role</th><th>steps</th><th>mean step, ms</th><th>busy</th><th>straggler</th>"
            "<th>dummy ranks</th><th>prefix hits</th><th>peak KV</th><th>preemptions</th></tr>"
        )
        out += [
            f"<tr><td>{escape(x.name)}</td><td>{x.steps:,}</td><td>{x.step_ms:.2f}</td><td>{x.busy_share:.1%}</td>"
            f"<td>{x.straggler_share:.1%}</td><td>{x.dummy_share:.1%}</td><td>{x.hit_rate:.1%}</td>"
            f"<td>{x.peak_kv_share:.1%}</td><td>{x.preemptions:,}</td></tr>"
            for x in r.roles
        ]
        out.append("</table>")
    return "\n".join(out) + "</html>\n"
