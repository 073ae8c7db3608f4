// The positional encoding.
import { readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";

export const title = "Positions";
export const about =
  "The positional encoding that is added to the token embeddings: a row per position, a column per dimension. Purple is positive, orange negative.";
export const code = "regard/layers/position/sinusoidal.py";
export const suits = (model) => model.positions && readsText(model);
export const lacks = "has no positional encoding: it reads one token after the other";

export function show(place, studio) {
  return pictureView(place, studio, { view: "positions", typed: false });
}
