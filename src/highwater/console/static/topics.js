// What is in it? All topics; and of one topic its messages and its settings.

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream, get, post, known } from "./server.js";
import { grouped, bytes, rate, span } from "./numbers.js";
import { messages } from "./messages.js";

const name = (each) => encodeURIComponent(each);

export function topics(main) {
  const body = h("div", null, loading("Asking the cluster…"));
  let last = null;
  const search = h("input", { type: "search", placeholder: "Filter topics  /", "aria-label": "Filter topics", oninput: () => last && draw(last) });
  const internal = h("input", { type: "checkbox", onchange: () => last && draw(last) });
  show(main, h("div", { class: "head" }, h("h1", null, "What is in it?")),
    h("div", { class: "toolbar" }, search, h("label", { class: "small soft toolbar" }, h("span", null, internal), "with internal topics")), body);
  const draw = (found) => {
    last = found;
    const wanted = found.topics.filter((each) => each.name.includes(search.value) && (internal.checked || !each.internal));
    const rows = wanted.map((each) => [
      h("a", { href: `topics/${name(each.name)}` }, each.name),
      each.leaderless ? badge("bad", `${each.leaderless} without a leader`) : each.under_replicated ? badge("warn", `${each.under_replicated} under-replicated`) : badge("good", "in sync"),
      grouped(each.partitions), grouped(each.replicas), grouped(each.records), each.rate === null ? "–" : `${rate(each.rate)} /s`, bytes(each.size), kept(each.retention)]);
    const columns = [{ name: "Topic" }, { name: "Replication" }, { name: "Partitions", number: true, wide: true }, { name: "Replicas", number: true, wide: true }, { name: "Records", number: true }, { name: "In", number: true }, { name: "On disk", number: true, wide: true }, { name: "Keeps", wide: true }];
    show(body, found.error ? banner(found.error) : null, h("section", { class: "panel" },
      rows.length ? table(columns, rows) : empty(found.topics.length ? "No topic matches." : "There are no topics yet. highwater topics create orders --partitions 3")));
  };
  stream({ view: "topics" }, draw);
}

function kept(retention) {
  // By time and by the size of a partition, whichever is reached first; and for each key, if the topic is compacted.
  if (!retention) return "–";
  const bounds = [];
  if (retention.policy.includes("delete")) {
    if (!retention.ms.startsWith("-")) bounds.push(span(retention.ms));
    if (!retention.bytes.startsWith("-")) bounds.push(`${bytes(retention.bytes)} a partition`);
    if (!bounds.length) bounds.push("for ever");
  }
  if (retention.policy.includes("compact")) bounds.push("the last of each key");
  return bounds.join(", ");
}

export function topic(main, topicName, tab, query, go) {
  const body = h("div", { class: "tab-body" });
  const link = (key, text) => h("a", { href: `topics/${name(topicName)}/${key}`, "aria-current": key === tab ? "page" : null }, text);
  show(main,
    h("div", { class: "head" }, h("span", { class: "path" }, h("a", { href: "topics" }, "Topics"), " /"), h("h1", null, topicName),
      h("a", { class: "small", href: `replication/${name(topicName)}` }, "replication")),
    h("div", { class: "tabs", role: "navigation", "aria-label": "Parts of the topic" }, link("messages", "Messages"), link("settings", "Settings")),
    body);
  if (tab === "settings") return settings(body, topicName);
  return messages(body, topicName, query, go);
}

const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: "set on the topic",
  DYNAMIC_BROKER_CONFIG: "set on the broker, at run time",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "set for all brokers, at run time",
  STATIC_BROKER_CONFIG: "the broker's file",
  DEFAULT_CONFIG: "default",
};

async function settings(body, topicName) {
  show(body, loading());
  const result = h("div", { role: "status" });
  const list = h("div");
  const path = `api/topics/${name(topicName)}/settings`;
  const draw = async () => {
    try {
      const [{ settings: found }, { changes }] = await Promise.all([get(path), known()]);
      const wanted = found.filter((each) => each.name.includes(search.value));
      show(list, h("section", { class: "panel" }, wanted.length ? table(
        [{ name: "Setting" }, { name: "Value" }, { name: "Source" }, { name: "Without it", wide: true }, { name: "" }],
        wanted.map((each) => row(each, changes, change)), { class: "settings" }) : empty("No setting matches.")));
      return found;
    } catch (error) {
      show(list, banner(error.message));
      return [];
    }
  };
  const drawUntil = async (isThere) => {
    // The change is committed, and the broker that answers may apply it a moment later.
    for (let tries = 0; tries < 40; tries += 1) {
      if ((await draw()).some(isThere)) return;
      await new Promise((go) => setTimeout(go, 250));
    }
  };
  const change = async (setting, value) => {
    try {
      const done = await post(path, { name: setting, value });
      show(result, banner(value === null ? `${setting} is as without it.` : `${setting} is ${value}.`, "good"),
        h("details", null, h("summary", null, "The same as a command"), h("pre", { class: "command" }, done.command)));
      await drawUntil((each) => each.name === setting && (value === null ? !each.is_own : each.is_own && each.value === value));
    } catch (error) {
      show(result, banner(error.message));
    }
  };
  const search = h("input", { type: "search", placeholder: "Filter settings  /", "aria-label": "Filter settings", oninput: draw });
  show(body, h("div", { class: "toolbar" }, search), result, list);
  await draw();
}

function row(each, changes, change) {
  const edit = () => {
    const input = h("input", { value: each.value || "", "aria-label": `New value of ${each.name}` });
    const save = (event) => { event.preventDefault(); change(each.name, input.value); };
    show(cell, h("form", { class: "toolbar", onsubmit: save }, input, h("button", { class: "main" }, "Save"),
      h("button", { type: "button", onclick: () => show(cell, each.value || "–") }, "Cancel")));
    input.focus();
  };
  const cell = h("td", { class: "mono" }, each.value === null || each.value === "" ? "–" : each.value);
  return h("tr", { "data-setting": each.name },
    h("td", { class: "mono" }, each.name), cell,
    h("td", null, each.is_own ? badge("accent", SOURCES[each.source]) : h("span", { class: "soft" }, SOURCES[each.source] || each.source)),
    h("td", { class: "mono soft wide-only" }, each.is_own ? each.default ?? "not told" : ""),
    h("td", null, changes && !each.read_only ? h("span", { class: "toolbar" }, h("button", { type: "button", onclick: edit }, "Edit"),
      each.is_own ? h("button", { type: "button", onclick: () => change(each.name, null) }, "Remove") : null) : null));
}
