// The frame of the page: navigation, the view that the address names, live connection, keyboard.
import { html, render, signal, useEffect, useLayoutEffect, useState } from "./html.js";
import { ApiError, get, logIn } from "./api.js";
import { connected, on, start } from "./live.js";
import { Problem, Toasts } from "./parts.js";
import { go, link, listen, me, refreshNeeds, route, waiting } from "./state.js";
import { keyHelp, keysNow, shortcuts } from "./keys.js";
import { safe } from "./text.js";
import { Agents } from "./agents.js";
import { Code } from "./code.js";
import { Log } from "./log.js";
import { Loops } from "./loops.js";
import { Memory } from "./memory.js";
import { Needs } from "./needs.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";
import { Start } from "./start.js";

const VIEWS = [["needs", "Needs you", Needs], ["runs", "Runs", Runs], ["code", "Code", Code], ["loops", "Loops", Loops], ["agents", "Agents", Agents], ["memory", "Memory", Memory], ["log", "Log", Log], ["start", "New", Start]];
const failed = signal(null);

function Page() {
  useLayoutEffect(() => shortcuts({
    ...Object.fromEntries(VIEWS.map(([view, label], index) => [String(index + 1), [label, () => go(view)]])),
    n: ["new", () => go("start")],
    "/": ["search", () => document.querySelector("main input[type=search], main select")?.focus()],
    "?": ["keys", () => { keyHelp.value = !keyHelp.value; }],
  }), []);
  useEffect(() => { document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); }, [route.value.view]); // on phones the views are a strip
  useEffect(() => { document.title = waiting.value ? `(${waiting.value}) Placet` : "Placet"; }, [waiting.value]);
  if (failed.value) return html`<main class="narrow"><h1>Placet</h1>${failed.value.status === 401 ? html`<${SignIn} />` : html`<${Problem} error=${failed.value} />`}</main>`;
  const { view, id } = route.value;
  const found = VIEWS.find(([name]) => name === view);
  const Shown = view === "runs" && id ? Run : found?.[2];
  return html`<nav class="side" aria-label="Views"><a class="brand" href=${link("needs")}>Placet</a>
      ${VIEWS.map(([name, label]) => html`<a href=${link(name)} aria-current=${view === name ? "page" : undefined}>${label}${name === "needs" && waiting.value > 0 ? html` <span class="count">${waiting.value}</span>` : null}</a>`)}
      <span class="foot"><span class="live" data-on=${connected.value} title=${connected.value ? "Live" : "Not connected; trying again"}>${connected.value ? "live" : "reconnecting"}</span>${me.value?.tenant && html`<span>${safe(me.value.tenant)}</span>`}<button class="plain" aria-label="Keys" onClick=${() => { keyHelp.value = true; }}>?</button></span></nav>
    <main>${!me.value ? html`<p class="empty">Loading</p>` : Shown ? html`<${Shown} key=${`${view}/${id ?? ""}`} />` : html`<p class="empty">There is no view “${safe(view)}”.</p>`}</main>
    <${Toasts} />${keyHelp.value && html`<${Keys} />`}`;
}

function SignIn() {
  const [error, setError] = useState(null);
  const send = (event) => {
    event.preventDefault();
    logIn(new FormData(event.target).get("token").trim()).then(() => location.reload(), setError);
  };
  return html`<p>This browser is not signed in. Open the link that <code>placet serve</code> printed; it works once, within ten minutes.</p>
    <p class="faint">Or put in a token: yours is in the file that <code>placet serve</code> names, <code>placet serve token add NAME</code> makes one for somebody else.</p>
    <form class="say" onSubmit=${send}><input type="password" name="token" required autocomplete="current-password" aria-label="Token" placeholder="Token" /><button class="good">Sign in</button></form><${Problem} error=${error} />`;
}

const Keys = () => html`<div class="overlay" role="dialog" aria-label="Keys" onClick=${() => { keyHelp.value = false; }}><div class="sheet"><h3>Keys</h3><dl>${keysNow.value.flatMap((map) => Object.entries(map)).map(([key, [label]]) => html`<dt><kbd>${key}</kbd></dt><dd>${label}</dd>`)}</dl></div></div>`;

async function boot() {
  try {
    me.value = await get("/me");
    listen();
    on("signed_out", () => { failed.value = new ApiError(401, "token", ""); });
    start();
    await refreshNeeds();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed.value = error;
  }
}

const app = document.getElementById("app");
app.replaceChildren(); // what stands there for browsers without scripts
render(html`<${Page} />`, app);
boot();
