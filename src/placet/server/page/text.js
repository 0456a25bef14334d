// Text for people. Whatever a tool, model, file or person wrote goes through `safe` before it is shown.
//
// Keep true:
// 1. The page never builds markup from text: it is always put in as a text node.
// 2. Characters that steer a terminal, hide, or reorder what is read are shown as their code points.

// As `safe_text.py` has them: C0 without tab and newline, DEL, C1, soft hyphen, direction marks, line separators;
// blanks, fillers, joiners and selectors that nobody sees; half a character; tags. And the two joiners that a terminal
// is left, because here somebody decides. The selector behind a sign that is an emoji with it stays.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<![#*0-9\xa9\xae\u203c-\u3299\u{1f000}-\u{1faff}])\ufe0f/gu;

export function safe(value) {
  const text = typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, (found) => `\u27e8U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

export function cut(value, limit) {
  const text = safe(value);
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

export const pretty = (value) => safe(JSON.stringify(value, null, 2));

// Times are seconds since the epoch.
export function clock(seconds) {
  return seconds == null ? "" : new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
}

export function moment(seconds) {
  if (seconds == null) return "";
  const at = new Date(seconds * 1000);
  const today = new Date().toDateString() === at.toDateString();
  return today ? clock(seconds) : `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ${at.toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit" })}`;
}

// With seconds, whatever day it was.
export function stamp(seconds) {
  if (seconds == null) return "";
  const at = new Date(seconds * 1000);
  return new Date().toDateString() === at.toDateString() ? clock(seconds) : `${at.toLocaleDateString([], { month: "2-digit", day: "2-digit" })} ${clock(seconds)}`;
}

export function ago(seconds, now = Date.now() / 1000) {
  if (seconds == null) return "";
  const passed = Math.max(0, now - seconds);
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} d ago`;
}

export function duration(ms) {
  if (ms == null) return "";
  if (ms > 0 && ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

// Plans are named by their file, of which the last part says most.
export const titleOf = ({ kind, title, source, run_id }) => (kind === "plan" && title.startsWith("/") ? title.split("/").pop() : title || source || run_id);

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const usd = (value) => (value == null ? "" : value === 0 ? "$0" : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(2)}`);
