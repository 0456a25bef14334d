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

// "#/runs/ID?tab=events" -> {view: "runs", id: "ID", tab: "events"}
function parse(hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view: view || "needs", id: rest.length ? decodeURIComponent(rest.join("/")) : null, ...Object.fromEntries(new URLSearchParams(search ?? "")) };
}

export function link(view, id, more = {}) {
  const search = String(new URLSearchParams(more));
  return `#/${view}${id ? `/${segment(id)}` : ""}${search ? `?${search}` : ""}`;
}

export const go = (...place) => { location.hash = link(...place); };

const keyOf = (item) => `${item.kind}/${item.id}`;
let fetching = null;

export async function refreshNeeds() {
  // Two at once could arrive in the wrong order: the later call waits for the one under way.
  while (fetching) await fetching;
  fetching = get("/needs-you").finally(() => { fetching = null; });
  const { items } = await fetching;
  const before = needs.value;
  needs.value = items;
  if (!before) return;
  const still = new Set(items.map(keyOf));
  for (const item of before) if (!still.has(keyOf(item))) await tellDecided(item);
}

async function tellDecided(item) {
  let outcome = { status: "decided" };
  if (item.kind === "approval" || item.kind === "round") {
    outcome = await get(`/approvals/${segment(item.id)}`).catch(() => outcome);
  }
  const told = { item, status: outcome.status, by: outcome.decided_by, reason: outcome.reason, at: outcome.decided_at ?? Date.now() / 1000 };
  decided.value = [told, ...decided.value.filter((each) => keyOf(each.item) !== keyOf(item))].slice(0, 20);
  toast(`${item.title}: ${told.status}${told.by ? ` by ${told.by}` : ""}`);
}

export function listen() {
  on("needs", () => refreshNeeds().catch(() => {}));
  on("reconnected", () => refreshNeeds().catch(() => {}));
  on("problem", ({ run_id, message }) => toast(`Run ${run_id} cannot go on: ${message}`, "bad"));
}
