// One lane for each replica of a partition, five times a second; frozen and stepped through if wanted.

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream } from "./server.js";
import { grouped, bytes, lasting, ago } from "./numbers.js";
import { bounds, strip } from "./strip.js";

const KEPT = 300;
const FRESH = 3;
const name = (each) => encodeURIComponent(each);

export function lanes(main, topic, partition, go) {
  const body = h("div", { class: "columns-none" }, loading("Asking the replicas…"));
  const frames = [];
  let frozen = null;
  const freeze = h("button", { type: "button", "aria-pressed": "false", onclick: () => hold(frozen === null ? frames.length - 1 : null) }, "Freeze");
  const back = h("button", { type: "button", disabled: true, "aria-label": "One step back", onclick: () => hold(frozen - 1) }, "◀");
  const ahead = h("button", { type: "button", disabled: true, "aria-label": "One step ahead", onclick: () => hold(frozen + 1) }, "▶");
  const when = h("span", { class: "soft small", role: "status" });
  const next = h("button", { type: "button", onclick: () => move(1) }, "Next");
  const move = (by) => go(`replication/${name(topic)}/${Number(partition) + by}`);
  show(main,
    h("div", { class: "head" },
      h("span", { class: "path" }, h("a", { href: "replication" }, "Replication"), " / ", h("a", { href: `replication/${name(topic)}` }, topic), " /"),
      h("h1", null, `Partition ${partition}`),
      h("span", { class: "end" }, when, back, freeze, ahead,
        h("button", { type: "button", disabled: Number(partition) === 0, onclick: () => move(-1) }, "Previous"),
        next)),
    body);

  function hold(at) {
    frozen = at === null || !frames.length ? null : Math.min(Math.max(at, 0), frames.length - 1);
    freeze.setAttribute("aria-pressed", String(frozen !== null));
    freeze.textContent = frozen === null ? "Freeze" : "Go on";
    back.disabled = frozen === null || frozen === 0;
    ahead.disabled = frozen === null || frozen === frames.length - 1;
    if (frames.length) paint();
  }

  function paint() {
    const at = frozen === null ? frames.length - 1 : frozen;
    const frame = frames[at];
    const before = frames.slice(Math.max(at - FRESH, 0), at);
    when.textContent = frozen === null ? "" : `frozen, ${((frames[frames.length - 1].seen - frame.seen) / 1000).toFixed(1)} s back`;
    show(body, drawn(frame.found, before.map((each) => each.found)));
  }

  stream({ view: "lanes", topic, partition }, (found) => {
    if (found.error) {
      show(body, banner(found.error));
      return;
    }
    next.disabled = found.count !== null && Number(partition) + 1 >= found.count;
    frames.push({ seen: Date.now(), found });
    if (frames.length > KEPT) {
      frames.shift();
      if (frozen !== null) frozen = Math.max(frozen - 1, 0);
    }
    if (frozen === null) paint();
    else hold(frozen);
  });
  const keys = (event) => {
    if (event.target.closest("input, textarea, select, button")) return;
    if (event.key === " ") { event.preventDefault(); hold(frozen === null ? frames.length - 1 : null); }
    if (event.key === "ArrowLeft") hold(frozen === null ? frames.length - 1 : frozen - 1);
    if (event.key === "ArrowRight" && frozen !== null) hold(frozen + 1);
  };
  document.addEventListener("keydown", keys);
  return () => document.removeEventListener("keydown", keys);
}

function drawn(found, before) {
  const range = bounds(found);
  const kafka = found.source === "kafka";
  return [
    h("div", { class: "tiles" },
      fact("Leader", found.leader < 0 ? "none" : found.leader, found.leader < 0 ? "bad" : null, `epoch ${found.leader_epoch}`, "leader"),
      fact("In sync", `${found.isr.length} of ${found.replicas.length}`, found.isr.length < found.replicas.length ? "warn" : null,
        found.min_isr === null ? (kafka ? "min ISR: see the settings" : "") : `min.insync.replicas ${found.min_isr}`, "isr"),
      fact("High watermark", grouped(found.high_watermark), null, `log start ${grouped(found.log_start)}`, "high-watermark"),
      fact("Log end", grouped(found.log_end), null, kafka ? "as consumers see it" : `${grouped(BigInt(found.log_end) - BigInt(found.high_watermark))} not yet committed`, "log-end")),
    panel("Lanes", `offsets ${grouped(range[0])} to ${grouped(range[1])}`,
      h("div", { class: "lane-box" }, h("div", null, found.lanes.map((each) => lane(each, found, range, before))), legend())),
    h("div", { class: "columns" },
      h("div", null, fetches(found)),
      h("div", null, changes(found)))];
}

function fact(label, figure, state, note, key) {
  return h("section", { class: "panel tile", "data-state": state, "data-fact": key }, h("span", { class: "label" }, label), h("span", { class: "figure" }, figure), h("span", { class: "soft small" }, note));
}

function lane(each, found, range, before) {
  const state = !each.answers ? "down" : each.in_isr ? "in" : "out";
  const was = before.length ? before[0].lanes.find((other) => other.node === each.node) : null;
  const fresh = was && was.log_end !== null && each.log_end !== null && BigInt(was.log_end) < BigInt(each.log_end) ? spread(was.log_end, each.log_end) : [];
  return h("div", { class: "lane", "data-node": each.node, "data-state": state, "data-role": each.role },
    h("div", { class: "who" }, h("b", null, `Node ${each.node}`),
      h("span", { class: "badges" },
        each.role === "leader" ? badge("accent", "leader") : null,
        !each.answers ? badge("bad", "no answer") : each.in_isr ? badge("good", "in sync") : badge("bad", "out of sync"))),
    strip(each, found, range, fresh),
    h("div", { class: "figures" },
      h("span", null, "end ", h("b", null, grouped(each.log_end))),
      each.role === "leader" ? h("span", null, each.size === null ? "" : bytes(each.size)) : h("span", null, "lag ", h("b", null, grouped(each.lag)), each.lag_ms === null ? "" : ` · ${lasting(each.lag_ms)}`)),
    each.why ? h("p", { class: "why" }, each.why) : null,
    each.trouble.map((text) => h("p", { class: "why" }, text)));
}

function spread(from, to) {
  // At most eight marks between two ends, the last one at the end itself.
  const span = BigInt(to) - BigInt(from);
  const count = span < 8n ? span : 8n;
  return Array.from({ length: Number(count) }, (_, at) => BigInt(from) + (span * BigInt(at + 1)) / count);
}

function legend() {
  return h("p", { class: "legend" },
    h("span", null, h("i", { class: "c0" }), "committed, a colour for each leader epoch"),
    h("span", null, h("i", { class: "chw" }), "high watermark"),
    h("span", null, h("i", { class: "cab" }), "above it: not yet committed"),
    h("span", null, h("i", { class: "cnew" }), "just arrived"));
}

function fetches(found) {
  const note = "those whose answer had news, the newest first";
  if (found.fetches === null) return panel("Fetches of followers", null, empty("Kafka does not tell."));
  const rows = [...found.fetches].reverse().slice(0, 14).map((each) => [
    ago(each.ago) === "now" ? `${Math.round(each.ago * 1000)} ms` : ago(each.ago), each.follower, grouped(each.offset), grouped(each.high_watermark), bytes(each.bytes)]);
  const columns = [{ name: "Ago", number: true }, { name: "Follower", number: true }, { name: "Has all before", number: true }, { name: "High watermark", number: true, wide: true }, { name: "Got", number: true }];
  return panel("Fetches of followers", note, rows.length ? table(columns, rows, { class: "fetches" }) : empty("No follower has fetched anything new since this page is open."));
}

function changes(found) {
  if (found.changes === null) return panel("What changed here", null, empty("Kafka does not tell."));
  const items = found.changes.map((each) => h("li", null, h("time", null, ago(each.ago)), h("span", { class: "dot", "aria-hidden": "true" }),
    h("span", { class: "what" }, h("b", null, `node ${each.node} `), each.what)));
  return panel("What changed here", "the newest first", h("div", { class: "body" }, items.length ? h("ol", { class: "timeline" }, items) : empty("Nothing has changed.")));
}
