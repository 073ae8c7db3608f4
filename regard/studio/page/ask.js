// What the page asks of the server, and what becomes of an answer that comes too late or not at all.

/** Something could not be shown. `again`: whether it may well work another time. */
export class Trouble extends Error {
  constructor(message, again = false) {
    super(message);
    this.again = again;
  }
}

const SILENT = "The studio does not answer. Is it still running?";

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(SILENT, true);
  }
  let found;
  try {
    found = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(SILENT, true);
  }
  if (!response.ok) throw new Trouble(found.error ?? found.message ?? response.statusText, response.status >= 500);
  return found;
}

/** The answer to a question (a file of regard/studio/questions): `ask("pictures", {model, text, view}, signal)`. */
export function ask(question, request, signal) {
  return answered(`ask/${encodeURIComponent(question)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
}

/** What the server tells without being asked a question: `get("models")`. */
export function get(path, signal) {
  return answered(path, { signal });
}

/**
 * A function of which only the latest call counts. `work(signal, ...given)` is called at once and its answer goes to
 * `show(answer, ...given)`, what it throws to `fail(trouble, ...given)`. A new call ends the one before it (the server
 * stops computing), so that an old answer never shows; `.stop()` ends the last.
 */
export function latest(work, show, fail) {
  let running = new AbortController();
  const call = async (...given) => {
    running.abort();
    const mine = (running = new AbortController());
    let answer, trouble;
    try {
      answer = await work(mine.signal, ...given);
    } catch (error) {
      trouble = error;
    }
    if (mine.signal.aborted) return;
    if (trouble) fail(trouble, ...given);
    else show(answer, ...given);
  };
  call.stop = () => running.abort();
  return call;
}
