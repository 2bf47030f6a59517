// A new problem: checked as one types, answered at once or searched by simulation.
import { $, copy, field, fill, h, say, select } from "../dom.js";
import { get, params, post, problem, upload } from "../api.js";
import { shell } from "../shell.js";
import { question, read, write } from "../url.js";

let state = read();
let form = null;
let checked = null;
const inputs = new Map();
const place = { verdict: h("div", { role: "status" }), recipe: h("div"), fields: h("div"), model: h("div") };

async function start() {
  shell();
  try { form = await get("/form"); } catch (error) { fill($("#page"), problem(error)); return; }
  const groups = [...new Set(form.fields.map((f) => f.group))];
  const trials = h("input", { type: "number", min: 1, max: 100000, value: 200, size: 6 });
  const level = select([["simulated", "simulate each point"], ["analytic", "analytic model only"]], "simulated", () => {});
  const search = h("button", { type: "button", class: "primary", onclick: async () => {
    search.disabled = true;
    try {
      const made = await post("/studies", { question: question(state), trials: Number(trials.value), level: level.value });
      location.assign(`/studies?name=${encodeURIComponent(made.name)}`);
    } catch (error) { fill(place.verdict, problem(error)); search.disabled = false; }
  } }, "Start the search");
  const plan = h("button", { class: "primary" }, "Plan it");
  fill($("#page"),
    h("form", { novalidate: true, onsubmit: (e) => { e.preventDefault(); if (checked?.ready) location.assign(`/?${params(question(state))}`); else check().then(focusFirst); } },
      h("div", { class: "row" }, field("start from a recipe", select([["", "none"], ...form.recipes.map((r) => [r, r])], state.recipe ?? "", (r) => { state = r ? { recipe: r } : {}; show(); check(); })),
        h("label", { class: "button" }, "Bring a config.json", h("input", { type: "file", accept: ".json,application/json", class: "hidden", onchange: bring })), place.model),
      groups.map((group) => h("fieldset", { class: "panel" }, h("legend", {}, group), h("div", { class: "grid" }, form.fields.filter((f) => f.group === group).map(one)))),
      place.verdict,
      h("div", { class: "row" }, plan, h("span", { class: "muted" }, "exact for the analytic model; seconds"))),
    h("section", { class: "panel" }, h("h2", {}, "Or search by simulation"), h("p", { class: "muted" }, "Runs in the background: it can be left, stopped and resumed, here or with planner studies."), h("div", { class: "row" }, field("trials", trials), field("level", level), search)));
  show();
  await check();
  $("#page").dataset.ready = "1";
}

function one(spec) {
  const change = () => { state[spec.key] = input.value.trim(); check(); };
  const error = h("div", { class: "error", id: `e-${spec.key}` });
  let input;
  if (spec.choices.length) input = select([["", spec.hint || "any"], ...spec.choices.map((c) => [c, c])], "", change);
  else input = h("input", { placeholder: spec.hint, autocomplete: "off", list: spec.suggestions.length ? `l-${spec.key}` : null, onchange: change });
  input.id = `p-${spec.key}`;
  input.setAttribute("aria-describedby", error.id);
  inputs.set(spec.key, { input, error });
  const names = spec.suggestions.length ? h("datalist", { id: `l-${spec.key}` }, spec.suggestions.map((s) => h("option", { value: s }))) : null;
  return h("div", { class: "field" }, h("label", { for: input.id }, spec.label, " ", h("code", { class: "small muted" }, spec.flag)), input, names, error);
}

function show() {
  for (const [key, { input }] of inputs) input.value = state[key] ?? "";
}

let asked = 0;
async function check() {
  write(question(state));
  const number = ++asked;
  if (!Object.values(question(state)).length) { checked = null; fill(place.verdict, h("p", { class: "notice" }, "Choose a recipe, or name a model, a GPU and how many.")); return; }
  let answer;
  try { answer = await get("/form/check", question(state)); } catch (error) { checked = null; if (number === asked) fill(place.verdict, problem(error)); return; }
  if (number !== asked) return;
  checked = answer;
  for (const f of checked.fields) {
    const { input, error } = inputs.get(f.key);
    if (!state[f.key] && f.text) input.placeholder = f.text;
    input.setAttribute("aria-invalid", String(f.issues.length > 0));
    fill(error, f.issues.map((i) => h("div", {}, `✗ ${i.why}. ${i.fix}`)));
  }
  const wrong = checked.fields.filter((f) => f.issues.length).length + checked.general.length;
  fill(place.verdict, checked.ready
    ? h("div", { class: "notice" }, h("p", {}, h("span", { class: "tag good" }, "✓ can be planned"), ` ${checked.summary}`),
      checked.assumptions.length ? h("details", {}, h("summary", {}, `Assumed: ${checked.assumptions.length}`), h("ul", {}, checked.assumptions.map((a) => h("li", {}, a)))) : null,
      h("p", {}, h("code", {}, checked.command), " ", h("button", { type: "button", class: "quiet small", onclick: (e) => copy(checked.command, e.target) }, "Copy")))
    : h("div", { class: "notice bad" }, h("p", {}, `✗ ${wrong} to mend`), h("ul", { class: "issues" }, [...checked.general, ...checked.fields.flatMap((f) => f.issues)].map((i) => h("li", {}, h("strong", {}, i.what), h("div", {}, i.why), h("div", { class: "fix" }, i.fix))))));
  say(checked.ready ? "can be planned" : `${wrong} to mend`);
}

function focusFirst() {
  const bad = checked?.fields.find((f) => f.issues.length);
  if (bad) inputs.get(bad.key).input.focus();
}

async function bring(event) {
  const file = event.target.files[0];
  if (!file) return;
  try {
    const made = await upload("/model", file);
    state.model = made.model;
    fill(place.model, h("span", { class: "tag good" }, `✓ ${made.name}: ${made.summary}`));
    show();
    await check();
  } catch (error) { fill(place.model, problem(error)); }
  event.target.value = "";
}

start();
