// Translates the text as it is typed, with one model or several side by side; pointing at a word shows its attention
// weights in each.

import { chosen, controls } from "../translation_options.js";
import { direction, lang, languagesOf, sourceOf } from "../direction.js";
import { examples } from "../examples.js";
import { panel, signed } from "../panel.js";
import { debounce, fill, make } from "../dom.js";
import { explained } from "../tooltip.js";
import { percent, shown } from "../words.js";

export { experiments } from "../experiments/translate.js";
export const title = "Translate";
export const about =
  "Type a sentence, then point at a word of the translation to see how much attention the model paid to each source word when it wrote it.";
export const more =
  "The lines are attention weights, averaged over all layers and heads unless you choose some. Point at a source word to see which words attended to it. Compare several models side by side, and change the beam search under Search.";
export const code = "regard/inspection/record/translate.py:record_translation";
export const suits = (model) => model.task === "translate";
export const lacks = "does not translate";

const PAUSE = 150; // milliseconds without a key press before a request
const FOUND = 4; // length of the n-best list
const COLOURS = "Each translated word has the colour of the source word it attended to most.";
const LENGTHS = "The underline is as long as the word is probable.";
const LEAVING = 90; // milliseconds that a word stays highlighted while the pointer moves to the next

export function show(place, studio) {
  const panels = new Map();
  let first = ""; // the model whose n-best list and matrix are shown
  let pinned = null; // {one, side, at}: the word that was clicked, and its panel
  let leaving = 0;
  let typing = false; // typing without a pause is one entry of the history
  let unsent = false; // what was typed is not in the state yet

  const text = make("textarea", { id: "typed", rows: "1", dir: "auto", spellcheck: "false", maxlength: "10000" });
  const label = make("label", { for: "typed" });
  const parts = make("div", { class: "parts", role: "group", "aria-label": "The parts of this text", hidden: true });
  const samples = make("ul", { class: "examples" });
  const grid = make("div", { class: "panels" });
  const said = make("p", { class: "said", "aria-live": "polite" });
  const found = make("section", { class: "found" });
  const matrix = make("section", { class: "matrix" });
  const legend = make("p", { class: "legend faint" });
  const choices = controls(studio);
  const results = make("div", { class: "results" }, grid, legend, said, choices.element, found, matrix);
  fill(place, make("div", { class: "typing" }, label, text), parts, samples, results);
  place.classList.add("translate");

  const send = debounce(() => {
    unsent = false;
    studio.change({ text: text.value, part: null, of: null }, { same: typing });
    typing = true;
    update(); // an edit that was undone changes no state
  }, PAUSE);
  text.addEventListener("input", () => {
    unsent = true;
    grow(text);
    for (const one of panels.values()) one.outdate();
    draw.stop();
    send();
  });
  text.addEventListener("blur", () => (typing = false));
  place.addEventListener("keydown", (event) => event.key === "Escape" && pin(null));

  function update() {
    const { model, state } = studio;
    if (!model) return;
    if (!unsent && text.value.trim() !== (state.text ?? "").trim()) {
      typing = false;
      text.value = state.text ?? "";
    }
    const source = sourceOf(studio);
    const any = model.directions ? "any of its languages" : "the model's language";
    label.textContent = language(source, "Text");
    text.lang = lang(source) ?? "";
    text.placeholder = `Type something in ${language(source, any)}`;
    grow(text);
    const empty = !text.value.trim();
    results.hidden = empty;
    if (empty) parts.hidden = true;
    samples.hidden = !empty;
    fill(samples, empty ? (examples[source || exampleOf(model)] ?? []).map(([words, why]) => sample(words, why)) : []);
    choices.update();

    const wanted = empty ? [] : [model, ...chosen(studio)];
    for (const [name, one] of panels) {
      if (first === model.name && wanted.some((other) => other.name === name)) continue;
      one.leave();
      panels.delete(name);
      if (pinned?.one === one) pinned = null;
    }
    if (first !== model.name) found.hidden = matrix.hidden = parts.hidden = true; // they are the previous model's
    first = model.name;
    const listeners = { onanswer: answered, onhover: hover, onpick: press };
    for (const one of wanted) if (!panels.has(one.name)) panels.set(one.name, panel(studio, one, listeners));
    const elements = wanted.map((one) => panels.get(one.name).element);
    const same = elements.length === grid.childElementCount && elements.every((one, at) => grid.children[at] === one);
    if (!same) fill(grid, elements);
    grid.classList.toggle("several", elements.length > 1);
    said.style.setProperty("--lines", elements.length > 1 ? elements.length + 1 : 1);
    for (const one of wanted) panels.get(one.name).ask(request(one, one === model));
    if (empty) rest();
  }

  /** The request to a model; the choice of candidate, layer and head applies to the first model only. */
  function request(model, first) {
    const { state } = studio;
    const asked = { model: model.name, text: text.value, n_best: Math.min(FOUND, Number(state.beam ?? FOUND)) };
    Object.assign(asked, direction(studio, model));
    const names = { part: "part", beam: "beam", penalty: "length_penalty" };
    if (first) Object.assign(names, { of: "of", layer: "layer", head: "head" });
    for (const [key, name] of Object.entries(names)) if (state[key] !== undefined) asked[name] = Number(state[key]);
    return asked;
  }

  // Pointing at words.

  function hover(one, side, at) {
    clearTimeout(leaving);
    if (at !== null) point(one, side, at);
    else leaving = setTimeout(() => (pinned ? point(pinned.one, pinned.side, pinned.at) : rest()), LEAVING);
  }

  function press(one, side, at) {
    const again = pinned && pinned.one === one && pinned.side === side && pinned.at === at;
    pin(again ? null : { one, side, at });
  }

  function pin(wanted) {
    clearTimeout(leaving);
    pinned = wanted;
    if (pinned) point(pinned.one, pinned.side, pinned.at);
    else rest();
  }

  function rest() {
    for (const one of panels.values()) one.pair?.rest();
    said.textContent = "";
  }

  /** A target word shows its own weights; a source word shows who attended to it, in all models. */
  function point(pointed, side, at) {
    if (!pointed.pair || panels.get(pointed.model.name) !== pointed) return rest();
    const word = side === "source" ? pointed.pair.wordOf(at) : null;
    const told = [];
    for (const one of panels.values()) {
      const places = one === pointed ? [at] : word === null ? [] : (one.pair?.placesOf(word) ?? []);
      if (!places.length) one.pair?.rest();
      else told.push([one, one.pair.show(side, places)]);
    }
    const whose = pointed.answer[side][studio.state.units === "tokens" ? "tokens" : "words"][at];
    const before = make("b", {}, `${quoted(whose)} ${side === "target" ? "attended to" : "was attended to by"} `);
    if (panels.size < 2) fill(said, before, listed(told[0][1], side));
    else fill(said, before, told.map(([one, row]) => make("span", {}, `${one.model.name}: ${listed(row, side)}. `)));
  }

  // Shown for the first model only.

  function answered(one, answer) {
    const all = [...panels.values()].map((each) => each.answer).filter(Boolean);
    legend.textContent = !all.length ? "" : all.some((each) => each.weights) ? `${COLOURS} ${LENGTHS}` : LENGTHS;
    if (pinned?.one === one) pinned = null;
    if (one.model.name !== studio.model.name) return;
    said.textContent = "";
    choices.answered(answer);
    found.hidden = !answer || answer.candidates.length < 2;
    matrix.hidden = !answer?.attention;
    parts.hidden = !answer || answer.parts.length < 2;
    if (!answer) {
      if (studio.state.of !== undefined) studio.change({ of: null }, { same: true }); // this search may have found fewer
      return;
    }
    const source = lang(languagesOf(answer, one.model).source);
    refill(
      parts,
      make("p", {}, `This text is translated in ${answer.parts.length} separate parts. Show`),
      answer.parts.map((part, number) => {
        const pick = () => studio.change({ part: number || null, of: null });
        const pressed = String(number === answer.part);
        return make("button", { type: "button", dir: "auto", lang: source, "aria-pressed": pressed, onclick: pick }, part);
      }),
    );
    const candidates = answer.candidates.map((other, number) => candidate(studio, other, number, answer));
    refill(found, make("h2", {}, "Top translations"), make("p", { class: "faint by" }, explained("Ranked by score.")), make("ol", {}, candidates));
    if (!answer.attention) return;
    const { layer, head } = answer.attention;
    const asked = { ...request(one.model, true), layer, head, text: answer.parts[answer.part] };
    delete asked.part;
    draw({ ...asked, view: "alignment", only: 0, tokens: studio.state.units === "tokens" });
  }

  /** The matrix is drawn by the server; the old one stays until the new one arrives. */
  const draw = studio.latest(
    (signal, asked) => studio.ask("draw_view", asked, signal),
    ({ about, pictures }) => {
      const [{ heading, svg }] = pictures.filter((one) => one.svg);
      fill(matrix, studio.picture({ heading: `Alignment ${heading}`, svg, about, note: about }));
    },
    (error) => fill(matrix, make("p", { class: "trouble" }, error.message)),
  );

  function sample(words, why) {
    const use = () => {
      studio.change({ text: words, part: null, of: null });
      text.focus();
    };
    return make("li", {}, make("button", { type: "button", onclick: use }, make("span", {}, words), make("small", {}, why)));
  }

  update();
  return {
    update,
    leave() {
      send.cancel();
      clearTimeout(leaving);
      draw.stop();
      for (const one of panels.values()) one.leave();
    },
  };
}

/** A candidate of the n-best list; words that are not in the best one are highlighted. */
function candidate(studio, one, number, answer) {
  const best = new Set(answer.candidates[0].text.split(/\s+/));
  const marked = (word) => (!word.trim() || best.has(word) ? word : make("mark", {}, word));
  const words = one.text ? one.text.split(/(\s+)/).map(marked) : make("i", {}, "empty");
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  const surest = Math.max(...answer.candidates.map((other) => other.log_probability));
  bar.style.setProperty("--sure", Math.exp(one.log_probability - surest));
  const pick = () => studio.change({ of: number || null });
  const button = make(
    "button",
    { type: "button", "aria-pressed": String(number === answer.of), "data-score": one.score, onclick: pick },
    make("span", { class: "text", dir: "auto", lang: lang(languagesOf(answer, studio.model).target) }, words),
    make(
      "span",
      { class: "numbers" },
      [bar, make("span", {}, percent(Math.exp(one.log_probability))), make("span", {}, `score ${signed(one.score)}`)],
    ),
  );
  return make("li", {}, button);
}

/** Replaces all children and restores the focus. */
function refill(place, ...children) {
  const held = [...place.querySelectorAll("button")].indexOf(document.activeElement);
  fill(place, ...children);
  if (held >= 0) place.querySelectorAll("button")[held]?.focus();
}

/** The language of the examples where the model detects it. */
const exampleOf = ({ directions }) => Object.keys(examples).find((code) => directions?.sources.includes(code));

function grow(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

function language(code, otherwise) {
  try {
    return code ? new Intl.DisplayNames(["en"], { type: "language" }).of(lang(code)) : otherwise;
  } catch {
    return otherwise;
  }
}

/** The five words with the largest weights; the rest of a row is the weight of the end token. */
function listed(row, side) {
  if (!row.length) return "nothing: this model has no attention";
  const most = row.filter(([, weight]) => weight >= 0.01).slice(0, 5);
  const left = 1 - row.reduce((sum, [, weight]) => sum + weight, 0);
  const said = most.map(([word, weight]) => `${isolated(word)} ${percent(weight)}`);
  if (side === "target" && left >= 0.005) said.push(`end of sentence ${percent(left)}`);
  return said.join(", ") || "no word";
}

const isolated = (word) => `\u2068${shown(word)}\u2069`;
const quoted = (word) => `“${isolated(word)}”`;
