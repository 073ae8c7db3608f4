// A figure that the page redraws itself: its values are read with the pointer or the arrow keys, and it can be saved.
import { fill, make } from "./dom.js";
import { parsed, saveHtml, savePng, saveSvg } from "./save.js";

const SAVED = 860; // width of a saved file
const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const SVG = "http://www.w3.org/2000/svg";

/**
 * `draw(width, tips)` returns {svg, find, spot} (curves.js, heatmap.js), or null when there is nothing to draw yet.
 * `.redraw()` draws new data, `.leave()` ends it.
 */
export function liveFigure({ heading, about, extra }, draw) {
  const said = make("output", { class: "value", "aria-live": "polite" });
  const label = `${heading}. Use the arrow keys to read the values.`;
  const box = make("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": label });
  const title = make("h2", {}, heading);
  let drawn = null;
  let wide = 0;
  let here = null; // {x, y} of a pointer, or {column, row} of the keys

  const file = () => `regard-training-${title.textContent}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const save = (kind, act) => {
    const taken = () => {
      const svg = draw(SAVED, true)?.svg;
      if (svg) act(svg, file());
    };
    const spoken = `Save as ${kind}: ${heading}`;
    return make("button", { type: "button", class: "plain", "aria-label": spoken, onclick: taken }, kind);
  };
  const element = make(
    "figure",
    {},
    make(
      "figcaption",
      {},
      title,
      extra ?? null,
      make(
        "span",
        { class: "save" },
        "Save as ",
        save("SVG", saveSvg),
        save("PNG", savePng),
        save("HTML", (svg, name) => saveHtml({ heading: title.textContent, about, svg }, name)),
      ),
    ),
    box,
    said,
  );

  function redraw() {
    element.hidden = false; // a hidden element has no width
    wide = box.clientWidth;
    if (!wide) return;
    drawn = draw(wide, false);
    element.hidden = !drawn;
    if (!drawn) return;
    const scrolled = box.scrollLeft;
    fill(box, document.importNode(parsed(drawn.svg), true));
    box.scrollLeft = scrolled;
    point();
  }

  /** Marks the value under the pointer, and shows it in words. */
  function point() {
    const svg = box.firstElementChild;
    svg?.querySelector(".pointed")?.remove();
    if (!svg || !here) return;
    const [column, row] = here.column === undefined ? drawn.find(here.x, here.y) : [here.column, here.row];
    const spot = drawn.spot(column, row);
    if (!spot) return;
    const group = svg.appendChild(shape("g", { class: "pointed" }));
    const stroke = { stroke: "currentColor", "stroke-width": 1.5 };
    if (spot.line) {
      const [x, y1, y2] = spot.line;
      group.append(shape("line", { ...stroke, class: "faint", x1: x, x2: x, y1, y2, "stroke-dasharray": "2 3" }));
    }
    for (const dot of spot.dots ?? []) group.append(shape("circle", { class: dot.colour, cx: dot.x, cy: dot.y, r: 4 }));
    if (spot.box) {
      const [x, y, width, height] = spot.box;
      group.append(shape("rect", { ...stroke, class: "text", x, y, width, height, "fill-opacity": 0 }));
    }
    if (said.textContent !== spot.words) said.textContent = spot.words;
  }

  box.addEventListener("pointermove", (event) => {
    const at = box.firstElementChild?.getBoundingClientRect();
    if (!at) return;
    here = { x: event.clientX - at.left, y: event.clientY - at.top };
    point();
  });
  const away = () => {
    here = null;
    point();
  };
  box.addEventListener("pointerleave", away);
  box.addEventListener("blur", away);
  box.addEventListener("keydown", (event) => {
    const way = ARROWS[event.key];
    if (!way || !drawn || event.altKey || event.ctrlKey || event.metaKey) return;
    const begun = here?.column !== undefined;
    const next = begun ? { column: here.column + way[0], row: here.row + way[1] } : { column: drawn.columns - 1, row: 0 };
    if (!drawn.spot(next.column, next.row)) return;
    event.preventDefault();
    here = next;
    point();
  });
  const resized = new ResizeObserver(() => box.clientWidth !== wide && redraw());
  resized.observe(box);
  return {
    element,
    redraw,
    rename(words) {
      title.textContent = words;
    },
    leave: () => resized.disconnect(),
  };
}

function shape(name, properties) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  return made;
}
