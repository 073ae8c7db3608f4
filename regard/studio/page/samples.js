// The model's outputs for the same few examples, at each validation.
import { diffWords } from "./word_diff.js";
import { fill, make, slider } from "./dom.js";

const FRESH = "Highlighted: words that are new since the previous validation. ";
const SHARED = "Underlined: words that output and reference have in common.";

/** `.draw(name, validations)` shows the last one, or the one selected with the slider. */
export function samples() {
  const element = make("section", { class: "written" });
  const shown = make("div", { class: "samples" });
  let chosen = null; // the index of a validation; null follows the last
  let run = "";
  let drawn = "";

  function draw(name, validations) {
    const told = validations.filter((entry) => entry.samples.length);
    element.hidden = !told.length;
    if (name !== run) [run, chosen, drawn] = [name, null, ""];
    if (!told.length) return;
    const at = Math.min(chosen ?? Infinity, told.length - 1);
    const key = JSON.stringify([at, told.length, told[at]]);
    if (key === drawn) return;
    drawn = key;
    drawSlider(told, at);
    const before = told[at - 1]?.samples;
    fill(
      shown,
      told[at].samples.map((sample, place) => one(sample, before?.[place])),
      make("p", { class: "faint" }, before ? FRESH : "", SHARED),
    );
  }

  function drawSlider(told, at) {
    const named = (place) => {
      const last = place === told.length - 1 ? " (last)" : "";
      return `step ${told[place].step.toLocaleString("en")}${last}`;
    };
    let input = element.querySelector("input");
    if (!input || Number(input.max) !== told.length - 1) {
      const held = input && input === document.activeElement;
      const bar = slider("Validation at", { least: 0, most: told.length - 1, value: at, shown: named }, (place) => {
        chosen = place === told.length - 1 ? null : place;
        draw(run, told);
      });
      fill(element, make("h2", {}, "Sample outputs"), bar, shown);
      bar.hidden = told.length < 2;
      input = bar.querySelector("input");
      if (held) input.focus();
    }
    input.setAttribute("aria-valuetext", named(at));
  }

  return { element, draw };
}

function one(sample, before) {
  const known = before?.source === sample.source ? before.output : null;
  const row = (name, text, kind) => [make("dt", {}, name), make("dd", { dir: "auto", class: kind }, text || "–")];
  return make(
    "dl",
    {},
    row("input", sample.source),
    row("output", words(known, sample.output, sample.reference), "output"),
    sample.reference ? row("reference", words(null, sample.reference, sample.output)) : null,
  );
}

/** A text; words that `other` has too are underlined, words that are not in `before` are highlighted. */
function words(before, text, other) {
  const there = new Set(other.split(/\s+/));
  return diffWords(before, text).map(({ text: word, fresh }) => {
    const shared = there.has(word) ? { class: "shared" } : null;
    return fresh ? make("mark", shared ?? {}, word) : shared ? make("span", shared, word) : word;
  });
}
