// The laws of the field as experiments: published beside ours, with a verdict.
import { $, fill, h, say } from "../dom.js";
import { get, problem, showProblem } from "../api.js";
import { shell } from "../shell.js";

async function start() {
  shell();
  try {
    const { experiments } = await get("/experiments");
    const cards = experiments.map(card);
    const all = h("button", { type: "button", class: "primary", onclick: async () => { all.disabled = true; for (const c of cards) await c.run(); all.disabled = false; } }, "Run all");
    fill($("#page"), h("div", { class: "row" }, all, h("span", { class: "muted" }, `${experiments.length} experiments; seconds each, the first one compiles`)), cards.map((c) => c.element));
  } catch (error) { showProblem($("#page"), error); }
  $("#page").dataset.ready = "1";
}

function card(e) {
  const verdict = h("span", { class: "tag" }, "not run");
  const result = h("div", { role: "status" });
  const button = h("button", { type: "button", onclick: () => run() }, "Run");
  async function run() {
    button.disabled = true;
    verdict.textContent = "running…";
    try {
      const made = await get(`/experiments/${encodeURIComponent(e.name)}`);
      verdict.textContent = made.passed ? "✓ reproduced" : "✗ not reproduced";
      verdict.className = `tag ${made.passed ? "good" : "warn"}`;
      say(`${e.name}: ${verdict.textContent}`);
      fill(result, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Figures of ${e.title}` }, h("table", {}, h("caption", { class: "hidden" }, e.title), h("thead", {}, h("tr", {}, made.headers.map((t, i) => h("th", { scope: "col", class: i ? "number" : "" }, t)))),
        h("tbody", {}, made.rows.map((row) => h("tr", {}, row.map((c, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: i ? "number" : "" }, c))))))),
        h("ul", {}, made.checks.map((c) => h("li", {}, h("span", { class: `tag ${c.holds ? "good" : "bad"}` }, c.holds ? "✓ holds" : "✗ fails"), ` ${c.statement}`))), made.notes.map((n) => h("p", { class: "muted" }, n)));
    } catch (error) { verdict.textContent = "failed"; fill(result, problem(error)); }
    button.disabled = false;
  }
  const element = h("section", { class: "panel" }, h("div", { class: "row spread" }, h("h2", {}, `Law ${e.law}: ${e.title}`), h("div", { class: "row" }, verdict, button)), h("p", { class: "muted" }, `Published: ${e.published}`), result);
  return { element, run };
}

start();
