// A table with a roving focus: arrows move, Enter acts, Space pins; headers sort. The same data as the chart above it.
import { fill, h } from "./dom.js";

export function table({ caption, columns, rows, key, onenter, onspace, onfocus, marked = () => "", sort = null, onsort = null }) {
  const body = h("tbody");
  const head = h("tr", {}, columns.map((c, index) => {
    const sorted = sort?.column === index;
    const label = onsort && c.sortable !== false
      ? h("button", { type: "button", class: "sort", onclick: () => onsort(index) }, c.title, h("span", { "aria-hidden": "true" }, sorted ? (sort.up ? " ▲" : " ▼") : ""))
      : c.title;
    return h("th", { scope: "col", class: c.number ? "number" : "", "aria-sort": sorted ? (sort.up ? "ascending" : "descending") : null }, label);
  }));
  rows.forEach((row, index) => body.append(h("tr", { tabindex: index === 0 ? "0" : "-1", "data-key": key(row), class: marked(row) },
    columns.map((c) => h(c.header ? "th" : "td", { scope: c.header ? "row" : null, class: c.number ? "number" : c.class ?? "" }, c.cell(row))))));
  const byKey = new Map(rows.map((r) => [String(key(r)), r]));
  const rowOf = (target) => target.closest("tbody tr");
  body.addEventListener("keydown", (event) => {
    const line = rowOf(event.target);
    if (!line || event.target !== line) return;
    const move = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 10, PageUp: -10 }[event.key];
    const all = [...body.children];
    if (move || event.key === "Home" || event.key === "End") {
      const at = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : Math.min(Math.max(all.indexOf(line) + move, 0), all.length - 1);
      line.tabIndex = -1;
      all[at].tabIndex = 0;
      all[at].focus();
      event.preventDefault();
    } else if (event.key === "Enter" && onenter) { onenter(byKey.get(line.dataset.key)); event.preventDefault(); }
    else if (event.key === " " && onspace) { onspace(byKey.get(line.dataset.key)); event.preventDefault(); }
  });
  body.addEventListener("focusin", (event) => { const line = rowOf(event.target); if (line && onfocus) onfocus(byKey.get(line.dataset.key)); });
  if (onspace) body.addEventListener("click", (event) => {
    const line = rowOf(event.target);
    if (line && !event.target.closest("a, button")) onspace(byKey.get(line.dataset.key));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, head), body));
}

export function replaceTable(place, made) {
  const focused = place.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.key : null;
  const top = place.querySelector(".scroll")?.scrollTop ?? 0;
  fill(place, made);
  place.querySelector(".scroll").scrollTop = top;
  if (focused !== null && focused !== undefined) {
    const line = [...place.querySelectorAll("tbody tr")].find((r) => r.dataset.key === focused);
    if (line) { place.querySelectorAll('tbody tr[tabindex="0"]').forEach((r) => { r.tabIndex = -1; }); line.tabIndex = 0; line.focus(); }
  }
}

// Three significant digits, as everywhere.
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)) + 1e-9));
  return value.toLocaleString("en", { minimumFractionDigits: Math.min(digits, 6), maximumFractionDigits: Math.min(digits, 6) });
}
