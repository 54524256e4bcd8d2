// The log of one replica as a strip: its epochs in colours, the high watermark as a line, what lies above it paler.

import { s } from "./dom.js";
import { share, grouped } from "./numbers.js";

const WIDTH = 1000;

export function bounds(partition) {
  // What the strips of one partition show: the log, or its newest part if the rest would hide what moves.
  let from = BigInt(partition.log_start);
  let to = BigInt(partition.log_end);
  for (const lane of partition.lanes) {
    if (lane.log_end !== null && BigInt(lane.log_end) > to) to = BigInt(lane.log_end);
  }
  const marks = partition.lanes.filter((each) => each.log_end !== null).map((each) => BigInt(each.log_end));
  marks.push(BigInt(partition.high_watermark));
  const lowest = marks.reduce((one, other) => (other < one ? other : one), to);
  const span = to - lowest;
  const wanted = span * 4n > 200n ? span * 4n : 200n;
  if (to - wanted > from) from = to - wanted;
  return [from, to > from ? to : from + 1n];
}

export function strip(lane, partition, [from, to], fresh, hasTicks) {
  const box = s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 40`, preserveAspectRatio: "none", role: "img", "aria-label": described(lane) });
  box.append(s("rect", { class: "track", x: 0.5, y: 12.5, width: WIDTH - 1, height: 17, rx: 3 }));
  if (lane.log_end === null) return box;
  const place = (offset) => share(offset, from, to) * WIDTH;
  const end = place(lane.log_end);
  const start = lane.log_start === null ? 0 : place(lane.log_start);
  const epochs = partition.epochs && partition.epochs.length ? partition.epochs : [{ epoch: partition.leader_epoch, start: partition.log_start }];
  epochs.forEach((each, at) => {
    const left = Math.max(place(each.start), start);
    const right = Math.min(at + 1 < epochs.length ? place(epochs[at + 1].start) : end, end);
    if (right > left) box.append(s("rect", { class: `epoch-${each.epoch % 4}`, x: left, y: 12.5, width: right - left, height: 17 }));
    if (at && left > start && left < end) box.append(s("line", { class: "boundary", x1: left, x2: left, y1: 12.5, y2: 29.5, "vector-effect": "non-scaling-stroke" }));
  });
  if (hasTicks) {
    // Few records: each has a cell of its own.
    for (let offset = BigInt(lane.log_start) + 1n; offset < BigInt(lane.log_end); offset += 1n) {
      box.append(s("line", { class: "tick", x1: place(offset), x2: place(offset), y1: 13, y2: 29, "vector-effect": "non-scaling-stroke" }));
    }
  }
  if (lane.high_watermark !== null) {
    const mark = place(lane.high_watermark);
    if (mark < end) box.append(s("rect", { class: "above", x: mark, y: 12.5, width: end - mark, height: 17 }));
    box.append(s("line", { class: "hw", x1: mark, x2: mark, y1: 5, y2: 34, "vector-effect": "non-scaling-stroke" }));
  }
  for (const offset of fresh || []) {
    const at = place(offset);
    if (at > 0 && at <= end) box.append(s("rect", { class: "fresh", x: Math.max(at - 3, 0), y: 17, width: 6, height: 8, rx: 2 }));
  }
  return box;
}

function described(lane) {
  if (lane.log_end === null) return `node ${lane.node}: the log end is unknown`;
  return `node ${lane.node}: log start ${grouped(lane.log_start)}, high watermark ${grouped(lane.high_watermark)}, log end ${grouped(lane.log_end)}`;
}

export function smallStrips(partition) {
  // One thin strip for each replica, without words.
  const range = bounds(partition);
  const height = partition.lanes.length * 9;
  const box = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, height, preserveAspectRatio: "none", "aria-hidden": "true" });
  partition.lanes.forEach((lane, at) => {
    box.append(s("rect", { class: "track", x: 0, y: at * 9 + 1, width: WIDTH, height: 6, fill: "var(--sunken)" }));
    if (lane.log_end === null) return;
    const end = share(lane.log_end, ...range) * WIDTH;
    box.append(s("rect", { class: `epoch-${partition.leader_epoch % 4}`, x: 0, y: at * 9 + 1, width: end, height: 6, "fill-opacity": lane.in_isr ? 1 : 0.35 }));
    if (lane.high_watermark !== null) {
      const mark = Math.min(share(lane.high_watermark, ...range) * WIDTH, WIDTH - 1);
      box.append(s("line", { x1: mark, x2: mark, y1: at * 9, y2: at * 9 + 8, stroke: "var(--hw)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
    }
  });
  return box;
}
