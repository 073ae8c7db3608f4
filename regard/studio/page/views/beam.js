// The beam search as a tree, for any beam width.
import { debounce, slider } from "../dom.js";
import { pictureView } from "../picture_view.js";

export { experiments } from "../experiments/beam.js";
export const title = "Beam";
export const about =
  "Beam search as a tree: each column is a step with the open hypotheses, best first, and below them those that ended. Below a token is the log-probability of its hypothesis; one that ended also has a score, and the best score wins.";
export const more =
  "A log-probability can only fall as a hypothesis grows. Dividing it by a length penalty gives the score, so that a long translation can still beat a short one.";
export const code = ["regard/decoding/search.py", "regard/decoding/beam.py"];
export const suits = (model) => model.task === "translate";
export const lacks = "does not translate";

const DEFAULT = 4;

export function show(place, studio) {
  const width = () => Number(studio.state.beam ?? DEFAULT);
  let moving = false;
  const settle = debounce(() => (moving = false), 1000);
  const slide = (beam) => {
    studio.change({ beam }, { same: moving });
    moving = true;
    settle();
  };
  const bar = slider("Beam width", { least: 1, most: 8, value: width() }, slide);
  const set = () => {
    const input = bar.querySelector("input");
    if (Number(input.value) !== width()) input.value = width();
    bar.querySelector("output").textContent = width();
    return bar;
  };
  return pictureView(place, studio, { view: "beam", choices: set, fields: () => ({ beam: width() }) });
}
