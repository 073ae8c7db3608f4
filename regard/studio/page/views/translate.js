// The studio's first page: a sentence is translated while it is typed, by one model or by several side by side, and
// whatever word one points at shows where each of them looked.

import { chosen, controls } from "../choices.js";
import { examples } from "../examples.js";
import { panel, signed } from "../panel.js";
import { debounce, fill, make } from "../parts.js";
import { colour, percent, shown } from "../words.js";

export const title = "Translate";
export const about = "Type a sentence; point at a word, and see which words the model looked at when it wrote it.";
export const code = "regard/inspection/record/translation.py:look";
export const suits = (model) => model.task === "translate";

const PAUSE = 150; // milliseconds without a key before the server is asked
const FOUND = 4; // translations that are listed
const LEAVING = 90; // milliseconds that a word stays pointed at: between two words the pointer is nowhere

export function show(place, studio) {
  const panels = new Map();
  let first = ""; // the model whose translations and matrix are shown
  let pinned = null; // {one, side, at}: the word that was pressed, and its panel
  let leaving = 0;
  let typing = false; // all that is typed in one go is one step back
  let unsent = false; // the state does not tell yet what was typed

  const text = make("textarea", { id: "typed", rows: "1", dir: "auto", spellcheck: "false", maxlength: "10000" });
  const label = make("label", { for: "typed" });
  const parts = make("div", { class: "parts", role: "group", "aria-label": "The parts of this text", hidden: true });
  const samples = make("ul", { class: "examples" });
  const grid = make("div", { class: "panels" });
  const said = make("p", { class: "said", "aria-live": "polite" });
  const found = make("section", { class: "found" });
  const matrix = make("section", { class: "matrix" });
  const choices = controls(studio);
  const results = make("div", { class: "results" }, grid, said, choices.element, found, matrix);
  fill(place, make("div", { class: "typing" }, label, text), parts, samples, results);
  place.classList.add("translate");

  const send = debounce(() => {
    unsent = false;
    studio.change({ text: text.value, part: null, of: null }, { same: typing });
    typing = true;
    update(); // a text that came back to what it was changes no state
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
    label.textContent = language(model.source, "Text");
    text.placeholder = `Write something in ${language(model.source, "the model's language")}`;
    grow(text);
    const empty = !text.value.trim();
    results.hidden = empty;
    if (empty) parts.hidden = true;
    samples.hidden = !empty;
    fill(samples, empty ? (examples[model.source] ?? []).map(([words, why]) => sample(words, why)) : []);
    choices.update();

    const wanted = empty ? [] : [model, ...chosen(studio)];
    for (const [name, one] of panels) {
      if (first === model.name && wanted.some((other) => other.name === name)) continue;
      one.leave();
      panels.delete(name);
      if (pinned?.one === one) pinned = null;
    }
    if (first !== model.name) found.hidden = matrix.hidden = parts.hidden = true; // they were another's
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

  /** What is asked of a model; which translation, layer and head are looked at is said of the first one alone. */
  function request(model, first) {
    const { state } = studio;
    const asked = { model: model.name, text: text.value, n_best: Math.min(FOUND, Number(state.beam ?? FOUND)) };
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

  /** A word of a translation shows where its model looked; one of the source, who looked at it, in all models. */
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
    const before = make("b", {}, `${quoted(whose)} ${side === "target" ? "looked at" : "was looked at by"} `);
    if (panels.size < 2) fill(said, before, listed(told[0][1], side));
    else fill(said, before, told.map(([one, row]) => make("span", {}, `${one.model.name}: ${listed(row, side)}. `)));
  }

  // What is shown of the first model alone.

  function answered(one, answer) {
    if (pinned?.one === one) pinned = null;
    if (one.model.name !== studio.model.name) return;
    said.textContent = "";
    choices.answered(answer);
    found.hidden = !answer || answer.candidates.length < 2;
    matrix.hidden = !answer?.attention;
    parts.hidden = !answer || answer.parts.length < 2;
    if (!answer) {
      if (studio.state.of !== undefined) studio.change({ of: null }, { same: true }); // it may have found fewer
      return;
    }
    refill(
      parts,
      make("p", {}, `This is translated in ${answer.parts.length} parts, each by itself. Look at`),
      answer.parts.map((part, number) => {
        const pick = () => studio.change({ part: number || null, of: null });
        const pressed = String(number === answer.part);
        return make("button", { type: "button", dir: "auto", "aria-pressed": pressed, onclick: pick }, part);
      }),
    );
    const candidates = answer.candidates.map((other, number) => candidate(studio, other, number, answer));
    refill(found, make("h2", {}, "What it found"), make("ol", {}, candidates));
    if (!answer.attention) return;
    const { layer, head } = answer.attention;
    const asked = { ...request(one.model, true), layer, head, text: answer.parts[answer.part] };
    delete asked.part;
    draw({ ...asked, view: "alignment", only: 0, tokens: studio.state.units === "tokens" });
  }

  /** The matrix comes from where all pictures come from; the old one stays until the new one is there. */
  const draw = studio.latest(
    (signal, asked) => studio.ask("pictures", asked, signal),
    ({ about, pictures }) => {
      const [{ heading, svg }] = pictures.filter((one) => one.svg);
      fill(matrix, studio.picture({ heading: `The whole alignment, ${heading}`, svg, about, note: about }));
    },
    (error) => fill(matrix, make("p", { class: "trouble" }, error.message)),
  );

  function sample(words, why) {
    const use = () => {
      studio.change({ text: words, part: null, of: null });
      text.focus();
    };
    const hued = (word) => make("span", { class: "hued", "data-hue": colour(word) }, word);
    const line = make("span", {}, words.split(" ").flatMap((word, at) => [at ? " " : "", hued(word)]));
    return make("li", {}, make("button", { type: "button", onclick: use }, line, make("small", {}, why)));
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

/** One of the translations that were found, with what is not in the best of them marked. */
function candidate(studio, one, number, answer) {
  const best = new Set(answer.candidates[0].text.split(/\s+/));
  const marked = (word) => (!word.trim() || best.has(word) ? word : make("mark", {}, word));
  const words = one.text ? one.text.split(/(\s+)/).map(marked) : make("i", {}, "nothing at all");
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  const surest = Math.max(...answer.candidates.map((other) => other.log_probability));
  bar.style.setProperty("--sure", Math.exp(one.log_probability - surest));
  const pick = () => studio.change({ of: number || null });
  const button = make(
    "button",
    { type: "button", "aria-pressed": String(number === answer.of), "data-score": one.score, onclick: pick },
    make("span", { class: "text", dir: "auto" }, words),
    make(
      "span",
      { class: "numbers" },
      [bar, make("span", {}, percent(Math.exp(one.log_probability))), make("span", {}, `score ${signed(one.score)}`)],
    ),
  );
  return make("li", {}, button);
}

/** Puts these in place of all that is inside; the button that had the focus has it again. */
function refill(place, ...children) {
  const held = [...place.querySelectorAll("button")].indexOf(document.activeElement);
  fill(place, ...children);
  if (held >= 0) place.querySelectorAll("button")[held]?.focus();
}

function grow(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

function language(code, otherwise) {
  try {
    return code ? new Intl.DisplayNames(["en"], { type: "language" }).of(code) : otherwise;
  } catch {
    return otherwise;
  }
}

/** The five words with the most weight, and what a row lacks to one: that went to the end mark. */
function listed(row, side) {
  if (!row.length) return "nothing: this model has no attention";
  const most = row.filter(([, weight]) => weight >= 0.01).slice(0, 5);
  const left = 1 - row.reduce((sum, [, weight]) => sum + weight, 0);
  const said = most.map(([word, weight]) => `${isolated(word)} ${percent(weight)}`);
  if (side === "target" && left >= 0.005) said.push(`the end mark ${percent(left)}`);
  return said.join(", ") || "no word";
}

const isolated = (word) => `\u2068${shown(word)}\u2069`;
const quoted = (word) => `“${isolated(word)}”`;
