// One model's answer to the sentence that is typed: its translation, what it took, and where it looked.

import { trouble, waiting } from "./messages.js";
import { fill, make } from "./parts.js";
import { pair } from "./pair.js";
import { percent } from "./words.js";

const MUTE =
  "This model has no attention. All that it knows of the sentence when it begins to write is one vector: " +
  "there is nothing to look at.";
const NOTHING = "It wrote nothing: it ended at once.";
const CUT = "It did not come to an end: the limit of length cut it off.";

/**
 * A panel asks by itself (`ask(request)`) and shows the latest answer alone: `onanswer(answer)` hears of it, with null
 * where there is none. `onhover` and `onpick` are told (panel, side, place).
 */
export function panel(studio, model, { onanswer, onhover, onpick }) {
  const facts = make("p", { class: "facts" });
  const body = make("div", { class: "body" }, waiting());
  const header = make("header", {}, make("h2", {}, model.name), make("p", { class: "kind" }, model.title ?? ""), facts);
  const element = make("article", { class: "panel", "data-model": model.name, "aria-busy": "false" }, header, body);
  let asked = ""; // what is shown or under way
  let form = "";

  const load = studio.latest(
    (signal, request) => studio.ask("look", request, signal),
    (answer) => {
      own.answer = answer;
      form = "";
      settle();
      own.show();
    },
    (error, request) => {
      own.answer = null;
      settle();
      clear();
      fill(body, trouble(error, () => own.ask(request)));
      asked = "";
      onanswer(own, null);
    },
  );

  function settle() {
    element.classList.remove("outdated");
    element.setAttribute("aria-busy", "false");
  }

  function clear() {
    own.pair?.leave();
    own.pair = null;
    facts.textContent = "";
    delete element.dataset.text;
  }

  const own = {
    element,
    model,
    answer: null,
    pair: null,
    ask(request) {
      const wanted = JSON.stringify(request);
      if (wanted === asked) return own.show();
      own.outdate();
      asked = wanted;
      load(request);
    },
    /** What is shown answers a text that is no longer there: it stays, faded, until the next answer comes. */
    outdate() {
      load.stop();
      asked = "";
      element.classList.add("outdated");
      element.setAttribute("aria-busy", "true");
    },
    show() {
      const { answer } = own;
      const tokens = studio.state.units === "tokens";
      if (!answer || form === String(tokens)) return;
      form = String(tokens);
      clear();
      own.pair = pair(answer, {
        tokens,
        names: { source: "What was read", target: "What was written" },
        onhover: (side, place) => onhover(own, side, place),
        onpick: (side, place) => onpick(own, side, place),
      });
      element.dataset.text = answer.source.text;
      const sure = percent(Math.exp(answer.log_probability));
      facts.textContent = `${seconds(answer.seconds)} · score ${signed(answer.score)} · probability ${sure}`;
      const notes = [!answer.attention && MUTE, !answer.target.text && NOTHING, !answer.finished && CUT];
      fill(body, own.pair.element, notes.map((note) => note && make("p", { class: "note" }, note)));
      own.pair.rest();
      onanswer(own, answer);
    },
    leave() {
      load.stop();
      own.pair?.leave();
    },
  };
  return own;
}

/** A score with a true minus sign. */
export const signed = (value) => value.toFixed(2).replace("-", "−");
const seconds = (value) => (value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(1)} s`);
