// The vectors that say which position it is.
import { readsText } from "../box.js";
import { pictured } from "../pictured.js";

export const title = "Positions";
export const about =
  "What is added to a token to say where it stands: a row is a position, a column one number of its vector; ink is above zero, rust below.";
export const code = "regard/layers/position/sinusoidal.py";
export const suits = (model) => model.positions && readsText(model);

export function show(place, studio) {
  return pictured(place, studio, { view: "positions", typed: false });
}
