// A decision link: one decision, on whatever device the link was sent to. Looking at it consumes nothing.
import { html, render, useState } from "./html.js";
import { get, post, segment } from "./api.js";
import { Decision } from "./decision.js";
import { Problem, Status, useFetched } from "./parts.js";
import { safe } from "./text.js";

const code = location.pathname.split("/").pop();

function Page() {
  const [ended, setEnded] = useState(null);
  const { data, error, loading } = useFetched(() => get(`/links/${segment(code)}`), code);
  const decide = async (item, answer) => setEnded(await post(`/links/${segment(code)}`, answer));
  if (ended) return html`<main class="narrow"><h1>Decided</h1><p><${Status} value=${ended.status} /> ${safe(data.item.title)}</p><p class="faint">You can close this page.</p></main>`;
  if (error) return html`<main class="narrow"><h1>Placet</h1><${Problem} error=${error} /><p class="faint">Links work once and expire. What waits is on the page of the server, and in <code>placet approvals</code>.</p></main>`;
  if (loading) return html`<main class="narrow"><p class="empty">Loading</p></main>`;
  return html`<main class="narrow"><h1>Placet asks</h1><${Decision} item=${data.item} decide=${decide} allowed once /></main>`;
}

const app = document.getElementById("app");
app.replaceChildren(); // what stands there for browsers without scripts
render(html`<${Page} />`, app);
