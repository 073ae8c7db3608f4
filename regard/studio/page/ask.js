// Requests to the server: questions to models, retries, and dropping answers that arrive too late.

/** An error to show on the page. `again`: whether a retry may help. */
export class Trouble extends Error {
  constructor(message, again = false) {
    super(message);
    this.again = again;
  }
}

const SILENT = "The server does not answer. Is it still running?";

/** The JSON of a response. `refused(response, found)` makes the error of one that is not ok. */
export async function answered(path, options, refused = refusal) {
  let response, found;
  try {
    response = await fetch(path, options);
    found = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(SILENT, true);
  }
  if (!response.ok) throw refused(response, found);
  return found;
}

const refusal = (response, found) =>
  new Trouble(found.error ?? found.message ?? response.statusText, response.status >= 500);

/** The answer to a question (a file of regard/studio/questions): `ask("draw_view", {model, text, view}, signal)`. */
export function ask(question, request, signal) {
  return answered(`ask/${encodeURIComponent(question)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
}

/** A GET request: `get("models")`. */
export function get(path, signal) {
  return answered(path, { signal });
}

/**
 * A function of which only the latest call counts. `work(signal, ...given)` is called at once; its answer goes to
 * `show(answer, ...given)`, an error to `fail(error, ...given)`. A new call aborts the one before it (the server stops
 * computing), so an outdated answer is never shown; `.stop()` aborts the last call.
 */
export function latest(work, show, fail) {
  let running = new AbortController();
  const call = async (...given) => {
    running.abort();
    const mine = (running = new AbortController());
    let answer, failure;
    try {
      answer = await work(mine.signal, ...given);
    } catch (error) {
      failure = error;
    }
    if (mine.signal.aborted) return;
    if (failure) fail(failure, ...given);
    else show(answer, ...given);
  };
  call.stop = () => running.abort();
  return call;
}
