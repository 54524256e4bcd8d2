// Move it: how the brokers are filled, what is moving and how far it is, and plans that are seen before they begin.

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream, get, post, known } from "./server.js";
import { grouped, bytes, since } from "./numbers.js";

const ROWS_SHOWN = 60;

export function move(main) {
  const result = h("div", { class: "stack result", role: "status" });
  const spread = h("div", null, loading("Asking the brokers…"));
  const under = h("div");
  const forms = h("div", { class: "columns" });
  const buttons = h("span", { class: "end" });
  show(main, h("div", { class: "head" }, h("h1", null, "Move it"), h("span", { class: "soft small" }, "Nothing moves before you have seen the plan."), buttons), result, under, spread, forms);
  known().then(({ changes }) => {
    const act = actions(result, changes);
    if (changes) show(buttons, button("Elect preferred leaders", () => act.elect()), button("Remove throttles", () => act.unthrottle()));
    show(forms, h("div", null, moveForm(act)), h("div", null, factorForm(act)));
    stream({ view: "moves" }, (found) => {
      show(under, found.error ? banner(found.error) : null, moving(found, act, changes));
      show(spread, brokers(found, act));
    });
  });
}

const button = (text, onclick, attributes) => h("button", { type: "button", "data-focus": text, onclick, ...attributes }, text);

function same(command) {
  return h("details", null, h("summary", null, "The same as a command"), h("pre", { class: "command" }, command));
}

function actions(result, changes) {
  const attempt = async (work) => {
    show(result, banner("…", "quiet"));
    try {
      show(result, await work());
    } catch (error) {
      show(result, banner(error.message));
    }
    result.scrollIntoView({ block: "start" });
  };
  const failures = (failed) => Object.entries(failed).map(([each, why]) => `${each}: ${why}`).join("; ");
  const told = (done, good) => [failures(done.failed || {}) ? banner(failures(done.failed)) : banner(good, "good"), same(done.command)];
  const partitions = (count) => `${grouped(count)} partition${count === 1 ? "" : "s"}`;
  const start = (order, rows) => attempt(async () => {
    const done = await post("api/move/start", { ...order, rows });
    return told(done, `${partitions(done.begun)} began to move.`);
  });
  return {
    plan: (order, title) => attempt(async () => {
      const found = await post("api/move/plan", order);
      return preview(found, title, changes, () => start(order, found.rows));
    }),
    cancel: (rows) => attempt(async () => {
      const done = await post("api/move/cancel", { rows });
      return told(done, `${partitions(done.cancelled)} stay where they were.`);
    }),
    stop: () => attempt(async () => {
      await post("api/move/stop", {});
      return banner("No further partition begins to move. Those that move go on.", "good");
    }),
    elect: () => attempt(async () => {
      const done = await post("api/move/elect", {});
      return told(done, done.elected ? `${partitions(done.elected)} got the preferred leader.` : "The preferred replicas lead already.");
    }),
    unthrottle: () => attempt(async () => {
      const done = await post("api/move/unthrottle", {});
      return told(done, `${grouped(done.brokers)} brokers and ${grouped(done.topics)} topics have no throttle.`);
    }),
    fail: (text) => show(result, banner(text)),
  };
}

function preview(found, title, changes, start) {
  if (!found.rows.length) return banner(found.moving ? "Nothing more is to move. Partitions that move already are left alone." : "There is nothing to move.", "good");
  const rows = found.rows.slice(0, ROWS_SHOWN).map((each) => [`${each.topic}-${each.partition}`, each.before.join(", "), each.after.join(", "), bytes(each.bytes)]);
  const columns = [{ name: "Partition" }, { name: "Now" }, { name: "Then" }, { name: "To copy", number: true }];
  const more = found.rows.length > ROWS_SHOWN ? `the first ${ROWS_SHOWN} of ${grouped(found.rows.length)} are listed; ` : "";
  return panel(title, `${found.rows.length} partition${found.rows.length === 1 ? " changes" : "s change"}, ${more}${bytes(found.bytes)} to copy`,
    table(columns, rows, { class: "plan" }),
    h("div", { class: "body padded stack" }, h("pre", { class: "command" }, found.command),
      changes ? h("p", { class: "toolbar" }, button("Start these moves", start, { class: "main" }))
        : banner("This console is read-only. Start it with --allow-changes, or run the command.", "quiet")));
}

function bar(share, label) {
  // A width in a style attribute would need inline code; a progress element needs none.
  return share === null ? h("span", { class: "soft" }, "not told") : h("progress", { max: 1, value: share, "aria-label": label });
}

function moving(found, act, changes) {
  const cancel = (each) => h("button", { type: "button", class: "danger", "data-focus": `cancel-${each.topic}-${each.partition}`, "aria-label": `Cancel the move of ${each.topic}-${each.partition}`, onclick: () => act.cancel([each]) }, "Cancel");
  const lines = found.moves.map((each) => h("li", { class: "move", "data-move": `${each.topic}-${each.partition}` },
    h("div", { class: "title" }, h("a", { href: `replication/${encodeURIComponent(each.topic)}/${each.partition}` }, `${each.topic}-${each.partition}`),
      h("span", { class: "soft small" }, `to ${each.target.join(", ")}`, each.removing.length ? `, leaves ${each.removing.join(", ")}` : ""), changes ? cancel(each) : null),
    each.adding.map((one) => h("div", { class: "catch-up", "data-node": one.node },
      h("span", null, `Node ${one.node}`), bar(one.share, `How far node ${one.node} has caught up with ${each.topic}-${each.partition}`),
      h("span", { class: "soft small number" }, one.in_isr ? "in sync" : `${bytes(one.bytes)} of ${bytes(each.bytes)}`)))));
  const ended = found.ended.slice(0, 8).map((each) => [`${each.topic}-${each.partition}`, badge(each.how === "finished" ? "good" : "warn", each.how),
    each.replicas ? each.replicas.join(", ") : "it is gone", `${since(each.at)}`]);
  const columns = [{ name: "Partition" }, { name: "Ended" }, { name: "Replicas" }, { name: "Ago", number: true }];
  const note = found.moving > found.moves.length ? `${grouped(found.moving)} partitions, the first ${found.moves.length} are shown` : found.moving ? `${grouped(found.moving)} partition${found.moving === 1 ? "" : "s"}` : null;
  return h("section", { class: "panel", "aria-label": "Under way" },
    h("header", null, h("h2", null, "Under way"), note ? h("span", { class: "soft" }, note) : null,
      changes && found.moving ? h("span", { class: "end" }, button("Cancel all", () => act.cancel(found.moves))) : null),
    running(found.running, act, changes),
    lines.length ? h("ul", { class: "moves" }, lines) : empty("No partition is moving."),
    ended.length ? table(columns, ended, { class: "ended" }) : null);
}

function running(state, act, changes) {
  if (!state) return null;
  const done = state.total - state.left;
  const words = { running: "A balance is under way", stopped: "The balance was stopped", failed: "The balance failed", finished: "The balance is finished" };
  return h("div", { class: "balance", "data-state": state.state }, h("span", null, `${words[state.state]}: ${grouped(done)} of ${grouped(state.total)} partitions${state.error ? `, ${state.error}` : ""}`),
    h("progress", { max: state.total || 1, value: done, "aria-label": "How far the balance is" }),
    changes && state.state === "running" ? button("Stop the balance", () => act.stop()) : null);
}

function brokers(found, act) {
  const most = found.brokers.reduce((top, each) => (BigInt(each.bytes) > top ? BigInt(each.bytes) : top), 1n);
  const share = (each) => Number((BigInt(each.bytes) * 1000n) / most) / 1000;
  const rows = found.brokers.map((each) => h("tr", { "data-broker": each.id },
    h("td", null, h("b", null, each.id), each.rack ? h("span", { class: "soft" }, ` rack ${each.rack}`) : null),
    h("td", { class: "number" }, grouped(each.leads)), h("td", { class: "number wide-only" }, grouped(each.preferred)), h("td", { class: "number" }, grouped(each.replicas)),
    h("td", { class: "number" }, bytes(each.bytes)),
    h("td", { class: "wide-only" }, h("progress", { class: "amount", max: 1, value: share(each), "aria-label": `Bytes on broker ${each.id}, against the fullest` })),
    h("td", { class: "number" }, h("button", { type: "button", "data-focus": `drain-${each.id}`, "aria-label": `Drain broker ${each.id}`, onclick: () => act.plan({ kind: "drain", brokers: [each.id] }, `Drain broker ${each.id}`) }, "Drain"))));
  const columns = [{ name: "Broker" }, { name: "Leads", number: true }, { name: "Preferred", number: true, wide: true }, { name: "Replicas", number: true }, { name: "Bytes", number: true }, { name: "", wide: true }, { name: "", number: true }];
  const note = found.astray ? `${grouped(found.astray)} partitions are not led by their preferred replica` : "every partition is led by its preferred replica";
  return h("section", { class: "panel" }, h("header", null, h("h2", null, "Brokers"), h("span", { class: "soft" }, found.brokers.length ? note : ""),
    h("span", { class: "end" }, button("Plan a balance", () => act.plan({ kind: "balance" }, "Balance")))),
    rows.length ? table(columns, rows) : empty("No broker is known yet."));
}

const numbers = (text) => text.split(/[\s,]+/).filter(Boolean).map(Number);
const throttleInput = () => h("input", { inputmode: "numeric", placeholder: "none" });
let lists = 0;

function topicInput(chosen) {
  lists += 1;
  const list = h("datalist", { id: `topics-${lists}` });
  const input = h("input", { list: list.id, autocomplete: "off", spellcheck: "false", required: true, placeholder: "name", onchange: chosen });
  get("api/topics").then((found) => show(list, found.topics.map((each) => h("option", { value: each })))).catch(() => null);
  return [input, list];
}

function moveForm(act) {
  const partition = h("input", { inputmode: "numeric", value: "0", required: true, onchange: () => fill() });
  const [topic, list] = topicInput(() => fill());
  const replicas = h("input", { placeholder: "1, 2, 3", required: true, autocomplete: "off" });
  const throttle = throttleInput();
  const note = h("span", { class: "soft small" }, "The first replica is the preferred leader.");
  async function fill() {
    if (!topic.value || partition.value === "") return;
    try {
      const found = await get(`api/topics/${encodeURIComponent(topic.value)}/placement`, { partition: partition.value });
      note.textContent = `It is on ${found.replicas.join(", ")} now; the first is the preferred leader.`;
    } catch (error) {
      note.textContent = error.message;
    }
  }
  const submit = (event) => {
    event.preventDefault();
    act.plan({ kind: "move", topic: topic.value, partition: Number(partition.value), replicas: numbers(replicas.value), throttle: throttle.value.trim() || null }, `Move ${topic.value}-${partition.value}`);
  };
  return panel("Move a partition", null, h("div", { class: "body" }, h("form", { class: "form", onsubmit: submit, "aria-label": "Move a partition" },
    h("label", null, "Topic", topic), list, h("label", null, "Partition", partition), h("label", null, "New replicas", replicas), h("label", null, "Throttle, bytes/s", throttle),
    h("div", { class: "buttons wide" }, h("button", null, "Plan this move"), note))));
}

function factorForm(act) {
  const [topic, list] = topicInput(() => null);
  const factor = h("input", { inputmode: "numeric", value: "3", required: true });
  const throttle = throttleInput();
  const submit = (event) => {
    event.preventDefault();
    act.plan({ kind: "factor", topic: topic.value, factor: Number(factor.value), throttle: throttle.value.trim() || null }, `Replication factor ${factor.value} for ${topic.value}`);
  };
  return panel("Replication factor", null, h("div", { class: "body" }, h("form", { class: "form", onsubmit: submit, "aria-label": "Replication factor" },
    h("label", null, "Topic", topic), list, h("label", null, "Replicas", factor), h("label", null, "Throttle, bytes/s", throttle),
    h("div", { class: "buttons wide" }, h("button", null, "Plan this change")))));
}
