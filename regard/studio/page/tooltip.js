// Tooltips for terms of art: one box for the whole page, shown for the element with `data-term` that is pointed at or has
// the focus. Escape closes it.
import { make } from "./dom.js";
import { terms } from "./terms.js";

const WIDE = 320; // pixels at most, as in studio.css
const box = make("div", { id: "tooltip", role: "tooltip", hidden: true });
let shown = null; // the element it is shown for
let described = null; // the element that has the focus and is described by it

/** The sentence of a term or its plural; undefined if there is none. */
export const sentenceOf = (term) => {
  const name = term.toLowerCase();
  return terms[name] ?? terms[name.replace(/s$/, "")] ?? terms[name.replace(/es$/, "")];
};

/** A term as a button that explains itself. */
export function term(words, name = words) {
  return make("button", { type: "button", class: "term", "data-term": name.toLowerCase() }, words);
}

/** A text whose terms of art explain themselves: an array of strings and elements. Each is marked once. */
export function explained(text) {
  const seen = new Set();
  const names = Object.keys(terms).sort((a, b) => b.length - a.length);
  const any = new RegExp(`(?<![\\p{L}-])(${names.map((name) => `${escaped(name)}(?:s|es)?`).join("|")})(?![\\p{L}-])`, "giu");
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(any)) {
    const name = found[0].toLowerCase();
    if (seen.has(name)) continue;
    seen.add(name);
    const end = found.index + found[0].length;
    const mark = /^[.,;:)]+/.exec(text.slice(end))?.[0] ?? ""; // a button would leave it to begin the next line
    parts.push(text.slice(from, found.index), mark ? make("span", { class: "nowrap" }, term(found[0]), mark) : term(found[0]));
    from = end + mark.length;
  }
  return [...parts, text.slice(from)];
}

const escaped = (words) => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

function open(element) {
  const words = sentenceOf(element.dataset.term ?? "");
  if (!words) return;
  if (!box.isConnected) document.body.append(box);
  shown = element;
  box.textContent = words;
  box.hidden = false;
  const at = element.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - Math.min(WIDE, box.offsetWidth) - 8));
  const below = at.bottom + 6 + box.offsetHeight < innerHeight;
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${(below ? at.bottom + 6 : at.top - box.offsetHeight - 6) + scrollY}px`;
}

function close() {
  shown = null;
  box.hidden = true;
  described?.removeAttribute("aria-describedby");
  described = null;
}

const termOf = (target) => target.closest?.("[data-term]") ?? null;

document.addEventListener("pointerover", (event) => {
  const element = termOf(event.target);
  if (element === shown) return;
  if (element) open(element);
  else if (!described) close();
});
document.addEventListener("focusin", (event) => {
  close();
  const element = termOf(event.target);
  if (!element || !event.target.matches(":focus-visible, .term")) return;
  open(element);
  if (box.hidden) return;
  described = event.target;
  described.setAttribute("aria-describedby", "tooltip");
});
document.addEventListener("focusout", close);
document.addEventListener("keydown", (event) => event.key === "Escape" && close());
