// "New": start a task, a chat, a plan or a coding session in one of the server's folders.
import { html, useState } from "./html.js";
import { post } from "./api.js";
import { Empty, Problem } from "./parts.js";
import { go, may, me, route } from "./state.js";
import { safe } from "./text.js";

const KINDS = [["task", "Task"], ["chat", "Chat"], ["code", "Coding session"], ["plan", "Plan"]];
const ASKED = { task: "What is to be done?", chat: "First message", code: "What is wrong, or wanted?", plan: "Plan (JSON)" };

export function Start() {
  const kind = KINDS.some(([each]) => each === route.value.kind) ? route.value.kind : "task";
  const [form, setForm] = useState({ folder: me.value?.folders[0] ?? "", text: "", model: "", checks: "" });
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = (name) => ({ value: form[name], onInput: (event) => setForm((old) => ({ ...old, [name]: event.target.value })) });
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      const { run_id } = await post("/runs", request(kind, form));
      go("runs", run_id);
    } catch (failed) { setError(failed instanceof SyntaxError ? new Error(`The plan is no JSON: ${failed.message}`) : failed); } finally { setBusy(false); }
  };
  if (!may("start")) return html`<section><${Empty}>Your token lacks the right “start”.</${Empty}></section>`;
  if (!me.value.folders.length) return html`<section><${Empty}>This server was started without a folder to work in. Start it with <code>placet serve start --folder PATH</code>, a folder that you trust.</${Empty}></section>`;
  return html`<section><h2>New</h2><div class="kinds" role="radiogroup" aria-label="Kind">${KINDS.map(([each, label]) => html`<button role="radio" aria-checked=${kind === each} onClick=${() => go("start", null, { kind: each })}>${label}</button>`)}</div>
    <form class="form" onSubmit=${(event) => { event.preventDefault(); send(); }}>
      <label>Folder <select ...${field("folder")} onChange=${field("folder").onInput}>${me.value.folders.map((each) => html`<option value=${each}>${safe(each)}</option>`)}</select></label>
      <label>${ASKED[kind]} <textarea name="text" rows=${kind === "plan" ? 14 : 4} required ...${field("text")}></textarea></label>
      ${kind === "code" && html`<label>Checks, one command per line; without any, those of the repository, or the model drafts some and asks you <textarea name="checks" rows="2" placeholder="pytest -q" ...${field("checks")}></textarea></label>`}
      ${kind !== "plan" && html`<label>Model <input type="text" name="model" placeholder="the configured one" ...${field("model")} /></label>`}
      <${Problem} error=${error} /><button class="good" type="submit" disabled=${busy}>${busy ? "Starting" : "Start"}</button></form></section>`;
}

function request(kind, { folder, text, model, checks }) {
  const named = model.trim() ? { model: model.trim() } : {};
  if (kind === "plan") return { kind, folder, plan: JSON.parse(text) };
  if (kind === "code") return { kind, folder, intent: text, checks: checks.split("\n").map((each) => each.trim()).filter(Boolean), ...named };
  return { kind, folder, text, ...named };
}
