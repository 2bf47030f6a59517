// Measured against predicted: parity plot and scores.
import { $, field, fill, h, say, select } from "../dom.js";
import { get, problem, showProblem, upload } from "../api.js";
import { draw } from "../chart.js";
import { shell } from "../shell.js";
import { read, write } from "../url.js";

const state = read();
const result = h("div", { role: "status" });
const NAMES = { ttft_ms_p50: "TTFT", tpot_ms_p50: "TPOT", output_tok_s_per_gpu: "output" };

async function start() {
  shell();
  const file = h("input", { type: "file", accept: ".csv,text/csv", onchange: async () => {
    if (!file.files.length) return;
    fill(result, "Reading…");
    try { state.file = (await upload("/points", file.files[0])).file; write(state); await show(); } catch (error) { fill(result, problem(error)); }
  } });
  fill($("#page"), h("section", { class: "panel" }, h("div", { class: "row" }, field("points of your own (CSV)", file), h("button", { type: "button", onclick: () => { delete state.file; write(state); show(); } }, "Use the stored measurements")),
    h("p", { class: "muted" }, "Every row is predicted as planner validate does; rows whose source doubts them are answered but not scored. Points that the shipped calibration was fitted to score better than new ones will.")), result);
  await show();
  $("#page").dataset.ready = "1";
}

async function show() {
  const started = Date.now();
  const tick = setInterval(() => fill(result, h("p", { class: "notice" }, `Predicting… ${((Date.now() - started) / 1000).toFixed(0)} s`)), 500);
  let made;
  try { made = await get("/accuracy", { file: state.file }); } catch (error) { clearInterval(tick); showProblem(result, error); return; }
  clearInterval(tick);
  const chart = h("div", { class: "chart", role: "group", "aria-label": "Parity plot: measured over predicted per metric; the table below has the errors" });
  const kinds = [...new Set(made.groups.map((g) => g.kind))];
  const body = h("div");
  const metrics = Object.keys(NAMES).filter((m) => made.groups.some((g) => g.metrics[m]));
  const list = (kind) => { const rows = made.groups.filter((g) => g.kind === kind || g.kind === "all"); fill(body, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" }, h("table", {}, h("caption", {}, "absolute errors in percent, median and 90th percentile; bias; share of measured values inside the 80 % interval"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, kind), h("th", { scope: "col", class: "number" }, "rows"), metrics.flatMap((m) => [`${NAMES[m]} median`, "p90", "bias", "inside"].map((t) => h("th", { scope: "col", class: "number" }, t))))),
    h("tbody", {}, rows.map((g) => h("tr", {}, h("th", { scope: "row" }, g.label), h("td", { class: "number" }, g.rows), metrics.flatMap((m) => { const s = g.metrics[m]; return (s ? [`${s.median_pct.toFixed(0)} %`, `${s.p90_pct.toFixed(0)} %`, `${s.bias_pct > 0 ? "+" : ""}${s.bias_pct.toFixed(0)} %`, `${(100 * s.covered).toFixed(0)} %`] : ["–", "–", "–", "–"]).map((t) => h("td", { class: "number" }, t)); }))))))); };
  const refused = Object.entries(made.refused);
  fill(result, h("p", { class: "summary" }, `${made.file}: ${made.rows} rows, ${made.answered} answered, ${made.scored} scored.`), refused.length ? h("p", { class: "muted" }, `Refused: ${refused.map(([code, n]) => `${code} ${n}`).join(", ")}`) : null, chart,
    kinds.length > 1 ? field("errors by", select(kinds.filter((k) => k !== "all").map((k) => [k, k]), kinds.find((k) => k !== "all"), list)) : null, body);
  list(kinds.find((k) => k !== "all") ?? "all");
  say("Scores are shown.");
  draw(chart, made.figure).catch((error) => showProblem(chart, error));
}

start();
