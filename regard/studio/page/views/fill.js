// A masked language model: the most probable tokens of each blank of a text, and what a blank attended to.
import { bars, share } from "../bars.js";
import { textbox, textOf } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { ink, sentence, shown } from "../words.js";

export const title = "Fill-in";
export const about =
  "Write _ for a missing word, and a masked language model says which tokens fit: the longer a bar, the more likely the token. Click a token to put it into the text.";
export const more =
  "A blank may also be the model's own mask token, such as [MASK]. A blank is one token, and the model fills all blanks at once, each without knowing what stands in the others: put a word into one, and see the others change. Where a word begins, only tokens that begin one are listed; the probabilities are shares of all tokens. Below, the attention of a blank: the tokens on both sides from which it collected what it knows.";
export const code = [
  "regard/task/fill.py:Filler.hidden",
  "regard/model/masked_language_model.py:MaskedLanguageModel",
  "regard/inspection/record/fill.py:record_filling",
];
export const suits = (model) => model.task === "fill";
export const lacks = "is not a masked language model";
export const without = [
  "There is no masked language model here. Train one (",
  make("code", {}, "regard train bert-english"),
  ") or import BERT (",
  make("code", {}, "regard import hf:google-bert/bert-base-cased"),
  "), then open its folder: ",
  make("code", {}, "regard studio FOLDER"),
  ".",
];
export const ofModel = ["blank"];

const PAUSE = 60; // milliseconds without a key press before a request: bars follow what is typed
const SHOWN = 10;

export function show(place, studio) {
  const box = textbox(studio, "Text with blanks");
  const filled = make("p", { class: "filled" });
  const choices = make("div", { class: "blanks" });
  const controls = make("div", { class: "controls" });
  const read = make("div", { class: "reading" });
  const exact = make("p", { class: "exact", "aria-live": "polite" });
  const heads = make("p", { class: "faint" });
  const looked = make("section", { "aria-label": "Attention of a blank", hidden: true }, make("h2", {}, "Attention of a blank"), controls, read, exact, heads);
  fill(place, box.element, filled, choices, looked);
  place.classList.add("fill-in");
  let last = "";
  let lastLook = "";
  let answer = null; // with the text and the model that it is of
  let counts = null; // {model, layers, heads}

  const request = () => ({ model: studio.model.name, text: textOf(studio) });
  const within = (name, count) => {
    const number = Number(studio.state[name]);
    return studio.state[name] !== undefined && number >= 0 && number < count ? Math.floor(number) : null;
  };

  const load = studio.latest(
    (signal, wanted) => studio.ask("fill", { ...wanted, count: SHOWN }, signal),
    (found, wanted) => {
      answer = { ...found, ...wanted, filled: found.text };
      draw();
      lookIfChanged();
      studio.say(answer.blanks.length ? `Filled: ${answer.filled}` : "There is no blank in the text.");
    },
    (error, wanted) => {
      answer = null;
      looked.hidden = true;
      fill(filled);
      fill(choices, trouble(error, () => load(wanted)));
    },
  );
  const look = studio.latest(
    (signal, wanted) => studio.ask("fill", wanted, signal),
    (found, wanted) => {
      counts = { model: wanted.model, layers: found.layers, heads: found.heads };
      drawAttention(found, wanted);
    },
    (error, wanted) => {
      fill(exact);
      fill(heads);
      fill(read, trouble(error, () => look(wanted)));
    },
  );
  const later = debounce(load, PAUSE);
  const laterLook = debounce(look, 3 * PAUSE);

  /** The text with some blanks replaced: `words` has a word or null for each. */
  const replaced = (words) => answer.between.map((part, at) => part + (at < answer.written.length ? (words[at] ?? answer.written[at]) : "")).join("");

  function pick(words) {
    if (answer && answer.text === textOf(studio)) studio.change({ text: replaced(words) });
  }

  function draw() {
    const { blanks, between } = answer;
    const focused = document.activeElement?.closest(".fill-in .blanks button, .fill-in .filled button");
    const number = focused ? [...choices.children].indexOf(focused.closest("section")) : -1;
    if (!blanks.length) {
      fill(filled, "There is no blank in the text: write _ where a word is wanted.");
      fill(choices);
      if (focused) place.querySelector("textarea").focus();
      return;
    }
    const best = blanks.map((all) => all[0]?.word ?? null);
    fill(
      filled,
      make("bdi", {}, between.map((part, at) => [part, at < blanks.length ? make("b", {}, best[at] ?? answer.written[at]) : ""])),
      " ",
      make("button", { type: "button", class: "plain", onclick: () => pick(best) }, blanks.length > 1 ? "Fill all" : "Fill"),
    );
    fill(choices, blanks.map((all, number) => column(all, number)));
    if (focused) choices.children[Math.max(0, Math.min(number, blanks.length - 1))].querySelector("button")?.focus();
  }

  function column(all, number) {
    const name = answer.blanks.length > 1 ? `Blank ${number + 1}` : "Blank";
    const longest = Math.max(...all.map((one) => one.probability), 1e-12);
    const rows = all.map((one) => ({
      label: shown(one.word),
      value: one.probability,
      length: one.probability / longest,
      said: share(one.probability),
      onpick: () => pick(answer.blanks.map((_, at) => (at === number ? one.word : null))),
    }));
    const rest = 1 - all.reduce((sum, one) => sum + one.probability, 0);
    return make(
      "section",
      { "aria-label": name },
      make("h2", {}, name),
      all.length ? bars(rows, { name: `${name}: press a token to put it into the text` }) : make("p", { class: "faint" }, "No token of this model is text that fits here."),
      make("p", { class: "faint" }, `all others: ${share(Math.max(0, rest))}`),
    );
  }

  /** Asks for the attention of the chosen blank, if it is not the one that is shown. */
  function lookIfChanged() {
    if (!answer || answer.text !== textOf(studio) || answer.model !== studio.model.name) return;
    looked.hidden = !answer.blanks.length || !studio.model.attention;
    if (looked.hidden) {
      lastLook = "";
      laterLook.cancel();
      look.stop();
      return;
    }
    const wanted = { model: answer.model, text: answer.text, blank: within("blank", answer.blanks.length) ?? 0 };
    for (const name of ["layer", "head"]) {
      const number = within(name, counts?.model === wanted.model ? counts[`${name}s`] : 1000);
      if (number !== null) wanted[name] = number;
    }
    const key = JSON.stringify(wanted);
    if (key === lastLook) return;
    const before = lastLook ? JSON.parse(lastLook) : {};
    lastLook = key;
    if (before.model !== wanted.model) fill(read, waiting());
    look.stop();
    (before.text && before.text !== wanted.text ? laterLook : look)(wanted);
  }

  function drawAttention(found, wanted) {
    const held = [...controls.querySelectorAll("select")].map((one) => one === document.activeElement).indexOf(true);
    const numbers = (count) => Array.from({ length: count }, (_, number) => number);
    const picker = (label, name, options, chosen) =>
      select(label, options, chosen, (value) => studio.change({ [name]: value === "" ? null : value }));
    const several = answer.blanks.length > 1;
    fill(
      controls,
      several ? picker("Blank", "blank", answer.blanks.map((_, at) => [at || "", at + 1]), wanted.blank || "") : null,
      picker("Layer", "layer", [["", "mean of all"], ...numbers(found.layers)], wanted.layer ?? ""),
      picker("Head", "head", [["", "mean of all"], ...numbers(found.heads)], wanted.head ?? ""),
    );
    if (held >= 0) controls.querySelectorAll("select")[held]?.focus();
    const { tokens, weights, position, direction } = found;
    const order = weights.map((_, at) => at).sort((one, other) => weights[other] - weights[one]);
    const named = (at) => (at === position ? "the blank itself" : shown(tokens[at]));
    const told = (at) => {
      const listed = at === null ? order.slice(0, 5) : [at];
      fill(exact, at === null ? "Most: " : null, listed.map((one, number) => [number ? ", " : "", make("bdi", {}, named(one)), ` ${share(weights[one])}`]));
    };
    const side = { tokens, words: tokens, word_of: [], direction };
    const whole = sentence(side, { name: "The text, token by token, as the blank attended to it", tokens: true, onhover: told });
    ink(whole, weights);
    whole.children[position]?.classList.add("blank");
    fill(read, whole);
    told(null);
    const values = { attention: "source", layer: wanted.layer ?? 0, head: wanted.head ?? 0 };
    const to = studio.has("heads") ? studio.toView("heads", { ...values, model: wanted.model, text: wanted.text }) : null;
    fill(heads, to ? make("a", { href: studio.link(to) }, "All heads, for every token") : null);
  }

  function update() {
    box.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    if (key === last) return lookIfChanged();
    const before = last ? JSON.parse(last) : {};
    last = key;
    stop();
    if (before.model !== wanted.model) {
      answer = counts = null;
      lastLook = "";
      looked.hidden = true;
      fill(filled);
      fill(choices, waiting());
      fill(controls);
      fill(read);
      load(wanted);
    } else later(wanted);
  }
  function stop() {
    for (const one of [later, laterLook]) one.cancel();
    for (const one of [load, look]) one.stop();
  }
  update();
  return { update, leave: stop };
}
