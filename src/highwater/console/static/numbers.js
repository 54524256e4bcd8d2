// Offsets, sizes and times have 64 bits and arrive as text. They are computed with BigInt, and never as a float.

const SEPARATOR = "\u202f";

export function grouped(text) {
  if (text === null || text === undefined) return "–";
  const digits = String(text);
  const sign = digits.startsWith("-") ? "−" : "";
  return sign + digits.replace("-", "").replace(/\B(?=(\d{3})+(?!\d))/g, SEPARATOR);
}

export function bytes(text) {
  if (text === null || text === undefined) return "–";
  let number = typeof text === "number" ? text : Number(BigInt(text));
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (number < 1024 || unit === "TiB") return `${number < 10 && unit !== "B" ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1024;
  }
  return "";
}

export function rate(number) {
  if (number === null || number === undefined) return "–";
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return number >= 100 || Number.isInteger(number) ? grouped(Math.round(number)) : number.toFixed(1);
}

export function share(value, from, to) {
  // Where a value lies between two others, from 0 to 1.
  const span = BigInt(to) - BigInt(from);
  if (span <= 0n) return 1;
  const at = BigInt(value) - BigInt(from);
  return Math.min(Math.max(Number((at * 1000000n) / span) / 1e6, 0), 1);
}

export function ago(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const since = (milliseconds) => ago((Date.now() - Number(milliseconds)) / 1000);

export function moment(milliseconds) {
  const number = Number(milliseconds);
  if (number < 0 || number > 8.64e15) return String(milliseconds);
  return new Date(number).toISOString().replace("T", " ").replace("Z", "");
}

export function lasting(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  const number = Number(milliseconds);
  return number < 10000 ? `${number} ms` : `${(number / 1000).toFixed(0)} s`;
}

export function span(milliseconds) {
  // A length of time in the largest unit that leaves no rest.
  const number = BigInt(milliseconds);
  for (const [unit, size] of [["d", 86400000n], ["h", 3600000n], ["min", 60000n], ["s", 1000n]]) {
    if (number >= size && number % size === 0n) return `${grouped(number / size)} ${unit}`;
  }
  return `${grouped(number)} ms`;
}
