// The search as a tree, for a beam of any width.
import { debounce, slider } from "../parts.js";
import { pictured } from "../pictured.js";

export const title = "Beam";
export const about =
  "The search as a tree: a column is a step, in it the ways that stayed open, best on top and below those that ended; the one that was chosen is in ink, and under each token stands the log-probability of the way to it.";
export const code = ["regard/decoding/search.py", "regard/decoding/beam.py"];
export const suits = (model) => model.task === "translate";

const USUAL = 4;

export function show(place, studio) {
  const width = () => Number(studio.state.beam ?? USUAL);
  let moving = false;
  const settle = debounce(() => (moving = false), 1000);
  const slide = (beam) => {
    studio.change({ beam }, { same: moving });
    moving = true;
    settle();
  };
  const bar = slider("Ways kept open", { least: 1, most: 8, value: width() }, slide);
  const set = () => {
    const input = bar.querySelector("input");
    if (Number(input.value) !== width()) input.value = width();
    bar.querySelector("output").textContent = width();
    return bar;
  };
  return pictured(place, studio, { view: "beam", choices: set, asked: () => ({ beam: width() }) });
}
