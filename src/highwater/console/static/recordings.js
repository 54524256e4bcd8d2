// Recordings of the lab: chosen from a file or from the console's folder, replayed, and written to one HTML file.

import { h, show, panel, table, empty, loading, banner } from "./dom.js";
import { get } from "./server.js";
import { bytes } from "./numbers.js";
import { player, readRecording } from "./player.js";

const PARTS = ["dom.js", "numbers.js", "strip.js", "player.js"];
const encode = encodeURIComponent;

export function recordings(main, name, query) {
  const place = h("div", { class: "stack", id: "player" });
  const tools = h("span", { class: "end" });
  let leave = null;
  const begin = (text, file, start) => {
    if (leave) leave();
    leave = null;
    try {
      const recording = readRecording(text);
      leave = player(place, recording, start);
      show(tools, h("button", { type: "button", onclick: () => save(recording) }, "Export as HTML"));
      document.title = `${recording.experiment} – Highwater`;
    } catch (error) {
      show(tools);
      show(place, banner(`${file}: ${error.message}`));
    }
  };
  const head = (path) => h("div", { class: "head" }, path, h("h1", null, name || "Recordings"), tools);
  if (name !== undefined) {
    show(main, head(h("span", { class: "path" }, h("a", { href: "recordings" }, "Recordings"), " /")), place);
    show(place, loading("Reading the recording…"));
    const keep = (at, language) => history.replaceState(null, "", `${location.pathname}?${new URLSearchParams({ frame: at + 1, lang: language })}`);
    fetch(`api/recordings/${encode(name)}`).then(async (answer) => {
      if (!answer.ok) throw new Error((await answer.json()).error);
      begin(await answer.text(), name, { frame: Number(query.get("frame") || 1) - 1, language: query.get("lang") || "en", changed: keep });
    }).catch((error) => show(place, banner(error.message)));
  } else {
    show(main, head(null), chooser(begin), place);
  }
  return () => leave && leave();
}

function chooser(begin) {
  const list = h("div", null, loading());
  const file = h("input", { type: "file", accept: ".jsonl,.json,application/x-ndjson", onchange: async () => file.files.length && begin(await file.files[0].text(), file.files[0].name, {}) });
  get("api/recordings").then((found) => {
    const rows = found.recordings.map((each) => [h("a", { href: `recordings/${encode(each.name)}` }, each.name), bytes(each.size)]);
    show(list, rows.length ? table([{ name: "In the folder of the console" }, { name: "Size", number: true }], rows)
      : found.folder ? empty("The folder of the console has no recording yet.") : null);
  }).catch((error) => show(list, banner(error.message)));
  return panel("Open a recording", "of highwater lab run NAME --record FILE",
    h("div", { class: "body" }, h("div", { class: "form" }, h("label", { class: "wide" }, "A file of yours; it stays in the browser", file))), list);
}

async function save(recording) {
  // The modules of the player in one script, in their order, with the recording beside it.
  const sources = await Promise.all(PARTS.map(async (each) => (await fetch(`static/${each}`)).text()));
  const code = sources.map((each) => each.replace(/^import .*$/gm, "").replace(/^export /gm, "")).join("\n");
  const css = await (await fetch("static/app.css")).text();
  const data = JSON.stringify(recording).replaceAll("<", "\\u003c");
  const closed = (text) => text.replaceAll("</", "<\\/");
  const title = h("title", null, `${recording.title[0]} – Highwater`).outerHTML;
  const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8">${title}
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>${closed(css)}</style></head>
<body><main id="main" tabindex="-1"></main>
<script type="application/json" id="recording">${data}</script>
<script type="module">${closed(code)}
player(document.getElementById("main"), JSON.parse(document.getElementById("recording").textContent), {});
</script></body></html>
`;
  const link = h("a", { href: URL.createObjectURL(new Blob([page], { type: "text/html" })), download: `${recording.experiment.replace(/[^\w.-]/g, "_")}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
