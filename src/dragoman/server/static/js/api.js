// Requests to the server, at addresses beside the page's own. All throw a Refusal; AbortError where a signal says so.
import { eventsOf } from "./events.js";
import { key } from "./key.js";
import { Refusal, refusalOf } from "./refusal.js";

async function fetched(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    throw reachable(error);
  }
  if (!answer.ok) throw await refusalOf(answer);
  return answer;
}

const reachable = (error) => (error.name === "AbortError" || error instanceof Refusal ? error : new Refusal(0));

const post = (path, body, signal) => fetched(path, {
  method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json", ...key.headers() },
});

// An answer that is no JSON is not the server's: a page of something between.
async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    throw reachable(error);
  }
}

export const get = async (path) => read(await fetched(path, { headers: key.headers() }));

export const ask = async (path, body, signal) => read(await post(path, body, signal));

// A translation while it is made: piece(text) for each piece; gives the whole answer.
export async function stream(body, signal, piece) {
  const answer = await post("v1/translate", { ...body, stream: true }, signal);
  let whole = null;
  try {
    for await (const { name, data } of eventsOf(answer)) {
      if (name === "piece") piece(data.text);
      else if (name === "done") whole = data;
      else if (name === "error") throw new Refusal(data.status ?? 500, data.error);
    }
  } catch (error) {
    throw reachable(error);
  }
  if (!whole) throw new Refusal(0); // the connection ended in the middle
  return whole;
}
