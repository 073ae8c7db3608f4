// An image under an overlay (veil) that is clear where the attention is. Each place is a button: point at it, press it,
// or move between places with the arrow keys.
import { fill, make } from "./dom.js";

const VEIL = 0.88; // as in inspection/draw/patches.py
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

/**
 * `{element, show(weights, who), mark(place)}` for `{pixels, rows, columns, places}`. `show` takes a weight per place, or
 * null for the plain image; `onpoint(place | null)` is called on hover and focus, `onpress(place)` on a click.
 */
export function attentionOverlay({ pixels, rows, columns, places }, { label, onpoint, onpress }) {
  const buttons = places.map((name, place) =>
    make(
      "button",
      {
        type: "button",
        class: "place",
        tabindex: place ? "-1" : "0",
        "data-place": place,
        onpointerenter: () => onpoint(place),
        onfocus: () => onpoint(place),
        onblur: () => onpoint(null),
        onclick: () => onpress(place),
        onkeydown: (event) => walk(event, place),
      },
      make("span", { class: "veil" }),
    ),
  );
  const grid = make("div", { class: "places", onpointerleave: () => onpoint(null) }, buttons);
  grid.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  const image = make("img", { src: pixels, alt: "", draggable: "false" });
  const element = make("div", { class: "scene", role: "group", "aria-label": label }, image, grid);
  image.addEventListener("load", () => {
    element.style.aspectRatio = rows > 1 ? `${image.naturalWidth} / ${image.naturalHeight}` : "4";
  });

  function walk(event, place) {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const row = Math.floor(place / columns) + step[0];
    const column = (place % columns) + step[1];
    if (row < 0 || row >= rows || column < 0 || column >= columns) return;
    const next = buttons[row * columns + column];
    for (const one of buttons) one.tabIndex = one === next ? 0 : -1;
    next.focus();
  }

  return {
    element,
    show(weights, who = "") {
      const greatest = weights ? Math.max(...weights) : 0;
      buttons.forEach((button, place) => {
        const share = !weights ? 1 : greatest > 0 ? weights[place] / greatest : 0;
        button.firstChild.style.opacity = VEIL * (1 - share);
        button.dataset.weight = weights ? weights[place] : "";
        button.setAttribute("aria-label", weights ? `${places[place]}: ${weights[place]}` : places[place]);
      });
      element.dataset.who = who;
    },
    /** A frame around the query. */
    mark(place) {
      buttons.forEach((button, at) => button.classList.toggle("looks", at === place));
    },
  };
}

/** Probabilities as bars, at most `most` of them. */
export function probabilityBars(pairs, most = 10) {
  const list = make("dl", { class: "chances" });
  fill(
    list,
    pairs.slice(0, most).map(([name, value]) => {
      const bar = make("span", { class: "bar" });
      bar.style.setProperty("--sure", value);
      return make("div", {}, make("dt", { title: name }, name), make("dd", { "data-value": value, title: String(value) }, bar, value.toFixed(3)));
    }),
  );
  return list;
}
