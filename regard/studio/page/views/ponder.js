// The ponder time of a Universal Transformer for each token.
import { readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";

export const title = "Ponder";
export const about =
  "Adaptive computation time: the number beside a token is its ponder time in steps; the cells below are the weight of each step.";
export const code = "regard/layers/halting.py:Halting";
export const suits = (model) => model.ponders && readsText(model);
export const lacks = "has no adaptive computation time";

export function show(place, studio) {
  return pictureView(place, studio, { view: "ponder", all: true });
}
