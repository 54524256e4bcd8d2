// A recording of the lab, one picture after the other. It also runs in a file of its own, without the console.

import { h, show, badge, table } from "./dom.js";
import { grouped } from "./numbers.js";
import { strip } from "./strip.js";

const PLAY_MS = 2600;
const MOST_TICKS = 60n;
const SPOKEN = { en: "English", ko: "한국어" };
const SAID = {
  en: { back: "One step back", ahead: "One step ahead", play: "Play", pause: "Pause", place: "Picture", language: "Language", leader: "leader", follower: "follower", node: "Node", down: "dead", paused: "paused", in: "in the ISR", out: "out of the ISR", start: "start", hw: "high watermark", end: "end", epochs: "epochs", fetches: "Fetches of followers, as the leader answered them", lost: "What was lost, and why", mistake: "What the text has wrong or out of date", behind: "{lag} records and {seconds} s behind, limit {limit} s", asks: ["After", "Node", "Asks for", "Bytes", "High watermark"], reads: "Fetches of the consumer, and the answers", answers: ["Node", "Offset", "Answer"], sent: "no records: read from node {preferred}", got: "records: {records}, high watermark {high_watermark}", legend: ["below the high watermark", "high watermark, as this replica knows it", "above it"] },
  ko: { back: "한 단계 뒤로", ahead: "한 단계 앞으로", play: "재생", pause: "멈춤", place: "그림", language: "언어", leader: "리더", follower: "팔로워", node: "노드", down: "죽음", paused: "멈춤", in: "ISR에 있음", out: "ISR에서 빠짐", start: "시작", hw: "하이 워터마크", end: "끝", epochs: "에포크", fetches: "팔로워의 페치와 리더의 응답", lost: "무엇을 잃었고, 왜 잃었나", mistake: "글에서 틀렸거나 낡은 내용", behind: "레코드 {lag}개, {seconds}초 뒤처짐 (한도 {limit}초)", asks: ["시각", "노드", "요청 오프셋", "바이트", "하이 워터마크"], reads: "컨슈머의 페치와 응답", answers: ["노드", "오프셋", "응답"], sent: "레코드 없음: 노드 {preferred}에서 읽을 것", got: "레코드 {records}개, 하이 워터마크 {high_watermark}", legend: ["하이 워터마크 아래", "이 복제본이 아는 하이 워터마크", "그 위"] },
};

export function readRecording(text) {
  // JSON lines: the head, then the pictures. Throws an Error that says what is wrong.
  const wrong = new Error("This is no recording of `highwater lab run --record`.");
  let rows;
  try {
    rows = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
  } catch {
    throw wrong;
  }
  const isText = (words) => Array.isArray(words) && words.length === 2 && words.every((each) => typeof each === "string");
  const [head, ...frames] = rows;
  const isFrame = (each) => each && isText(each.title) && isText(each.text) && Array.isArray(each.lanes) && Array.isArray(each.fetches) && Array.isArray(each.files) && typeof each.facts === "object";
  if (!head || !isText(head.title) || head.version !== 1 || !frames.length || !frames.every(isFrame)) throw wrong;
  return { experiment: String(head.experiment), title: head.title, frames };
}

const told = (text, facts) => text.replace(/\{\{|\}\}|\{(\w+)\}/g, (whole, name) => (name === undefined ? whole[0] : String(facts[name] ?? whole)));

export function player(place, recording, options) {
  // Draws the recording into a place. `options` are the picture and the language to begin with, and who is told of both.
  const { frame, language, changed } = { frame: 0, language: "en", changed: () => null, ...options };
  const count = recording.frames.length;
  let at = Math.min(Math.max(frame, 0), count - 1);
  let tongue = language === "ko" ? "ko" : "en";
  let playing = null;
  const title = h("h2", { class: "story-title" });
  const scrubber = h("input", { type: "range", min: 0, max: count - 1, step: 1, value: String(at), oninput: () => go(Number(scrubber.value)) });
  const number = h("span", { class: "soft small number" });
  const back = h("button", { type: "button", onclick: () => go(at - 1) }, "◀");
  const ahead = h("button", { type: "button", onclick: () => go(at + 1) }, "▶");
  const play = h("button", { type: "button", class: "main", onclick: () => (playing ? halt() : run()) });
  const speech = h("select", { onchange: () => { tongue = speech.value; paint(); } }, Object.entries(SPOKEN).map(([value, text]) => h("option", { value, selected: value === tongue }, text)));
  const story = h("div", { class: "stack" });
  show(place, h("section", { class: "panel" }, h("div", { class: "body padded stack" }, title,
    h("div", { class: "scrubber" }, play, back, scrubber, ahead, number, speech))), story);

  function halt() {
    clearInterval(playing);
    playing = null;
    paint();
  }

  function run() {
    if (at === count - 1) at = 0;
    playing = setInterval(() => (at === count - 1 ? halt() : go(at + 1, true)), PLAY_MS);
    paint();
  }

  function go(next, isPlayed) {
    if (playing && !isPlayed) clearInterval(playing), (playing = null);
    at = Math.min(Math.max(next, 0), count - 1);
    paint();
  }

  function paint() {
    const words = SAID[tongue];
    place.lang = tongue;
    title.textContent = told(recording.title[tongue === "ko" ? 1 : 0], {});
    scrubber.value = String(at);
    scrubber.setAttribute("aria-label", words.place);
    scrubber.setAttribute("aria-valuetext", `${at + 1} / ${count}`);
    number.textContent = `${at + 1} / ${count}`;
    play.textContent = playing ? words.pause : words.play;
    back.disabled = at === 0;
    ahead.disabled = at === count - 1;
    back.setAttribute("aria-label", words.back);
    ahead.setAttribute("aria-label", words.ahead);
    speech.setAttribute("aria-label", words.language);
    show(story, picture(recording.frames[at], tongue));
    changed(at, tongue);
  }

  const keys = (event) => {
    if (event.target.closest("input, textarea, select, button")) return;
    if (event.key === "ArrowLeft") go(at - 1);
    if (event.key === "ArrowRight") go(at + 1);
    if (event.key === " ") { event.preventDefault(); if (playing) halt(); else run(); }
  };
  document.addEventListener("keydown", keys);
  paint();
  return () => { clearInterval(playing); document.removeEventListener("keydown", keys); };
}

function picture(frame, tongue) {
  const words = SAID[tongue];
  const which = tongue === "ko" ? 1 : 0;
  const heading = words[frame.kind] || told(frame.title[which], frame.facts);
  return [
    h("section", { class: "panel narration", "data-kind": frame.kind, role: "status", "aria-live": "polite" }, h("h2", null, heading), h("p", null, told(frame.text[which], frame.facts))),
    frame.lanes.length ? h("section", { class: "panel" }, h("div", { class: "lane-box" }, h("div", null, lanesOf(frame, words, which)), legend(words.legend))) : null,
    frame.fetches.length ? h("section", { class: "panel" }, h("header", null, h("h2", null, words.fetches)), table(words.asks.map((name) => ({ name, number: true })),
      frame.fetches.map((each) => [`${each.ms.toFixed(1)} ms`, each.follower, grouped(each.offset), grouped(each.size), grouped(each.high_watermark)]), { class: "fetches" })) : null,
    // Recordings that were kept before consumers were recorded have no reads.
    (frame.reads || []).length ? h("section", { class: "panel" }, h("header", null, h("h2", null, words.reads)), readTable(frame.reads, words)) : null,
    frame.files.map(([name, content]) => h("section", { class: "panel" }, h("header", null, h("h2", null, Array.isArray(name) ? told(name[which], {}) : name)), h("div", { class: "body" }, h("pre", { class: "command" }, content))))];
}

function legend(words) {
  return h("p", { class: "legend" }, ["c0", "chw", "cab"].map((kind, at) => h("span", null, h("i", { class: kind }), words[at])));
}

function readTable(reads, words) {
  const answer = (each) => (each.error ? badge("bad", each.error) : told(each.preferred >= 0 ? words.sent : words.got, each));
  const [node, offset, answered] = words.answers;
  return table([{ name: node }, { name: offset, number: true }, { name: answered }], reads.map((each) =>
    [`${each.node} (${each.is_leader ? words.leader : words.follower})`, grouped(each.offset), answer(each)]), { class: "reads" });
}

function lanesOf(frame, words, which) {
  const offsets = (name) => frame.lanes.map((each) => BigInt(each[name]));
  const from = offsets("log_start").reduce((one, other) => (other < one ? other : one));
  const end = offsets("log_end").reduce((one, other) => (other > one ? other : one));
  const to = end > from ? end : from + 1n;
  return frame.lanes.map((each) => {
    const lane = { ...each, log_start: String(each.log_start), high_watermark: String(each.high_watermark), log_end: String(each.log_end) };
    const epochs = each.epochs.map(([epoch, start]) => ({ epoch, start: String(start) }));
    const drawn = strip(lane, { epochs, leader_epoch: each.epoch, log_start: lane.log_start }, [from, to], [], to - from <= MOST_TICKS);
    const is = each.state === "down" ? "down" : each.in_isr ? "in" : "out";
    const behind = !each.in_isr && each.limit_ms && each.lag_ms ? told(words.behind, { lag: each.lag, seconds: (each.lag_ms / 1000).toFixed(1), limit: each.limit_ms / 1000 }) : null;
    return h("div", { class: "lane", "data-node": each.node, "data-state": each.label ? "made" : is, "data-role": each.is_leader ? "leader" : "follower" },
      h("div", { class: "who" }, h("b", null, each.label ? each.label[which] : `${words.node} ${each.node}`),
        each.label ? null : h("span", { class: "badges" }, each.is_leader ? badge("accent", words.leader) : badge(null, words.follower),
          each.state === "down" ? badge("bad", words.down) : each.state === "paused" ? badge("warn", words.paused) : null,
          each.in_isr ? badge("good", words.in) : badge("bad", words.out))),
      drawn,
      h("div", { class: "figures" }, h("span", null, `${words.start} ${grouped(each.log_start)} · ${words.end} `, h("b", null, grouped(each.log_end))),
        h("span", null, `${words.hw} `, h("b", null, grouped(each.high_watermark))),
        each.epochs.length ? h("span", null, `${words.epochs} ${each.epochs.map(([epoch, start]) => `e${epoch}@${start}`).join(", ")}`) : null),
      behind ? h("p", { class: "why" }, behind) : null);
  });
}
