// Other ways for a translation to go on from a word: a list beside it, from /api/continuations.
import { fill, make } from "./dom.js";
import { post } from "./server.js";

const WANTED = 8;
const box = make("div", { id: "alternatives", hidden: true });
let running = new AbortController();
let owner = null; // the word that the list belongs to

export function closeAlternatives() {
  running.abort();
  if (box.hidden) return;
  box.hidden = true;
  owner?.removeAttribute("aria-expanded");
}

/** Asks for what may stand where the word is. `chosen(text)` gets the whole new translation of the sentence. */
export async function openAlternatives(word, { model, text, prefix, now }, chosen, fail) {
  closeAlternatives();
  running = new AbortController();
  const { signal } = running;
  owner = word;
  if (!box.isConnected) document.body.append(box);
  fill(box, make("p", { class: "waiting", role: "status" }, "…"));
  box.hidden = false;
  word.setAttribute("aria-expanded", "true");
  place();
  try {
    const { answers } = await post("api/continuations", { model, text, prefix, n_best: WANTED }, signal);
    if (signal.aborted) return;
    const others = answers.filter((one) => one.text !== now);
    if (!others.length) return fill(box, make("p", { class: "waiting", role: "status" }, "No other way was found."));
    const option = (one) => {
      const rest = one.text.slice(prefix.length).trim();
      const first = one.next_word || "(the end)";
      const after = rest.startsWith(one.next_word) ? rest.slice(one.next_word.length) : "";
      const take = () => {
        closeAlternatives();
        chosen(one.text);
      };
      return make("li", {}, make("button", { type: "button", onclick: take, dir: "auto" }, make("b", {}, first), make("span", { class: "faint" }, after)));
    };
    fill(box, make("ul", { "aria-label": "Other words" }, others.map(option)));
    place();
    box.querySelector("button").focus();
  } catch (error) {
    if (signal.aborted) return;
    closeAlternatives();
    fail(error);
  }
}

function place() {
  box.style.left = "0"; // else it is squeezed between the word and the edge
  const at = owner.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8));
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${at.bottom + scrollY + 4}px`;
}

document.addEventListener("pointerdown", (event) => box.contains(event.target) || event.target === owner || closeAlternatives());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !box.hidden) {
    const back = owner;
    closeAlternatives();
    back?.focus();
  }
  if (!box.contains(document.activeElement) || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  const all = [...box.querySelectorAll("button")];
  const at = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
  all[(at + all.length) % all.length]?.focus();
});
