// Is it healthy?

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream } from "./server.js";
import { grouped, bytes, rate, since } from "./numbers.js";
import { spark } from "./charts.js";

const STATES = { up: "good", down: "bad", fenced: "warn" };

export function health(main) {
  show(main, loading("Asking the cluster…"));
  stream({ view: "overview" }, (found) => draw(main, found));
}

function draw(main, found) {
  show(main,
    h("div", { class: "head" }, h("h1", null, "Is it healthy?"),
      h("span", { class: "soft small" }, found.source === "kafka" ? "Apache Kafka" : "Highwater", " · cluster ", h("code", null, found.cluster_id || "unknown"))),
    found.error ? banner(found.error) : null,
    h("section", { class: "panel verdict", "data-word": found.verdict.word, role: "status", "aria-label": "Verdict" },
      h("strong", null, found.verdict.word[0].toUpperCase() + found.verdict.word.slice(1)), h("span", null, found.verdict.sentence)),
    tiles(found),
    h("div", { class: "columns" },
      h("div", null, nodes(found), lag(found)),
      h("div", null, changes(found))));
}

function tile(label, figure, state, more) {
  return h("section", { class: "panel tile", "data-state": state, "data-tile": label }, h("span", { class: "label" }, label), h("span", { class: "figure" }, figure), more);
}

function flow(label, found, unit, write) {
  if (!found) return tile(label, "–", null, h("span", { class: "soft small" }, "not known yet"));
  return tile(label, [write(found.now), h("small", null, ` ${unit}`)], null, spark(found.history, `${label} in the last minutes`));
}

function tiles(found) {
  const counts = found.counts;
  const bad = (count, state) => (count ? state : null);
  const untold = (label) => tile(label, "–", null, h("span", { class: "soft small" }, "Kafka does not tell"));
  const kafka = found.source === "kafka";
  return h("div", { class: "tiles" },
    tile("Without a leader", grouped(counts.leaderless), bad(counts.leaderless, "bad"),
      counts.without_leader.length ? h("span", { class: "small" }, counts.without_leader.slice(0, 3).join(", ")) : null),
    counts.under_min_isr === null ? untold("Below min ISR") : tile("Below min ISR", grouped(counts.under_min_isr), bad(counts.under_min_isr, "bad")),
    tile("Under-replicated", grouped(counts.under_replicated), bad(counts.under_replicated, "warn")),
    tile("Partitions", grouped(counts.partitions), null, h("span", { class: "soft small" }, `${found.topics} topic${found.topics === 1 ? "" : "s"}${found.internal ? `, ${found.internal} internal` : ""}`)),
    flow("Records in", found.rates.records_in, "/s", rate),
    kafka && !found.rates.bytes_in ? untold("Bytes in") : flow("Bytes in", found.rates.bytes_in, "/s", bytes),
    kafka && !found.rates.bytes_out ? untold("Bytes out") : flow("Bytes out", found.rates.bytes_out, "/s", bytes),
    latencies(found.latency, kafka), disk(found));
}

function latencies(found, kafka) {
  const note = (text) => h("span", { class: "soft small" }, text);
  if (!found.length) return tile("Latency", "–", null, note(kafka ? "Kafka does not tell" : "produce, fetch: not told"));
  const slowest = (api) => found.map((each) => each[api]).filter((each) => each !== null).sort((one, other) => other - one)[0];
  const [produce, fetch] = [slowest("Produce"), slowest("Fetch")];
  if (produce === undefined && fetch === undefined) return tile("Latency", "–", null, note("produce, fetch: none in the last minute"));
  return tile("Latency", [milliseconds(produce), " · ", milliseconds(fetch)], null, h("span", { class: "soft small", title: "On the slowest node, in the last minute" }, "ms, produce · fetch: 99 % take less"));
}

const milliseconds = (value) => (value === null || value === undefined ? "–" : value < 10 ? value.toFixed(1) : grouped(Math.round(value)));

function disk(found) {
  const known = found.disks.filter((each) => BigInt(each.total) > 0n).sort((one, other) => (BigInt(one.free) < BigInt(other.free) ? -1 : 1));
  if (!known.length) return tile("On disk", bytes(found.disk), null, h("span", { class: "soft small" }, "free space: not told"));
  const [least] = known;
  const share = Number((BigInt(least.free) * 1000n) / BigInt(least.total)) / 10;
  const state = share < 3 ? "bad" : share < 10 ? "warn" : null;
  return tile("On disk", bytes(found.disk), state, h("span", { class: "soft small" }, `${bytes(least.free)} (${share} %) free on node ${least.node}${known.length > 1 ? ", the least" : ""}`));
}

function nodes(found) {
  const took = new Map(found.latency.map((each) => [each.node, each]));
  const within = (node) => (took.has(node) ? `${milliseconds(took.get(node).Produce)} · ${milliseconds(took.get(node).Fetch)}` : "–");
  const rows = found.nodes.map((each) => {
    const row = h("tr", { "data-node": each.id, "data-state": each.state },
      h("td", null, h("b", null, each.id), each.rack ? h("span", { class: "soft" }, ` rack ${each.rack}`) : null),
      h("td", null, badge(STATES[each.state], each.state)),
      h("td", null, h("span", { class: "badges" },
        each.roles.map((role) => badge(null, role)),
        each.is_active_controller ? badge("accent", "active controller") : null)),
      h("td", { class: "number" }, each.leaders === null ? "–" : grouped(each.leaders)),
      h("td", { class: "number wide-only" }, each.partitions === null ? "–" : grouped(each.partitions)),
      found.latency.length ? h("td", { class: "number wide-only", "data-fact": "latency" }, within(each.id)) : null,
      h("td", { class: "mono wide-only" }, each.address || "–"));
    return row;
  });
  const columns = [{ name: "Node" }, { name: "State" }, { name: "Roles" }, { name: "Leads", number: true }, { name: "Replicas", number: true, wide: true },
    ...(found.latency.length ? [{ name: "Latency, ms", number: true, wide: true }] : []), { name: "Address", wide: true }];
  return panel("Nodes", null, rows.length ? table(columns, rows) : empty("No node is known yet."));
}

function lag(found) {
  const rows = found.groups.map((each) => [h("a", { href: `groups/${encodeURIComponent(each.group)}` }, each.group), each.state, grouped(each.lag)]);
  return panel("Groups", "the largest lag first", rows.length
    ? table([{ name: "Group" }, { name: "State" }, { name: "Lag", number: true }], rows)
    : empty("No consumer group has read anything."));
}

function changes(found) {
  const items = found.changes.map((each) => h("li", { "data-kind": each.kind },
    h("time", { datetime: new Date(Number(each.at)).toISOString(), title: new Date(Number(each.at)).toLocaleString() }, since(each.at)),
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("span", { class: "what" }, each.what, each.reason ? h("span", { class: "reason" }, ` ${each.reason}`) : null)));
  return panel("What changed", "the newest first", h("div", { class: "body" },
    items.length ? h("ol", { class: "timeline", "aria-label": "Changes" }, items) : empty("Nothing has changed since the console looks.")));
}
