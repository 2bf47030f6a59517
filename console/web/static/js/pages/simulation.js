// Routers side by side over time.
import { $, field, fill, h, say, select } from "../dom.js";
import { get, problem, showProblem } from "../api.js";
import { draw } from "../chart.js";
import { shell } from "../shell.js";
import { figure } from "../table.js";
import { question, write } from "../url.js";

const state = Object.fromEntries(new URLSearchParams(location.search));
state.routers = new URLSearchParams(location.search).getAll("routers").flatMap((r) => r.split(",")).filter(Boolean);
const result = h("div", { role: "status" });
const charts = { series: h("div", { class: "chart", role: "group", "aria-label": "Queues, running requests and KV use over time; the table has the totals" }), ranks: h("div", { class: "chart low", role: "group", "aria-label": "Requests per rank; the table has the busiest rank" }) };

async function start() {
  shell();
  try {
    const [{ routers }, { plans }, form] = await Promise.all([get("/routers"), get("/plans", { limit: 100 }), get("/form")]);
    const plan = select([...form.recipes.map((r) => [`recipe:${r}`, `best of recipe ${r}`]), ...(state.saved && !plans.some((p) => p.hash === state.saved) ? [[`saved:${state.saved}`, `saved ${state.saved.slice(0, 10)}`]] : []), ...plans.map((p) => [`saved:${p.hash}`, `${p.name}: ${p.label}`])], state.saved ? `saved:${state.saved}` : `recipe:${state.recipe ?? form.recipes[0]}`, () => {});
    const boxes = routers.map((r) => [r, h("input", { type: "checkbox", checked: state.routers.includes(r) })]);
    const number = (key, value, attributes = {}) => h("input", { type: "number", value: state[key] ?? value, min: 0, ...attributes, class: "short", "data-key": key });
    const inputs = [["requests", number("requests", 2000, { min: 20, max: 200000 })], ["in flight (empty: the plan's)", number("concurrency", "", { min: 1 })], ["shared prefix tokens", number("shared_prefix", 0)], ["length spread (CV)", number("length_cv", 0, { step: 0.1, max: 5 })], ["replications", number("replications", 2, { min: 1, max: 8 })], ["seed", number("seed", 0)]];
    const go = h("button", { class: "primary" }, "Simulate");
    fill($("#page"), h("form", { class: "controls", onsubmit: async (event) => {
      event.preventDefault();
      const [kind, value] = [plan.value.slice(0, plan.value.indexOf(":")), plan.value.slice(plan.value.indexOf(":") + 1)];
      delete state.saved; delete state.recipe;
      state[kind] = value;
      state.routers = boxes.filter(([, b]) => b.checked).map(([r]) => r);
      for (const [, input] of inputs) state[input.dataset.key] = input.value;
      go.disabled = true;
      await run();
      go.disabled = false;
    } }, h("fieldset", {}, h("legend", {}, "Plan"), field("plan", plan)), h("fieldset", {}, h("legend", {}, "Routers (none: the plan's own)"), boxes.map(([r, b]) => h("label", { class: "check" }, b, r))), h("fieldset", {}, h("legend", {}, "Traffic"), inputs.map(([label, input]) => field(label, input))), go), result);
    if (state.requests) await run();
  } catch (error) { showProblem($("#page"), error); }
  $("#page").dataset.ready = "1";
}

async function run() {
  const asked = { ...question(state), saved: state.saved, routers: state.routers, requests: state.requests, concurrency: state.concurrency, shared_prefix: state.shared_prefix, length_cv: state.length_cv, replications: state.replications, seed: state.seed };
  write({ ...asked, routers: state.routers.join(",") });
  const started = Date.now();
  const tick = setInterval(() => fill(result, h("p", { class: "notice" }, `Simulating… ${((Date.now() - started) / 1000).toFixed(0)} s. The first run compiles; leaving the page does not stop it.`)), 500);
  try {
    if (!state.saved) asked.point = (await get("/frontier", { ...question(state), limit: 1 })).best?.point;
    const made = await get("/simulation", asked);
    clearInterval(tick);
    show(made);
  } catch (error) { clearInterval(tick); fill(result, problem(error)); }
}

function show(made) {
  const s = made.simulations;
  const stat = (x, scale = 1) => h("td", { class: "number" }, figure(x.value === null ? null : x.value * scale), x.low === null || x.high === null ? null : h("div", { class: "muted small" }, `${figure(x.low)} – ${figure(x.high)}`));
  fill(result, h("h2", {}, made.plan),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results" }, h("table", {}, h("caption", {}, "results, with 95 % intervals"), h("thead", {}, h("tr", {}, ["router", "tok/s/GPU", "TTFT p50 ms", "TTFT p99 ms", "TPOT p50 ms", "TPOT p99 ms", "prefix hits", "busiest rank / mean", "requests"].map((t, i) => h("th", { scope: "col", class: i ? "number" : "" }, t)))),
      h("tbody", {}, s.map((x) => h("tr", {}, h("th", { scope: "row" }, x.name), h("td", { class: "number" }, figure(x.output_tok_s_per_gpu)), stat(x.ttft_p50), stat(x.ttft_p99), stat(x.tpot_p50), stat(x.tpot_p99), h("td", { class: "number" }, x.prefix_hit_rate === null ? "–" : `${(100 * x.prefix_hit_rate).toFixed(1)} %`), h("td", { class: "number" }, Object.entries(x.busiest_rank).map(([role, v]) => h("div", {}, `${role} ${v === null ? "–" : v.toFixed(2)}×`))), h("td", { class: "number" }, `${x.measured.toLocaleString("en")} of ${x.requests.toLocaleString("en")}${x.failed ? `, ${x.failed} failed` : ""}`)))))),
    made.differences.length ? h("table", {}, h("caption", {}, `differences against ${s[0].name}, same arrivals and lengths`), h("thead", {}, h("tr", {}, ["router", "metric", "difference", "relative", "verdict"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, made.differences.map((d) => h("tr", {}, h("th", { scope: "row" }, d.name), h("td", {}, d.metric), stat(d.difference), h("td", { class: "number" }, d.relative === null ? "–" : `${d.relative > 0 ? "+" : ""}${(100 * d.relative).toFixed(1)} %`), h("td", {}, d.significant ? "distinguishable" : "not distinguishable"))))) : null,
    h("h2", {}, "Over time"), charts.series, h("h2", {}, "Ranks"), charts.ranks, [...new Set(s.flatMap((x) => x.notes))].map((n) => h("p", { class: "muted" }, n)));
  say("Simulation finished.");
  draw(charts.series, made.series_figure).catch((error) => showProblem(charts.series, error));
  draw(charts.ranks, made.ranks_figure).catch((error) => showProblem(charts.ranks, error));
}

start();
