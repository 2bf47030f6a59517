// The frontier: chart, cards, comparison, table and parallel coordinates over one state, which is the address.
import { $, check, copy, download, field, fill, h, say, select } from "../dom.js";
import { address, get, params, problem, showProblem } from "../api.js";
import { draw, picture } from "../chart.js";
import { diff as diffOf } from "../code.js";
import { parallel } from "../parcoords.js";
import { comparison, planCard } from "../plan_card.js";
import { shell } from "../shell.js";
import { figure, replaceTable, table } from "../table.js";
import { question, read, write } from "../url.js";

const MOST_PINS = 6;
const ROWS = 100;
const COLOURS = ["kind", "TP", "EP width", "DBO", "GPU", "provenance"];
const VIEW = ["x", "y", "log_x", "log_y", "colour", "dominated", "intervals", "measured", "table", "filter"];

const state = { x: "tok-s-user", y: "tok-s-gpu", ...read() };
let page = null;
let pins = (state.pins ?? "").split(",").filter(Boolean).map(Number);
let sort = null;
let selection = null; // what was drawn in the chart
let brushed = null; // what the parallel axes keep
let held = null; // the point whose card stays
let request = null;
const cards = new Map();

const place = {
  controls: h("form", { class: "controls", "aria-label": "What is shown", onsubmit: (e) => e.preventDefault() }),
  summary: h("p", { class: "summary", role: "status" }),
  chart: h("div", { class: "chart", role: "group", "aria-label": "Frontier chart; the table below has the same plans" }),
  card: h("aside", { class: "side", "aria-label": "Plan under the pointer", tabindex: "-1" }, h("p", { class: "muted" }, "Point at a plan, or move through the table. Click or Space pins.")),
  compare: h("section", { class: "panel", hidden: true, "aria-label": "Comparison" }),
  table: h("div"),
  parallel: h("div", { class: "wide" }),
  notes: h("section", { class: "panel" }),
  chosen: h("p", { class: "muted", role: "status" }),
};

function change(patch, { keepRows = false } = {}) {
  Object.assign(state, patch);
  if (!keepRows) { state.offset = ""; }
  load();
}

function view() {
  return Object.fromEntries(VIEW.filter((k) => state[k] !== undefined && state[k] !== "").map((k) => [k, state[k]]));
}

async function load() {
  write({ ...question(state), ...view(), offset: state.offset, pins: pins.join(",") });
  request?.abort();
  request = new AbortController();
  const slow = setTimeout(() => { place.summary.textContent = "Pricing every legal configuration…"; place.chart.classList.add("stale"); }, 150);
  try {
    page = await get("/frontier", { ...question(state), ...view(), limit: ROWS, offset: state.offset }, request.signal);
  } catch (error) {
    if (error.name !== "AbortError") { fill(place.summary, problem(error)); place.chart.classList.add("stale"); }
    return;
  } finally { clearTimeout(slow); }
  place.chart.classList.remove("stale");
  selection = null;
  brushed = null;
  show();
}

function show() {
  $("#title").textContent = page.title;
  $("#about").textContent = page.question;
  document.title = `${page.title} – wideplan`;
  place.summary.textContent = page.summary;
  say(page.summary);
  showControls();
  showChart();
  showRows();
  showParallel();
  showNotes();
  showPins();
  if (!place.card.querySelector("article") && page.best) showCard(page.best.point);
}

function showControls() {
  const focused = document.activeElement?.id;
  const axes = page.axes.map((a) => [a.key, a.label]);
  const target = (key, label, unit) => {
    const input = h("input", { id: `c-${key}`, inputmode: "decimal", size: 6, value: state[key] ?? "", placeholder: targetOf(key), onchange: (e) => change({ [key]: e.target.value.trim() }) });
    return field(`${label}${unit ? `, ${unit}` : ""}`, input);
  };
  fill(place.controls,
    h("fieldset", {}, h("legend", {}, "Axes"),
      field("x", select(axes, state.x, (v) => change({ x: v }), { id: "c-x" })), check("log x", state.log_x === "true", (v) => change({ log_x: v ? "true" : "" })),
      field("y", select(axes, state.y, (v) => change({ y: v }), { id: "c-y" })), check("log y", state.log_y === "true", (v) => change({ log_y: v ? "true" : "" })),
      h("div", { class: "field cost" }, h("label", { for: "c-usd_per_gpu_hour" }, "cost: $/GPU-hour"),
        h("input", { id: "c-usd_per_gpu_hour", inputmode: "decimal", size: 5, value: state.usd_per_gpu_hour ?? "", placeholder: page.usd_per_gpu_hour === null ? "no price" : figure(page.usd_per_gpu_hour), onchange: (e) => change({ usd_per_gpu_hour: e.target.value.trim() }) }))),
    h("fieldset", {}, h("legend", {}, "Targets (medians)"), target("ttft_ms", "TTFT ≤", "ms"), target("tpot_ms", "TPOT ≤", "ms"), target("tok_s_user", "tok/s/user ≥", "")),
    h("fieldset", {}, h("legend", {}, "Shown"),
      field("colour by", select(COLOURS.map((c) => [c, c]), state.colour ?? "kind", (v) => change({ colour: v }), { id: "c-colour" })),
      check("dominated", state.dominated !== "false", (v) => change({ dominated: v ? "" : "false" })),
      check("80 % intervals", state.intervals === "true", (v) => change({ intervals: v ? "true" : "" })),
      check(`measured${page.measured ? ` (${page.measured})` : state.measured === "true" ? " (none stored)" : ""}`, state.measured === "true", (v) => change({ measured: v ? "true" : "" })),
      field("filter", h("input", { id: "c-filter", "data-filter": true, size: 18, value: state.filter ?? "", placeholder: "disagg ep16 !dbo ttft<2000", onchange: (e) => change({ filter: e.target.value.trim() }) }))));
  if (focused?.startsWith("c-")) $(`#${focused}`)?.focus();
}

function targetOf(key) {
  const match = { ttft_ms: /TTFT <= ([\d.]+)/, tpot_ms: /TPOT <= ([\d.]+)/, tok_s_user: />= ([\d.]+) tok/ }[key].exec(page.question);
  return match ? match[1] : "none";
}

const axisIndex = (key) => page.axes.findIndex((a) => a.key === key);
const colourOf = (row) => page.groups.find((g) => g.name === row.group)?.colour ?? "#808890";

function showChart() {
  const overlay = [];
  const kept = brushed === null ? null : page.rows.filter((r) => brushed.has(r.point));
  const at = (row) => [row.values[axisIndex(state.x)], row.values[axisIndex(state.y)]];
  if (kept) overlay.push(marks(kept.map(at), kept.map((r) => r.point), "circle-open", 13, "chosen on the parallel axes"));
  const pinned = pins.map((p) => cards.get(p)).filter(Boolean);
  if (pinned.length) {
    overlay.push({ ...marks(pinned.map((p) => [p.values[state.x], p.values[state.y]]), pins.filter((p) => cards.has(p)), "square-open", 16, "pinned"),
      mode: "markers+text", text: pinned.map((_, i) => String(i + 1)), textposition: "top right" });
  }
  const figureOf = { data: [...page.figure.data, ...overlay], layout: { ...page.figure.layout, dragmode: "zoom" } };
  draw(place.chart, figureOf, { hover: (p) => { if (held === null) showCard(p); }, click: (p) => togglePin(p), select: (s) => { selection = s; showRows(); } })
    .catch((error) => showProblem(place.summary, error));
}

function marks(points, ids, symbol, size, name) {
  return { type: "scatter", mode: "markers", x: points.map((p) => p[0]), y: points.map((p) => p[1]), customdata: ids, name, hoverinfo: "none", showlegend: false,
    marker: { symbol, size, color: "#808890", line: { width: 2 } } };
}

function chosenRows() {
  let rows = page.rows;
  if (brushed) rows = rows.filter((r) => brushed.has(r.point));
  if (selection) {
    const xi = axisIndex(state.x);
    const yi = axisIndex(state.y);
    rows = rows.filter((r) => inside(selection, r.values[xi], r.values[yi]));
  }
  if (sort) {
    const value = COLUMNS()[sort.column].sort;
    rows = [...rows].sort((a, b) => { const u = value(a); const v = value(b); return (u < v ? -1 : u > v ? 1 : 0) * (sort.up ? 1 : -1); });
  }
  return rows;
}

function inside(chosen, x, y) {
  if (chosen.range) {
    const [x0, x1] = chosen.range.x;
    const [y0, y1] = chosen.range.y;
    return x >= Math.min(x0, x1) && x <= Math.max(x0, x1) && y >= Math.min(y0, y1) && y <= Math.max(y0, y1);
  }
  const { x: xs, y: ys } = chosen.lasso;
  let odd = false;
  for (let i = 0, j = xs.length - 1; i < xs.length; j = i++) {
    if (ys[i] > y !== ys[j] > y && x < ((xs[j] - xs[i]) * (y - ys[i])) / (ys[j] - ys[i]) + xs[i]) odd = !odd;
  }
  return odd;
}

const COLUMNS = () => [
  { title: "#", number: true, cell: (r) => r.rank, sort: (r) => r.rank },
  { title: "plan", header: true, cell: (r) => [h("span", { class: "swatch", style: `background:${colourOf(r)}` }), h("span", { class: "name" }, r.plan), h("span", { class: "muted small" }, ` ${r.extras}`)], sort: (r) => r.plan },
  { title: "GPUs", number: true, cell: (r) => r.gpus, sort: (r) => Number(r.gpus.split("/")[0]) },
  ...page.axes.map((a, i) => ({ title: a.short, number: true, cell: (r) => figure(r.values[i]), sort: (r) => r.values[i] ?? Infinity })),
  { title: "targets", cell: (r) => (r.meets ? h("span", { class: "tag good" }, "✓ met") : h("span", { class: "tag warn" }, "✗ missed")), sort: (r) => Number(!r.meets) },
];

function showRows() {
  const rows = chosenRows();
  const mode = state.table ?? "ranked under the targets";
  const more = page.rows_total > page.offset + page.rows.length || page.offset > 0;
  const step = (by) => change({ offset: String(Math.max(0, page.offset + by)) }, { keepRows: true });
  const filtered = rows.length !== page.rows.length;
  place.chosen.textContent = filtered ? `${rows.length} of ${page.rows.length} listed plans are in the selection.` : "";
  const made = h("div", {},
    h("div", { class: "row spread" },
      h("h2", {}, "Plans"),
      h("div", { class: "row" },
        field("list", select([["ranked under the targets", "best load of each configuration"], ["frontier", "points of the frontier"]], mode, (v) => change({ table: v === "frontier" ? v : "" }), { id: "c-table" })),
        filtered ? h("button", { type: "button", class: "quiet", onclick: dropSelection }, "Drop the selection") : null)),
    place.chosen,
    rows.length ? table({
      caption: `${mode === "frontier" ? "Frontier points" : "Configurations under the targets"}, ${page.offset + 1}–${page.offset + page.rows.length} of ${page.rows_total}`,
      columns: COLUMNS(), rows, key: (r) => r.point, sort,
      onsort: (column) => { sort = { column, up: sort?.column === column ? !sort.up : true }; showRows(); },
      onenter: (r) => hold(r.point), onspace: (r) => togglePin(r.point), onfocus: (r) => { if (held === null) showCard(r.point); },
      marked: (r) => `${pins.includes(r.point) ? "pinned" : ""} ${page.best?.point === r.point ? "best" : ""}`,
    }) : h("p", { class: "notice" }, page.rows_total ? "No listed plan is in the selection." : page.summary),
    more ? h("div", { class: "row" },
      h("button", { type: "button", disabled: page.offset === 0, onclick: () => step(-ROWS) }, "Previous"),
      h("button", { type: "button", disabled: page.offset + page.rows.length >= page.rows_total, onclick: () => step(ROWS) }, "Next")) : null);
  if (place.table.querySelector("table") && made.querySelector("table")) replaceTable(place.table, made); else fill(place.table, made);
}

function dropSelection() {
  selection = null;
  brushed = null;
  showChart();
  showRows();
  showParallel();
}

function showParallel() {
  const of = (i) => (r) => r.values[i];
  const role = (name, i) => (r) => (r[name] ? r[name][i] : null);
  const text = (v) => String(Math.round(v));
  const any = page.rows.some((r) => r.prefill);
  const axes = [
    ...(any ? [{ title: "prefill groups", value: role("prefill", 0), log: true, format: text }, { title: "prefill TP", value: role("prefill", 1), log: true, format: text }, { title: "prefill EP", value: role("prefill", 2), log: true, format: text }] : []),
    { title: any ? "decode groups" : "groups", value: role("decode", 0), log: true, format: text }, { title: any ? "decode TP" : "TP", value: role("decode", 1), log: true, format: text },
    { title: any ? "decode EP" : "EP", value: role("decode", 2), log: true, format: text },
    ...["tok-s-user", "tok-s-gpu", "ttft", "tpot"].map((k) => ({ title: page.axes[axisIndex(k)].short, value: of(axisIndex(k)), format: figure })),
  ];
  if (!page.rows.length) { fill(place.parallel); return; }
  parallel(place.parallel, { axes, rows: page.rows, colour: colourOf, onhover: (r) => { if (held === null) showCard(r.point); },
    onbrush: (kept) => { brushed = kept; showRows(); showChart(); } });
}

async function cardOf(point) {
  if (!cards.has(point)) cards.set(point, await get("/plan", { ...question(state), point }));
  return cards.get(point);
}

let wanted = null;
async function showCard(point) {
  wanted = point;
  await new Promise((resolve) => setTimeout(resolve, 80));
  if (wanted !== point) return;
  try {
    const plan = await cardOf(point);
    if (wanted === point) fill(place.card, planCard(plan, point, question(state), { pinned: pins.includes(point), onpin: () => togglePin(point) }));
  } catch (error) { showProblem(place.card, error); }
}

function hold(point) {
  held = point;
  showCard(point).then(() => { place.card.classList.add("held"); place.card.focus(); });
}

function release() {
  held = null;
  place.card.classList.remove("held");
}

function togglePin(point) {
  if (pins.includes(point)) pins = pins.filter((p) => p !== point);
  else if (pins.length >= MOST_PINS) { say(`At most ${MOST_PINS} plans can be pinned.`); return; } else pins = [...pins, point];
  say(`${pins.length} pinned`);
  write({ ...question(state), ...view(), offset: state.offset, pins: pins.join(",") });
  showRows();
  showPins();
  showCard(point);
}

async function showPins() {
  if (!pins.length) { place.compare.hidden = true; showChart(); return; }
  try {
    await Promise.all(pins.map(cardOf));
    const compared = await get("/compare", { ...question(state), points: pins });
    const diff = h("div");
    fill(place.compare, h("div", { class: "row spread" }, h("h2", {}, `Compare (${pins.length})`),
      h("div", { class: "row" }, pins.length > 1 ? h("button", { type: "button", class: "quiet", onclick: () => showDiff(diff) }, "Diff of manifests") : null,
        h("button", { type: "button", class: "quiet", onclick: () => { pins = []; load(); } }, "Unpin all"))),
      compared.verdict.map((v) => h("p", {}, v)), comparison(compared, {
        onremove: (i) => togglePin(pins[i]), onbase: (i) => { pins = [pins[i], ...pins.filter((_, j) => j !== i)]; write({ ...question(state), ...view(), pins: pins.join(",") }); showPins(); },
      }), diff);
    place.compare.hidden = false;
    showChart();
  } catch (error) { place.compare.hidden = false; showProblem(place.compare, error); }
}

async function showDiff(element) {
  try {
    const diff = await get("/diff", { ...question(state), points: pins.slice(0, 2) });
    fill(element, diffOf(diff.lines));
  } catch (error) { showProblem(element, error); }
}

function showNotes() {
  const command = h("code", {}, page.command);
  const note = (a) => h("li", {}, h("strong", {}, a.name), `: ${a.value} — ${a.why} `, h("code", {}, a.flag));
  const why = h("div", { role: "status" });
  const asked = h("input", { id: "c-why", size: 34, placeholder: "P 2x(tp1,dp8) D 1x(tp1,dp16)" });
  const exports = h("div", { class: "row" },
    h("button", { type: "button", onclick: (e) => copy(page.command, e.target) }, "Copy the command"),
    h("button", { type: "button", onclick: (e) => copy(location.href, e.target) }, "Copy the link"),
    h("button", { type: "button", onclick: () => picture(place.chart, "png", page.title, source()) }, "PNG"),
    h("button", { type: "button", onclick: () => picture(place.chart, "svg", page.title, source()) }, "SVG"),
    h("button", { type: "button", onclick: () => download("plans.csv", csv(), "text/csv") }, "CSV"),
    h("a", { class: "button", href: address("/recommendation", question(state)), download: "recommendation.json" }, "JSON"),
    h("a", { class: "button quiet", href: `/new?${params(question(state))}` }, "Edit the problem"));
  fill(place.notes, h("h2", {}, "Share and export"), h("p", {}, command), exports,
    h("h2", {}, "Why not …?"),
    h("form", { class: "row", onsubmit: async (e) => {
      e.preventDefault();
      fill(why, "Asking…");
      try {
        const answer = await get("/why-not", { ...question(state), text: asked.value });
        fill(why, h("p", {}, h("span", { class: `tag ${answer.good ? "good" : "warn"}` }, answer.verdict), ` ${answer.label}`), h("ul", {}, answer.lines.map((l) => h("li", {}, l.trim()))), answer.better ? h("p", {}, `Better: ${answer.better}`) : null);
      } catch (error) { showProblem(why, error); }
    } }, field("configuration", asked), h("button", {}, "Ask")), why,
    h("details", { open: true }, h("summary", {}, `What was not tried: ${(page.role_configurations - page.legal).toLocaleString("en")} of ${page.role_configurations.toLocaleString("en")} role configurations`),
      h("table", {}, h("caption", { class: "hidden" }, "Rules that left configurations out"), h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "left out"), h("th", { scope: "col" }, "rule"))),
        h("tbody", {}, page.exclusions.map((e) => h("tr", {}, h("td", { class: "number" }, e.count.toLocaleString("en")), h("td", {}, e.title, h("span", { class: "muted small" }, ` ${e.code}`))))))),
    h("details", {}, h("summary", {}, `Assumed: ${page.assumptions.length} defaults, ${page.unconfirmed.length} unconfirmed figures`), h("ul", {}, page.assumptions.map(note)), h("ul", { class: "muted" }, page.unconfirmed.map(note))));
}

const source = () => `wideplan, model ${page.model_version}; predicted, not measured; ${new Date().toISOString().slice(0, 10)}; ${page.question}`;

function csv() {
  const quote = (v) => { const text = String(v ?? ""); return /[",\n]/.test(text) || /^[=+@-]/.test(text) && Number.isNaN(Number(text)) ? `"${text.replaceAll('"', '""')}"` : text; };
  const header = ["rank", "plan", "switches", "strategy", "gpus", ...page.axes.map((a) => `${a.label}`), "meets_targets"];
  const rows = chosenRows().map((r) => [r.rank, r.plan, r.extras, r.kind, r.gpus, ...r.values, r.meets]);
  return `${[header, ...rows].map((r) => r.map(quote).join(",")).join("\n")}\n`;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (held !== null) { const back = place.table.querySelector(`tr[data-key="${held}"]`); release(); back?.focus(); } else if (selection || brushed) dropSelection();
});
document.addEventListener("pointerdown", (event) => { if (held !== null && !place.card.contains(event.target)) release(); });

shell([["↑ ↓", "through the table"], ["Space", "pin or unpin"], ["Enter", "read the card"], ["drag", "zoom; the mode bar has box and lasso"]]);
fill($("#page"), place.summary, place.controls, h("div", { class: "split" }, h("section", { "aria-label": "Chart" }, place.chart), place.card), place.compare,
  h("section", { class: "panel" }, place.table), h("section", { class: "panel" }, h("h2", {}, "Parallel coordinates"), h("p", { class: "muted" }, "Drag along an axis to keep a range; click an axis to drop it."), place.parallel), place.notes);
load();
