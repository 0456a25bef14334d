// "Needs you": everything that waits for a person, over all runs.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { ApiError, post, segment } from "./api.js";
import { Decision } from "./decision.js";
import { Empty, Status, When, toast } from "./parts.js";
import { decided, decidedHere, keyOf, link, may, needs, refreshNeeds } from "./state.js";
import { safe } from "./text.js";
import { shortcuts } from "./keys.js";

const ANSWERS = {
  approval: (item, answer) => post(`/approvals/${segment(item.id)}/decision`, { ...answer, fingerprint: item.fingerprint }),
  round: (item, answer) => post(`/approvals/${segment(item.id)}/decision`, { ...answer, fingerprint: item.fingerprint }),
  question: (item, { text }) => post(`/questions/${segment(item.id)}/answer`, { text }),
  // What is decided is what is shown: a session that has come further since asks about something else.
  contract: (item, answer) => post(`/code/${segment(item.id)}/decision`, { ...answer, kind: item.kind }),
  change: (item, answer) => post(`/code/${segment(item.id)}/decision`, { ...answer, kind: item.kind }),
  outcome: (item, { choice, output }) => post(`/runs/${segment(item.run_id)}/outcomes`, { action_id: item.action_id, choice, output, asked_at: item.asked_at }),
};

export async function decide(item, answer) {
  try {
    await ANSWERS[item.kind](item, answer);
    answered = keyOf(item);
    if (!item.fingerprint) decidedHere(item, answer.choice ?? { approve: "approved", deny: "denied" }[answer.decision] ?? "answered", answer.reason);
  } catch (error) {
    // Somebody else was quicker: say who, and show what is left.
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    toast(error.message, "bad");
  }
  await refreshNeeds();
}

// Which item is selected: an item, not a position, so that what comes or goes above it does not put another one under
// the finger of somebody who is about to press a key. After an item that was decided here comes the next; after one
// that was decided elsewhere none, until the person chooses.
function useSelection(items) {
  const [selected, setSelected] = useState({ key: null, index: 0 });
  const found = items.findIndex((each) => keyOf(each) === selected.key);
  const index = found >= 0 || (selected.key && answered !== selected.key) ? found : Math.min(selected.index, items.length - 1);
  const key = items[index] && keyOf(items[index]);
  useLayoutEffect(() => { if (index >= 0) setSelected((old) => (old.key === key && old.index === index ? old : { key, index })); }, [key, index]);
  const move = (by) => {
    const next = Math.max(0, Math.min(index < 0 ? selected.index : index + by, items.length - 1));
    if (items[next]) setSelected({ key: keyOf(items[next]), index: next });
  };
  return [index, move];
}

let answered = null; // the key of what this page decided last

export function Needs() {
  const list = useRef(null);
  const items = needs.value;
  const [chosen, move] = useSelection(items ?? []);
  // In the layout: a key that is pressed as soon as the view is seen must not be lost.
  useLayoutEffect(() => shortcuts({
    j: ["next", () => move(1)],
    k: ["previous", () => move(-1)],
    a: ["approve once", () => press(list.current, ["once", "approve"])],
    d: ["deny", () => press(list.current, ["deny"])],
  }), [items, chosen]);
  useEffect(() => { list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }); }, [chosen]);
  return html`<section class="needs"><h2>Needs you</h2>
    ${items == null ? html`<${Empty}>Loading</${Empty}>` : items.length === 0 ? html`<${Empty}>Nothing waits for you.</${Empty}>` : null}
    <div ref=${list}>${items?.map((item, index) => html`<${Decision} key=${keyOf(item)} item=${item} decide=${decide} allowed=${may("decide")} selected=${index === chosen} runLink=${(id) => link("runs", id)} />`)}</div>
    ${decided.value.length > 0 && html`<h3>Decided just now</h3><ul class="decided">${decided.value.map((each) => html`<li key=${each.item.id}><${Status} value=${each.status} /> ${safe(each.item.title)} ${each.by && html`<span>by <strong>${safe(each.by)}</strong></span>`} ${each.reason && html`<span class="faint">“${safe(each.reason)}”</span>`} <${When} at=${each.at} /></li>`)}</ul>`}
  </section>`;
}

// What is marked on the screen is what a key decides, also right after another key.
function press(list, answers) {
  const card = list?.querySelector('[aria-selected="true"]');
  for (const answer of answers) {
    const found = card?.querySelector(`button[data-answer="${answer}"]`);
    if (found) return found.click();
  }
}
