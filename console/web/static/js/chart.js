// Plotly behind one door: loaded when a page needs it, one configuration, one appearance per theme.
import { $ } from "./dom.js";

export const appearance = JSON.parse($("#appearance").textContent);
let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("the chart library could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

export function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function laidOut(layout) {
  const template = appearance.templates[dark() ? "dark" : "light"];
  const narrow = matchMedia("(max-width: 640px)").matches;
  const shapes = layout.shapes?.map((s) => ({ ...s, line: { color: template.layout.shapedefaults.line.color, ...s.line } }));
  const extra = narrow ? { margin: { ...layout.margin, l: 48, r: 8 } } : {};
  return { autosize: true, ...layout, ...(shapes ? { shapes } : {}), ...extra, template };
}

const drawn = new Map();

// Draw or update. Points are announced by their number: handlers.hover, handlers.click, handlers.select.
export async function draw(element, figure, handlers = {}) {
  const Plotly = await plotly();
  const first = !drawn.has(element);
  drawn.set(element, figure);
  await Plotly.react(element, figure.data, laidOut(figure.layout), appearance.config);
  if (first) listen(element, handlers);
  element.dataset.drawn = String((Number(element.dataset.drawn) || 0) + 1);
}

function listen(element, handlers) {
  const pointOf = (event) => {
    const value = event.points?.[0]?.customdata;
    return typeof value === "number" ? value : null;
  };
  if (handlers.hover) element.on("plotly_hover", (e) => { const p = pointOf(e); if (p !== null) handlers.hover(p); });
  if (handlers.leave) element.on("plotly_unhover", handlers.leave);
  if (handlers.click) element.on("plotly_click", (e) => { const p = pointOf(e); if (p !== null) handlers.click(p); });
  if (handlers.select) {
    element.on("plotly_selected", (e) => handlers.select(e?.range ? { range: e.range } : e?.lassoPoints ? { lasso: e.lassoPoints } : null));
    element.on("plotly_deselect", () => handlers.select(null));
  }
}

export function redrawAll() {
  for (const [element, figure] of drawn) if (element.isConnected) draw(element, figure); else drawn.delete(element);
}

export async function picture(element, format, title, source) {
  const Plotly = await plotly();
  const figure = drawn.get(element);
  const layout = laidOut(figure.layout);
  const holder = document.createElement("div");
  const footer = { text: source, xref: "paper", yref: "paper", x: 0, y: -0.2, showarrow: false, xanchor: "left", font: { size: 10 } };
  const url = await Plotly.toImage(
    { data: figure.data, layout: { ...layout, title: { text: title, font: { size: 14 } }, margin: { l: 70, r: 20, t: 90, b: 100 },
      annotations: [...(layout.annotations ?? []), footer] }, config: appearance.config },
    { format, width: 1100, height: 650, scale: format === "png" ? 2 : 1 });
  holder.remove();
  const link = document.createElement("a");
  link.href = url;
  link.download = `frontier.${format}`;
  link.click();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
