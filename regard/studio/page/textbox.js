// The text box. Its content is the state's `text`, the same in every view.
import { direction, lang, sourceOf } from "./direction.js";
import { make } from "./dom.js";

const EXAMPLES = {
  fr: "Je suis étudiant.",
  de: "Ich bin Student.",
  en: "I am a student.",
  fa: "من دانشجو هستم.",
  generate: "ROMEO:\n",
  fill: "The _ is on the table.",
};

/** Whether a model reads text. */
export const readsText = (model) =>
  ["translate", "generate", "tag", "fill"].includes(model.task) || (model.task === "classify" && model.stem === "tokens");

/** What a model lacks that a view of texts cannot show: perhaps that it reads no text. */
export const lacking = (what) => (model) => (readsText(model) ? what : "does not read text");

/** The text in the box: what was typed, or else an example in the model's language. */
export function textOf(studio) {
  return studio.state.text ?? EXAMPLES[languageOf(studio)] ?? EXAMPLES[studio.model?.task] ?? EXAMPLES.en;
}

/** The language of the example: the model's, or one of several that it can translate. */
function languageOf(studio) {
  const { target } = direction(studio);
  const sources = studio.model?.directions?.sources ?? [];
  return sourceOf(studio) || Object.keys(EXAMPLES).find((one) => sources.includes(one) && one !== target);
}

/** A labelled text box, `{element, update()}`; typing changes the state, and with it the view. */
export function textbox(studio, label = "Sentence") {
  let typing = false; // typing without a pause is one entry of the history
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
    area.lang = lang(sourceOf(studio)) ?? "";
    if (area.value !== text) {
      area.value = text;
      typing = false;
    }
  };
  update();
  return { element: make("label", { class: "sentence" }, make("span", {}, label), area), update };
}
