// The ponder time of a Universal Transformer for each token.
import { lacking, readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";

export { experiments } from "../experiments/ponder.js";
export const title = "Ponder";
export const about =
  "Adaptive computation time: beside each token is how many steps it took, plus its remainder, the weight of the last step. Their sum is the ponder time.";
export const more =
  "The cells below a token are the weights of its steps, which sum to one: the token's final vector is the mean of its vectors after each step, with these weights. The model halts a token as soon as the weights so far reach nearly one.";
export const code = "regard/layers/halting.py:Halting";
export const suits = (model) => model.ponders && readsText(model);
export const lacks = lacking("has no adaptive computation time");

export function show(place, studio) {
  return pictureView(place, studio, { view: "ponder", all: true });
}
