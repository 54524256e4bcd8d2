// The records of a topic: by offset, time, partition or key; filtered; followed as they arrive; written to a file.

import { h, show, panel, empty, loading, banner, badge } from "./dom.js";
import { stream, quiet, get, post, known } from "./server.js";
import { grouped, bytes, moment } from "./numbers.js";
import { pretty, compact } from "./json_text.js";

const TAIL_KEPT = 200;
const FIELDS = ["start", "at", "partition", "limit", "key", "value", "header", "path"];
const encode = encodeURIComponent;

export function messages(body, topic, query, go) {
  const given = (name, other) => query.get(name) || other || "";
  const start = h("select", { name: "start" }, [["latest", "The newest"], ["earliest", "The oldest"], ["offset", "From an offset"], ["time", "From a time"]]
    .map(([value, text]) => h("option", { value, selected: given("start", "latest") === value }, text)));
  const field = (name, attributes) => h("input", { name, value: given(name), autocomplete: "off", spellcheck: "false", ...attributes });
  const inputs = {
    start,
    at: field("at", { inputmode: "numeric", placeholder: "offset" }),
    time: h("input", { type: "datetime-local", step: "0.001", value: given("start") === "time" && given("at") ? local(given("at")) : "" }),
    partition: field("partition", { inputmode: "numeric", placeholder: "all" }),
    limit: field("limit", { inputmode: "numeric", placeholder: "50" }),
    key: field("key", { placeholder: "contains" }),
    value: field("value", { placeholder: "contains" }),
    header: field("header", { placeholder: "name=value" }),
    path: field("path", { placeholder: "customer.id = 7" }),
  };
  const label = (text, input, attributes) => h("label", attributes, text, input);
  const offset = label("Offset", inputs.at);
  const time = label("Time (yours)", inputs.time);
  const adapt = () => { offset.hidden = start.value !== "offset"; time.hidden = start.value !== "time"; };
  start.addEventListener("change", adapt);
  adapt();
  const results = h("div");
  const asked = () => {
    const found = {};
    for (const name of FIELDS) if (inputs[name].value.trim()) found[name] = inputs[name].value.trim();
    if (start.value === "time") found.at = inputs.time.value ? String(new Date(inputs.time.value).getTime()) : "0";
    if (start.value !== "offset" && start.value !== "time") delete found.at;
    return found;
  };
  const submit = (event) => {
    event.preventDefault();
    go(`topics/${encode(topic)}/messages?${new URLSearchParams(asked())}`);
  };
  const tail = h("button", { type: "button", "aria-pressed": "false", onclick: () => follow() }, "Live tail");
  const file = (format, text) => h("button", { type: "button", onclick: () => { location.href = `api/topics/${encode(topic)}/export?${new URLSearchParams({ ...asked(), format })}`; } }, text);
  const find = h("button", { type: "button", onclick: () => locate() , title: "Where Kafka's default partitioner puts this key" }, "Find the key's partition");

  async function locate() {
    if (!inputs.key.value) {
      inputs.key.focus();
      show(results, banner("Write the whole key first.", "quiet"));
      return;
    }
    try {
      const found = await get(`api/topics/${encode(topic)}/key`, { key: inputs.key.value });
      inputs.partition.value = String(found.partition);
    } catch (error) {
      show(results, banner(error.message));
    }
  }

  async function read() {
    show(results, loading("Reading…"));
    try {
      const found = await get(`api/topics/${encode(topic)}/records`, { start: "latest", ...asked() });
      const rows = found.records;
      if (start.value === "latest") rows.reverse();
      show(results, panel(`${rows.length} record${rows.length === 1 ? "" : "s"}`, `${grouped(found.scanned)} read, nothing committed`,
        rows.length ? list(topic, rows.map((each) => row(topic, each))) : empty("No record is there, or none matches.")));
    } catch (error) {
      show(results, banner(error.message));
    }
  }

  function follow() {
    const on = tail.getAttribute("aria-pressed") !== "true";
    tail.setAttribute("aria-pressed", String(on));
    if (!on) { quiet(); read(); return; }
    const rows = h("tbody");
    const count = h("span", { class: "soft" }, "waiting for records");
    let seen = 0;
    show(results, h("section", { class: "panel" }, h("header", null, h("h2", null, "Live tail"), count), list(topic, rows)));
    const found = asked();
    delete found.at;
    stream({ view: "tail", topic, ...found, start: "latest" }, (news) => {
      if (news.error) { show(results, banner(news.error)); return; }
      for (const each of news.records) rows.prepend(row(topic, each));
      seen += news.records.length;
      count.textContent = `${grouped(seen)} since it began`;
      while (rows.children.length > TAIL_KEPT) rows.lastChild.remove();
    });
  }

  show(body,
    h("section", { class: "panel" }, h("div", { class: "body padded" }, h("form", { class: "form", onsubmit: submit, "aria-label": "Which records" },
      label("Start", start), offset, time, label("Partition", inputs.partition), label("At most", inputs.limit),
      label("Key", inputs.key), label("Value", inputs.value), label("Header", inputs.header), label("JSON path", inputs.path),
      h("div", { class: "buttons wide" }, h("button", { class: "main" }, "Read"), tail, find, file("jsonl", "JSON lines"), file("csv", "CSV"))))),
    writer(topic, read), replayer(topic, asked), results);
  read();
}

function local(milliseconds) {
  const at = new Date(Number(milliseconds));
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 23);
}

function list(topic, rows) {
  const heads = ["Partition", "Offset", "Time (UTC)", "Key", "Value", ""].map((each, at) => h("th", { scope: "col", class: at < 2 ? "number" : null }, each));
  return h("div", { class: "scroll" }, h("table", { class: "records" }, h("thead", null, h("tr", null, heads)), rows instanceof Node ? rows : h("tbody", null, rows)));
}

function row(topic, each) {
  const open = () => {
    line.dataset.open = String(line.dataset.open !== "true");
    more.textContent = line.dataset.open === "true" ? "less" : "more";
    more.setAttribute("aria-expanded", line.dataset.open);
  };
  const more = h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: open }, "more");
  const line = h("tr", { "data-offset": each.offset, "data-partition": each.partition },
    h("td", { class: "number", "data-name": "partition" }, each.partition), h("td", { class: "number", "data-name": "offset" }, grouped(each.offset)),
    h("td", { title: each.timestamp }, moment(each.timestamp)),
    h("td", { class: "key", "data-name": "key" }, payload(topic, each, "key")),
    h("td", { class: "value" }, payload(topic, each, "value"),
      each.headers.length ? h("p", { class: "note" }, each.headers.map((header) => [h("b", null, header.name), "=", header.value === null ? "null" : header.value.text, "  "]),
        each.more_headers ? `and ${each.more_headers} more` : "") : null),
    h("td", { class: "open" }, isLong(each) ? more : null));
  return line;
}

function isLong(each) {
  return [each.key, each.value].some((part) => part !== null && (part.kind === "json" || part.text.length > 160 || part.text.includes("\n")));
}

function payload(topic, each, part) {
  const found = each[part];
  if (found === null) return h("span", { class: "null" }, "null");
  const coloured = (parts) => parts.map(([kind, text]) => (kind === "plain" ? text : h("span", { class: `json-${kind}` }, text)));
  const content = found.kind === "json" ? coloured(pretty(found.text)) : found.text;
  const brief = found.text.slice(0, 400);
  const whole = `api/topics/${encode(topic)}/whole?${new URLSearchParams({ partition: each.partition, offset: each.offset, part })}`;
  return [h("div", { class: "compact", "data-kind": found.kind }, found.kind === "json" ? coloured(compact(brief)) : brief),
    h("pre", { class: "payload", "data-kind": found.kind }, content),
    found.cut || found.kind === "hex" ? h("p", { class: "note" }, badge(null, found.kind), ` ${bytes(found.size)}${found.cut ? ", cut here" : ""} `, h("a", { href: whole, download: "" }, "whole")) : null];
}

function writer(topic, read) {
  const place = h("div");
  known().then(({ changes }) => {
    if (!changes) return;
    const partition = h("input", { inputmode: "numeric", placeholder: "by the key, or any" });
    const key = h("input", { placeholder: "null" });
    const value = h("textarea", { placeholder: "value" });
    const headers = h("input", { placeholder: "name=value, name=value" });
    const result = h("div", { role: "status" });
    const send = async (event) => {
      event.preventDefault();
      const chosen = partition.value.trim();
      const differs = [chosen && "it chooses the partition itself", value.value.includes("\n") && "each line becomes a record"].filter(Boolean).join(", and ");
      try {
        const done = await post(`api/topics/${encode(topic)}/records`, {
          partition: chosen === "" ? null : /^\d+$/.test(chosen) ? Number(chosen) : chosen,
          key: key.value === "" ? null : key.value,
          value: value.value,
          headers: headers.value.split(",").map((each) => each.trim()).filter(Boolean).map((each) => [each.split("=")[0], each.split("=").slice(1).join("=")]),
        });
        show(result, banner(`Stored at partition ${done.partition}, offset ${grouped(done.offset)}.`, "good"),
          h("details", null, h("summary", null, "The same as a command"), differs ? h("p", { class: "soft small" }, `Not quite: ${differs}.`) : null, h("pre", { class: "command" }, done.command)));
        read();
      } catch (error) {
        show(result, banner(error.message));
      }
    };
    show(place, h("section", { class: "panel" }, h("details", { class: "body padded" }, h("summary", null, "Produce a message"),
      h("form", { class: "form", onsubmit: send, "aria-label": "Produce a message" },
        h("label", null, "Partition", partition), h("label", null, "Key", key), h("label", null, "Headers", headers),
        h("label", { class: "wide" }, "Value", value), h("div", { class: "buttons" }, h("button", { class: "main" }, "Produce"))), result)));
  });
  return place;
}

function replayer(topic, asked) {
  const place = h("div");
  known().then(({ changes }) => {
    if (!changes) return;
    const number = (value) => h("input", { inputmode: "numeric", required: true, value });
    const [to, partition, from, until] = [h("input", { required: true, autocomplete: "off", spellcheck: "false" }), number("0"), number("0"), number("")];
    const by = h("select", null, [["same", "same number"], ["key", "by the key"]].map(([value, text]) => h("option", { value }, text)));
    const time = h("select", null, [["keep", "as they have it"], ["now", "now"]].map(([value, text]) => h("option", { value }, text)));
    const only = h("input", { type: "checkbox" });
    const result = h("div", { role: "status" });
    const send = async (event) => {
      event.preventDefault();
      const { key, value, header, path } = asked();
      const filter = only.checked ? Object.fromEntries(Object.entries({ key, value, header, path }).filter(([, text]) => text)) : {};
      show(result, banner("Copying…", "quiet"));
      try {
        const done = await post(`api/topics/${encode(topic)}/replay`, { to: to.value.trim(), partition: partition.value.trim(), from: from.value.trim(), until: until.value.trim(), by: by.value, time: time.value, filter });
        const told = `${grouped(done.copied)} record${done.copied === "1" ? " is" : "s are"} in ${to.value.trim()}`;
        show(result, done.done ? banner(`${told}.`, "good") : banner(`${told}; it ended before offset ${grouped(done.next)}${done.failure ? `: ${done.failure}` : ", since it took too long"}.`),
          h("details", null, h("summary", null, "The same as a command"), h("p", { class: "soft small" }, "As text, without headers and times."), h("pre", { class: "command" }, done.command)));
      } catch (error) {
        show(result, banner(error.message));
      }
    };
    show(place, h("section", { class: "panel" }, h("details", { class: "body padded" }, h("summary", null, "Replay a range into another topic"),
      h("form", { class: "form", onsubmit: send, "aria-label": "Replay a range" },
        h("label", null, "Partition", partition), h("label", null, "From offset", from), h("label", null, "Until offset, without it", until), h("label", null, "Into topic", to),
        h("label", null, "Into the partition", by), h("label", null, "Time of the copies", time), h("label", null, "Only what the filter finds", h("span", null, only)),
        h("div", { class: "buttons wide" }, h("button", { class: "main" }, "Replay"))), result)));
  });
  return place;
}
