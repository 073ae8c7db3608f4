// The gradients of one output with respect to every embedding and recurrent state, and the gates.
import { direction } from "../direction.js";
import { readsText, textbox, textOf } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { mark, sentence } from "../words.js";

export { experiments } from "../experiments/gradients.js";
export const title = "Gradients";
export const about =
  "How strongly one output depends on each step: the gradient norm of its log-probability. In a recurrent model it shows how far back the gradient reaches.";
export const more =
  "The higher a bar, the more a small change at this step would change the output. Give all layers one scale to compare them, or choose a logarithmic scale to see how fast small gradients vanish.";
export const code = ["regard/inspection/record/differentiable.py:through_time", "regard/inspection/record/gradients.py:gradients_of"];
export const suits = readsText;
export const lacks = "does not read text";

const PAUSE = 250;
const SCALES = [
  ["own", "linear, one scale per panel"],
  ["shared", "linear, one scale for all layers"],
  ["logarithmic", "logarithmic"],
];

export function show(place, studio) {
  const box = textbox(studio, "Text");
  const outputs = make("div", { class: "outputs" });
  const controls = make("div", { class: "controls" });
  const bars = make("div", { class: "pictures" });
  const gates = make("div", { class: "pictures" });
  fill(place, box.element, outputs, controls, bars, gates);
  let last = "";
  let lastGates = "";
  let answer = null;

  const sentenceOf = () => ({ model: studio.model.name, text: textOf(studio), ...direction(studio) });
  const request = () => {
    const position = studio.state.output;
    return { ...sentenceOf(), ...(position === undefined ? {} : { position: Math.max(0, Math.round(Number(position)) || 0) }) };
  };
  const load = studio.latest(
    (signal, wanted) => studio.ask("gradients", wanted, signal),
    (found) => {
      answer = found;
      draw();
      loadGates();
      studio.say(found.about);
    },
    (error, wanted) => {
      fill(outputs);
      fill(controls);
      fill(gates);
      lastGates = "";
      fill(bars, trouble(error, () => load(wanted)));
    },
  );
  const askGates = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (found) => {
      const options = found.pictures.map((one, number) => [number, one.heading]);
      const chosen = found.pictures.findIndex((one) => one.svg);
      const pick = select("Gates of", options, chosen, (number) => studio.change({ picture: number }));
      fill(gates, options.length > 1 ? pick : null, studio.picture({ about: found.about, ...found.pictures[chosen] }));
    },
    (error, wanted) => fill(gates, trouble(error, () => askGates(wanted))),
  );
  function loadGates() {
    if (!answer.gates) return fill(gates);
    const wanted = { ...sentenceOf(), view: "gates", only: Math.max(0, Math.round(Number(studio.state.picture)) || 0) };
    if (JSON.stringify(wanted) !== lastGates) askGates(wanted);
    lastGates = JSON.stringify(wanted);
  }

  function draw() {
    const held = outputs.contains(document.activeElement);
    const side = { tokens: answer.outputs, words: answer.outputs, word_of: [] };
    const pick = (at) => studio.change({ output: at });
    const whole = sentence(side, { name: "Explain which token?", tokens: true, onpick: pick });
    mark(whole, [answer.position]);
    for (const [at, button] of [...whole.children].entries()) {
      button.setAttribute("aria-pressed", at === answer.position);
      button.tabIndex = at === answer.position ? 0 : -1;
    }
    fill(outputs, make("span", { class: "faint" }, "Explain which token?"), whole);
    if (held) whole.children[answer.position].focus();
    const picked = SCALES.findIndex(([name]) => name === (studio.state.axis ?? "own"));
    const scale = select("Scale", SCALES, SCALES[picked]?.[0] ?? "own", (chosen) => studio.change({ axis: chosen === "own" ? null : chosen }));
    const focused = controls.contains(document.activeElement);
    fill(controls, scale);
    if (focused) scale.querySelector("select").focus();
    fill(bars, studio.picture({ about: answer.about, ...answer.pictures.find((one) => one.scale === (SCALES[picked]?.[0] ?? "own")) }));
  }

  const later = debounce(load, PAUSE);
  const update = () => {
    box.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    const before = last ? JSON.parse(last) : {};
    last = key;
    if (key === JSON.stringify(before)) {
      if (answer) {
        draw();
        loadGates();
      }
      return;
    }
    load.stop();
    later.cancel();
    if (before.model !== wanted.model) {
      answer = null;
      fill(outputs);
      fill(controls);
      fill(gates);
      lastGates = "";
      fill(bars, waiting()); // never show one model's gradients under another's name
    }
    if (before.model !== wanted.model || before.text === wanted.text) load(wanted);
    else later(wanted);
  };
  update();
  return {
    update,
    leave() {
      later.cancel();
      load.stop();
      askGates.stop();
    },
  };
}
