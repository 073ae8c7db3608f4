// A language model: the next-token distribution, how sampling changes it, and the probability of each token of the text.
import { bars, share } from "../bars.js";
import { textbox, textOf } from "../textbox.js";
import { trouble } from "../messages.js";
import { debounce, fill, make, select, slider } from "../dom.js";
import { saveHtml, savePng, saveSvg } from "../save.js";
import { ink, sentence, shown } from "../words.js";

export { experiments } from "../experiments/language.js";
export const title = "Next token";
export const about =
  "What a language model expects next: the longer a bar, the more likely the token. See what temperature, top-k and top-p change, and click a token to append it.";
export const more =
  "The logits become probabilities in stages: temperature divides the logits, top-k and top-p cut unlikely tokens, and what remains is sampled from. On the right, the text so far with the probability that the model gave each token.";
export const code = ["regard/decoding/sampling.py:distribution", "regard/decoding/stream.py:stream", "regard/model/language_model.py"];
export const suits = (model) => model.task === "generate";
export const lacks = "is not a language model";

const PAUSE = 60; // milliseconds without a key press before a request: bars follow what is typed
const SHOWN = 24;
const NOTHING = "This token adds no text: it ends the text, or is only a part of a character.";
/** The stages from logits to sampling probabilities: their name in an answer, in the menu, and in a line. */
const STAGES = [
  ["logit", "logits", "logit"],
  ["probability", "model probabilities", "model probability"],
  ["tempered", "after temperature", "after temperature"],
  ["within_k", "after top-k", "after top-k"],
  ["drawn", "after top-p: sampling probabilities", "after top-p"],
];
/** The sliders: how each value of the state maps to a slider position, and how it is shown. */
const DIALS = {
  temperature: {
    label: "Temperature",
    usual: 1,
    least: -2,
    most: 2,
    step: 0.01,
    from: (place) => Number((10 ** place).toPrecision(3)),
    to: (value) => Math.log10(value),
    shown: (value) => value.toPrecision(value < 0.1 ? 1 : 2).replace(/\.0$/, ""),
  },
  top_k: { label: "Top-k", usual: 0, least: 0, most: 100, step: 1, shown: (value) => (value ? String(value) : "all") },
  top_p: { label: "Top-p", usual: 1, least: 0.01, most: 1, step: 0.01, shown: (value) => value.toFixed(2) },
};
const SAVES = {
  SVG: (svg) => saveSvg(svg, "regard-next"),
  PNG: (svg) => savePng(svg, "regard-next"),
  HTML: (svg) => saveHtml({ heading: title, about, svg }, "regard-next"),
};
const same = (value) => value;

export function show(place, studio) {
  const box = textbox(studio, "Text");
  const dials = Object.entries(DIALS).map(([name, one]) => dial(studio, name, one));
  const stage = make("div", { class: "controls" });
  const choices = make("div", { class: "next" });
  const exact = make("p", { class: "exact", "aria-live": "polite" });
  const read = make("div", { class: "reading" });
  const thought = make("p", { class: "exact", "aria-live": "polite" });
  const save = make("p", { class: "save" }, "Save as ", Object.keys(SAVES).map(saving));
  const length = number("Tokens", "write", 60, 1, 500);
  const seed = number("Seed", "seed", 1, 0, 2 ** 31 - 1);
  const written = make("span", { class: "faint", role: "status" });
  const buttons = make(
    "div",
    { class: "controls" },
    make("button", { type: "button", onclick: () => write(1) }, "Sample one"),
    make("button", { type: "button", onclick: () => write(Number(length.input.value)) }, "Generate"),
    length.element,
    seed.element,
    make("button", { type: "button", class: "plain", onclick: () => seed.set(Math.floor(Math.random() * 2 ** 31)) }, "New seed"),
    written,
  );
  fill(
    place,
    box.element,
    make("div", { class: "controls" }, dials.map((one) => one.element)),
    buttons,
    make(
      "div",
      { class: "language" },
      make("section", { "aria-label": "Next token" }, make("h2", {}, "Next token"), stage, choices, exact, save),
      make("section", { "aria-label": "Token probabilities" }, make("h2", {}, "Probability of each token"), read, thought),
    ),
  );
  let last = "";
  let lastText = null;
  let answer = null;

  /** A number that is part of the state. */
  function number(label, name, usual, least, most) {
    const input = make("input", { type: "number", min: least, max: most, step: 1, onchange: () => set(input.value) });
    const set = (value) => studio.change({ [name]: Math.max(least, Math.min(most, Math.round(Number(value)) || 0)) });
    const update = () => (input.value = studio.state[name] ?? usual);
    update();
    return { element: make("label", { class: "choice" }, `${label} `, input), input, update, set };
  }

  const how = () => Object.fromEntries(Object.entries(DIALS).map(([name, one]) => [name, valueOf(studio, name, one)]));
  const request = () => ({ model: studio.model.name, text: textOf(studio), ...how() });

  const load = studio.latest(
    (signal, wanted) => studio.ask("next_token", { ...wanted, count: SHOWN }, signal),
    (found) => {
      answer = found;
      draw();
      const [first] = found.tokens;
      studio.say(`Most likely next token: ${shown(first.token)}, ${share(first.drawn)}`);
    },
    (error, wanted) => fill(choices, trouble(error, () => load(wanted))),
  );
  const loadScores = studio.latest(
    (signal, wanted) => studio.ask("score_text", wanted, signal),
    (found) => drawScores(found),
    (error, wanted) => fill(read, trouble(error, () => loadScores(wanted))),
  );
  const go = studio.latest(
    (signal, wanted) => studio.ask("generate", wanted, signal),
    (found, wanted) => {
      written.textContent = found.finished ? "The model ended the text." : "";
      if (textOf(studio) === wanted.text) studio.change({ text: wanted.text + found.text });
    },
    (error) => (written.textContent = error.message),
  );
  const write = (count) => {
    written.textContent = count > 1 ? "Generating …" : "";
    go({ ...request(), length: Math.max(1, Math.min(500, count || 1)), seed: Number(seed.input.value) || 0 });
  };

  /** A button that saves the distribution as a picture drawn by the server. */
  function saving(kind) {
    const get = async () => {
      try {
        SAVES[kind]((await studio.ask("next_token", { ...request(), count: SHOWN, picture: true })).svg);
      } catch (error) {
        written.textContent = error.message;
      }
    };
    return make("button", { type: "button", class: "plain", "aria-label": `Save as ${kind}: next token`, onclick: get }, kind);
  }

  const now = () => (STAGES.some(([name]) => name === studio.state.stage) ? studio.state.stage : "drawn");

  function draw() {
    const held = stage.contains(document.activeElement);
    const choice = select("Stage", STAGES.map(([name, words]) => [name, words]), now(), (picked) => studio.change({ stage: picked === "drawn" ? null : picked }));
    fill(stage, choice);
    if (held) choice.querySelector("select").focus();
    const name = now();
    const logits = answer.tokens.map((one) => one.logit ?? -Infinity).filter(Number.isFinite);
    const [low, high] = [Math.min(...logits), Math.max(...logits)];
    const longest = Math.max(...answer.tokens.map((one) => Math.max(one.tempered, one[name] || 0)), 1e-12);
    const rows = answer.tokens.map((one) => ({
      label: shown(one.token),
      value: one[name] ?? "-inf",
      length: name === "logit" ? (one.logit === null ? 0 : 0.02 + (0.98 * (one.logit - low)) / (high - low || 1)) : one[name] / longest,
      before: name === "logit" ? 0 : one.tempered / longest,
      said: name === "logit" ? (one.logit === null ? "-inf" : one.logit.toFixed(2)) : one[name] > 0 ? share(one[name]) : "cut",
      cut: name !== "logit" && !(one[name] > 0),
      onpick: () => (one.text ? studio.change({ text: textOf(studio) + one.text }) : (written.textContent = NOTHING)),
    }));
    const focused = choices.querySelector("button:focus")?.dataset.place;
    const list = bars(rows, { name: "Next tokens; press one to append it", onhover: (at) => tell(at) });
    const rest = answer.others
      ? make("p", { class: "faint" }, `and ${answer.others} more` + (name === "logit" ? "" : `, ${share(answer.rest[name])} together`))
      : null;
    const unknown = answer.unknown
      ? make("p", { class: "faint" }, `${answer.unknown} of the ${answer.read} tokens are unknown to the model: it reads them as <unk>.`)
      : null;
    fill(choices, list, rest, unknown);
    if (focused !== undefined) list.children[focused]?.focus();
    tell(null);
  }

  /** The exact numbers of one token in every stage. */
  function tell(at) {
    const one = answer.tokens[at ?? 0];
    const parts = STAGES.map(([name, , short]) => `${short} ${one[name] ?? "-inf"}`);
    fill(exact, make("bdi", {}, shown(one.token)), `: ${parts.join(" · ")}`);
  }

  function drawScores({ guesses, left_out: leftOut }) {
    const tokens = guesses.map((one) => one.about);
    const told = (at) => {
      const one = guesses[at];
      if (!one) return fill(thought, guesses.length ? "Point at a token to see the most likely alternatives there." : "");
      const others = one.others.map((other) => [" ", make("bdi", {}, shown(other.token)), ` ${share(other.probability)}`]);
      fill(thought, make("bdi", {}, shown(one.about)), `: ${one.probability}. Most likely:`, others.flat());
    };
    const sure = guesses.map((one) => one.probability);
    const side = { tokens, words: tokens, word_of: [] };
    const whole = sentence(side, { name: "The text, token by token", tokens: true, sure, onhover: told });
    ink(whole, sure);
    fill(read, leftOut ? make("p", { class: "faint" }, `The ${leftOut} tokens before these are not shown.`) : null, whole);
    told(null);
  }

  const later = debounce(load, PAUSE);
  const laterScores = debounce(loadScores, 4 * PAUSE);
  const update = () => {
    box.update();
    for (const one of [...dials, length, seed]) one.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    if (key !== last) (last ? later : load)(wanted);
    else if (answer) draw();
    last = key;
    const text = { model: wanted.model, text: wanted.text };
    if (JSON.stringify(text) !== lastText) (lastText ? laterScores : loadScores)(text);
    lastText = JSON.stringify(text);
  };
  update();
  return {
    update,
    leave() {
      for (const one of [later, laterScores]) one.cancel();
      for (const one of [load, loadScores, go]) one.stop();
    },
  };
}

function valueOf(studio, name, { usual, least, most, from = same }) {
  const value = Number(studio.state[name] ?? usual);
  return value >= from(least) && value <= from(most) ? value : usual;
}

/** A slider that follows the state, also through back and forward. */
function dial(studio, name, one) {
  const { label, usual, least, most, step, from = same, to = same, shown } = one;
  let sliding = false;
  const value = () => valueOf(studio, name, one);
  const slid = (place) => {
    const chosen = from(place);
    studio.change({ [name]: chosen === usual ? null : chosen }, { same: sliding });
    sliding = true;
  };
  const element = slider(label, { least, most, step, value: to(value()), shown: (place) => shown(from(place)) }, slid);
  const input = element.querySelector("input");
  input.addEventListener("change", () => (sliding = false));
  const update = () => {
    if (Math.abs(Number(input.value) - to(value())) > step / 2) input.value = to(value());
    element.querySelector("output").textContent = shown(value());
    input.setAttribute("aria-valuetext", shown(value()));
  };
  update();
  return { element, update };
}
