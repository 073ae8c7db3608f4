// Placeholders: an error message, or a note that something is loading.
import { make } from "./dom.js";

/** An error message with, where a retry may help, a button. */
export function trouble(error, again) {
  const retry = error.again !== false && again ? make("button", { type: "button", onclick: again }, "Try again") : null;
  return make("div", { class: "trouble", role: "alert" }, make("p", {}, error.message || String(error)), retry);
}

export function waiting(words = "Loading …") {
  return make("p", { class: "waiting", role: "status" }, words);
}
