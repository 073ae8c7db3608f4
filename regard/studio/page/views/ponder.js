// How long a Universal Transformer thought about each token.
import { readsText } from "../box.js";
import { pictured } from "../pictured.js";

export const title = "Ponder";
export const about =
  "How long the model thought about each token: beside it stands how many steps, below how much each of them counted.";
export const code = "regard/layers/halting.py:Halting";
export const suits = (model) => model.ponders && readsText(model);

export function show(place, studio) {
  return pictured(place, studio, { view: "ponder", all: true });
}
