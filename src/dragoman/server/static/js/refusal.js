// What the server refused, and how that is said.
import { key } from "./key.js";

const SAYINGS = {
  0: "The server cannot be reached.",
  401: "This server asks for an API key.",
  403: "This server asks for an API key.",
  413: "This is more than the server takes at once.",
  429: "The server is busy.",
  500: "The server failed.",
  502: "The server cannot be reached.",
  503: "The server takes nothing more just now.",
  504: "The translation took too long.",
};
const PASSING = [0, 429, 500, 502, 503, 504];

// status 0: no answer at all. seconds: after which the server says it may be tried again, or null.
export class Refusal extends Error {
  constructor(status, reason = "", seconds = null) {
    super(reason);
    this.status = status;
    this.seconds = seconds;
  }

  get needsKey() {
    return this.status === 401 || this.status === 403;
  }

  // Whether the same may work later.
  get passes() {
    return PASSING.includes(this.status);
  }

  get title() {
    return SAYINGS[this.status] ?? "The server refused this.";
  }

  // What to do about it, or what else the server said.
  get advice() {
    if (this.status === 403 && !key.value) return "Type it in the field “API key” above.";
    if (this.status === 0) return "Check the connection, and that the server runs.";
    if (this.status === 429 && this.seconds) return `Too many requests are waiting; it asks for ${this.seconds} s of patience.`;
    return this.message ? this.message[0].toUpperCase() + this.message.slice(1) : `It gave no reason (status ${this.status}).`;
  }
}

// The refusal that an answer holds; a proxy before the server may answer in another form.
export async function refusalOf(answer) {
  let reason = "";
  try {
    reason = String((await answer.json()).error ?? "");
  } catch {
    // Not ours; the status says enough.
  }
  const seconds = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10);
  return new Refusal(answer.status, reason, Number.isNaN(seconds) ? null : seconds);
}
