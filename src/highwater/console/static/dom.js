// Elements are made here and nowhere else. Text is always a text node: what a record holds is never read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

const SCROLLED = ".scroll, .timeline";

export function show(element, ...children) {
  // What is drawn anew keeps the focus and the place to which it was scrolled.
  const active = document.activeElement;
  const focus = active && active !== element && element.contains(active) ? active.getAttribute("href") || active.dataset.focus : null;
  const places = [...element.querySelectorAll(SCROLLED)].map((each) => [each.scrollLeft, each.scrollTop]);
  element.replaceChildren();
  filled(element, null, children);
  element.querySelectorAll(SCROLLED).forEach((each, at) => {
    if (places[at]) [each.scrollLeft, each.scrollTop] = places[at];
  });
  if (focus) {
    const same = [...element.querySelectorAll("a, button")].find((each) => (each.getAttribute("href") || each.dataset.focus) === focus);
    if (same) same.focus({ preventScroll: true });
  }
  return element;
}

export const badge = (state, text, title) => h("span", { class: "badge", "data-state": state, title }, text);

export function panel(title, note, ...children) {
  return h("section", { class: "panel" },
    h("header", null, h("h2", null, title), note ? h("span", { class: "soft" }, note) : null), ...children);
}

export function table(columns, rows, attributes) {
  const kind = (column) => [column.number ? "number" : "", column.wide ? "wide-only" : ""].join(" ").trim() || null;
  const cells = (row) => row.map((cell, at) => h("td", { class: kind(columns[at]) }, cell));
  return h("div", { class: "scroll" }, h("table", attributes,
    h("thead", null, h("tr", null, columns.map((each) => h("th", { class: kind(each), scope: "col" }, each.name)))),
    h("tbody", null, rows.map((row) => (row instanceof Node ? row : h("tr", null, cells(row)))))));
}

export const empty = (text) => h("p", { class: "empty" }, text);
export const loading = (text) => h("p", { class: "loading", role: "status" }, text || "Loading…");
export const failed = (text) => h("p", { class: "failed", role: "alert" }, text);
export const banner = (text, state) => h("p", { class: "banner", role: state ? "status" : "alert", "data-state": state }, text);
