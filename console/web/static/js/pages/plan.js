// One plan in full.
import { $, copy, download, field, fill, h, say, select } from "../dom.js";
import { address, get, params, post, problem, showProblem } from "../api.js";
import { draw } from "../chart.js";
import { diff, yaml } from "../code.js";
import { shell } from "../shell.js";
import { tabs } from "../tabs.js";
import { question, read, write } from "../url.js";

const state = read();
const which = () => ({ ...question(state), point: state.point, saved: state.saved });
let plan = null;

async function start() {
  shell([["← →", "between tabs"]]);
  if (state.point === undefined && !state.saved) { await list(); return; }
  try { plan = await get("/plan", which()); } catch (error) { fill($("#page"), problem(error)); return; }
  $("#title").textContent = plan.label;
  $("#about").textContent = plan.headline;
  document.title = `${plan.label} – wideplan`;
  const keep = h("button", { type: "button", onclick: async () => {
    try { const saved = await post("/plans", { plan: { ...question(state), point: Number(state.point) } }); keep.textContent = "Saved"; keep.disabled = true; say(`saved as ${saved.hash.slice(0, 8)}`); } catch (error) { keep.after(problem(error)); }
  } }, "Save in the store");
  fill($("#page"),
    h("div", { class: "row" },
      state.saved ? null : h("a", { class: "button", href: `/?${params(question(state))}` }, "To the frontier"),
      state.saved ? null : keep,
      h("a", { class: "button", href: address("/plan.json", which()), download: true }, "Download plan.json"),
      h("button", { type: "button", onclick: (e) => copy(plan.command, e.target) }, "Copy the export command")),
    plan.meets === false ? h("p", { class: "notice" }, "✗ This plan misses the targets.") : null,
    plan.dominated_by ? h("p", { class: "notice" }, "Dominated: ", h("code", {}, plan.dominated_by), " serves more at the same speed for a user or faster.") : null,
    tabs("Parts of the plan", [["numbers", "Numbers", numbers], ["manifests", "Manifests", manifests], ["diff", "Diff", difference], ["why", "Why not that?", why]], state.tab, (tab) => { state.tab = tab; write(state); }));
  $("#page").dataset.ready = "1";
}

async function list() {
  $("#about").textContent = "Plans kept in the store; open one, or pick a point on the frontier.";
  try {
    const { plans, total } = await get("/plans", { limit: 100 });
    fill($("#page"), plans.length ? h("table", {}, h("caption", {}, `${plans.length} of ${total} saved plans`),
      h("thead", {}, h("tr", {}, ["plan", "problem", "model", "GPUs", "hash"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, plans.map((p) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: `/plan?saved=${p.hash}` }, p.label)), h("td", {}, p.name), h("td", {}, p.model), h("td", { class: "number" }, p.gpus), h("td", {}, h("code", {}, p.hash.slice(0, 10))))))) : h("p", { class: "notice" }, "No plan is saved yet. Open one from the ", h("a", { href: "/" }, "frontier"), " and save it."));
  } catch (error) { showProblem($("#page"), error); }
  $("#page").dataset.ready = "1";
}

function numbers(body) {
  const chart = h("div", { class: "chart low", role: "group", "aria-label": "Step time and memory as stacked bars; the tables below have the same figures" });
  const bars = (title, list) => h("table", {}, h("caption", {}, title), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "part"), h("th", { scope: "col", class: "number" }, list[0]?.unit ?? ""), h("th", { scope: "col", class: "number" }, "share"), h("th", { scope: "col" }, "source"))),
    h("tbody", {}, list.map((bar) => [h("tr", {}, h("th", { scope: "row" }, bar.title), h("td", { class: "number" }, bar.total.toPrecision(4)), h("td", {}, ""), h("td", { class: "muted" }, bar.note)),
      bar.segments.map((s) => h("tr", {}, h("td", {}, s.name), h("td", { class: "number" }, s.amount.toPrecision(3)), h("td", { class: "number" }, `${(100 * s.share).toFixed(0)} %`), h("td", { class: "muted" }, s.source)))])));
  fill(body, h("div", { class: "split" }, h("section", {}, chart), h("aside", { class: "side auto", "aria-label": "Figures" },
    h("dl", { class: "figures" }, plan.figures.map((f) => h("div", {}, h("dt", {}, f.name), h("dd", {}, f.value, f.interval ? h("span", { class: "muted" }, ` [${f.interval}]`) : null)))),
    h("p", { class: "muted" }, plan.basis))),
    h("section", { class: "panel" }, h("h2", {}, "Layout"), h("ul", { class: "plain" }, plan.arithmetic.map((a) => h("li", {}, a)))),
    h("section", { class: "panel" }, h("h2", {}, `Router: ${plan.router}`), h("table", {}, h("caption", { class: "hidden" }, "Scorers"), h("thead", {}, h("tr", {}, ["role", "scorer", "weight"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, plan.scorers.map((s) => h("tr", {}, h("td", {}, s.role), h("td", {}, h("code", {}, s.type)), h("td", {}, s.weight)))))),
    h("section", { class: "panel two" }, bars("Time of one step", plan.steps), bars("Memory of one rank", plan.memory)));
  draw(chart, plan.breakdown).catch((error) => showProblem(chart, error));
}

async function manifests(body) {
  try {
    const made = await get("/manifests", { ...which(), target: state.target });
    const files = h("div");
    const show = (index) => { const f = made.files[index]; fill(files, h("div", { class: "row" }, h("code", {}, f.path), h("button", { type: "button", class: "quiet", onclick: (e) => copy(f.text, e.target) }, "Copy"), h("button", { type: "button", class: "quiet", onclick: () => download(f.path.split("/").pop(), f.text, "text/yaml") }, "Download")), yaml(f.text)); };
    const all = made.files.map((f) => f.text).join("\n---\n");
    const worst = (s) => ({ error: "bad", warning: "warn", info: "" })[s] ?? "";
    fill(body,
      h("div", { class: "row" }, field("target", select(made.targets.map((t) => [t, t]), made.target, (t) => { state.target = t; write(state); manifests(body); })),
        field("file", select(made.files.map((f, i) => [String(i), f.path]), "0", (i) => show(Number(i)))),
        h("button", { type: "button", onclick: (e) => copy(all, e.target) }, `Copy all ${made.files.length}`), h("button", { type: "button", onclick: () => download(`${plan.name}.yaml`, all, "text/yaml") }, "Download all")),
      made.notes.length ? h("ul", { class: "notice" }, made.notes.map((n) => h("li", {}, n))) : null,
      made.findings.length ? h("table", {}, h("caption", {}, `${made.findings.length} lint findings`), h("thead", {}, h("tr", {}, ["severity", "finding", "why and fix"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, made.findings.map((f) => h("tr", {}, h("td", {}, h("span", { class: `tag ${worst(f.severity)}` }, f.severity)), h("td", {}, f.what, h("div", { class: "muted small" }, f.where)), h("td", {}, f.why, h("div", {}, `→ ${f.fix}`)))))) : h("p", {}, h("span", { class: "tag good" }, "✓ no lint finding")),
      files);
    show(0);
  } catch (error) { showProblem(body, error); }
}

async function difference(body) {
  if (state.point === undefined) { fill(body, h("p", { class: "notice" }, "Open a plan from the frontier to compare it with another point.")); return; }
  try {
    const page = await get("/frontier", { ...question(state), limit: 100 });
    const others = page.rows.filter((r) => String(r.point) !== state.point);
    const result = h("div");
    const show = async (other) => {
      state.other = other;
      write(state);
      try {
        const [made, compared] = await Promise.all([get("/diff", { ...question(state), points: [state.point, other], target: state.target }), get("/compare", { ...question(state), points: [state.point, other] })]);
        fill(result, compared.verdict.map((v) => h("p", {}, v)), h("ul", { class: "plain" }, [...compared.parameters].filter((r) => r.differs).map((r) => h("li", {}, `${r.name}: ${r.cells[0].text} → ${r.cells[1].text}`))), diff(made.lines));
      } catch (error) { showProblem(result, error); }
    };
    fill(body, field("with", select(others.map((r) => [String(r.point), `#${r.rank} ${r.plan}`]), state.other ?? String(others[0]?.point), show)), result);
    if (others.length) await show(state.other ?? String(others[0].point));
  } catch (error) { showProblem(body, error); }
}

function why(body) {
  const answer = h("div", { role: "status" });
  const asked = h("input", { id: "why", size: 36, placeholder: "P 2x(tp1,dp8) D 1x(tp1,dp16)" });
  fill(body, h("p", { class: "muted" }, "Name a configuration; the answer says which rule forbids it, what memory it lacks, or which plan does better and where the time goes."),
    h("form", { class: "row", onsubmit: async (event) => {
      event.preventDefault();
      fill(answer, "Asking…");
      try {
        const made = await get("/why-not", { ...question(state), text: asked.value });
        fill(answer, h("p", {}, h("span", { class: `tag ${made.good ? "good" : "warn"}` }, made.verdict), ` ${made.label}`), h("ul", {}, made.lines.map((l) => h("li", {}, l.trim()))), made.better ? h("p", {}, `Better: ${made.better}`) : null);
      } catch (error) { showProblem(answer, error); }
    } }, field("configuration", asked), h("button", {}, "Ask")), answer);
}

start();
