// Requests to our own server, errors as the planner words them, and one live stream per page.
import { h, fill } from "./dom.js";

export class Refused extends Error {
  constructor(status, issues) {
    super(issues.map((i) => i.what).join("; "));
    this.status = status;
    this.issues = issues;
  }
}

async function answered(response) {
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401) location.assign("/login");
  let issues;
  try { issues = (await response.json()).issues; } catch { issues = null; }
  throw new Refused(response.status, issues ?? [{ code: `http.${response.status}`, what: response.statusText, why: "", fix: "" }]);
}

export async function get(path, query = {}, signal = undefined) {
  return answered(await fetch(address(path, query), { signal, headers: { accept: "application/json" } }));
}

export async function post(path, body = {}) {
  return answered(await fetch(`/api/v1${path}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  }));
}

export async function remove(path) {
  return answered(await fetch(`/api/v1${path}`, { method: "DELETE" }));
}

export async function upload(path, file, query = {}) {
  return answered(await fetch(address(`/uploads${path}`, { name: file.name, ...query }), {
    method: "POST", headers: { "content-type": "application/octet-stream" }, body: file,
  }));
}

export function address(path, query = {}) {
  const text = params(query).toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

export function params(query) {
  const result = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (Array.isArray(value)) value.forEach((v) => result.append(key, v));
    else if (value !== null && value !== undefined && value !== "") result.set(key, value);
  }
  return result;
}

export function problem(error) {
  if (!(error instanceof Refused)) return h("div", { class: "notice bad", role: "alert" }, h("p", {}, `The console did not answer: ${error.message}`));
  return h("div", { class: "notice bad", role: "alert" }, h("ul", { class: "issues" }, error.issues.map((i) => h("li", {},
    h("strong", {}, i.what), i.why ? h("div", {}, i.why) : null, i.fix ? h("div", { class: "fix" }, i.fix) : null, h("code", { class: "code" }, i.code)))));
}

export function showProblem(place, error) {
  if (error.name !== "AbortError") fill(place, problem(error));
}

// One stream per page. It closes while the page is hidden; the browser resumes a broken one by its last event's id.
export function live(topics, handlers, onstate = () => {}) {
  let source = null;
  let last = "";
  const open = () => {
    source = new EventSource(address("/events", { topics: topics.join(","), after: last }));
    source.onopen = () => onstate("live");
    source.onerror = () => onstate("reconnecting");
    for (const topic of topics) {
      source.addEventListener(topic, (event) => { last = event.lastEventId; handlers[topic](JSON.parse(event.data)); });
    }
  };
  const change = () => {
    if (document.hidden) { source?.close(); source = null; onstate("paused"); } else if (!source) open();
  };
  document.addEventListener("visibilitychange", change);
  open();
  return () => { document.removeEventListener("visibilitychange", change); source?.close(); };
}
