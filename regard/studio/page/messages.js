// What stands in the place of something that cannot be shown: not yet, or not at all.
import { make } from "./parts.js";

/** Why something cannot be shown and, where it may help, a button to try once more. */
export function trouble(error, again) {
  const retry = error.again !== false && again ? make("button", { type: "button", onclick: again }, "Try again") : null;
  return make("div", { class: "trouble", role: "alert" }, make("p", {}, error.message || String(error)), retry);
}

export function waiting(words = "One moment …") {
  return make("p", { class: "waiting", role: "status" }, words);
}
