// How does replication stand? All topics, and one topic as a grid of small lanes.

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream, known, post } from "./server.js";
import { grouped } from "./numbers.js";
import { smallStrips } from "./strip.js";

const name = (each) => encodeURIComponent(each);

export function replication(main) {
  const body = h("div", null, loading("Asking the cluster…"));
  const search = h("input", { type: "search", placeholder: "Filter topics  /", "aria-label": "Filter topics", oninput: () => last && draw(last) });
  const internal = h("input", { type: "checkbox", id: "internal", onchange: () => last && draw(last) });
  let last = null;
  show(main, h("div", { class: "head" }, h("h1", null, "How does replication stand?")),
    h("div", { class: "toolbar" }, search, h("label", { class: "small soft toolbar" }, h("span", null, internal), "with internal topics")), body);
  const draw = (found) => {
    last = found;
    const wanted = found.topics.filter((each) => each.name.includes(search.value) && (internal.checked || !each.internal));
    const rows = wanted.map((each) => [
      h("a", { href: `replication/${name(each.name)}` }, each.name),
      each.leaderless ? badge("bad", `${each.leaderless} without a leader`) : each.under_replicated ? badge("warn", `${each.under_replicated} under-replicated`) : badge("good", "in sync"),
      grouped(each.partitions), grouped(each.replicas), grouped(each.records)]);
    const columns = [{ name: "Topic" }, { name: "State" }, { name: "Partitions", number: true }, { name: "Replicas", number: true, wide: true }, { name: "Records", number: true, wide: true }];
    show(body, found.error ? banner(found.error) : null, panel("Topics", "choose one to see its lanes",
      rows.length ? table(columns, rows) : empty(found.topics.length ? "No topic matches." : "There are no topics yet. highwater topics create orders --partitions 3")));
  };
  stream({ view: "topics" }, draw);
}

export function topicGrid(main, topic) {
  const body = h("div", null, loading("Asking the cluster…"));
  const result = h("div");
  const buttons = h("span", { class: "end" });
  show(main, h("div", { class: "head" }, h("span", { class: "path" }, h("a", { href: "replication" }, "Replication"), " /"), h("h1", null, topic),
    h("a", { class: "small", href: `topics/${name(topic)}` }, "messages and settings"), buttons), result, body);
  known().then(({ changes }) => {
    if (!changes) return;
    const elect = async () => {
      button.disabled = true;
      try {
        const done = await post(`api/topics/${name(topic)}/elect`, {});
        const failures = Object.entries(done.failed).map(([each, why]) => `${each}: ${why}`);
        show(result, failures.length ? banner(failures.join("; ")) : banner("The preferred replicas lead, where they are in sync.", "good"),
          h("details", null, h("summary", null, "The same as a command"), h("pre", { class: "command" }, done.command)));
      } catch (error) {
        show(result, banner(error.message));
      }
      button.disabled = false;
    };
    const button = h("button", { type: "button", onclick: elect }, "Elect preferred leaders");
    buttons.append(button);
  });
  stream({ view: "topic", topic }, (found) => {
    if (!found.exists) {
      show(body, found.error ? banner(found.error) : null, h("section", { class: "panel" }, empty(`There is no topic ${topic}.`)));
      return;
    }
    show(body, found.error ? banner(found.error) : null, found.grid ? grid(topic, found) : plain(topic, found.partitions));
  });
}

function state(each) {
  if (each.leader < 0) return "bad";
  return each.isr.length < each.replicas.length ? "warn" : "good";
}

function grid(topic, found) {
  // Every partition of the first ones, whether a node answers for it or not; of the others those in trouble.
  const lanes = new Map(found.grid.map((each) => [each.partition, each]));
  const wanted = found.partitions.filter((each) => each.partition < found.drawn || state(each) !== "good");
  const cells = wanted.map((each) => (lanes.has(each.partition) ? drawn(topic, lanes.get(each.partition)) : undrawn(topic, each, found.drawn)));
  const rest = found.partitions.length - wanted.length;
  return [
    rest ? h("p", { class: "soft small" }, `The first ${grouped(found.drawn)} of ${grouped(found.partitions.length)} partitions are drawn, and each that has trouble. The others are in sync.`) : null,
    h("div", { class: "grid" }, cells)];
}

function cell(topic, partition, word, leader, content, note) {
  return h("a", { class: "cell", href: `replication/${name(topic)}/${partition}`, "data-state": word, "data-partition": partition },
    h("header", null, h("span", null, `Partition ${partition}`), h("span", { class: "soft small" }, leader < 0 ? "no leader" : `led by ${leader}`)),
    content, h("span", { class: "soft small" }, note));
}

function drawn(topic, each) {
  return cell(topic, each.partition, state(each), each.leader, smallStrips(each),
    `ISR ${each.isr.join(", ") || "unknown"} of ${each.replicas.join(", ")} · end ${grouped(each.log_end)}`);
}

function undrawn(topic, each, count) {
  const why = each.partition < count ? `no node answers for its replicas on ${each.replicas.join(", ")}` : `ISR ${each.isr.join(", ") || "none"} of ${each.replicas.join(", ")}`;
  return cell(topic, each.partition, each.partition < count ? "bad" : state(each), each.leader, null, why);
}

function plain(topic, partitions) {
  const rows = partitions.map((each) => [
    h("a", { href: `replication/${name(topic)}/${each.partition}` }, `Partition ${each.partition}`),
    badge(state(each), each.leader < 0 ? "no leader" : each.isr.length < each.replicas.length ? "under-replicated" : "in sync"),
    each.leader, each.replicas.join(", "), each.isr.join(", "), grouped(each.start), grouped(each.end)]);
  const columns = [{ name: "Partition" }, { name: "State" }, { name: "Leader", number: true }, { name: "Replicas" }, { name: "ISR" }, { name: "Log start", number: true }, { name: "High watermark", number: true }];
  return panel("Partitions", "choose one to see its lanes", table(columns, rows));
}
