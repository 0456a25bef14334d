// Keyboard: single keys, never while somebody types. Views add theirs while they are shown.
import { signal } from "./html.js";

const REPEATED = new Set(["j", "k"]);
const active = signal([]);
export const keyHelp = signal(false);
export const keysNow = active;

export function shortcuts(map) {
  active.value = [...active.value, map];
  return () => { active.value = active.value.filter((each) => each !== map); };
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { keyHelp.value = false; document.activeElement?.blur?.(); return; }
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (keyHelp.value) { keyHelp.value = false; return; } // what lies behind the list of keys is not meant
  if (event.repeat && !REPEATED.has(event.key)) return; // a key that is held down decides once
  for (const map of [...active.value].reverse()) {
    if (map[event.key]) {
      event.preventDefault();
      map[event.key][1]();
      return;
    }
  }
});
