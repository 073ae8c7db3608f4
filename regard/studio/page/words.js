// A text whose words or tokens are buttons, with an underline as long as a probability and a background by attention weight.

import { make } from "./dom.js";

const HUES = [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]; // the first few are as far apart as they can be

/** The colour of the word at an index (words.css), one of twelve on the colour circle. */
export const hueOf = (index) => HUES[index % HUES.length];

/** A token for display: the space before a word is a dot. */
export const shown = (token) => (token.startsWith("▁") && token.length > 1 ? `·${token.slice(1)}` : token);

/** A weight or probability as a percentage. */
export function percent(value) {
  if (value > 0 && value < 0.0005) return "<0.1 %";
  return `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
}

/**
 * A side of a translation ({words, tokens, word_of, direction}) as buttons in a wrapping row.
 * `lang` is the language of the text; `tokens` shows the model's tokens; `sure` is a probability for each, drawn as the
 * length of its underline; `hues` is the colour of each underline (`hueOf`), or null for none;
 * `onhover(index or null)` gets the one under the pointer or with the focus, `onpick(index)` the one pressed.
 * Tab reaches one of them; the arrow keys move between them.
 */
export function sentence(side, { name = "", lang, tokens = false, sure, hues, weights, onhover, onpick } = {}) {
  const units = tokens ? side.tokens : side.words;
  const buttons = units.map((unit, place) => {
    const button = make("button", { type: "button", class: "word", tabindex: place ? -1 : 0 });
    button.append(make("bdi", {}, tokens ? shown(unit) : unit), make("small", { "aria-hidden": "true" }));
    button.dataset.place = place;
    if (typeof hues?.[place] === "number") button.dataset.hue = hues[place];
    if (sure) {
      button.dataset.sure = sure[place];
      button.style.setProperty("--sure", sure[place]);
    }
    return button;
  });
  // Words are bidi-isolated, and isolated text does not count for dir="auto".
  const dir = side.direction ?? "auto";
  const whole = make("p", { class: "words", dir, lang, role: "group", "aria-label": name }, ...buttons);
  whole.classList.toggle("tokens", tokens);
  const told = (event) => onhover?.(placeOf(event));
  whole.addEventListener("pointerover", told);
  whole.addEventListener("pointerleave", () => onhover?.(null));
  whole.addEventListener("focusin", told);
  whole.addEventListener("focusout", () => onhover?.(null));
  whole.addEventListener("click", (event) => placeOf(event) !== null && onpick?.(placeOf(event)));
  whole.addEventListener("keydown", (event) => walk(event, whole, buttons));
  if (weights) ink(whole, weights);
  return whole;
}

/** Colours every word by its weight, with the number below it; null removes the colours. */
export function ink(whole, weights) {
  whole.classList.toggle("inked", weights !== null);
  for (const [place, button] of [...whole.children].entries()) {
    const weight = weights?.[place] ?? 0;
    button.style.setProperty("--weight", weight);
    if (weights) button.dataset.weight = weight;
    else delete button.dataset.weight;
    button.lastChild.textContent = weight >= 0.005 ? Math.round(100 * weight) : "";
  }
}

/** Highlights the words at these indexes. */
export function mark(whole, places) {
  for (const [place, one] of [...whole.children].entries()) one.classList.toggle("marked", places.includes(place));
}

function placeOf(event) {
  const button = event.target.closest?.("button.word");
  return button ? Number(button.dataset.place) : null;
}

function walk(event, whole, buttons) {
  const onwards = getComputedStyle(whole).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const back = onwards === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
  const now = placeOf(event);
  const next = { [onwards]: now + 1, [back]: now - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (now === null || next === undefined || !buttons[next]) return;
  event.preventDefault();
  buttons[now].tabIndex = -1;
  buttons[next].tabIndex = 0;
  buttons[next].focus();
}
