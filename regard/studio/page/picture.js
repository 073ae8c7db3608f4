// A drawing from the server as a figure: in the page's colours, with its values in words, and buttons to save it.
import { make } from "./dom.js";
import { parsed, saveHtml, savePng, saveSvg } from "./save.js";

const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/**
 * A figure of `{heading, svg, about?}`. Marks are the elements with a tooltip: the value of the one under the pointer,
 * or reached with the arrow keys, is shown below. `onpick(at, mark)` is called on click or Enter, `onmark(at, mark)` when
 * a mark is reached (null when it is left); `at` is its name in the drawing (data-at), or "".
 */
export function picture({ heading, svg, about = "", note = "" }, { onpick, onmark } = {}) {
  const drawing = document.importNode(parsed(svg), true);
  const said = make("output", { class: "value", "aria-live": "polite" });
  const box = make("div", {
    class: "drawing",
    tabindex: "0",
    role: "group",
    "aria-label": `${heading}. Use the arrow keys to read the values.`,
  });
  box.append(drawing);
  let here = null;

  const reach = (mark) => {
    if (mark === here) return;
    here?.classList.remove("here");
    here = mark;
    here?.classList.add("here");
    if (here) said.textContent = tooltip(here);
    onmark?.(here?.dataset.at ?? "", here);
  };
  const pick = (mark) => mark && onpick?.(mark.dataset.at ?? "", mark);

  box.addEventListener("pointerover", (event) => reach(marked(event.target, drawing)));
  box.addEventListener("pointerleave", () => reach(null));
  box.addEventListener("click", (event) => pick(marked(event.target, drawing)));
  box.addEventListener("blur", () => reach(null));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && here) pick(here);
    if (!ARROWS[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = neighbour(drawing, here, ...ARROWS[event.key]);
    if (!next) return;
    event.preventDefault();
    reach(next);
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  });

  const name = `regard-${heading}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60).replace(/-$/, "");
  const save = (kind, act) =>
    make("button", { type: "button", class: "plain", "aria-label": `Save as ${kind}: ${heading}`, onclick: act }, kind);
  return make(
    "figure",
    {},
    make(
      "figcaption",
      {},
      make("h2", {}, heading),
      make(
        "span",
        { class: "save" },
        "Save as ",
        save("SVG", () => saveSvg(svg, name)),
        save("PNG", () => savePng(svg, name)),
        save("HTML", () => saveHtml({ heading, about, svg }, name)),
      ),
    ),
    box,
    note ? make("p", { class: "faint" }, note) : null,
    said,
  );
}

/** The tooltip of a mark: its exact value. */
export function tooltip(mark) {
  return [...mark.children].find((child) => child.localName === "title")?.textContent ?? "";
}

function marked(element, drawing) {
  for (let one = element; one && one !== drawing; one = one.parentElement) if (tooltip(one)) return one;
  return null;
}

/** The nearest mark in a direction; without a current one, the first. */
function neighbour(drawing, here, right, down) {
  const marks = [...drawing.querySelectorAll("title")].map((title) => title.parentElement);
  if (!here) return marks[0];
  const from = middle(here);
  let best = null;
  let least = Infinity;
  for (const mark of marks) {
    const to = middle(mark);
    const along = (to.x - from.x) * right + (to.y - from.y) * down;
    const aside = Math.abs((to.x - from.x) * down) + Math.abs((to.y - from.y) * right);
    if (along > 0.5 && aside <= along * 2 && along + 3 * aside < least) {
      least = along + 3 * aside;
      best = mark;
    }
  }
  return best;
}

function middle(mark) {
  const number = (name) => Number(mark.getAttribute(name));
  if (mark.localName === "rect") return { x: number("x") + number("width") / 2, y: number("y") + number("height") / 2 };
  if (mark.localName === "line") return { x: (number("x1") + number("x2")) / 2, y: (number("y1") + number("y2")) / 2 };
  if (mark.localName === "text") return { x: number("x"), y: number("y") };
  const box = mark.getBBox();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}
