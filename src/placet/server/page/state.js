// What all views share: who is looking, what waits for a person, which page is shown.
import { computed, signal } from "./html.js";
import { get, segment } from "./api.js";
import { toast } from "./parts.js";
import { on } from "./live.js";

export const me = signal(null);
export const needs = signal(null);
export const decided = signal([]); // newest first: what stopped waiting while this page was open
export const route = signal(parse(location.hash));
export const may = (right) => me.value?.rights.includes(right) ?? false;
export const waiting = computed(() => needs.value?.length ?? 0);

addEventListener("hashchange", () => { route.value = parse(location.hash); });

// An address that somebody has cut or mistyped is looked up as it is.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// "#/runs/ID?tab=events" -> {view: "runs", id: "ID", tab: "events"}
function parse(hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view: view || "needs", id: rest.length ? decoded(rest.join("/")) : null, ...Object.fromEntries(new URLSearchParams(search ?? "")) };
}

export function link(view, id, more = {}) {
  const search = String(new URLSearchParams(more));
  return `#/${view}${id ? `/${segment(id)}` : ""}${search ? `?${search}` : ""}`;
}

export const go = (...place) => { location.hash = link(...place); };

export const keyOf = (item) => `${item.kind}/${item.id}`;
let fetching = null;
let queued = null;

// Two at once could arrive in the wrong order: who comes while one is under way shares the next one.
export function refreshNeeds() {
  if (!fetching) return (fetching = fetchNeeds().finally(() => { fetching = null; }));
  return (queued ??= fetching.catch(() => {}).then(() => { queued = null; return refreshNeeds(); }));
}

async function fetchNeeds() {
  const { items } = await get("/needs-you");
  const before = needs.value;
  needs.value = items;
  if (!before) return;
  const still = new Set(items.map(keyOf));
  for (const item of before) if (!still.has(keyOf(item))) await tellDecided(item);
}

// What was decided about things that have no endpoint of their own: as this page said it, or as the log does.
const said = new Map();
export const decidedHere = (item, status, reason) => learn(keyOf(item), { status, decided_by: me.value.name, reason });

// What has left the list already, before it was known who decided, is told anew.
function learn(key, outcome) {
  if (needs.value?.some((each) => keyOf(each) === key)) said.set(key, outcome);
  else decided.value = decided.value.map((each) => (each.status === UNKNOWN && keyOf(each.item) === key ? told(each.item, outcome, each.at) : each));
}

function learnFrom({ kind, run_id, data = {} }) {
  if (kind === "coding_question_closed") learn(`question/${data.question}`, data.by ? { status: "answered", decided_by: data.by } : { status: "too late" });
  else if (kind === "coding_state_changed" && data.by) for (const each of ["contract", "change"]) learn(`${each}/${run_id}`, { status: data.state === "abandoned" ? "denied" : "approved", decided_by: data.by, reason: data.reason });
  else if (kind === "run_resumed") for (const [action, choice] of Object.entries(data.decided ?? {})) learn(`outcome/${run_id}/${action}`, { status: choice, decided_by: data.decided_by?.[action] });
}

async function tellDecided(item) {
  let outcome = said.get(keyOf(item)) ?? { status: UNKNOWN };
  said.delete(keyOf(item));
  if (item.kind === "approval" || item.kind === "round") {
    outcome = await get(`/approvals/${segment(item.id)}`).catch(() => outcome);
  }
  const newest = told(item, outcome, outcome.decided_at ?? Date.now() / 1000);
  decided.value = [newest, ...decided.value.filter((each) => keyOf(each.item) !== keyOf(item))].slice(0, 20);
  toast(`${item.title}: ${newest.status}${newest.by ? ` by ${newest.by}` : ""}`);
}

const UNKNOWN = "decided"; // it waits no more, and nobody has said why
const told = (item, { status, decided_by: by, reason }, at) => ({ item, status, by, reason, at });

export function listen() {
  on("log", (events) => events.forEach(learnFrom));
  on("needs", () => refreshNeeds().catch(() => {}));
  on("reconnected", () => refreshNeeds().catch(() => {}));
  on("problem", ({ run_id, message }) => toast(`Run ${run_id} cannot go on: ${message}`, "bad"));
}
