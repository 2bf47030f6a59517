// A plan in brief: what the pointer or the table's focus is on, and what is pinned.
import { h } from "./dom.js";
import { address } from "./api.js";

export function planCard(plan, point, question, { pinned, onpin }) {
  const link = new URLSearchParams({ ...question, point }).toString();
  return h("article", { class: "card", "aria-label": `Plan ${plan.label}` },
    h("h2", {}, plan.label),
    h("p", { class: "muted" }, plan.headline),
    plan.meets === false ? h("p", {}, h("span", { class: "tag warn" }, "✗ misses the targets")) : plan.meets ? h("p", {}, h("span", { class: "tag good" }, "✓ meets the targets")) : null,
    h("dl", { class: "figures" }, plan.figures.map((f) => h("div", {}, h("dt", {}, f.name), h("dd", {}, f.value, f.interval ? h("span", { class: "muted" }, ` [${f.interval}]`) : null)))),
    h("ul", { class: "plain" }, plan.arithmetic.map((a) => h("li", {}, a))),
    plan.dominated_by ? h("p", {}, "Dominated by ", h("code", {}, plan.dominated_by)) : null,
    h("p", { class: "muted" }, plan.basis),
    h("div", { class: "row" },
      h("button", { type: "button", "aria-pressed": String(pinned), onclick: onpin }, pinned ? "Unpin" : "Pin to compare"),
      h("a", { class: "button", href: `/plan?${link}` }, "Open"),
      h("a", { class: "button quiet", href: address("/plan.json", { ...question, point }), download: true }, "plan.json")));
}

export function comparison(compared, { onremove, onbase }) {
  const rows = (list) => list.map((row) => h("tr", { class: row.differs ? "" : "same" }, h("th", { scope: "row" }, row.name),
    row.cells.map((cell, i) => h("td", {}, cell.text, i && cell.change ? h("span", { class: `change ${cell.better === null ? "" : cell.better ? "up" : "down"}` },
      ` ${cell.better === null ? "" : cell.better ? "▲" : "▼"} ${cell.change}`) : null))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison of the pinned plans" }, h("table", { class: "compare" },
    h("caption", {}, "Pinned plans; differences are against the first"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), compared.labels.map((label, i) => h("th", { scope: "col" }, label,
      h("div", { class: "row" }, i ? h("button", { type: "button", class: "quiet small", onclick: () => onbase(i) }, "Make base") : h("span", { class: "tag" }, "base"),
        h("button", { type: "button", class: "quiet small", "aria-label": `Unpin ${label}`, onclick: () => onremove(i) }, "✕")))))),
    h("tbody", {}, rows(compared.metrics), rows(compared.parameters))));
}
