// Where a sentence is typed. What is typed is the state's `text`, the same in every view.
import { make } from "./parts.js";

const EXAMPLES = {
  fr: "Je suis étudiant.",
  de: "Ich bin Student.",
  en: "I am a student.",
  fa: "من دانشجو هستم.",
  generate: "ROMEO:\n",
  fill: "The _ is on the table.",
};

/** Whether a model is asked about a text, whatever it does with it. */
export const readsText = (model) =>
  ["translate", "generate", "tag", "fill"].includes(model.task) || (model.task === "classify" && model.stem === "tokens");

/** What is in the box of a model: what was typed, else an example that it can read. */
export function textOf(studio) {
  return studio.state.text ?? EXAMPLES[studio.model?.source] ?? EXAMPLES[studio.model?.task] ?? EXAMPLES.en;
}

/** A labelled box of `{element, update()}`; the view hears of what is typed through its own `update`. */
export function textbox(studio, label = "Sentence") {
  let typing = false; // all that is typed in one go is one step back
  const area = make("textarea", {
    rows: "2",
    dir: "auto",
    spellcheck: "false",
    maxlength: "10000",
    oninput: () => {
      studio.change({ text: area.value }, { same: typing });
      typing = true;
    },
    onblur: () => (typing = false),
  });
  const update = () => {
    const text = textOf(studio);
    if (area.value !== text) {
      area.value = text;
      typing = false;
    }
  };
  update();
  return { element: make("label", { class: "sentence" }, make("span", {}, label), area), update };
}
