// Tabs as the ARIA practices have them: arrows move, the chosen tab is in the address.
import { fill, h } from "./dom.js";

export function tabs(label, panels, chosen, onchange) {
  const body = h("div", { role: "tabpanel", tabindex: "0", id: "tab-panel" });
  const buttons = panels.map(([key, title]) => h("button", { type: "button", role: "tab", "aria-controls": "tab-panel", "data-key": key, onclick: () => choose(key) }, title));
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const at = buttons.indexOf(event.target);
    const next = buttons[(at + move + buttons.length) % buttons.length];
    next.focus();
    choose(next.dataset.key);
  } }, buttons);
  function choose(key) {
    buttons.forEach((b) => { const on = b.dataset.key === key; b.setAttribute("aria-selected", String(on)); b.tabIndex = on ? 0 : -1; });
    body.setAttribute("aria-label", panels.find(([k]) => k === key)[1]);
    fill(body, h("p", { class: "loading" }, "Loading…"));
    onchange(key);
    panels.find(([k]) => k === key)[2](body);
  }
  choose(panels.some(([k]) => k === chosen) ? chosen : panels[0][0]);
  return h("div", {}, list, body);
}
