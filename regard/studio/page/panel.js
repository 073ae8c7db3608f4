// One model's translation of the text: the alignment, its score and the time it took.

import { trouble, waiting } from "./messages.js";
import { fill, make } from "./dom.js";
import { lang, languagesOf } from "./direction.js";
import { alignment } from "./alignment.js";
import { percent } from "./words.js";

const NO_ATTENTION =
  "This model has no attention: a single vector is all the decoder gets of the sentence, so there is no alignment to show.";
const EMPTY = "The translation is empty: the model ended it at once.";
const CUT = "The translation was cut off at the length limit.";

/**
 * A panel sends its own requests (`ask(request)`) and shows only the latest answer; `onanswer(panel, answer)` is called
 * with it, or with null after an error. `onhover` and `onpick` get (panel, side, index).
 */
export function panel(studio, model, { onanswer, onhover, onpick }) {
  const facts = make("p", { class: "facts" });
  const body = make("div", { class: "body" }, waiting());
  const header = make("header", {}, make("h2", {}, model.name), make("p", { class: "kind" }, model.title ?? ""), facts);
  const element = make("article", { class: "panel", "data-model": model.name, "aria-busy": "false" }, header, body);
  let asked = ""; // the request that is shown or under way
  let form = "";

  const load = studio.latest(
    (signal, request) => studio.ask("translate", request, signal),
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
    /** Fades the answer, which is of an older text, until the next one arrives. */
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
      const { source, target } = languagesOf(answer, model);
      own.pair = alignment(answer, {
        tokens,
        langs: { source: lang(source), target: lang(target) },
        names: { source: "Source", target: "Translation" },
        onhover: (side, place) => onhover(own, side, place),
        onpick: (side, place) => onpick(own, side, place),
      });
      element.dataset.text = answer.source.text;
      const sure = percent(Math.exp(answer.log_probability));
      facts.textContent = `${seconds(answer.seconds)} · score ${signed(answer.score)} · probability ${sure}`;
      const notes = [!answer.attention && NO_ATTENTION, !answer.target.text && EMPTY, !answer.finished && CUT];
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
