// "Log": search, costs, and whether the chain of digests holds.
import { html, useState } from "./html.js";
import { get, query } from "./api.js";
import { Chart } from "./chart.js";
import { EventList } from "./events.js";
import { Problem, Status, useFetched } from "./parts.js";
import { link, route } from "./state.js";
import { plural, safe, usd } from "./text.js";

const TABS = [["events", "Events"], ["costs", "Costs"], ["verify", "Verify"]];
const BY = ["day", "model", "agent", "folder", "run"];

export function Log() {
  const shown = route.value.tab ?? "events";
  return html`<section class="fill"><h2>Log</h2><nav class="tabs" role="tablist">${TABS.map(([key, label]) => html`<a role="tab" aria-selected=${shown === key} href=${link("log", null, { tab: key })}>${label}</a>`)}</nav>
    <div class="tab fill">${shown === "costs" ? html`<${Costs} />` : shown === "verify" ? html`<${Verify} />` : html`<${EventList} path="/log" />`}</div></section>`;
}

function Costs() {
  const [by, setBy] = useState("day");
  const { data, error } = useFetched(() => get(query("/log/costs", { by })), by);
  const rows = data?.rows ?? [];
  const days = by === "day" ? rows.filter((row) => /^\d{4}-\d\d-\d\d$/.test(row.key ?? row.name ?? row.day)) : [];
  const at = (row) => Date.parse(`${row.key ?? row.name ?? row.day}T12:00:00Z`) / 1000;
  return html`<div class="scroll"><select aria-label="By" value=${by} onChange=${(event) => setBy(event.target.value)}>${BY.map((each) => html`<option value=${each}>by ${each}</option>`)}</select><${Problem} error=${error} />
    ${days.length > 1 && html`<${Chart} title="Spend per day (USD)" times=${days.map(at)} format=${usd} series=${[{ label: "USD", values: days.map((row) => row.cost_usd ?? row.cost ?? 0) }]} />`}
    ${rows.length > 0 && html`<${Rows} rows=${rows} />`}</div>`;
}

function Rows({ rows }) {
  const columns = Object.keys(rows[0]);
  const cell = (column, value) => (value == null ? "" : typeof value === "number" ? (/cost|usd/.test(column) ? usd(value) : value.toLocaleString("en")) : safe(value));
  return html`<div class="tablebox"><table><thead><tr>${columns.map((each) => html`<th>${safe(each).replaceAll("_", " ")}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${columns.map((each) => html`<td class=${typeof row[each] === "number" ? "number" : ""}>${cell(each, row[each])}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Verify() {
  const { data, error, loading, again } = useFetched(() => get("/log/verify"), "verify");
  return html`<div class="scroll"><button onClick=${again}>Verify again</button><${Problem} error=${error} />
    ${loading ? html`<p class="faint">Reading the whole log</p>` : data && html`<p><${Status} value=${data.valid ? "verified" : "failed"} /> ${data.checked != null ? plural(data.checked, "record") : ""} read</p><ul>${(data.findings ?? []).map((each) => html`<li>${safe(typeof each === "string" ? each : each.message ?? JSON.stringify(each))}</li>`)}</ul>`}</div>`;
}
