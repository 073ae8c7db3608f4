// What is being looked at (view, model, text, layer, ...) stands in the page's address behind #: it can be sent to
// somebody, and the browser's back and forward go through it.

const listeners = new Set();
let current = parsed(location.hash);
let unwritten = 0; // the timer of a change that the address does not tell yet

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

/** All values, as text; what was never set is not there. */
export function read() {
  return { ...current };
}

/**
 * Sets values (null takes one away) and tells all who listen. Each change is a step for the browser's back, unless
 * it is the same step as the last (`same`): a text that grows letter by letter, a slider on its way.
 */
export function change(values, { same = false } = {}) {
  const next = changed(values);
  if (new URLSearchParams(next).toString() === new URLSearchParams(current).toString()) return;
  if (same) {
    current = next;
    clearTimeout(unwritten);
    unwritten = setTimeout(write, 200); // browsers do not like an address that changes many times a second
  } else {
    write();
    current = next;
    history.pushState(null, "", link());
  }
  tell();
}

function write() {
  if (!unwritten) return;
  clearTimeout(unwritten);
  unwritten = 0;
  history.replaceState(null, "", link());
}

/** Calls `heard(values)` after every change, also by back and forward; gives a function that ends it. */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

function tell() {
  for (const heard of [...listeners]) heard(read());
}

addEventListener("popstate", () => {
  clearTimeout(unwritten);
  unwritten = 0;
  current = parsed(location.hash);
  tell();
});
addEventListener("pagehide", write);
