// Elements from values. Text goes in as text nodes only, so names from a cluster or a file are never markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href" && !isSafeLink(value)) continue;
    else if (name === "class") element.className = value;
    else if (name in element && ["value", "checked", "selected", "disabled", "open"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false).map(node));
  return element;
}

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false).map(node));
  return element;
}

function node(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

function isSafeLink(value) {
  const text = String(value);
  return text.startsWith("/") && !text.startsWith("//") || text.startsWith("?") || text.startsWith("#") || /^https?:\/\//i.test(text)
    || text.startsWith("blob:");
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false).map(node));
  return element;
}

export const $ = (selector, root = document) => root.querySelector(selector);

let spoken = 0;
let waiting = null;
// At most one announcement in five seconds; the last one wins.
export function say(text) {
  clearTimeout(waiting);
  const speak = () => { spoken = Date.now(); const live = $("#live"); if (live) live.textContent = text; };
  const left = spoken + 5000 - Date.now();
  if (left <= 0) speak(); else waiting = setTimeout(speak, left);
}

export function field(label, control, note = null) {
  if (!control.id) control.id = `f${++field.count}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}
field.count = 0;

export function select(options, value, onchange, attributes = {}) {
  const element = h("select", { ...attributes, onchange: (e) => onchange(e.target.value) },
    options.map(([key, text]) => h("option", { value: key }, text)));
  element.value = value;
  return element;
}

export function check(label, checked, onchange) {
  const box = h("input", { type: "checkbox", checked, onchange: (e) => onchange(e.target.checked) });
  return h("label", { class: "check" }, box, label);
}

export function download(name, text, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press Ctrl+C";
    const range = document.createRange();
    const shown = h("code", { class: "copied" }, text);
    button.after(shown);
    range.selectNodeContents(shown);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
  say(button.textContent);
  setTimeout(() => { button.textContent = before; }, 2000);
}
