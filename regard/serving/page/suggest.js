// A better translation by the user, sent to /suggest. Only the sentences that were changed are sent.
import { make } from "./dom.js";
import { post } from "./server.js";

/** The run of sentences that an edited translation changes, `{q, s}`; null if nothing was changed. */
export function changedPart(pieces, edited) {
  const whole = pieces.map((piece) => piece.text).join("");
  if (edited.trim() === whole.trim() || !edited.trim()) return null;
  let [first, last] = [0, pieces.length];
  let rest = edited;
  while (first < last && rest.startsWith(pieces[first].text)) rest = rest.slice(pieces[first++].text.length);
  while (last > first && rest.endsWith(pieces[last - 1].text)) rest = rest.slice(0, rest.length - pieces[--last].text.length);
  // A sentence that became longer by a word at its end still begins as it did; so take sentences back in until both sides have words.
  while (first > 0 && !pieces.slice(first, last).some((piece) => piece.source)) rest = pieces[--first].text + rest;
  const q = pieces.slice(first, last).flatMap((piece) => piece.source ?? []).join(" ");
  return q && rest.trim() ? { q, s: rest.trim() } : null;
}

/** The editor, in place of the translation. `done(sent)` is called when it is over. */
export function suggestionEditor(pieces, { source, target }, done, fail) {
  const text = pieces.map((piece) => piece.text).join("");
  const area = make("textarea", { id: "suggestion", dir: "auto", rows: "8", "aria-label": "Your translation" });
  area.value = text;
  const send = make("button", { type: "button", class: "main" }, "Send");
  const cancel = make("button", { type: "button", onclick: () => done("") }, "Cancel");
  send.addEventListener("click", async () => {
    const changed = changedPart(pieces, area.value);
    if (!changed) return done("");
    send.disabled = true;
    try {
      await post("suggest", { ...changed, source, target });
      done("Thank you: your translation is kept for whoever runs this server.");
    } catch (error) {
      send.disabled = false;
      fail(error);
    }
  });
  return { element: make("div", { class: "editor" }, area, make("div", { class: "controls" }, send, cancel)), area };
}
