// "Log": search, costs, and whether the chain of digests holds.
import { html, useState } from "./html.js";
import { get, query } from "./api.js";
import { Chart } from "./chart.js";
import { EventList } from "./events.js";
import { Empty, Problem, Status, useFetched } from "./parts.js";
import { link, route } from "./state.js";
import { duration, plural, safe, usd } from "./text.js";

const TABS = [["events", "Events"], ["costs", "Costs"], ["verify", "Verify"]];
const BY = ["day", "model", "agent", "folder", "run"];

export function Log() {
  const shown = route.value.tab ?? "events";
  return html`<section class="fill"><h2>Log</h2><nav class="tabs" role="tablist">${TABS.map(([key, label]) => html`<a role="tab" aria-selected=${shown === key} href=${link("log", null, { tab: key })}>${label}</a>`)}</nav>
    <div class="tab fill">${shown === "costs" ? html`<${Costs} />` : shown === "verify" ? html`<${Verify} />` : html`<${EventList} path="/log" whole />`}</div></section>`;
}

function Costs() {
  const [by, setBy] = useState("day");
  const { data, error } = useFetched(() => get(query("/log/costs", { by })), by);
  const rows = data?.costs ?? [];
  const days = by === "day" ? rows.filter((row) => row.name) : [];
  const at = (row) => Date.parse(`${row.name}T12:00:00Z`) / 1000;
  return html`<div class="scroll"><div class="toolbar"><select aria-label="By" value=${by} onChange=${(event) => setBy(event.target.value)}>${BY.map((each) => html`<option value=${each}>by ${each}</option>`)}</select></div><${Problem} error=${error} />
    ${days.length > 1 && html`<${Chart} title="Spend per day (USD)" times=${days.map(at)} format=${usd} series=${[{ label: "USD", values: days.map((row) => row.cost_usd ?? 0) }]} />`}
    ${data && (rows.length > 0 ? html`<${Rows} by=${by} rows=${rows} total=${data.total} />` : html`<${Empty}>No run has cost anything yet.</${Empty}>`)}</div>`;
}

const count = (value) => (value == null ? "" : value.toLocaleString("en"));
const COLUMNS = [["runs", (row) => count(row.runs)], ["calls", (row) => count(row.tool_calls)], ["retries", (row) => count(row.retries)], ["time of calls", (row) => duration(row.total_duration_ms)], ["answers", (row) => count(row.model_answers)], ["tokens in", (row) => count(row.input_tokens)], ["tokens out", (row) => count(row.output_tokens)], ["cost", (row) => (row.cost_usd == null ? "not known" : usd(row.cost_usd))]];

function Rows({ by, rows, total }) {
  const line = (name, row) => html`<tr><td>${name}</td>${COLUMNS.map(([, cell]) => html`<td class="number">${cell(row)}</td>`)}</tr>`;
  return html`<div class="tablebox"><table><thead><tr><th>${by}</th>${COLUMNS.map(([label]) => html`<th class="number">${label}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => line(row.name == null ? "not known" : safe(row.name), row))}</tbody><tfoot>${line("all", total)}</tfoot></table></div>`;
}

function Verify() {
  const { data, error, loading, again } = useFetched(() => get("/log/verify"), "verify");
  return html`<div class="scroll"><button onClick=${again}>Verify again</button><${Problem} error=${error} />
    ${loading ? html`<p class="faint">Reading the whole log</p>` : data && html`<p><${Status} value=${data.valid ? "verified" : "failed"} /> ${data.checked != null ? plural(data.checked, "record") : ""} read</p><ul>${(data.findings ?? []).map((each) => html`<li>${safe(each.message)}</li>`)}</ul>`}</div>`;
}
