// The gates of a recurrent layer at each token.
import { lacking, readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";
import { secondPicture } from "../second_picture.js";
import { fill, make } from "../dom.js";

export { experiments } from "../experiments/gates.js";
export const title = "Gates";
export const about =
  "The gates and states of a recurrent layer at each token: one panel per gate, one row per unit. Purple is positive, orange negative; the stronger the colour, the larger the magnitude.";
export const code = ["regard/layers/cell/lstm.py", "regard/layers/cell/gru.py", "regard/layers/recurrence.py:Recurrence"];
export const suits = (model) => model.recurrent && readsText(model);
export const lacks = lacking("has no recurrent layer");

export const more =
  "Each column is a token, in the order in which the layer read them. Click a row to follow its unit along the sentence: with the gates, its state changes only where a gate lets it.";
export const ofModel = ["unit"];

export function show(place, studio) {
  const first = make("div");
  const second = secondPicture(studio);
  const unit = make("input", { type: "number", min: 0, step: 1, onchange: () => studio.change({ unit: Math.max(0, Math.round(Number(unit.value)) || 0) }) });
  const follow = make("label", { class: "choice", hidden: true }, make("span", { "data-term": "unit" }, "Follow unit"), unit);
  fill(place, first);

  /** The chosen unit, or else the one on top; of many units that is the one that varies most. */
  function drawUnit(shown) {
    const top = shown.querySelector('[data-at^="unit "]')?.dataset.at.split(" ")[1];
    if (top === undefined) return;
    const chosen = Math.round(Number(studio.state.unit ?? top)) || 0;
    follow.hidden = false;
    unit.value = chosen;
    for (const row of shown.querySelectorAll('[data-at^="unit "]')) row.classList.toggle("followed", row.dataset.at === `unit ${chosen}`);
    second.ask({ view: "gates", unit: chosen, only: Math.max(0, Math.round(Number(studio.state.picture)) || 0) });
  }
  const onpick = (at) => at.startsWith("unit ") && studio.change({ unit: at.split(" ")[1] });
  let drawn = null;
  const ondrawn = (shown) => drawUnit((drawn = shown));
  const frame = pictureView(first, studio, { view: "gates", onpick, ondrawn });
  const pictures = first.querySelector(".pictures");
  fill(place, first, make("div", { class: "side-by-side" }, pictures, make("div", {}, follow, second.element)));
  return {
    update() {
      frame.update();
      second.update();
      if (drawn && drawn.getAttribute("aria-busy") !== "true") drawUnit(drawn);
    },
    leave() {
      frame.leave();
      second.leave();
    },
  };
}
