// What every page has: the theme switch, the help card, keys.
import { $, fill, h, say } from "./dom.js";
import { dark, redrawAll } from "./chart.js";

const COMMON_KEYS = [["/", "to the filter"], ["?", "this card"], ["Esc", "close, or drop the selection"], ["g then f", "frontier"], ["g then n", "new problem"]];

export function shell(keys = []) {
  const button = $("#theme");
  const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    const chosen = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem("wideplan-theme", chosen);
    label();
    redrawAll();
    say(`${chosen} theme`);
  });
  label();
  const help = $("#help");
  fill(help, h("h2", { id: "help-title" }, "Keys"), h("dl", { class: "keys" }, [...keys, ...COMMON_KEYS].map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  let before = "";
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") { help.showModal(); event.preventDefault(); }
    if (event.key === "/") { const filter = $("[data-filter]"); if (filter) { filter.focus(); event.preventDefault(); } }
    const target = before === "g" ? { f: "/", n: "/new", s: "/studies", m: "/measurements", c: "/cluster" }[event.key] : undefined;
    if (target && document.querySelector(`nav a[href="${target}"]`)) location.assign(target);
    before = event.key;
  });
}
