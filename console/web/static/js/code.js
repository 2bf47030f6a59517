// Manifests with highlighting: spans around text nodes, nothing is parsed as markup.
import { h } from "./dom.js";

const LINE = /^(\s*(?:- )?)([\w./-]+)(:)(\s+.*|)$/;

export function yaml(text) {
  return h("pre", { class: "code yaml", tabindex: "0" }, text.split("\n").map((line) => {
    if (/^\s*#/.test(line)) return h("span", { class: "comment" }, `${line}\n`);
    const found = LINE.exec(line);
    if (!found) return `${line}\n`;
    const [, lead, key, colon, rest] = found;
    const value = rest.trim();
    const kind = /^["']/.test(value) ? "string" : /^-?[\d.]+$|^(true|false|null)$/.test(value) ? "number" : "";
    return [lead, h("span", { class: "key" }, key), colon, kind ? h("span", { class: kind }, rest) : rest, "\n"];
  }));
}

export function diff(lines) {
  const kind = (line) => (line.startsWith("@@") ? "at" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "");
  return h("pre", { class: "code diff", tabindex: "0", "aria-label": "Difference of the manifests" },
    lines.length ? lines.map((l) => h("span", { class: kind(l) }, `${l}\n`)) : "No difference.");
}
