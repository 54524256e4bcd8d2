// Faults: what happens when a node dies, stands still, or cannot reach another.

import { h, show, badge, panel, loading, banner, empty } from "./dom.js";
import { stream, post } from "./server.js";

export function faults(main) {
  const result = h("div", { role: "status" });
  const nodes = h("div", null, loading("Asking the cluster…"));
  const one = h("select", { "aria-label": "One node" });
  const other = h("select", { "aria-label": "The other node" });
  const delay = h("input", { type: "number", min: 1, max: 60000, value: "200", "aria-label": "Delay in milliseconds" });
  const oneWay = h("input", { type: "checkbox" });
  const give = async (order) => {
    show(result, banner("…", "quiet"));
    try {
      const done = await post("api/fault", order);
      show(result, banner(done.done, "good"), h("details", null, h("summary", null, "The same as a command"), h("pre", { class: "command" }, done.command)));
    } catch (error) {
      show(result, banner(error.message));
    }
  };
  const both = () => [Number(one.value), Number(other.value)];
  show(main, h("div", { class: "head" }, h("h1", null, "What if a node fails?"), h("span", { class: "soft small" }, "These are real: processes are killed and stopped, and links are cut.")),
    result, nodes,
    panel("Links between nodes", null, h("div", { class: "body" }, h("div", { class: "form" },
      h("label", null, "From", one), h("label", null, "To", other), h("label", null, "Delay, ms", delay),
      h("label", null, "One way only", h("span", null, oneWay)),
      h("div", { class: "buttons wide" },
        h("button", { type: "button", onclick: () => give({ verb: "cut", nodes: both(), one_way: oneWay.checked }) }, "Cut"),
        h("button", { type: "button", onclick: () => give({ verb: "slow", nodes: both(), ms: Number(delay.value) }) }, "Slow"),
        h("button", { type: "button", onclick: () => give({ verb: "heal" }) }, "Heal all"))))));
  let listed = "";
  stream({ view: "overview" }, (found) => {
    const ids = found.nodes.map((each) => each.id);
    if (ids.join() !== listed) {
      listed = ids.join();
      for (const [at, select] of [one, other].entries()) show(select, ids.map((id, index) => h("option", { value: id, selected: index === at }, `node ${id}`)));
    }
    show(nodes, found.nodes.length ? h("div", { class: "node-grid" }, found.nodes.map((each) => card(each, give))) : empty("No node is known yet."));
  });
}

function card(each, give) {
  const states = { up: "good", down: "bad", fenced: "warn" };
  const button = (verb, text, kind) => h("button", { type: "button", class: kind, "data-focus": `${verb}-${each.id}`, onclick: () => give({ verb, nodes: [each.id] }) }, text);
  return h("section", { class: "panel node-card", "data-node": each.id, "data-state": each.state, "aria-label": `Node ${each.id}` },
    h("div", { class: "title" }, h("b", null, `Node ${each.id}`), h("span", { class: "badges" }, each.is_active_controller ? badge("accent", "active controller") : null, badge(states[each.state], each.state))),
    h("span", { class: "soft small" }, each.leaders === null ? each.roles.join(", ") : `leads ${each.leaders} of its ${each.partitions} replicas`),
    h("div", { class: "toolbar" }, each.state === "down" ? [button("start", "Start"), button("resume", "Resume")] : [button("kill", "Kill", "danger"), button("pause", "Pause")]));
}
