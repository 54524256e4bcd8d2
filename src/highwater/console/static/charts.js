import { s } from "./dom.js";

function path(values, width, height, top) {
  const highest = Math.max(top || 0, ...values, 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  return values.map((value, at) => `${(at * step).toFixed(2)},${(height - 1 - (value / highest) * (height - 3)).toFixed(2)}`);
}

export function spark(values, label) {
  const box = s("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": label });
  if (values.length < 2) return box;
  const points = path(values, 100, 24);
  box.append(s("polygon", { class: "area", points: `0,24 ${points.join(" ")} 100,24` }), s("polyline", { class: "curve", points: points.join(" ") }));
  return box;
}

export function chart(points, label) {
  // Points are [time in ms, value]. The axis of time is drawn to scale.
  const box = s("svg", { class: "chart", viewBox: "0 0 1000 150", preserveAspectRatio: "none", role: "img", "aria-label": label });
  for (const y of [20, 65, 110]) box.append(s("line", { class: "rule", x1: 0, x2: 1000, y1: y, y2: y }));
  if (points.length < 2) return box;
  const first = points[0][0];
  const span = Math.max(points[points.length - 1][0] - first, 1);
  const highest = Math.max(...points.map((each) => each[1]), 1);
  const drawn = points.map(([at, value]) => `${(((at - first) / span) * 1000).toFixed(1)},${(148 - (value / highest) * 126).toFixed(1)}`);
  box.append(s("polygon", { class: "area", points: `0,150 ${drawn.join(" ")} 1000,150` }), s("polyline", { class: "curve", points: drawn.join(" ") }));
  return box;
}
