// The cluster, live: roles, a heat map of ranks, what blocks, events, and a plan against it.
import { $, field, fill, h, say, select } from "../dom.js";
import { get, live, post, problem, showProblem } from "../api.js";
import { shell } from "../shell.js";
import { figure } from "../table.js";
import { read, write } from "../url.js";

const state = read();
const METRICS = [["waiting", "requests waiting", 1], ["running", "requests running", 1], ["kv_usage", "KV cache in use", 100], ["prefix_hit", "prefix hits", 100], ["output_tok_s", "output tok/s", 1], ["prompt_tok_s", "prompt tok/s", 1], ["ttft_p99_s", "TTFT p99, s", 1], ["itl_mean_s", "ITL mean, s", 1], ["preemptions_per_min", "preemptions/min", 1]];
const place = { state: h("span", { class: "badge" }, "connecting"), head: h("div"), blockers: h("div"), flow: h("div"), heat: h("div"), roles: h("div"), events: h("div"), kinds: h("div"), plan: h("div") };
let last = null;
let blocked = "";

function start() {
  shell();
  fill($("#page"), h("div", { class: "row spread" }, place.head, place.state), place.blockers, h("section", { class: "panel" }, place.flow),
    h("section", { class: "panel" }, place.heat), h("section", { class: "panel" }, place.roles), h("section", { class: "panel" }, place.plan), h("section", { class: "panel" }, place.events), h("section", { class: "panel" }, place.kinds));
  planAgainst();
  live(["cluster"], { cluster: update }, (s) => { place.state.textContent = s; });
}

function update(news) {
  $("#page").dataset.ready = "1";
  if (news.issues) { fill(place.blockers, h("div", { class: "notice bad", role: "alert" }, news.issues.map((i) => h("div", {}, h("strong", {}, i.what), h("div", {}, i.why), h("div", {}, `→ ${i.fix}`))))); return; }
  last = news;
  show();
}

const percent = (v) => (v === null ? "–" : `${(100 * v).toFixed(0)} %`);

function show() {
  const c = last;
  fill(place.head, h("p", {}, h("strong", {}, c.context), `${c.source === "live" ? "" : ` (${c.source})`}, namespace ${c.namespace ?? "all"}; ${c.endpoints_ready} of ${c.endpoints} endpoints ready. `, h("span", { class: "muted" }, c.metrics)));
  const now = c.advice.map((a) => a.what).join("; ");
  if (now !== blocked) { blocked = now; say(now ? `To look at: ${now}` : "Nothing blocks a rollout."); }
  fill(place.blockers, c.advice.length ? h("section", { class: "notice bad", "aria-label": "What is wrong" }, h("h2", {}, c.blockers.length ? "What blocks, and what to do" : "What to look at"), h("ol", {}, c.advice.map((a) => h("li", {}, h("strong", {}, a.what), h("div", { class: "muted" }, a.why), h("div", {}, `→ ${a.fix}`))))) : h("p", {}, h("span", { class: "tag good" }, "✓ nothing blocks a rollout")));
  flow(c);
  heat(c);
  roles(c);
  fill(place.events, h("h2", {}, "Events"), c.events.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, h("table", {}, h("caption", {}, "newest first"), h("thead", {}, h("tr", {}, ["last", "type", "reason", "about", "message", "×"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, c.events.map((e) => h("tr", {}, h("td", {}, e.last), h("td", {}, h("span", { class: `tag ${e.type === "Warning" ? "warn" : ""}` }, e.type)), h("td", {}, e.reason), h("td", {}, e.about), h("td", {}, e.message), h("td", { class: "number" }, e.count)))))) : h("p", { class: "muted" }, "None known."));
  fill(place.kinds, h("h2", {}, "What is followed"), h("table", {}, h("caption", { class: "hidden" }, "Kinds of objects"), h("thead", {}, h("tr", {}, ["kind", "state", "objects", "heard from", "for"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, c.kinds.map((k) => h("tr", {}, h("th", { scope: "row" }, k.kind), h("td", {}, h("span", { class: `tag ${k.trust === "live" ? "good" : "warn"}` }, k.trust), k.why ? ` ${k.why}` : ""), h("td", { class: "number" }, k.count), h("td", { class: "number" }, k.age_s === null ? "–" : `${k.age_s.toFixed(0)} s ago`), h("td", { class: "muted" }, k.purpose))))));
}

function flow(c) {
  const by = (role) => c.roles.filter((r) => r.role === role);
  const sum = (list, key) => list.reduce((a, r) => a + (r[key] ?? 0), 0);
  const box = (title, list) => h("div", { class: "node" }, h("strong", {}, title), h("div", {}, `${sum(list, "ready")}/${sum(list, "groups")} groups, ${sum(list, "gpus")} GPUs`), h("div", { class: "muted" }, `${figure(sum(list, "prompt_tok_s"))} in, ${figure(sum(list, "output_tok_s"))} out tok/s`));
  const arrow = (text) => h("span", { class: "arrow", "aria-hidden": "true" }, text ? `— ${text} →` : "→");
  const prefill = by("prefill");
  const decode = by("decode");
  const others = c.roles.filter((r) => r.role !== "prefill" && r.role !== "decode");
  fill(place.flow, h("h2", {}, "Topology"), h("div", { class: "flow" }, h("div", { class: "node" }, h("strong", {}, "router"), h("div", {}, `${c.endpoints_ready} endpoints`)), arrow(""),
    prefill.length ? [box("prefill", prefill), arrow("KV"), box("decode", decode)] : box(others[0]?.role || "engines", others.length ? others : decode),
    prefill.length ? h("span", { class: "tag" }, `P:D ${sum(prefill, "ready")}:${sum(decode, "ready")}`) : null));
}

function heat(c) {
  const key = METRICS.some(([k]) => k === state.metric) ? state.metric : "waiting";
  const [, title, scale] = METRICS.find(([k]) => k === key);
  const groups = [...new Map(c.ranks.map((r) => [`${r.role} ${r.group}`, []]))];
  const rows = new Map(groups);
  c.ranks.forEach((r) => rows.get(`${r.role} ${r.group}`).push(r));
  const values = c.ranks.map((r) => r[key]).filter((v) => v !== null);
  const top = Math.max(...values, 1e-9);
  const most = Math.max(0, ...[...rows.values()].map((r) => r.length));
  const focused = document.activeElement?.id === "metric";
  const cell = (r) => {
    const v = r[key];
    if (v === null) return h("td", { class: "cell none", title: r.silent || "not known" }, r.silent ? "silent" : "?");
    const share = Math.sqrt(v / top);
    return h("td", { class: `cell ${share > 0.55 ? "bright" : ""} ${r.hot ? "hot" : ""}`, style: `background:${shade(share)}`, title: `${r.label}, ${r.age_s === null ? "age unknown" : `${r.age_s.toFixed(0)} s old`}` }, figure(scale * v), r.hot ? h("span", { "aria-label": "hot" }, " ▲") : null);
  };
  const spread = (list) => { const v = list.map((r) => r[key]).filter((x) => x !== null); const mean = v.reduce((a, b) => a + b, 0) / (v.length || 1); return mean > 0 ? `${(Math.max(...v) / mean).toFixed(2)}×` : "–"; };
  fill(place.heat, h("div", { class: "row spread" }, h("h2", {}, `Ranks: ${title}${scale === 100 ? ", %" : ""}`), field("show", select(METRICS.map(([k, t]) => [k, t]), key, (v) => { state.metric = v; write(state); heat(last); }, { id: "metric" }))),
    c.ranks.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Heat map of ranks" }, h("table", { class: "heat" }, h("caption", {}, "one row per engine group, one cell per DP rank; ▲ marks a rank far above its role's mean"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "group"), Array.from({ length: most }, (_, i) => h("th", { scope: "col", class: "number" }, i)), h("th", { scope: "col", class: "number" }, "max/mean"))),
      h("tbody", {}, [...rows].map(([name, list]) => h("tr", {}, h("th", { scope: "row" }, name), list.map(cell), Array.from({ length: most - list.length }, () => h("td", {})), h("td", { class: "number" }, spread(list))))))) : h("p", { class: "muted" }, "No rank is known."));
  if (focused) $("#metric").focus();
}

// Cividis between its ends: readable without red and green.
function shade(share) {
  const stops = [[0, 34, 78], [69, 78, 107], [124, 123, 120], [187, 171, 106], [253, 231, 55]];
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return `rgb(${stops[i].map((v, j) => Math.round(v + (stops[i + 1][j] - v) * (at - i))).join(",")})`;
}

function roles(c) {
  fill(place.roles, h("h2", {}, "Roles and groups"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Roles" }, h("table", {}, h("caption", {}, "roles"), h("thead", {}, h("tr", {}, ["deployment", "role", "ready", "pods", "GPUs", "nodes", "ranks heard", "running", "waiting", "KV", "out tok/s"].map((t, i) => h("th", { scope: "col", class: i > 1 ? "number" : "" }, t)))),
    h("tbody", {}, c.roles.map((r) => h("tr", {}, h("th", { scope: "row" }, r.deployment), h("td", {}, r.role), h("td", { class: "number" }, `${r.ready}/${r.wanted ?? r.groups}`), h("td", { class: "number" }, r.pods), h("td", { class: "number" }, r.gpus), h("td", { class: "number" }, r.nodes), h("td", { class: "number" }, `${r.fresh}/${r.ranks}`), h("td", { class: "number" }, figure(r.running)), h("td", { class: "number" }, figure(r.waiting)), h("td", { class: "number" }, percent(r.kv_usage)), h("td", { class: "number" }, figure(r.output_tok_s))))))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" }, h("table", {}, h("caption", {}, "groups; a group is down when any of its pods is"), h("thead", {}, h("tr", {}, ["group", "role", "health", "pods", "GPUs", "restarts", "queue max/mean", "nodes"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, c.groups.map((g) => h("tr", {}, h("th", { scope: "row" }, g.id), h("td", {}, g.role), h("td", {}, h("span", { class: `tag ${g.ready ? "good" : "bad"}` }, g.ready ? "✓ ready" : "✗ down")), h("td", { class: "number" }, `${g.pods_ready}/${g.size}`), h("td", { class: "number" }, g.gpus), h("td", { class: "number" }, g.restarts), h("td", { class: "number" }, figure(g.waiting_spread)), h("td", { class: "muted" }, g.nodes.join(", "))))))));
}

async function planAgainst() {
  const result = h("div", { role: "status" });
  let plans;
  try { ({ plans } = await get("/plans", { limit: 100 })); } catch (error) { showProblem(place.plan, error); return; }
  fill(place.plan, h("h2", {}, "A plan against the cluster"));
  if (!plans.length) { place.plan.append(h("p", { class: "muted" }, "Save a plan first: open one from the frontier.")); return; }
  const listed = plans.map((p) => [p.hash, `${p.name}: ${p.label}`]);
  if (state.saved && !plans.some((p) => p.hash === state.saved)) listed.unshift([state.saved, `saved ${state.saved.slice(0, 10)}`]);
  const chosen = select(listed, state.saved ?? plans[0].hash, (v) => { state.saved = v; write(state); });
  const name = h("input", { size: 20, placeholder: "the plan's own name" });
  const ask = (path, draw) => async () => {
    fill(result, "Asking…");
    try { fill(result, draw(await get(path, { saved: chosen.value, name: name.value }), { plan: { saved: chosen.value }, name: name.value })); } catch (error) { fill(result, problem(error)); }
  };
  place.plan.append(h("div", { class: "row" }, field("plan", chosen), field("deployed as", name), h("button", { type: "button", onclick: ask("/cluster/drift", drift) }, "Drift"), h("button", { type: "button", onclick: ask("/cluster/residuals", residuals) }, "Predicted against actual")), result);
}

function applyForm(d, asked) {
  const typed = h("input", { size: 20, autocomplete: "off" });
  const result = h("div", { role: "status" });
  const button = h("button", { class: "primary" }, "Apply");
  return h("form", { class: "notice", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const made = await post("/cluster/apply", { ...asked, namespace: typed.value, seen: d.seen });
      fill(result, h("p", {}, h("span", { class: `tag ${made.applied ? "good" : "bad"}` }, made.applied ? "✓ applied" : "✗ refused")), h("ul", {}, made.objects.map((o) => h("li", {}, `${o.kind}/${o.name}: ${o.outcome} ${o.why}`))));
    } catch (error) { fill(result, problem(error)); button.disabled = false; }
  } }, h("p", {}, `Applies the objects that differ, server-side, after a rehearsal of all of them. Nothing is deleted. Type the namespace to confirm: ${d.namespace}`), h("div", { class: "row" }, field("namespace", typed), button), result);
}

function drift(d, asked) {
  return h("div", {}, h("p", {}, h("span", { class: `tag ${d.drifted ? "warn" : "good"}` }, d.drifted ? "✗ differs" : "✓ in sync"), ` ${d.name} in ${d.namespace}`), d.may_apply && d.objects.some((o) => o.state !== "same") ? applyForm(d, asked) : null, d.notes.map((n) => h("p", { class: "muted" }, n)),
    h("table", {}, h("caption", {}, "objects"), h("thead", {}, h("tr", {}, ["object", "state", "differences: live → planned"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, d.objects.map((o) => h("tr", {}, h("th", { scope: "row" }, `${o.kind}/${o.name}`), h("td", {}, o.state), h("td", {}, o.why, o.changes.map(([path, live, planned]) => h("div", {}, h("code", {}, `${path}: ${live ?? "absent"} → ${planned ?? "absent"}`)))))))),
    d.arguments.length ? h("table", {}, h("caption", {}, "engine flags of running pods"), h("thead", {}, h("tr", {}, ["role", "flag", "planned", "running", "pods"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, d.arguments.map((a) => h("tr", {}, h("td", {}, a.role), h("td", {}, h("code", {}, a.flag)), h("td", {}, a.planned ?? "–"), h("td", {}, a.running ?? "–"), h("td", { class: "number" }, a.pods))))) : null);
}

function residuals(r) {
  return h("div", {}, h("p", {}, `Priced for ${r.concurrency} requests in flight; window ${r.window_s.toFixed(0)} s, ${r.ranks_fresh} of ${r.ranks} ranks.`), r.unsteady.length ? h("p", { class: "notice" }, `Not a steady state: ${r.unsteady.join("; ")}`) : null,
    h("table", {}, h("caption", {}, "predicted against actual"), h("thead", {}, h("tr", {}, ["metric", "predicted", "80 % interval", "measured", "residual", "inside"].map((t, i) => h("th", { scope: "col", class: i ? "number" : "" }, t)))),
      h("tbody", {}, r.rows.map((x) => h("tr", {}, h("th", { scope: "row" }, `${x.metric}, ${x.unit}`), h("td", { class: "number" }, figure(x.predicted)), h("td", { class: "number" }, x.low === null ? "–" : `${figure(x.low)} – ${figure(x.high)}`), h("td", { class: "number" }, figure(x.measured)), h("td", { class: "number" }, x.residual === null ? "–" : `${x.residual > 0 ? "+" : ""}${(100 * x.residual).toFixed(0)} %`), h("td", {}, x.inside === null ? "–" : x.inside ? "✓ yes" : "✗ no"))))));
}

start();
