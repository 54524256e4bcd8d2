// All that is asked of the server: one stream of events for the tab, and single requests.

let source = null;
let opened = null;
let session = null;
const listeners = new Set();

function tell(state) {
  for (const each of listeners) each(state);
}

export const onState = (listener) => listeners.add(listener);

function connect() {
  if (!opened || document.hidden) return;
  const { query, receive } = opened;
  source = new EventSource("api/events?" + new URLSearchParams(query));
  const own = source;
  own.onopen = () => own === source && tell("live");
  own.onmessage = (event) => own === source && receive(JSON.parse(event.data));
  own.onerror = () => {
    if (own !== source) return;
    if (own.readyState !== EventSource.CLOSED) {
      tell("lost");
      return;
    }
    // The server refused it. One that was started anew has another token.
    own.close();
    source = null;
    fetch("api/session").then((found) => tell(found.status === 401 ? "locked" : "lost")).catch(() => tell("lost"));
    setTimeout(() => opened && opened.query === query && !source && connect(), 2000);
  };
}

export function close() {
  if (source) source.close();
  source = null;
}

export function stream(query, receive) {
  // A tab has one stream. The next view takes its place.
  close();
  opened = { query, receive };
  connect();
}

export function quiet() {
  close();
  opened = null;
  tell("none");
}

export const isPaused = () => opened !== null && source === null;

document.addEventListener("visibilitychange", () => {
  // A browser allows six streams to a host: a tab that nobody sees needs none.
  if (document.hidden) {
    close();
    tell("idle");
  } else if (opened && !source) {
    connect();
  }
});

async function answer(response) {
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error || `the server answered ${response.status}`);
  return found;
}

export async function get(path, query) {
  return answer(await fetch(query ? `${path}?${new URLSearchParams(query)}` : path));
}

export async function known() {
  session = session || (await get("api/session"));
  return session;
}

export async function post(path, body) {
  const { token } = await known();
  return answer(await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-console-token": token },
    body: JSON.stringify(body),
  }));
}
