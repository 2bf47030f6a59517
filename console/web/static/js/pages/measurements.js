// Measured results: import, list, calibration.
import { $, field, fill, h, say, select } from "../dom.js";
import { get, problem, showProblem, upload } from "../api.js";
import { shell } from "../shell.js";
import { figure, table } from "../table.js";
import { read, write } from "../url.js";

const state = read();
const place = { upload: h("div", { role: "status" }), list: h("div"), calibration: h("div") };

async function start() {
  shell();
  const stated = Object.fromEntries([["model", "model"], ["gpu", "GPU"], ["engine_version", "engine version"]].map(([k, label]) => [k, { label, input: h("input", { size: 18, placeholder: "if the file does not say" }) }]));
  const file = h("input", { type: "file", multiple: true, accept: ".json,.jsonl,.csv,.yaml,.yml" });
  const skip = h("input", { type: "checkbox" });
  const go = h("button", { class: "primary" }, "Import");
  fill($("#page"),
    h("section", { class: "panel" }, h("h2", {}, "Import results"), h("p", { class: "muted" }, "vLLM bench, GuideLLM, AIPerf, inference-perf, llm-d benchmark reports, InferenceX, or our CSV; recognised by content. A file with anything missing is refused as a whole."),
      h("form", { class: "row", onsubmit: async (event) => {
        event.preventDefault();
        go.disabled = true;
        const lines = [];
        for (const one of file.files) {
          try {
            const made = await upload("/measurements", one, Object.fromEntries(Object.entries(stated).map(([k, v]) => [k, v.input.value.trim()]).concat([["skip_incomplete", skip.checked ? "true" : ""]])));
            lines.push(h("p", {}, h("span", { class: "tag good" }, "✓"), ` ${one.name}: ${made.new} new, ${made.duplicates} known already${made.skipped.length ? `, ${made.skipped.length} skipped` : ""}`), made.skipped.length ? h("ul", { class: "muted" }, made.skipped.slice(0, 10).map((i) => h("li", {}, `${i.what}: ${i.why}`))) : null);
          } catch (error) { lines.push(h("p", {}, one.name), problem(error)); }
        }
        fill(place.upload, lines.length ? lines : h("p", {}, "Choose a file first."));
        go.disabled = false;
        await list();
      } }, field("files", file), Object.values(stated).map((v) => field(v.label, v.input)), h("label", { class: "check" }, skip, "leave out incomplete runs"), go), place.upload),
    h("section", { class: "panel" }, place.list), h("section", { class: "panel" }, place.calibration));
  await list();
  $("#page").dataset.ready = "1";
}

async function list() {
  try {
    const page = await get("/measurements", { model: state.model, offset: state.offset });
    const step = (by) => { state.offset = String(Math.max(0, Number(state.offset ?? 0) + by)); write(state); list(); };
    const at = Number(state.offset ?? 0);
    fill(place.list, h("div", { class: "row spread" }, h("h2", {}, "Stored"), page.models.length ? field("model", select([["", "all"], ...page.models.map((m) => [m, m])], state.model ?? "", (m) => { state.model = m; state.offset = ""; write(state); list(); })) : null),
      page.measurements.length ? table({ caption: `${at + 1}–${at + page.measurements.length} of ${page.total}`, rows: page.measurements, key: (m) => m.hash, columns: [
        { title: "plan", header: true, cell: (m) => m.label }, { title: "model", cell: (m) => m.model }, { title: "GPUs", cell: (m) => `${m.gpus} × ${m.gpu}` }, { title: "engine", cell: (m) => m.engine }, { title: "in/out", number: true, cell: (m) => `${m.isl}/${m.osl}` }, { title: "conc.", number: true, cell: (m) => figure(m.concurrency) },
        { title: "tok/s/GPU", number: true, cell: (m) => figure(m.output_tok_s_per_gpu) }, { title: "TTFT ms", number: true, cell: (m) => figure(m.ttft_ms) }, { title: "TPOT ms", number: true, cell: (m) => figure(m.tpot_ms) }, { title: "source", cell: (m) => [`${m.format}, ${m.file} `, m.flags.map((f) => h("span", { class: "tag warn" }, f))] }] }) : h("p", { class: "notice" }, "No measurement is stored yet. Import one above, or: ", h("code", {}, "planner measurements import FILE")),
      page.total > page.measurements.length ? h("div", { class: "row" }, h("button", { type: "button", disabled: at === 0, onclick: () => step(-100) }, "Previous"), h("button", { type: "button", disabled: at + 100 >= page.total, onclick: () => step(100) }, "Next")) : null);
    fill(place.calibration, h("h2", {}, "Calibration"), h("p", { class: "muted" }, "What a fit to the stored measurements would change. It is kept only by planner calibrate."), page.total ? h("div", { class: "row" }, h("button", { type: "button", onclick: (e) => calibrate(e.target) }, "Fit and report"), h("a", { class: "button", href: "/accuracy" }, "Parity plot")) : h("p", {}, "Needs measurements."));
  } catch (error) { showProblem(place.list, error); }
}

async function calibrate(button) {
  const result = h("div", { role: "status" }, "Fitting…");
  button.disabled = true;
  button.parentElement.after(result);
  try {
    const { scopes } = await get("/calibration");
    fill(result, scopes.map((s) => h("section", {}, h("h3", {}, s.scope), h("p", {}, s.factors.length ? `${s.measurements} measurements used.` : "Nothing to fit."), s.left_out.map((l) => h("p", { class: "muted" }, `left out: ${l}`)),
      s.factors.length ? h("div", { class: "halves two" }, h("table", {}, h("caption", {}, "factors; 1 means the model was right"), h("thead", {}, h("tr", {}, ["factor", "multiplier", "68 % range", "moved"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, s.factors.map((f) => h("tr", {}, h("th", { scope: "row" }, f.name), h("td", { class: "number" }, f.multiplier.toFixed(2)), h("td", { class: "number" }, `${f.low.toFixed(2)} – ${f.high.toFixed(2)}`), h("td", {}, f.moved ? "✓ yes" : "no"))))),
        h("table", {}, h("caption", {}, "mean error, each point left out in turn"), h("thead", {}, h("tr", {}, ["metric", "n", "before", "after"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, s.improvements.map((i) => h("tr", {}, h("th", { scope: "row" }, i.metric), h("td", { class: "number" }, i.n), h("td", { class: "number" }, `${(100 * i.before).toFixed(0)} %`), h("td", { class: "number" }, `${(100 * i.after).toFixed(0)} %`)))))) : null)));
    say("Fit finished.");
  } catch (error) { fill(result, problem(error)); }
  button.disabled = false;
}

start();
