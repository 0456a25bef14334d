// Live updates: one EventSource per browser, shared by its tabs.
//
// A browser opens at most six connections to a host over HTTP/1.1, so tabs elect one of themselves (a Web Lock)
// to hold the stream and pass its messages on (a BroadcastChannel). When that tab closes, the lock passes to
// another one, which goes on after the last event that any tab has seen.
//
// Keep true:
// 1. No event is missed or seen twice over a reconnect: the cursor is the last `seq` that arrived.
// 2. The runs to watch are the union over all tabs; each tab repeats its wish when a new holder asks.
import { API, get, segment } from "./api.js";
import { signal } from "./html.js";

export const connected = signal(false);

const channel = new BroadcastChannel(`placet ${API}`);
const tab = crypto.randomUUID();
const listeners = new Map(); // kind -> Set of functions
const wishes = new Map(); // tab -> run ids; only the holder uses it
let watched = [];
let cursor = null;
let source = null;
let holds = false;
let opened = "";
const MOST = 20; // runs that the server watches for one browser

export function on(kind, listener) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(listener);
  return () => listeners.get(kind).delete(listener);
}

// `from` is the position in the log up to which the caller has what it watches.
export function watch(runIds, from) {
  watched = [...runIds];
  cursor ??= from ?? null;
  wishes.set(tab, watched);
  channel.postMessage({ type: "watch", tab, runs: watched });
  if (holds) reopen();
}

function deliver(kind, data, id) {
  if (id != null) {
    const seq = Number(id);
    if (kind === "log" && cursor != null && seq <= cursor) return;
    cursor = Math.max(cursor ?? 0, seq);
  }
  for (const listener of listeners.get(kind) ?? []) listener(data);
}

function arrived(kind, data, id) {
  channel.postMessage({ type: "event", kind, data, id });
  deliver(kind, data, id);
}

function state(on) {
  if (connected.value === on) return;
  connected.value = on;
  channel.postMessage({ type: "state", on });
  // What changed while nobody listened is fetched again.
  if (on) arrived("reconnected", null);
}

function address() {
  const runs = [...new Set([...wishes.values()].flat())].slice(-MOST).sort();
  const parameters = new URLSearchParams();
  if (runs.length) parameters.set("watch", runs.map(segment).join(","));
  return parameters;
}

function reopen() {
  const parameters = address();
  if (source && source.readyState !== EventSource.CLOSED && opened === String(parameters)) return;
  source?.close();
  opened = String(parameters);
  if (cursor != null) parameters.set("after", cursor);
  source = new EventSource(`${API}/stream?${parameters}`);
  source.onopen = () => state(true);
  source.onerror = () => state(false);
  for (const kind of ["hello", "log", "view", "needs", "text", "runs", "problem"]) {
    source.addEventListener(kind, (message) => arrived(kind, JSON.parse(message.data), message.lastEventId || null));
  }
}

function hold() {
  holds = true;
  channel.postMessage({ type: "who" });
  reopen();
  // EventSource reconnects by itself after a lost connection, but gives up after an HTTP error. A token that
  // does not hold any more is not shown again and again: the server would take that for guessing.
  const checking = setInterval(() => {
    if (source.readyState !== EventSource.CLOSED) return;
    state(false);
    get("/me").then(reopen, (error) => {
      if (error.status !== 401) return;
      clearInterval(checking);
      arrived("signed_out", null);
    });
  }, 2000);
  return new Promise(() => {}); // held until the tab closes
}

channel.onmessage = ({ data }) => {
  if (data.type === "event") deliver(data.kind, data.data, data.id);
  else if (data.type === "state") connected.value = data.on;
  else if (data.type === "who") channel.postMessage({ type: "watch", tab, runs: watched });
  else if (data.type === "gone") { wishes.delete(data.tab); if (holds) reopen(); }
  else if (data.type === "watch" && holds) {
    wishes.set(data.tab, data.runs);
    channel.postMessage({ type: "state", on: connected.value });
    reopen();
  }
};

export function start() {
  addEventListener("pagehide", () => channel.postMessage({ type: "gone", tab }));
  if (navigator.locks) navigator.locks.request(`placet-stream ${API}`, hold);
  else hold(); // an address that is no secure context: each tab has its own stream
  channel.postMessage({ type: "watch", tab, runs: watched });
}
