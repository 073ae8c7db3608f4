// The gates of a recurrent layer at each token.
import { readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";

export const title = "Gates";
export const about =
  "The gates and states of a recurrent layer at each token: one panel per gate, one row per unit. Purple is positive, orange negative; the stronger the colour, the larger the magnitude.";
export const code = ["regard/layers/cell/lstm.py", "regard/layers/cell/gru.py", "regard/layers/recurrence.py:Recurrence"];
export const suits = (model) => model.recurrent && readsText(model);
export const lacks = "has no recurrent layer";

export function show(place, studio) {
  return pictureView(place, studio, { view: "gates" });
}
