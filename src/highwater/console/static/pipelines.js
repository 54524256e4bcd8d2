// The Spark pipelines that run beside the cluster: how fast they read, how far they are behind, what they could not read.

import { h, show, badge, panel, empty, loading, banner } from "./dom.js";
import { stream } from "./server.js";
import { grouped, bytes, rate, since } from "./numbers.js";
import { spark } from "./charts.js";

const STATES = { running: "good", finished: "good", starting: "warn", restarting: "warn", failed: "bad", gone: "bad", "not running": "bad" };

export function pipelines(main) {
  const body = h("div", { class: "stack" }, loading("Asking the pipelines…"));
  show(main, h("div", { class: "head" }, h("h1", null, "Where does it go?"), h("span", { class: "soft small" }, "Spark pipelines beside the cluster")), body);
  stream({ view: "pipelines" }, (found) => {
    const rows = found.pipelines;
    show(body, found.silent.map((each) => banner(`${each} does not answer.`)),
      rows.length ? rows.map(card) : h("section", { class: "panel" },
        empty(`No pipeline is known. The console looks at ${found.sources.join(", ")}.`),
        h("p", { class: "empty" }, "highwater console --pipeline http://127.0.0.1:9108/metrics names one by its metrics, --pipeline checkpoints by the folder of its checkpoint.")));
  });
}

function figure(label, value, note) {
  return h("div", { class: "fact", "data-fact": label }, h("span", { class: "label" }, label), h("span", { class: "figure" }, value === null ? "–" : value), note ? h("span", { class: "soft small" }, note) : null);
}

function card(each) {
  const untold = "not told";
  const number = (text) => (text === null ? null : grouped(text));
  return h("section", { class: "panel pipeline", "data-pipeline": each.name, "aria-label": `Pipeline ${each.name}` },
    h("header", null, h("h2", null, each.name), each.state ? badge(STATES[each.state], each.state) : null,
      h("span", { class: "soft" }, each.restarts && each.restarts !== "0" ? `${grouped(each.restarts)} restart${each.restarts === "1" ? "" : "s"}` : "")),
    each.trouble ? h("p", { class: "body" }, banner(each.trouble)) : null,
    h("div", { class: "facts" },
      figure("Throughput", each.rate === null ? null : `${rate(each.rate)} /s`, each.rate === null ? "not known yet" : spark(each.history, `Records per second of ${each.name}`)),
      figure("Lag", number(each.lag), each.lag === null ? untold : spark(each.lags, `Lag of ${each.name}`)),
      figure("Fresh as of", each.last_at === null ? null : since(each.last_at) === "now" ? "now" : `${since(each.last_at)} ago`, each.last_at === null ? "no batch yet" : each.lag === "0" ? "all is landed" : "end of the last batch"),
      figure("Batches", number(each.batches), each.batch_seconds === null ? untold : `${each.batch_seconds} s each`),
      figure("Dead letters", number(each.bad), each.bad === null ? "not told by the status file" : "records that did not fit"),
      figure("Records read", number(each.records), each.rows === null ? untold : `${grouped(each.rows)} rows landed`),
      figure("Table", each.table_bytes === null ? null : bytes(each.table_bytes), each.table_bytes === null ? untold : each.files === null ? "" : `${grouped(each.files)} files landed`)));
}
