// What the gates of a recurrent layer did at each token.
import { readsText } from "../box.js";
import { pictured } from "../pictured.js";

export const title = "Gates";
export const about =
  "What a recurrent layer did at each token: a panel is a gate, a row in it one unit; ink is above zero, rust below, and the farther from zero the darker.";
export const code = ["regard/layers/cell/lstm.py", "regard/layers/cell/gru.py", "regard/layers/recurrence.py:Recurrence"];
export const suits = (model) => model.recurrent && readsText(model);

export function show(place, studio) {
  return pictured(place, studio, { view: "gates" });
}
