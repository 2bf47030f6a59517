// Searches: the list, and one of them live. What is shown is in the store, so a reload or a restart changes nothing.
import { $, fill, h, say } from "../dom.js";
import { get, live, post, problem, showProblem } from "../api.js";
import { draw } from "../chart.js";
import { shell } from "../shell.js";
import { figure, replaceTable, table } from "../table.js";
import { read, write } from "../url.js";

const state = read();
const place = { list: h("div"), one: h("section", { class: "panel", hidden: true, "aria-label": "Study" }), link: h("span", { class: "badge" }, "connecting") };
let listed = null;
let seen = "";

function start() {
  shell([["Enter", "open a study"]]);
  fill($("#page"), h("div", { class: "row spread" }, h("a", { class: "button", href: "/new" }, "Start a search"), place.link), place.one, h("section", { class: "panel" }, place.list));
  live(["studies"], { studies: (news) => { if (news.studies) update(news); else fill(place.list, problem(new Error(news.issues[0].what))); } }, (s) => { place.link.textContent = s; });
}

function update(news) {
  listed = news;
  showList();
  const name = state.name ?? (listed.studies.find((s) => !s.parent) ?? listed.studies[0])?.name ?? null;
  const one = listed.studies.find((s) => s.name === name);
  const stamp = JSON.stringify(one ?? name);
  if (!name) $("#page").dataset.ready = "1";
  else if (stamp !== seen) { seen = stamp; show(name); }
}

const word = { running: "● running", interrupted: "‖ interrupted", finished: "✓ finished" };
const tone = { running: "good", interrupted: "warn", finished: "" };

function progress(s) {
  if (!s.budget || s.parent) return `${s.finished.toLocaleString("en")}`;
  const share = Math.min(1, s.finished / s.budget);
  return h("div", {}, `${s.finished.toLocaleString("en")} of ${s.budget.toLocaleString("en")}`, h("div", { class: "bar", "aria-hidden": "true" }, h("span", { style: `width:${(100 * share).toFixed(1)}%` })));
}

function showList() {
  if (!listed.studies.length) { fill(place.list, h("p", { class: "notice" }, "No search yet. Start one with the button above, or in a terminal: ", h("code", {}, "planner search RECIPE"))); return; }
  const made = table({
    caption: `${listed.studies.length} of ${listed.total} studies, newest first`, rows: listed.studies, key: (s) => s.name,
    columns: [
      { title: "study", header: true, cell: (s) => h("a", { href: `/studies?name=${encodeURIComponent(s.name)}`, onclick: (e) => { e.preventDefault(); open(s.name); } }, s.name) },
      { title: "state", cell: (s) => h("span", { class: `tag ${tone[s.state]}` }, word[s.state]) },
      { title: "trials", cell: progress }, { title: "level", cell: (s) => s.level }, { title: "sampler", cell: (s) => s.sampler }, { title: "seed", number: true, cell: (s) => s.seed },
    ],
    onenter: (s) => open(s.name), marked: (s) => (s.name === state.name ? "pinned" : ""),
  });
  if (place.list.querySelector("table")) replaceTable(place.list, made); else fill(place.list, made);
}

function open(name) {
  state.name = name;
  state.offset = "";
  write(state);
  seen = "";
  if (listed) update(listed);
}

const charts = { trials: h("div", { class: "chart low", role: "group", "aria-label": "Trials by what a user and a GPU get; the table has the same trials" }), history: h("div", { class: "chart low", role: "group", "aria-label": "Best rate so far over the trials" }) };
let shown = null;

async function show(name) {
  let page;
  try { page = await get(`/studies/${encodeURIComponent(name)}`, { offset: state.offset }); } catch (error) { place.one.hidden = false; showProblem(place.one, error); return; }
  const s = page.study;
  const act = (path, body, label) => h("button", { type: "button", class: "primary", onclick: async (e) => {
    e.target.disabled = true;
    try { await post(`/studies/${encodeURIComponent(name)}/${path}`, body); say(label); seen = ""; } catch (error) { e.target.after(problem(error)); }
  } }, label);
  const head = h("div", {},
    h("div", { class: "row spread" }, h("h2", {}, s.name), h("div", { class: "row" }, h("span", { class: `tag ${tone[s.state]}` }, word[s.state]),
      s.state === "running" ? act("stop", {}, "Stop") : s.parent ? null : act("resume", {}, "Resume"))),
    h("p", { class: "muted" }, page.question),
    page.quiet ? h("p", { class: "notice" }, "Its process is alive, but nothing finished for two minutes: the trials are long, or it waits for something.") : null,
    h("div", { class: "row" }, progress(s), h("span", {}, Object.entries(s.trials).map(([k, n]) => `${n} ${k}`).join(", ")), Object.entries(page.excluded).map(([k, n]) => h("span", { class: "tag" }, `${n} ${k}`))),
    page.best ? h("p", {}, h("strong", {}, `Best so far: ${figure(page.best.output_tok_s_per_gpu)} tok/s/GPU at ${figure(page.best.tok_s_user)} tok/s/user, TTFT ${figure(page.best.ttft_ms)} ms: `),
      page.best.plan_hash ? h("a", { href: `/plan?saved=${page.best.plan_hash}` }, page.best.plan) : page.best.plan) : h("p", {}, "No trial meets the targets yet."));
  const rows = table({
    caption: `Trials, newest first, ${page.trials_total ? page.offset + 1 : 0}–${page.offset + page.trials.length} of ${page.trials_total}`, rows: page.trials, key: (t) => t.number,
    columns: [
      { title: "#", number: true, cell: (t) => t.number }, { title: "plan", header: true, cell: (t) => (t.plan_hash ? h("a", { href: `/plan?saved=${t.plan_hash}` }, t.plan) : t.plan || "–") },
      { title: "tok/s/GPU", number: true, cell: (t) => figure(t.output_tok_s_per_gpu) }, { title: "tok/s/user", number: true, cell: (t) => figure(t.tok_s_user) }, { title: "TTFT ms", number: true, cell: (t) => figure(t.ttft_ms) }, { title: "TPOT ms", number: true, cell: (t) => figure(t.tpot_ms) },
      { title: "state", cell: (t) => h("span", { class: `tag ${t.state === "complete" ? (t.feasible ? "good" : "warn") : ""}` }, t.state === "complete" ? (t.feasible ? "✓ meets targets" : "✗ misses targets") : t.error ? `failed: ${t.error.slice(0, 60)}` : t.state) },
    ],
  });
  const step = (by) => { state.offset = String(Math.max(0, page.offset + by)); write(state); show(name); };
  const pager = page.trials_total > page.trials.length ? h("div", { class: "row" }, h("button", { type: "button", disabled: page.offset === 0, onclick: () => step(-50) }, "Newer"), h("button", { type: "button", disabled: page.offset + page.trials.length >= page.trials_total, onclick: () => step(50) }, "Older")) : null;
  if (shown !== name) { shown = name; fill(place.one, h("div"), h("div", { class: "halves" }, charts.trials, charts.history), h("div")); }
  fill(place.one.children[0], head);
  const last = place.one.children[2];
  if (last.querySelector("table")) replaceTable(last, h("div", {}, rows, pager)); else fill(last, rows, pager);
  place.one.hidden = false;
  $("#page").dataset.ready = "1";
  draw(charts.trials, page.trials_figure).catch((error) => showProblem(charts.trials, error));
  draw(charts.history, page.history_figure).catch((error) => showProblem(charts.history, error));
}

start();
