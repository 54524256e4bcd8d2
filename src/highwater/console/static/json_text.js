// JSON is shown from its own text: cut into tokens and indented, never parsed. So every digit of a number stays.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\]:,]|\s+|[^]/g;

export function tokens(text) {
  return (text.match(TOKEN) || []).filter((each) => each.trim() !== "");
}

export function pretty(text) {
  // A list of [kind, text]: kinds are key, string, number, word and plain.
  const found = tokens(text);
  const parts = [];
  let depth = 0;
  const line = () => parts.push(["plain", "\n" + "  ".repeat(depth)]);
  found.forEach((token, at) => {
    const next = found[at + 1];
    if (token === "{" || token === "[") {
      parts.push(["plain", token]);
      depth += 1;
      if (next !== "}" && next !== "]") line();
    } else if (token === "}" || token === "]") {
      depth = Math.max(depth - 1, 0);
      const before = found[at - 1];
      if (before !== "{" && before !== "[") line();
      parts.push(["plain", token]);
    } else if (token === ",") {
      parts.push(["plain", ","]);
      line();
    } else if (token === ":") {
      parts.push(["plain", ": "]);
    } else if (token.startsWith('"')) {
      parts.push([next === ":" ? "key" : "string", token]);
    } else {
      parts.push([/^-?\d/.test(token) ? "number" : "word", token]);
    }
  });
  return parts;
}

export function compact(text) {
  // The same kinds, on one line. A space follows each colon and comma.
  const found = tokens(text);
  return found.map((token, at) => {
    if (token === ":" || token === ",") return ["plain", `${token} `];
    if (token.startsWith('"')) return [found[at + 1] === ":" ? "key" : "string", token];
    if (/^[{}[\]]$/.test(token)) return ["plain", token];
    return [/^-?\d/.test(token) ? "number" : "word", token];
  });
}
