// Parallel coordinates in plain SVG: plotly's own needs the Function constructor, which the page's policy forbids.
// Drag along an axis to keep a range; several ranges hold together; Escape or a click on an axis drops one.
import { fill, s } from "./dom.js";

const HEIGHT = 300;
const TOP = 46;
const BOTTOM = 22;

export function parallel(element, { axes, rows, colour, onbrush, onhover }) {
  const width = Math.max(element.clientWidth, axes.length * 74);
  const x = (i) => 44 + (i * (width - 88)) / Math.max(axes.length - 1, 1);
  const scales = axes.map((axis) => scale(axis, rows));
  const brushes = new Map();
  const lines = rows.map((row) => {
    const path = scales.map((sc, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${sc.y(axes[i].value(row)).toFixed(1)}`).join("");
    return s("path", { d: path, class: "line", stroke: colour(row), onmouseenter: () => onhover?.(row) });
  });
  const passes = (row) => [...brushes].every(([i, [low, high]]) => { const v = axes[i].value(row); return v !== null && v >= low && v <= high; });
  const update = () => {
    const kept = rows.map(passes);
    lines.forEach((line, i) => line.classList.toggle("out", brushes.size > 0 && !kept[i]));
    onbrush(brushes.size ? new Set(rows.filter((_, i) => kept[i]).map((r) => r.point)) : null);
  };
  const drawing = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "parallel", role: "img",
    "aria-label": `Parallel coordinates of ${rows.length} plans over ${axes.map((a) => a.title).join(", ")}; the table below has the same values` }, s("g", {}, lines));
  axes.forEach((axis, i) => {
    const sc = scales[i];
    const band = s("rect", { class: "band", x: x(i) - 7, width: 14, y: 0, height: 0 });
    const hit = s("rect", { class: "hit", x: x(i) - 16, width: 32, y: TOP - 8, height: HEIGHT - TOP - BOTTOM + 16 });
    let start = null;
    const at = (event) => Math.min(Math.max(((event.clientY - drawing.getBoundingClientRect().top) * HEIGHT) / drawing.getBoundingClientRect().height, TOP), HEIGHT - BOTTOM);
    hit.addEventListener("pointerdown", (event) => { start = at(event); hit.setPointerCapture(event.pointerId); });
    hit.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const end = at(event);
      band.setAttribute("y", Math.min(start, end));
      band.setAttribute("height", Math.abs(end - start));
    });
    hit.addEventListener("pointerup", (event) => {
      const end = at(event);
      if (Math.abs(end - start) < 4) { brushes.delete(i); band.setAttribute("height", 0); } else brushes.set(i, [sc.value(Math.max(start, end)), sc.value(Math.min(start, end))]);
      start = null;
      update();
    });
    drawing.append(
      s("line", { x1: x(i), x2: x(i), y1: TOP, y2: HEIGHT - BOTTOM, class: "axis" }),
      s("text", { x: x(i), y: 16 + (i % 2) * 13, class: "title" }, axis.title),
      ...sc.ticks.map((v) => s("text", { x: x(i) + 7, y: sc.y(v) + 4, class: "tick" }, axis.format(v))),
      band, hit);
  });
  fill(element, drawing);
}

function scale(axis, rows) {
  const values = rows.map(axis.value).filter((v) => v !== null && Number.isFinite(v));
  const low = Math.min(...values);
  const high = Math.max(...values);
  const log = axis.log && low > 0 && high > low;
  const to = (v) => (log ? Math.log2(v) : v);
  const span = to(high) - to(low) || 1;
  const room = HEIGHT - TOP - BOTTOM;
  const y = (v) => (v === null ? HEIGHT - BOTTOM + 8 : TOP + room * (1 - (to(v) - to(low)) / span));
  const value = (at) => { const t = to(low) + (1 - (at - TOP) / room) * span; return log ? 2 ** t : t; };
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const ticks = values.length === 0 ? [] : axis.log && distinct.length <= 7 ? distinct : [low, high];
  return { y, value, ticks };
}
