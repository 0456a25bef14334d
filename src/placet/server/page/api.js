// Calls of the server's JSON API. A failed call is an ApiError with the server's own code and sentence.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function call(method, path, body) {
  const options = { method, headers: { Accept: "application/json" }, credentials: "same-origin" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.headers["X-Placet"] = "1";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, options);
  } catch {
    throw new ApiError(0, "server.away", "The server does not answer. Is `placet serve` still running?");
  }
  const data = await answer.json().catch(() => null);
  if (answer.ok) return data;
  const error = data?.error ?? {};
  throw new ApiError(answer.status, error.code ?? `http.${answer.status}`, error.message ?? `The server answered ${answer.status}.`);
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);

// Query strings leave out what is not set.
export function query(path, parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
}

export const segment = encodeURIComponent;
