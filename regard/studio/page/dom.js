// DOM helpers. Text is always inserted as text, never as HTML.
import { terms } from "./terms.js";

/**
 * `make("button", {class: "x", onclick: f, hidden: true}, child, "text")`; lists of children are flattened, null and
 * false are skipped.
 */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...present(children));
  return element;
}

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Replaces all children. */
export function fill(place, ...children) {
  place.replaceChildren(...present(children));
}

/** Calls the function once no further call came for so many milliseconds; `.cancel()` drops a pending call. */
export function debounce(call, milliseconds) {
  let timer;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** The attribute that gives a label the tooltip of its term (tooltip.js). */
const termOf = (label) => ({ class: "choice", "data-term": label.toLowerCase() in terms ? label.toLowerCase() : null });

/** A labelled choice: `select("Layer", [["0", "first"], ...] or ["a", "b"], chosen, onpick(value))`. */
export function select(label, options, chosen, onpick) {
  const choice = make("select", { onchange: () => onpick(choice.value) });
  for (const option of options) {
    const [value, shown] = Array.isArray(option) ? option : [option, option];
    choice.append(make("option", { value, selected: String(value) === String(chosen) }, String(shown)));
  }
  return make("label", termOf(label), make("span", {}, label), choice);
}

/** A labelled slider that shows its value; `onslide(number)` is called while it moves. */
export function slider(label, { least, most, step = 1, value, shown = String }, onslide) {
  const said = make("output", {}, shown(value));
  const input = make("input", {
    type: "range",
    min: least,
    max: most,
    step,
    value,
    oninput: () => {
      said.textContent = shown(Number(input.value));
      onslide(Number(input.value));
    },
  });
  return make("label", termOf(label), make("span", {}, label), input, said);
}
