// The page's state (view, model, text, layer, ...) is in its address after the #: it can be shared as a link, and the
// browser's back and forward buttons move through it.

const listeners = new Set();
let current = parsed(location.hash);
let unwritten = 0; // the timer of a change that is not in the address yet

function parsed(hash) {
  return Object.fromEntries(new URLSearchParams(hash.slice(1)));
}

function changed(values) {
  const next = { ...current };
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined) delete next[name];
    else next[name] = String(value);
  }
  return next;
}

/** The address of this page with some values changed. */
export function link(values = {}) {
  return `#${new URLSearchParams(changed(values))}`;
}

/** All values that are set, as text. */
export function read() {
  return { ...current };
}

/**
 * Sets values (null removes one) and notifies the listeners. Each change is an entry of the browser's history, unless it
 * continues the last one (`same`): typing, a slider that is being moved.
 */
export function change(values, { same = false } = {}) {
  const next = changed(values);
  if (new URLSearchParams(next).toString() === new URLSearchParams(current).toString()) return;
  if (same) {
    current = next;
    clearTimeout(unwritten);
    unwritten = setTimeout(write, 200); // browsers limit how often the address may change
  } else {
    write();
    current = next;
    history.pushState(null, "", link());
  }
  notify();
}

function write() {
  if (!unwritten) return;
  clearTimeout(unwritten);
  unwritten = 0;
  history.replaceState(null, "", link());
}

/** Calls `heard(values)` after every change, including back and forward; returns a function that unsubscribes. */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

function notify() {
  for (const heard of [...listeners]) heard(read());
}

addEventListener("popstate", () => {
  clearTimeout(unwritten);
  unwritten = 0;
  current = parsed(location.hash);
  notify();
});
addEventListener("pagehide", write);
