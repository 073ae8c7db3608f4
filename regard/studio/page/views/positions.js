// The positional encoding.
import { lacking, readsText } from "../textbox.js";
import { pictureView } from "../picture_view.js";
import { secondPicture } from "../second_picture.js";
import { fill, make, slider } from "../dom.js";

export { experiments } from "../experiments/positions.js";
export const title = "Positions";
export const about =
  "The positional encoding that is added to the token embeddings: a row per position, a column per dimension. Purple is positive, orange negative.";
export const code = "regard/layers/position/sinusoidal.py";
export const suits = (model) => model.positions && readsText(model);
export const lacks = lacking("has no positional encoding: it reads one token after the other");

export const more =
  "Attention alone does not know the order of the tokens: only these vectors tell it. Click a row to see how similar the vectors of all other positions are to it.";
export const ofModel = ["place"];

const LAST = 47; // of the positions that are drawn (inspection/draw/positions.py)

export function show(place, studio) {
  const first = make("div");
  const second = secondPicture(studio);
  const chosen = () => Math.max(0, Math.min(LAST, Math.round(Number(studio.state.place ?? 8)) || 0));
  let moving = false;
  const slide = (value) => {
    studio.change({ place: value }, { same: moving });
    moving = true;
  };
  const bar = slider("Position", { least: 0, most: LAST, value: chosen() }, slide);
  bar.addEventListener("change", () => (moving = false));
  fill(place, first, make("div", { class: "controls" }, bar), second.element);
  let drawn = null;
  function compare() {
    if (!drawn) return;
    const places = [...drawn.querySelectorAll('[data-at^="position "]')];
    const last = Math.max(0, ...places.map((one) => Number(one.dataset.at.split(" ")[1])));
    const now = Math.min(chosen(), last);
    const input = bar.querySelector("input");
    input.max = last;
    if (Number(input.value) !== now) input.value = now;
    bar.querySelector("output").textContent = now;
    second.ask({ view: "positions", position: now, only: Math.max(0, Math.round(Number(studio.state.picture)) || 0) });
  }
  const onpick = (at) => at.startsWith("position ") && studio.change({ place: at.split(" ")[1] });
  const ondrawn = (shown) => {
    drawn = shown;
    compare();
  };
  const frame = pictureView(first, studio, { view: "positions", typed: false, onpick, ondrawn });
  return {
    update() {
      frame.update();
      second.update();
      if (drawn?.getAttribute("aria-busy") !== "true") compare();
    },
    leave() {
      frame.leave();
      second.leave();
    },
  };
}
