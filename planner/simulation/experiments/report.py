"""Experiments as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planner.simulation.experiments.base import Experiment, Outcome
from planner.simulation.report import STYLE, line_plot


def experiments_html(outcomes: Sequence[tuple[Experiment, Outcome]]) -> str:
    """Tables, verdicts and plots; byte-stable for equal outcomes."""
    out = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Experiments</title>",
        f"<style>{STYLE}</style>",
    ]
    for e, r in outcomes:
        out.append(
            f"<h2>Law {e.law}: {escape(e.title)}</h2><p>Published: {escape(e.published)}</p><table><tr>"
        )
        out += [f"<th>{escape(h)}</th>" for h in r.headers]
        out.append("</tr>")
        out += ["<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in r.rows]
        out.append("</table><ul>")
        out += [f"<li>{'holds' if c.holds else '<b>fails</b>'}: {escape(c.statement)}</li>" for c in r.checks]
        out.append(f"</ul><p><b>{'Reproduced' if r.passed else 'Not reproduced'}</b></p><div class='plots'>")
        out += [line_plot(p.title, p.x, p.lines, "", p.x_label) for p in r.plots]
        out.append("</div>")
        out += [f"<p class='note'>{escape(n)}</p>" for n in r.notes]
    return "\n".join(out) + "</html>\n"
