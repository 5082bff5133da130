// Asking the server: JSON, with the token where one is needed, and errors in the server's own words.
let token = sessionStorage.getItem("wisp-token") || "";

export function set_token(text) {
  token = text;
  sessionStorage.setItem("wisp-token", text);
}

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options, headers });
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  const body = await answer.text();
  if (answer.ok) return body;
  let words = `The server answers ${answer.status}.`;
  try {
    words = JSON.parse(body).error.message;
  } catch { /* not the server's own words */ }
  throw new Refused(answer.status, words);
}

export const models = async () => JSON.parse(await ask("/models")).models;

export const predict = async (question) =>
  JSON.parse(await ask("/predict", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) }));

// Prometheus' text as a list of { name, labels, value }.
export async function metrics() {
  const list = [];
  for (const line of (await ask("/metrics")).split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    list.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return list;
}
