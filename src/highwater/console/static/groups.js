// Who reads it? Groups, their members, their lag over time, and new offsets after a preview.

import { h, show, badge, panel, table, empty, loading, banner } from "./dom.js";
import { stream, post, known } from "./server.js";
import { grouped, moment } from "./numbers.js";
import { spark, chart } from "./charts.js";

const STATES = { Stable: "good", Empty: null, Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn" };

export function groups(main) {
  const body = h("div", null, loading("Asking the coordinators…"));
  show(main, h("div", { class: "head" }, h("h1", null, "Who reads it?")), body);
  stream({ view: "groups" }, (found) => {
    const rows = found.groups.map((each) => [
      h("a", { href: `groups/${encodeURIComponent(each.group)}` }, each.group),
      badge(STATES[each.state], each.state || "unknown"), grouped(each.members),
      (each.topics || []).join(", ") || "–",
      spark(each.history.map((point) => Number(point[1])), `Lag of ${each.group}`), each.error ? badge("bad", each.error) : grouped(each.lag)]);
    const columns = [{ name: "Group" }, { name: "State" }, { name: "Members", number: true }, { name: "Topics", wide: true }, { name: "Lag lately", wide: true }, { name: "Lag", number: true }];
    show(body, found.error ? banner(found.error) : null, h("section", { class: "panel" },
      rows.length ? table(columns, rows) : empty("No consumer group has read anything yet.")));
  });
}

export function group(main, name) {
  const body = h("div", { class: "stack" }, loading("Asking the coordinator…"));
  const state = h("span");
  const reset = h("div");
  show(main, h("div", { class: "head" }, h("span", { class: "path" }, h("a", { href: "groups" }, "Groups"), " /"), h("h1", null, name), state), body, reset);
  let offered = "";
  stream({ view: "group", group: name }, (found) => {
    if (!found.exists) {
      show(body, found.error ? banner(found.error) : null, h("section", { class: "panel" }, empty(`There is no group ${name}.`)));
      return;
    }
    show(state, badge(STATES[found.state], found.state || "unknown"));
    show(body, found.error ? banner(found.error) : null, lagChart(found), partitions(found), members(found));
    const topics = (found.topics || []).join("\n");
    if (topics && topics !== offered) {
      offered = topics;
      offerReset(reset, name, found.topics);
    }
  });
}

function lagChart(found) {
  const points = found.history.map(([at, lag]) => [Number(at), Number(lag)]);
  const highest = Math.max(...points.map((each) => each[1]), 0);
  const note = points.length > 1 ? `since ${moment(points[0][0]).slice(11, 19)} UTC, at most ${grouped(highest)}` : "kept by the console from now on";
  return panel(`Lag ${grouped(found.lag)}`, note, h("div", { class: "body" }, chart(points, `Lag of the group over time, now ${found.lag}`)));
}

function partitions(found) {
  const columns = [{ name: "Topic" }, { name: "Partition", number: true }, { name: "Committed", number: true }, { name: "End", number: true }, { name: "Lag", number: true }, { name: "Lately", wide: true }, { name: "Member", wide: true }];
  const rows = found.rows.map((each) => [each.topic, each.partition, grouped(each.committed), grouped(each.end), grouped(each.lag),
    spark(each.history.map((point) => Number(point[1])), `Lag of ${each.topic}-${each.partition}`), each.member || h("span", { class: "soft" }, "nobody")]);
  return panel("Partitions", null, rows.length ? table(columns, rows) : empty("It has committed no offset."));
}

function members(found) {
  const columns = [{ name: "Member" }, { name: "Client", wide: true }, { name: "Host", wide: true }, { name: "Partitions" }];
  const rows = found.members.map((each) => [h("span", { class: "mono" }, each.id), each.client, each.host, each.partitions.join(", ") || "–"]);
  return panel("Members", found.strategy ? `assigned by ${found.strategy}` : null, rows.length ? table(columns, rows) : empty("Nobody is in the group now."));
}

async function offerReset(place, name, topics) {
  const { changes } = await known();
  const topic = h("select", null, topics.map((each) => h("option", { value: each }, each)));
  const form = h("select", null, [["earliest", "to the oldest"], ["latest", "to the end"], ["offset", "to an offset"], ["shift", "by a number"], ["time", "to a time"]].map(([value, text]) => h("option", { value }, text)));
  const at = h("input", { inputmode: "numeric", placeholder: "number" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const atLabel = h("label", null, "Number", at);
  const timeLabel = h("label", null, "Time (yours)", time);
  const adapt = () => { atLabel.hidden = !["offset", "shift"].includes(form.value); timeLabel.hidden = form.value !== "time"; };
  form.addEventListener("change", adapt);
  adapt();
  const result = h("div", { role: "status" });
  const order = () => ({ topic: topic.value, form: form.value, at: form.value === "time" ? String(new Date(time.value || 0).getTime()) : at.value || "0" });
  const path = (verb) => `api/group/${verb}?${new URLSearchParams({ group: name })}`;
  const apply = async (rows) => {
    try {
      const done = await post(path("reset"), { rows });
      show(result, banner(`${done.done} offset${done.done === 1 ? " is" : "s are"} set.`, "good"));
    } catch (error) {
      show(result, banner(error.message));
    }
  };
  const preview = async (event) => {
    event.preventDefault();
    try {
      const found = await post(path("preview"), order());
      const rows = found.rows.map((each) => [each.topic, each.partition, grouped(each.before), grouped(each.after)]);
      show(result, table([{ name: "Topic" }, { name: "Partition", number: true }, { name: "Committed now", number: true }, { name: "After the reset", number: true }], rows),
        h("pre", { class: "command" }, found.command),
        changes ? h("p", { class: "toolbar" }, h("button", { type: "button", class: "main", onclick: () => apply(found.rows) }, "Set these offsets"))
          : banner("This console is read-only. Start it with --allow-changes, or run the command.", "quiet"));
    } catch (error) {
      show(result, banner(error.message));
    }
  };
  show(place, panel("Reset offsets", "nothing changes before you have seen the preview", h("div", { class: "body" },
    h("form", { class: "form", onsubmit: preview, "aria-label": "Reset offsets" }, h("label", null, "Topic", topic), h("label", null, "Move", form), atLabel, timeLabel,
      h("div", { class: "buttons" }, h("button", null, "Preview"))), result)));
}
