// Calls of the server's JSON API. A failed call is an ApiError with the server's own code and sentence.

// Beside the folder of this file, wherever an application has mounted the server.
const ROOT = new URL("..", import.meta.url).pathname;
export const API = `${ROOT}api/v1`;

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function call(method, address, body) {
  const options = { method, headers: { Accept: "application/json" }, credentials: "same-origin" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.headers["X-Placet"] = "1";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new ApiError(0, "server.away", "The server does not answer. Is `placet serve` still running?");
  }
  const data = await answer.json().catch(() => null);
  if (answer.ok) return data;
  const error = data?.error ?? {};
  throw new ApiError(answer.status, error.code ?? `http.${answer.status}`, error.message ?? `The server answered ${answer.status}.`);
}

export const get = (path) => call("GET", API + path);
export const post = (path, body = {}) => call("POST", API + path, body);
export const logIn = (token) => call("POST", `${ROOT}login`, { token });

// Query strings leave out what is not set.
export function query(path, parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
}

export const segment = encodeURIComponent;
