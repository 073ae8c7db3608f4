// What the experiments share: requests about the text at hand, and how their answers are written.
import { direction } from "../direction.js";
import { parsed } from "../save.js";
import { textOf } from "../textbox.js";

/** The fields of a question about the text in the box, or another one. */
export const about = (studio, text = textOf(studio)) => ({ model: studio.model.name, text, ...direction(studio) });

/** The tooltips of a drawing. */
export const tooltips = (svg) => [...parsed(svg).querySelectorAll("title")].map((one) => one.textContent);

export const quoted = (text) => `“${text.trim() || "(nothing)"}”`;

/** A token as a reader expects it, without the mark of the space before it. */
export const token = (words) => quoted(words.replaceAll("▁", ""));
