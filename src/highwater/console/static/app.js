// The frame of all pages: the way from an address to a view, the navigation, the theme and the keys.

import { h, show, failed, s } from "./dom.js";
import { onState, quiet, known } from "./server.js";
import { health } from "./health.js";
import { replication, topicGrid } from "./replication.js";
import { lanes } from "./lanes.js";
import { topics, topic } from "./topics.js";
import { groups, group } from "./groups.js";
import { faults } from "./faults.js";
import { move } from "./move.js";
import { pipelines } from "./pipelines.js";
import { recordings } from "./recordings.js";

const base = new URL(document.baseURI).pathname;
const main = document.getElementById("main");
let left = null;

const PAGES = [
  ["", "Health", "h"],
  ["replication", "Replication", "r"],
  ["topics", "Topics", "t"],
  ["groups", "Groups", "g"],
  ["move", "Move", "m"],
  ["pipelines", "Pipelines", "p"],
  ["recordings", "Recordings", "l"],
];

export function go(path) {
  history.pushState(null, "", base + path);
  draw();
}

function view(parts, query) {
  const [first, name, more] = parts;
  if (first === undefined) return health(main);
  if (first === "replication" && /^\d{1,9}$/.test(more)) return lanes(main, name, more, go);
  if (first === "replication" && name !== undefined && more === undefined) return topicGrid(main, name);
  if (first === "replication" && name === undefined) return replication(main);
  if (first === "topics" && name !== undefined) return topic(main, name, more || "messages", query, go);
  if (first === "topics") return topics(main);
  if (first === "groups" && name !== undefined) return group(main, name);
  if (first === "groups") return groups(main);
  if (first === "move") return move(main);
  if (first === "pipelines") return pipelines(main);
  if (first === "recordings") return recordings(main, name, query);
  if (first === "faults") return faults(main);
  show(main, h("section", { class: "panel" }, failed("There is no such page."), h("p", { class: "empty" }, h("a", { href: "" }, "Go to the overview"))));
  return null;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a percent sign that begins nothing
  }
}

async function draw() {
  const path = location.pathname.slice(base.length);
  const parts = path.split("/").filter((each) => each !== "").map(decoded);
  if (left) left();
  left = null;
  quiet();
  frame(parts[0] || "");
  document.title = [parts.join(" / ") || "Health", "Highwater"].join(" – ");
  main.dataset.page = parts[0] || "health";
  left = view(parts, new URLSearchParams(location.search)) || null;
  window.scrollTo(0, 0);
}

function frame(current) {
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.getAttribute("href");
    if (own === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function mark() {
  return s("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" },
    s("rect", { width: 32, height: 32, rx: 7, fill: "#0b6e75" }),
    s("path", { d: "M6 9h20M6 16h14M6 23h17", stroke: "#fff", "stroke-width": 3.2, "stroke-linecap": "round" }),
    s("path", { d: "M22 5v22", stroke: "#ffd166", "stroke-width": 2.2, "stroke-linecap": "round" }));
}

function theme(next) {
  if (next) localStorage.setItem("theme", next);
  const chosen = localStorage.getItem("theme") || "auto";
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  return chosen;
}

async function start() {
  const state = h("span", { class: "live", "data-state": "none", id: "live", role: "status" });
  const words = { live: "live", lost: "connection lost", locked: "locked: open the address that the console printed", idle: "paused", none: "" };
  onState((now) => { state.dataset.state = now; state.textContent = words[now]; });
  const order = { auto: "light", light: "dark", dark: "auto" };
  const button = h("button", { type: "button", title: "Theme: automatic, light or dark", onclick: () => { button.textContent = `Theme: ${theme(order[theme()])}`; } }, `Theme: ${theme()}`);
  const nav = h("nav", { "aria-label": "Pages" }, PAGES.map(([path, text, key]) => h("a", { href: path, title: `${text} (g then ${key})` }, text)));
  show(document.getElementById("top"), h("a", { class: "brand", href: "" }, mark(), "Highwater"), nav, h("div", { class: "tools" }, state, button));
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  try {
    if ((await known()).faults) nav.append(h("a", { href: "faults", title: "Faults (g then f)" }, "Faults"));
  } catch (error) {
    show(main, failed(error.message));
    return;
  }
  draw();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || link.hasAttribute("download") || link.target) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(base) || url.pathname.startsWith(`${base}api/`)) return;
  event.preventDefault();
  history.pushState(null, "", url.pathname + url.search);
  draw();
});

let awaited = false;
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.metaKey || event.ctrlKey || event.altKey) return;
  if (awaited) {
    awaited = false;
    const page = [...PAGES, ["faults", "Faults", "f"]].find((each) => each[2] === event.key);
    if (page) go(page[0]);
  } else if (event.key === "g") {
    awaited = true;
  } else if (event.key === "/") {
    const search = main.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});

window.addEventListener("popstate", draw);
theme();
start();
